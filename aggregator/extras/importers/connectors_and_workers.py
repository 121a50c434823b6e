"""Connectors that copy topics, and their workers, become a config for each hub. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from aggregator.extras.importers.configs import (
    COMMAND_LINE,
    Imported,
    Posted,
    SettingPlace,
    Settings,
    Sketch,
    Stored,
    is_true,
)
from aggregator.extras.importers.connector_source import (
    GROUPS_COMMITTED,
    GROUPS_SYNCED,
    CopiedFlow,
    take_connector,
    take_groups,
    tidy_names,
)
from aggregator.extras.importers.hub_drafts import (
    HUB_CLIENTS,
    Client,
    HubsOfFlows,
    WrittenHub,
    brokers_of,
    take_clients,
    without_hub,
)
from aggregator.extras.importers.replicator_files import CONFLUENT, committed
from aggregator.extras.importers.shared_values import settle
from aggregator.features.connectors import config_keys as words
from aggregator.features.connectors.mirror_maker_source import (
    ADDRESS,
    TARGET_ALIAS,
    Version,
    is_of_cluster,
)
from aggregator.features.connectors.to_source import class_of
from aggregator.model.errors import ConfigError, Problem

TOOL = "Kafka Connect"
CHECKPOINTS = "MirrorCheckpointConnector"
BESIDE: Mapping[str, str] = {
    CHECKPOINTS: words.GROUPS,
    "MirrorHeartbeatConnector": "see heartbeats, which writes the same records",
}
"""Connectors of MirrorMaker 2 that copy no topics."""
STORE, DEFAULT_STORE = "offset.storage.topic", "connect-offsets"
OF_CONNECTOR = "offsets.storage.topic"
"""Where a connector may name a topic of its own for its offsets."""


@dataclass(frozen=True, slots=True)
class PostedConnectors:
    """Connectors as they were posted, each with its name, and the workers that ran them.

    `hub` and `store` say what neither of them does: the address of the cluster that the worker
    belongs to, and the topic of its offsets. `version` is that of MirrorMaker 2, if it is known.
    """

    connectors: Sequence[Posted]
    workers: Sequence[Settings] = ()
    hub: str = ""
    store: str = ""
    group: str = ""
    version: Version | None = None


def import_connectors(call: PostedConnectors) -> tuple[Imported, ...]:
    """A config for each cluster that such connectors write.

    ConfigError with every reason why one is not had.
    """
    hubs = HubsOfFlows(TOOL)
    problems: list[Problem] = []
    copying = [it for it in call.connectors if class_of(_class(it)) is not None]
    if not copying:
        reason = "no connector in these files copies topics"
        problems.append(Problem("connector.class", reason, "give its JSON, as posted"))
    names = _hub_names(call, copying)
    flows: list[tuple[Sketch, CopiedFlow]] = []
    for posted, called in zip(copying, names, strict=True):
        name, settings, worker = posted.name, posted.settings, _worker_of(call, posted)
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
        if posted.doubt:
            draft.note(settings.where(name), posted.doubt, decide=True)
        version = call.version or posted.version
        flow = CopiedFlow(alias, without_hub(settings.values), settings.where, version)
        take_connector(draft, flow)
        flows.append((draft, flow))
        draft.stored.append(_stored(call, alias, name, settings, worker))
    _take_those_beside(call, flows)
    for draft in hubs.drafts():
        settle(draft)
        tidy_names(draft)
        problems += draft.problems
    hubs.name_those_that_are_read()
    for worker in _workers(call):
        _report_worker(hubs.drafts(), worker)
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return tuple(draft.done() for draft in hubs.drafts())


def _class(posted: Posted) -> str:
    return posted.settings.values.get("connector.class", "").strip()


def _workers(call: PostedConnectors) -> list[Settings]:
    found = list(call.workers)
    for posted in call.connectors:
        if posted.worker is not None and posted.worker not in found:
            found.append(posted.worker)
    return found


def _hub_names(call: PostedConnectors, copying: Sequence[Posted]) -> list[str]:
    """What the hub of each connector is called."""
    if len(copying) == 1 and copying[0].worker is None:
        return [copying[0].name]
    names = []
    for posted in copying:
        worker = _worker_of(call, posted)
        group = worker.values.get("group.id", "").strip() if worker is not None else ""
        names.append(posted.settings.values.get(TARGET_ALIAS, "").strip() or group or "hub")
    return names


def _worker_of(call: PostedConnectors, posted: Posted) -> Settings | None:
    """The worker that runs a connector; of several the one whose file is beside its own."""
    settings = posted.settings
    if posted.worker is not None:
        return posted.worker
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
) -> tuple[str, SettingPlace, tuple[SettingPlace, str] | None]:
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
        address, where = call.hub, SettingPlace(COMMAND_LINE, "--hub")
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


def _report_worker(drafts: Sequence[Sketch], worker: Settings) -> None:
    """Say why settings of a worker are not taken over."""
    for key in worker.values:
        if key.startswith("producer.") or key == ADDRESS or not drafts:
            continue
        reason = words.no_effect(key) or "is the worker's own"
        if key in words.CONVERTERS:
            reason = "records are copied as bytes"
        elif is_of_cluster(key):
            reason = "Connect's producers do not read it: theirs begins with producer."
        drafts[0].note(worker.where(key), reason)


def _take_those_beside(call: PostedConnectors, flows: Sequence[tuple[Sketch, CopiedFlow]]) -> None:
    """Take over what connectors say that copy no topics, for the one that they are beside."""
    for posted in call.connectors:
        name, settings, called = posted.name, posted.settings, _class(posted)
        kind = called.rpartition(".")[2]
        if not flows or class_of(called) is not None:
            continue
        if kind not in BESIDE:
            reason = f"{kind or 'it'} copies no topics from one cluster to another"
            flows[0][0].note(settings.where(name), reason)
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
        return committed(alias, call.group or settings.values.get(GROUPS_COMMITTED, ""))
    refused = "the form in which it stores positions is documented nowhere; set start to a time"
    return Stored(alias, refused=refused)
