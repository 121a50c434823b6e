"""Asks a schema registry over Confluent's HTTP API, and keeps what it has answered.

Ids never change their meaning, so what was found is kept; what was not is asked again after a
while.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from http.client import HTTPException
from typing import Any, get_args
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen
from uuid import UUID

from aggregator.config.schemas import SchemasConfig
from aggregator.kafka.registry.contexts import context_in, context_of
from aggregator.kafka.registry.wire_format import Schema, SchemaId, SchemaKind, whole
from aggregator.model.errors import RegistryError

TIMEOUT_SECONDS = 5.0
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
NOT_FOUND = 404
NO_SCHEMA = 40403
"""Confluent's own code beside a 404: the registry knows such ids, and has not got this one."""
AGAIN_SECONDS = 10.0
"""How long before a failed registry, or an id that it did not have, is asked for again."""
MOST_BYTES = 10_000_000
MOST_KEPT = 5_000
MOST_DEEP = 20
MOST_SAID = 300


def kind_of(entry: Mapping[str, Any]) -> Any:
    """The type of a registry's entry, which does not name Avro."""
    return entry.get("schemaType") or "AVRO"


@lru_cache(maxsize=64)
def open_registry(schemas: SchemasConfig) -> Registry | None:
    """The registry of a cluster, the same for the same settings; None when it names none."""
    return Registry(schemas) if schemas.registry is not None else None


class Registry:
    """One registry. May be used by several threads; they ask one after the other."""

    def __init__(self, schemas: SchemasConfig, timeout: float = TIMEOUT_SECONDS) -> None:
        self.url = schemas.registry or ""
        self.context = context_in(self.url)
        self._timeout = timeout
        self._ca = schemas.ca
        self._tls_context: ssl.SSLContext | None = None
        self._login = ""
        if schemas.username is not None:
            login = f"{schemas.username}:{schemas.password}".encode()
            self._login = f"Basic {base64.b64encode(login).decode()}"
        self._lock = threading.Lock()
        self._found: dict[SchemaId, Schema] = {}
        self._failed: dict[SchemaId, tuple[float, RegistryError]] = {}
        self._away: tuple[float, RegistryError] | None = None

    def subjects(self) -> tuple[str, ...]:
        """The subjects of its context; RegistryError as `call` raises it."""
        own = (str(it) for it in self.call("GET", "/subjects"))
        # Without a context in its URL Confluent's lists the subjects of all.
        return tuple(it for it in own if context_of(it) in (None, self.context))

    def known(self, schema: SchemaId) -> Schema | None:
        """The schema with this id or GUID, if it was asked for before."""
        return self._found.get(schema)

    def schema(self, schema: SchemaId) -> Schema:
        """The schema with this id or GUID; of Avro and Protobuf, with all that it refers to.

        Raises RegistryError when the registry has none, or does not answer in time.
        """
        with self._lock:
            if schema in self._found:
                return self._found[schema]
            for until, error in filter(None, (self._away, self._failed.get(schema))):
                if time.monotonic() < until:
                    raise error
            try:
                found = self._ask(schema)
            except RegistryError as error:
                until = time.monotonic() + AGAIN_SECONDS
                if error.away:
                    self._away = (until, error)
                else:
                    _put(self._failed, schema, (until, error))
                raise
            self._away = None
            _put(self._found, schema, found)
            return found

    def definition(self, schema: SchemaId) -> dict[str, Any]:
        """The registry's entry of one schema, without those that it refers to.

        Raises RegistryError: with the code of a refusal when it has none such.
        """
        with self._lock:
            return self._definition(schema, time.monotonic() + self._timeout)

    def _definition(self, schema: SchemaId, deadline: float) -> dict[str, Any]:
        is_guid = isinstance(schema, UUID)
        try:
            return self._get(f"/schemas/{'guids' if is_guid else 'ids'}/{schema}", deadline)
        except RegistryError as error:
            if error.code == NOT_FOUND and not (is_guid or error.detail):
                # So a proxy answers for a registry that is away: it says nothing of the schema.
                raise RegistryError(f"{error} (no registry says so)", away=True) from error
            if not is_guid or error.code != NOT_FOUND or error.detail == NO_SCHEMA:
                raise
            raise RegistryError(
                f"{self.url} finds no schema by its GUID, as Confluent's from 8.0 on do: name the "
                "registry that gave it; topics.schemas: pass copies such records as they are"
            ) from error

    def _ask(self, schema: SchemaId) -> Schema:
        deadline = time.monotonic() + self._timeout
        entry = self._definition(schema, deadline)
        kind: SchemaKind = kind_of(entry)
        if kind not in get_args(SchemaKind):
            raise RegistryError(f"{self.url}: schema {schema} is of an unknown type: {kind}")
        text = str(entry.get("schema", ""))
        if kind == "AVRO":
            try:
                text = whole(text, self._referred(entry, deadline, 0))
            except ValueError as error:
                raise RegistryError(f"{self.url}: schema {schema} is no JSON: {error}") from error
        imported = self._referred(entry, deadline, 0) if kind == "PROTOBUF" else {}
        return Schema(schema, kind, text, tuple(imported.items()))

    def _referred(self, entry: Mapping[str, Any], deadline: float, deep: int) -> dict[str, str]:
        """The texts of the schemas that one refers to, by name, and of those that these do."""
        if deep > MOST_DEEP:
            raise RegistryError(f"{self.url}: schemas refer to each other, or deeper than is read")
        found: dict[str, str] = {}
        for reference in entry.get("references") or ():
            subject, version = quote(str(reference["subject"]), safe=""), reference["version"]
            one = self._get(f"/subjects/{subject}/versions/{version}", deadline)
            found[str(reference["name"])] = str(one.get("schema", ""))
            found |= self._referred(one, deadline, deep + 1)
        return found

    def whole(self, entry: Mapping[str, Any]) -> str:
        """The text of a registry's entry; for Avro with all schemas that it refers to."""
        text = str(entry["schema"])
        if kind_of(entry) != "AVRO" or not entry.get("references"):
            return text
        with self._lock:
            referred = self._referred(entry, time.monotonic() + self._timeout, 0)
        try:
            return whole(text, referred)
        except ValueError as error:
            raise RegistryError(f"{self.url}: a schema is no JSON: {error}") from error

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """What the registry answers to one request, parsed.

        Raises RegistryError with the code of a refusal.
        """
        with self._lock:
            return self._call(method, path, time.monotonic() + self._timeout, body)

    def _get(self, path: str, deadline: float) -> dict[str, Any]:
        answer = self._call("GET", path, deadline)
        if not isinstance(answer, dict):
            raise RegistryError(f"{self.url}{path}: the answer is no object")
        return answer

    def _call(
        self, method: str, path: str, deadline: float, body: Mapping[str, Any] | None = None
    ) -> Any:
        left = deadline - time.monotonic()
        if left <= 0:
            raise RegistryError(f"{self.url}: no answer within {self._timeout:g} s", away=True)
        accepted = "application/vnd.schemaregistry.v1+json, application/json"
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data, {"Accept": accepted}, method=method)
        if data is not None:
            request.add_header("Content-Type", CONTENT_TYPE)
        if self._login:
            # Not to wherever it may send us.
            request.add_unredirected_header("Authorization", self._login)
        try:
            with urlopen(request, timeout=left, context=self._tls()) as answer:
                content = answer.read(MOST_BYTES + 1)
        except HTTPError as error:
            with error:
                raise self._refused(error, path) from error
        except (URLError, OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise RegistryError(f"{self.url}: no answer: {reason}", away=True) from error
        if len(content) > MOST_BYTES:
            raise RegistryError(f"{self.url}{path}: the answer is above {MOST_BYTES:,} bytes")
        try:
            return json.loads(content)
        except ValueError as error:
            raise RegistryError(
                f"{self.url}{path}: the answer is no JSON; is this the address of Confluent's "
                "API? Apicurio's ends with /apis/ccompat/v7",
                away=True,
            ) from error

    def _refused(self, error: HTTPError, path: str) -> RegistryError:
        said, detail = str(error.reason), 0
        try:
            answer = json.loads(error.read(MOST_BYTES))
            said = str(answer["message"])[:MOST_SAID]
            detail = int(answer.get("error_code", 0))
        except (ValueError, OSError, KeyError, TypeError, HTTPException):
            pass
        if error.code in (401, 403):
            fix = "set schemas.username and schemas.password of the cluster"
            return RegistryError(f"{self.url}: {error.code} {said} ({fix})", away=True)
        away = error.code >= 500
        text = f"{self.url}{path}: {error.code} {said}"
        return RegistryError(text, away=away, code=error.code, detail=detail)

    def _tls(self) -> ssl.SSLContext | None:
        if self._ca is not None and self._tls_context is None:
            try:
                self._tls_context = ssl.create_default_context(cafile=self._ca)
            except (OSError, ssl.SSLError) as error:
                raise RegistryError(
                    f"{self.url}: cannot read {self._ca}: {error} (schemas.ca names a PEM file)",
                    away=True,
                ) from error
        return self._tls_context


def _put(kept: dict[SchemaId, Any], schema: SchemaId, value: Any) -> None:
    if len(kept) >= MOST_KEPT:
        kept.clear()
    kept[schema] = value
