"""Where the schemas of a cluster's records are found: its schema registry. Pure values."""

from urllib.parse import urlsplit

from pydantic import Field, field_validator

from aggregator.config.node import Node


class SchemasConfig(Node):
    """The schema registry that a cluster's producers register their schemas with."""

    registry: str | None = Field(
        default=None,
        min_length=1,
        description="URL of a registry that speaks Confluent's API: https://registry:8081, "
        "Apicurio's with /apis/ccompat/v7. Asked only to decode records, or to check or translate "
        "schema ids",
    )
    username: str | None = Field(
        default=None, min_length=1, description="for a registry that requires a login"
    )
    password: str | None = Field(
        default=None, min_length=1, description="belongs to username; ${env:NAME} or ${file:PATH}"
    )
    ca: str | None = Field(
        default=None,
        min_length=1,
        description="PEM file of the authority that signed its certificate; without one the "
        "system's are trusted",
    )

    @field_validator("registry")
    @classmethod
    def _check_registry(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            parts = urlsplit(value.strip())
            port = parts.port
        except ValueError as error:
            raise ValueError(f"is no URL: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            raise ValueError("is no URL; write http://host:port or https://host:port")
        if parts.username is not None or parts.password is not None:
            raise ValueError("holds a login; use username: and password: beside it")
        if parts.query or parts.fragment:
            raise ValueError("has something behind its path; leave ? and # out")
        return value.strip().rstrip("/")
