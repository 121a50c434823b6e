"""Shows records: decoded by the registry that knows their schemas, with their origin.

The registry is asked until the deadline; later records say why they are not decoded.
"""

import time
from functools import partial

from aggregator.config.mask import mask_text
from aggregator.config.schema import Config
from aggregator.features.peek.decode_value import decode, shown
from aggregator.features.peek.topic_report import PeekedHeader, PeekedRecord
from aggregator.features.quarantine.records import Origin, origin_of
from aggregator.kafka.registry import Schema, SchemaId, id_header, open_registry, place_of
from aggregator.model.errors import RegistryError
from aggregator.model.values import Raw

SECONDS = 5.0


class Interpreter:
    """Shows records of one topic at a source, or with None at the hub; for one request."""

    def __init__(
        self,
        config: Config,
        source: str | None,
        topic: str,
        most: int | None,
        seconds: float = SECONDS,
    ) -> None:
        self._config = config
        self._source = source
        self._topic = topic
        self._most = most
        self._deadline = time.monotonic() + seconds

    def show(self, partition: int, raw: Raw, passed: Origin | None = None) -> PeekedRecord:
        """A record in words; never raises for what is in it.

        `passed` is the origin that its batch has, where it has none of its own.
        """
        origin = origin_of(raw) or passed
        schema_of = partial(self._schema, None if origin is None else origin.partition.cluster)
        key, value = (
            decode(it, schema_of, self._most, id_header(raw.headers, what))
            for what, it in (("key", raw.key), ("value", raw.value))
        )
        both = (("key", key), ("value", value))
        problems = (f"{what}: {it.problem}" for what, it in both if it.problem)
        return PeekedRecord(
            partition=partition,
            offset=raw.offset,
            timestamp_ms=raw.at_ms,
            key=key.text,
            value=value.text,
            key_format=key.format,
            value_format=value.format,
            key_schema=key.schema,
            value_schema=value.schema,
            key_bytes=len(raw.key or b""),
            value_bytes=len(raw.value or b""),
            problem=mask_text("; ".join(problems), self._config),
            headers=tuple(
                PeekedHeader(name=name, value=None if it is None else shown(it, self._most))
                for name, it in raw.headers
            ),
            origin=None if origin is None else str(origin),
        )

    def _schema(self, origin: str | None, schema: SchemaId) -> Schema:
        place = place_of(self._config, self._source, self._topic, origin)
        registry = open_registry(place.schemas)
        if registry is None:
            raise RegistryError(
                f"no registry to ask for schema {schema}: set {place.path}.registry"
            )
        known = registry.known(schema)
        if known is None and time.monotonic() > self._deadline:
            raise RegistryError(
                f"{registry.url}: not asked for schema {schema} any more: it is slow"
            )
        return known or registry.schema(schema)
