"""Reads the fields of datasets, for the catalog: a topic's by its registry, a table's by Delta."""

import time
from dataclasses import dataclass, field

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from aggregator.config.schema import Config
from aggregator.features.lineage.lineage_jobs import FOLDER, Dataset, topic_at
from aggregator.kafka.registry.client import Registry, kind_of
from aggregator.kafka.registry.copying import newest
from aggregator.kafka.registry.differences import WHOLE, facts_of
from aggregator.model.errors import RegistryError

Columns = tuple[tuple[str, str], ...]
"""Names of columns and their types, in the order of the table or the schema."""
AGAIN_SECONDS = 60.0
"""How long before a registry that gave no answer is asked again: there may be thousands of
topics."""


def columns_of(dataset: Dataset) -> Columns:
    """The columns of a table in a folder now; none when there is no table yet.

    And none of a topic, or on an object store, whose credentials only Spark has. A table that
    cannot be read has none either: the tee that writes it reports that.
    """
    if dataset.namespace != FOLDER:
        return ()
    try:
        fields = DeltaTable(dataset.name).schema().fields
    except DeltaError:
        return ()
    # A type is `long` of a primitive; `array`, `map` and `struct` of what is composed.
    return tuple((it.name, str(getattr(it.type, "type", it.type))) for it in fields)


@dataclass(slots=True)
class _Known:
    """A registry, until when (monotonic) it is not asked, and its failures by topic."""

    registry: Registry
    silent_until: float = 0.0
    failures: dict[str, str] = field(default_factory=dict)


class TopicFields:
    """The registries of a config, with clients of their own: the stream does not wait for them."""

    def __init__(self, config: Config) -> None:
        clusters = [config.hub, *config.sources.values()]
        self._registries = {
            topic_at(it.bootstrap_servers, "").namespace: _Known(Registry(it.schemas))
            for it in clusters
            if it.schemas.registry is not None
        }

    @property
    def error(self) -> str:
        """Why schemas are not known, or empty."""
        failures = (why for it in self._registries.values() for why in it.failures.values())
        return next(failures, "")

    def fields_of(self, dataset: Dataset) -> Columns:
        """The fields in the newest version of subject `TOPIC-value`: paths and types.

        None where there is no such subject, no registry, or no answer; see `error`.
        """
        known = self._registries.get(dataset.namespace)
        if known is None or time.monotonic() < known.silent_until:
            return ()
        try:
            entry = newest(known.registry, f"{dataset.name}-value")
            text = None if entry is None else known.registry.whole(entry)
        except RegistryError as error:
            known.failures[dataset.name] = str(error)
            known.silent_until = time.monotonic() + AGAIN_SECONDS if error.away else 0.0
            return ()
        known.failures.pop(dataset.name, None)
        if entry is None or text is None:
            return ()
        facts = facts_of(str(kind_of(entry)), text) or {}
        return tuple((path, it.type) for path, it in facts.items() if path != WHOLE)
