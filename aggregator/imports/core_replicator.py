"""Replicators on Kafka Connect, and the replicator executable, become a config. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from aggregator.connect import core_words as words
from aggregator.connect.core import class_of
from aggregator.connect.core_mirror import ADDRESS, TARGET_ALIAS, Version, is_of_cluster
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
    is_true,
)
from aggregator.imports.core_clients import address_of, take_client
from aggregator.imports.core_connect import (
    GROUPS_COMMITTED,
    GROUPS_SYNCED,
    CopiedFlow,
    take_connector,
    take_groups,
    tidy_names,
)
from aggregator.imports.core_hub import Client, HubsOfFlows, WrittenHub, brokers_of, take_clients
from aggregator.imports.core_shared import settle

TOOL = "Kafka Connect"
EXECUTABLE = "replicator"
CONFLUENT = "io.confluent.connect.replicator.ReplicatorSourceConnector"
CHECKPOINTS = "MirrorCheckpointConnector"
BESIDE: Mapping[str, str] = {
    CHECKPOINTS: words.GROUPS,
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
    """Connectors as they were posted, each with its name, and the workers that ran them.

    `hub` and `store` say what neither of them does: the address of the cluster that the worker
    belongs to, and the topic of its offsets. `version` is that of MirrorMaker 2, if it is known.
    """

    connectors: Sequence[tuple[str, Settings]]
    workers: Sequence[Settings] = ()
    hub: str = ""
    store: str = ""
    group: str = ""
    version: Version | None = None


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


def import_connectors(call: PostedConnectors) -> tuple[Imported, ...]:
    """A config for each cluster that such connectors write.

    ConfigError with every reason why one is not had.
    """
    hubs = HubsOfFlows(TOOL)
    problems: list[Problem] = []
    copying = [it for it in call.connectors if _kind(it[1]) not in BESIDE]
    if not copying:
        reason = "no connector in these files copies topics"
        problems.append(Problem("connector.class", reason, "give its JSON, as posted"))
    names = _hub_names(call, copying)
    flows: list[tuple[Sketch, CopiedFlow]] = []
    for (name, settings), called in zip(copying, names, strict=True):
        worker = _worker_of(call, settings)
        address, where, said = _written(call, settings, worker)
        if not address:
            reason = "the address of the hub is in none of these files"
            hint = "give --hub HOST:PORT, or the properties of the worker as another file"
            problems.append(Problem(f"{settings.file}: {name}", reason, hint))
            continue
        real = settings.values.get(words.ALIAS, "").strip()
        draft, alias = hubs.place(
            WrittenHub(called, address, where),
            real or name,
            _read_at(settings.values),
            {**settings.values, "name": name},
            f"{settings.file}: {name}",
        )
        if draft is None:
            continue
        if said:
            draft.note(*said, decide=True)
        _take_hub(draft, alias, settings, worker)
        flow = CopiedFlow(alias, _without_hub(settings.values), settings.where, call.version)
        take_connector(draft, flow)
        flows.append((draft, flow))
        draft.stored.append(_stored(call, alias, name, settings, worker))
    _take_those_beside(call, flows)
    for draft in hubs.drafts():
        settle(draft)
        tidy_names(draft)
        problems += draft.problems
    hubs.name_those_that_are_read()
    for worker in call.workers:
        _tell_of_worker(hubs.drafts(), worker)
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return tuple(draft.done() for draft in hubs.drafts())


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
    take_connector(draft, CopiedFlow(alias, _without_hub(config), _where_of(places)))
    settle(draft)
    draft.stored.append(_committed(alias, call.group or config.get(GROUPS_COMMITTED, "")))
    _check_hub(draft)
    tidy_names(draft)
    return draft.done()


def _kind(settings: Settings) -> str:
    return settings.values.get("connector.class", "").strip().rpartition(".")[2]


def _hub_names(call: PostedConnectors, copying: Sequence[tuple[str, Settings]]) -> list[str]:
    """What the hub of each connector is called, as long as it has no better name."""
    if len(copying) == 1:
        return [copying[0][0]]
    names = []
    for _, settings in copying:
        worker = _worker_of(call, settings)
        group = worker.values.get("group.id", "").strip() if worker is not None else ""
        names.append(settings.values.get(TARGET_ALIAS, "").strip() or group or "hub")
    return names


def _worker_of(call: PostedConnectors, settings: Settings) -> Settings | None:
    """The worker that runs a connector; of several the one whose file is beside its own."""
    if len(call.workers) < 2:
        return call.workers[0] if call.workers else None
    beside = [
        it for it in call.workers if PurePath(it.file).parent == PurePath(settings.file).parent
    ]
    if len(beside) == 1:
        return beside[0]
    files = ", ".join(it.file for it in call.workers)
    reason = f"which worker runs it is not clear: {files}"
    hint = "put each into the folder of its connectors, or import one after the other"
    raise ConfigError([Problem("", reason, hint)], settings.file)


def _written(
    call: PostedConnectors, settings: Settings, worker: Settings | None
) -> tuple[str, Where, tuple[Where, str] | None]:
    """The cluster that a connector's records go to, and what differs from what else it says.

    That is what its own producer is given, else the cluster of its worker. What the connector calls
    its target is where topics are created.
    """
    places = [(settings, key) for key in (f"producer.override.{ADDRESS}",)]
    if worker is not None:
        places += [(worker, f"producer.{ADDRESS}"), (worker, ADDRESS)]
    of_worker = next(((it, key) for it, key in places if it.values.get(key, "").strip()), None)
    targets = [f"target.cluster.{ADDRESS}", f"dest.kafka.{ADDRESS}"]
    target = next((key for key in targets if settings.values.get(key, "").strip()), "")
    at_target = settings.values.get(target, "").strip()
    if of_worker is not None:
        file, key = of_worker
        address, where = file.values[key].strip(), file.where(key)
    elif call.hub:
        address, where = call.hub, Where(COMMAND_LINE, "--hub")
    else:
        return at_target, settings.where(target or ADDRESS), None
    if not at_target or brokers_of(at_target) & brokers_of(address):
        return address, where, None
    reason = (
        f"is {at_target}, and {where} is {address}: records go to the latter, so that is the hub "
        "here; if both are one cluster, all is well"
    )
    return address, where, (settings.where(target), reason)


def _read_at(config: Mapping[str, str]) -> str:
    keys = (f"source.consumer.{ADDRESS}", *words.ADDRESS)
    return next((config[key] for key in keys if config.get(key, "").strip()), "")


HUB_CLIENTS = ("dest.kafka.", "target.cluster.", "target.admin.", "dest.producer.")
OF_ITS_OWN = ("producer.override.", "target.producer.")


def _without_hub(config: Mapping[str, str]) -> dict[str, str]:
    """What a connector says apart from the cluster that it writes."""
    return {
        key: value
        for key, value in config.items()
        if key == TARGET_ALIAS or not key.startswith((*HUB_CLIENTS, *OF_ITS_OWN))
    }


def _take_hub(draft: Sketch, alias: str, settings: Settings, worker: Settings | None) -> None:
    """Take what the producer of a connector is given as the settings of the hub.

    Without the file of its worker, what it says of its target has to do.
    """
    producer: Client = {}
    admin: Client = {}
    for key, value in settings.values.items():
        where = settings.where(key)
        for prefix in HUB_CLIENTS:
            if key.startswith(prefix) and key not in (TARGET_ALIAS, f"{prefix}{ADDRESS}"):
                admin.setdefault(key.removeprefix(prefix), (value, where))
        if key.startswith("producer.override."):
            producer[key.removeprefix("producer.override.")] = (value, where)
        elif key.startswith("target.producer."):
            draft.note(where, "is for the producer of offset syncs alone")
    if worker is not None:
        for key, value in worker.values.items():
            if key.startswith("producer."):
                producer.setdefault(key.removeprefix("producer."), (value, worker.where(key)))
    if worker is not None or any(is_of_cluster(it) for it in producer):
        take_clients(draft, alias, producer, admin)
        return
    take_clients(draft, alias, {**admin, **producer}, {})


def _tell_of_worker(drafts: Sequence[Sketch], worker: Settings) -> None:
    """Say why settings of a worker are not taken over."""
    for key in worker.values:
        if key.startswith("producer.") or key == ADDRESS or not drafts:
            continue
        begins = [it for it in words.NO_EFFECT if key.startswith(it)]
        reason = words.NO_EFFECT[max(begins, key=len)] if begins else "is the worker's own"
        if key in words.CONVERTERS:
            reason = "records are copied as bytes"
        elif is_of_cluster(key):
            reason = "Connect's producers do not read it: theirs begins with producer."
        drafts[0].note(worker.where(key), reason)


def _take_those_beside(call: PostedConnectors, flows: Sequence[tuple[Sketch, CopiedFlow]]) -> None:
    """Take over what connectors say that copy no topics, for the one that they are beside."""
    for name, settings in call.connectors:
        kind = _kind(settings)
        if kind not in BESIDE or not flows:
            continue
        alias = settings.values.get(words.ALIAS, "").strip()
        target = settings.values.get(TARGET_ALIAS, "").strip()
        found = [
            (draft, flow)
            for draft, flow in flows
            if flow.config.get(words.ALIAS, "").strip() == alias
            and flow.config.get(TARGET_ALIAS, "").strip() == target
        ]
        where = settings.where(f"{name} ({kind})")
        if kind != CHECKPOINTS:
            flows[0][0].note(where, BESIDE[kind])
        elif not is_true(settings.values.get(GROUPS_SYNCED, "")):
            (found or flows)[0][0].note(where, BESIDE[kind])
        elif not found:
            reason = (
                f"keeps groups of {alias or 'a source'} up at the hub, and no connector of these "
                "files copies its topics: see sources.<alias>.groups"
            )
            flows[0][0].note(settings.where(GROUPS_SYNCED), reason, decide=True)
        else:
            draft, flow = found[0]
            groups = CopiedFlow(flow.alias, settings.values, settings.where, flow.version)
            take_groups(draft, groups, dict(settings.values))
            reason = f"its groups are kept up by sources.{flow.alias}.groups"
            draft.note(where, reason, taken=True)


def _stored(
    call: PostedConnectors, alias: str, name: str, settings: Settings, worker: Settings | None
) -> Stored:
    kind = class_of(settings.values.get("connector.class", ""))
    if kind == words.MIRROR_CLASS:
        of_worker = worker.values if worker is not None else {}
        topic = settings.values.get(OF_CONNECTOR, "") or call.store or of_worker.get(STORE, "")
        cluster = settings.values.get(words.ALIAS, "source").strip()
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
