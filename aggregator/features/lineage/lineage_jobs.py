"""Which datasets flow into which, as OpenLineage's jobs: one for each hub topic and table. Pure.

One job for the whole aggregation would say that every source topic flows into every hub topic.

Names of datasets are those of OpenLineage 1.54 (`openlineage.client.naming.dataset`):
`kafka://host:port` and a topic, `file` and a path, `s3://bucket` and a key.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from aggregator.config.schema import Config
from aggregator.plan.plan import Plan

FOLDER = "file"
"""The namespace of tables on a disk."""


@dataclass(frozen=True, slots=True, order=True)
class Dataset:
    """A topic of a cluster, or a table."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class LineageJob:
    """What flows into one dataset; `name` is unique in an aggregation."""

    name: str
    inputs: tuple[Dataset, ...]
    output: Dataset


def plan_lineage(config: Config, plan: Plan, tables: Mapping[str, str]) -> tuple[LineageJob, ...]:
    """A job for each hub topic that sources flow into, and one for each that lands in a table.

    `tables` has where the table of a hub topic is, an absolute path or a URI, if it lands.
    """
    return (*_copies(config, plan), *_landings(config, plan, tables))


def topic_at(servers: str, topic: str) -> Dataset:
    """The dataset of a topic: by the first of its bootstrap servers."""
    first = servers.split(",")[0].strip()
    return Dataset(f"kafka://{first}", topic)


def table_dataset(uri: str) -> Dataset:
    """The dataset of a table in a folder or an object store."""
    parts = urlsplit(uri)
    if not parts.scheme or parts.scheme == "file":
        return Dataset(FOLDER, parts.path)
    scheme = {"s3a": "s3", "s3n": "s3"}.get(parts.scheme, parts.scheme)
    return Dataset(f"{scheme}://{parts.netloc}", parts.path.strip("/"))


def _copies(config: Config, plan: Plan) -> Iterator[LineageJob]:
    inputs: dict[str, set[Dataset]] = {name: set() for name in plan.hub_topics}
    for route in plan.routes:
        if route.hub_topic in inputs:
            servers = config.sources[route.cluster].bootstrap_servers
            inputs[route.hub_topic].add(topic_at(servers, route.topic))
    for name, found in sorted(inputs.items()):
        if found:
            output = topic_at(config.hub.bootstrap_servers, name)
            yield LineageJob(f"{config.name}.copy.{name}", tuple(sorted(found)), output)


def _landings(config: Config, plan: Plan, tables: Mapping[str, str]) -> Iterator[LineageJob]:
    for name in sorted(plan.hub_topics.keys() & tables.keys()):
        found = topic_at(config.hub.bootstrap_servers, name)
        yield LineageJob(f"{config.name}.land.{name}", (found,), table_dataset(tables[name]))
