"""Replicators on Kafka Connect, and the replicator executable, become a config. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from aggregator.connect import core_words as words
from aggregator.connect.core import class_of
from aggregator.errors import ConfigError, Problem
from aggregator.imports.core import (
    COMMAND_LINE,
    Imported,
    Settings,
    Sketch,
    Stored,
    Where,
    alias_of,
    aliases_of,
)
from aggregator.imports.core_clients import address_of, take_client
from aggregator.imports.core_connect import GROUPS_COMMITTED, take_connector, tidy_names

TOOL = "Kafka Connect"
EXECUTABLE = "replicator"
CONFLUENT, EMR, MIRROR = (
    "io.confluent.connect.replicator.ReplicatorSourceConnector",
    "EMRReplicatorSourceConnector",
    "org.apache.kafka.connect.mirror.MirrorSourceConnector",
)
BESIDE: Mapping[str, str] = {
    "MirrorCheckpointConnector": words.GROUPS,
    "MirrorHeartbeatConnector": "see heartbeats, which writes the same records",
}
"""Connectors of MirrorMaker 2 that copy no topics."""
STORE, DEFAULT_STORE = "offset.storage.topic", "connect-offsets"
OF_CONNECTOR = "offsets.storage.topic"
"""Where a connector may name a topic of its own for its offsets."""
OPTIONS: Mapping[str, str] = {
    "whitelist": "topic.whitelist",
    "blacklist": "topic.blacklist",
    "topic.whitelist": "topic.whitelist",
    "topic.blacklist": "topic.blacklist",
}
"""Options of the executable that are words of its connector under another name."""
ALONE: Mapping[str, str] = {
    "cluster.threads": "see sources.<alias>.tasks",
    "confluent.license": "no licence is needed",
    "consumer.monitoring.config": "what is copied is seen on the dashboard and on /metrics",
    "producer.monitoring.config": "what is copied is seen on the dashboard and on /metrics",
}
"""Options of the executable without effect."""


@dataclass(frozen=True, slots=True)
class PostedConnectors:
    """Connectors as they were posted, by name, and the worker that ran them.

    `hub` and `store` say what neither of them does: the address of the cluster that the worker
    belongs to, and the topic of its offsets.
    """

    connectors: Mapping[str, Settings]
    worker: Settings | None = None
    hub: str = ""
    store: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Executable:
    """A call of the executable: its files, and its options by their names without dashes.

    `known` are the aliases of an earlier start.
    """

    cluster_id: str
    consumer: Settings | None
    producer: Settings | None
    replication: Settings | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    alias: str = ""
    group: str = ""
    known: Sequence[str] = ()


def import_connectors(call: PostedConnectors) -> Imported:
    """The config of such connectors; ConfigError with every reason why none comes of them."""
    draft = Sketch("hub", TOOL)
    copying = _that_copy(draft, call.connectors)
    names = list(copying)
    if not names:
        reason = "no connector in these files copies topics"
        draft.problems.append(Problem("connector.class", reason, "give its JSON, as posted"))
    worker = call.worker.values.get("group.id", "") if call.worker is not None else ""
    name = alias_of(names[0] if len(names) == 1 else worker or "hub")
    draft.put(("name",), name, Where(COMMAND_LINE, "name"))
    if call.hub:
        draft.put(("hub", "bootstrap_servers"), call.hub, Where(COMMAND_LINE, "--hub"))
    aliases: list[str] = []
    for name, settings in copying.items():
        real = settings.values.get(words.ALIAS, "").strip()
        aliases.append(alias_of(real or name, aliases))
        config = dict(settings.values)
        if real:
            # Its topics are named by what it says, whatever the source is called here.
            config[words.ALIAS] = real
        take_connector(draft, aliases[-1], config, settings.where)
        draft.stored.append(_stored(call, aliases[-1], name, settings))
    if call.worker is not None:
        _take_worker(draft, call.worker)
    _check_hub(draft)
    tidy_names(draft)
    return draft.done()


def import_executable(call: Executable) -> Imported:
    """The config of such a call; ConfigError with every reason why none comes of it."""
    draft = Sketch("hub", EXECUTABLE)
    name = alias_of(call.cluster_id or EXECUTABLE)
    draft.put(("name",), name, Where(COMMAND_LINE, "--cluster.id"))
    for option, found in (("consumer", call.consumer), ("producer", call.producer)):
        if found is None:
            reason, hint = f"no {option} is given", f"give --{option}.config FILE"
            draft.problems.append(Problem(f"{option}.config", reason, hint))
    config: dict[str, str] = {"connector.class": CONFLUENT}
    places: dict[str, Where] = {}

    def add(key: str, value: str, where: Where) -> None:
        config[key], places[key] = value, where

    if call.replication is not None:
        for key, value in call.replication.values.items():
            add(key, value, call.replication.where(key))
    for name, value in call.options.items():
        where = Where(COMMAND_LINE, f"--{name}")
        if name in ALONE:
            draft.note(where, ALONE[name])
        else:
            add(OPTIONS.get(name, name), value, where)
    placed = [(it, address_of(it)[0]) for it in [call.consumer] if it is not None]
    alias = next(iter(aliases_of([call.alias], placed, call.known)), "origin")
    if call.consumer is not None:
        _take_address(draft, call.consumer, ("sources", alias))
        take_client(draft, call.consumer, ("sources", alias), "consumer")
        config["src.kafka.bootstrap.servers"] = address_of(call.consumer)[0]
        places["src.kafka.bootstrap.servers"] = call.consumer.where("bootstrap.servers")
    if call.producer is not None:
        _take_address(draft, call.producer, ("hub",))
        take_client(draft, call.producer, ("hub",), "producer")
    take_connector(draft, alias, config, _where_of(places))
    draft.stored.append(_committed(alias, call.group or config.get(GROUPS_COMMITTED, "")))
    _check_hub(draft)
    tidy_names(draft)
    return draft.done()


def _that_copy(draft: Sketch, connectors: Mapping[str, Settings]) -> dict[str, Settings]:
    copying = {}
    for name, settings in connectors.items():
        kind = settings.values.get("connector.class", "").rpartition(".")[2]
        if kind in BESIDE:
            draft.note(settings.where(f"{name} ({kind})"), BESIDE[kind])
        else:
            copying[name] = settings
    return copying


def _stored(call: PostedConnectors, alias: str, name: str, settings: Settings) -> Stored:
    kind = class_of(settings.values.get("connector.class", ""))
    if kind == MIRROR:
        worker = call.worker.values if call.worker is not None else {}
        topic = settings.values.get(OF_CONNECTOR, "") or call.store or worker.get(STORE, "")
        cluster = settings.values.get(words.ALIAS, "").strip() or "source"
        return Stored(alias, topic=topic or DEFAULT_STORE, connector=name, cluster=cluster)
    if kind == CONFLUENT:
        return _committed(alias, call.group or settings.values.get(GROUPS_COMMITTED, ""))
    refused = "the form in which it stores positions is documented nowhere; set start to a time"
    return Stored(alias, refused=refused)


def _committed(alias: str, group: str) -> Stored:
    if group:
        return Stored(alias, group=group)
    refused = (
        "its own offsets have no documented form; it commits to a consumer group at the source "
        f"(offset.topic.commit): name that one with --group, or by {GROUPS_COMMITTED}"
    )
    return Stored(alias, refused=refused)


def _take_worker(draft: Sketch, worker: Settings) -> None:
    """The cluster of the worker is the one that its connectors write to."""
    hub = draft.tree.get("hub", {})
    own: dict[str, str] = {}
    for key, value in worker.values.items():
        if key.startswith("producer."):
            own[key.removeprefix("producer.")] = value
        elif key == "bootstrap.servers" and "bootstrap_servers" not in hub:
            draft.put(("hub", "bootstrap_servers"), value.strip(), worker.where(key))
        elif key.startswith(("ssl.", "sasl.", "security.")):
            if key not in draft.tree.get("hub", {}).get("kafka", {}):
                draft.put(("hub", "kafka", key), value, worker.where(key))
        elif key != "bootstrap.servers":
            begins = [it for it in words.NO_EFFECT if key.startswith(it)]
            reason = words.NO_EFFECT[max(begins, key=len)] if begins else "is the worker's own"
            if key in words.CONVERTERS:
                reason = "records are copied as bytes"
            draft.note(worker.where(key), reason)
    for key in [key for key in own if key in draft.tree.get("hub", {}).get("producer", {})]:
        draft.note(worker.where(f"producer.{key}"), "the connector says another value")
        del own[key]
    before = len(draft.notes)
    take_client(draft, Settings(worker.file, own), ("hub",), "producer")
    draft.notes[before:] = [
        note._replace(where=worker.where(f"producer.{note.where.key}"))
        for note in draft.notes[before:]
    ]


def _take_address(draft: Sketch, settings: Settings, at: tuple[str, ...]) -> None:
    address, where = address_of(settings)
    if address:
        draft.put((*at, "bootstrap_servers"), address, where)


def _check_hub(draft: Sketch) -> None:
    if "bootstrap_servers" not in draft.tree.get("hub", {}):
        reason = "the address of the hub is in none of these files"
        hint = "give --hub HOST:PORT, or the properties of the worker as another file"
        draft.problems.append(Problem("hub.bootstrap_servers", reason, hint))
    if draft.problems:
        raise ConfigError(draft.problems)


def _where_of(places: Mapping[str, Where]) -> Callable[[str], Where]:
    return lambda key: places.get(key, Where(COMMAND_LINE, key))
