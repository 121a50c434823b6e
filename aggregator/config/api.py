"""The config of the API: listen address, access, what added sources may refer to. Pure."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from aggregator.config.node import Node
from aggregator.config.values import parse_listen


class TlsConfig(Node):
    """Certificates of the API; PEM files."""

    certificate: str = Field(min_length=1, description="the server's certificate, with its chain")
    key: str = Field(min_length=1, description="the certificate's private key, without a password")
    client_ca: str | None = Field(
        default=None, description="accept only clients with a certificate of this CA"
    )


Token = Annotated[str, Field(min_length=16, max_length=500, pattern=r"^[!-~]+$")]


class References(Node):
    """What a source added at run time may refer to. The default allows nothing."""

    files: list[str] = Field(
        default=[],
        description="folders, or single files, for ${file:PATH}, ${dir:PATH:FILE}, and for stores "
        "and keytabs",
    )
    env: list[str] = Field(default=[], description="names of variables, for ${env:NAME}")
    urls: list[str] = Field(
        default=[],
        description="https://host:port of schema registries and token endpoints, with all that is "
        "below its path",
    )


class ApiConfig(Node):
    """The REST endpoint of a running aggregation."""

    listen: str = Field(
        default="127.0.0.1:8083",
        description="host:port, or 'off'. Any other address than this machine's own needs a token "
        "or tls.client_ca",
    )
    read_token: Token | None = Field(
        default=None,
        description="token required to read (write_token works too); at least 16 characters",
    )
    write_token: Token | None = Field(
        default=None, description="token that allows changes, also from another machine"
    )
    tls: TlsConfig | None = Field(default=None, description="answer over TLS")
    local_writers: Literal["same_user", "everybody"] = Field(
        default="same_user",
        description="who on this machine may change things without write_token: same_user (who "
        "runs as this process does, or as root), or everybody",
    )
    references: References = Field(
        default_factory=References,
        description="what a source added at run time may refer to",
    )

    @field_validator("listen")
    @classmethod
    def _check_listen(cls, value: str) -> str:
        parse_listen(value)
        return value
