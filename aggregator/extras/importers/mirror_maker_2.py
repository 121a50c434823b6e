"""Imports MirrorMaker 2: a config for each cluster that its flows write to. Pure.

A flow is read as `MirrorMakerConfig` does it: as the config of a connector, made of what is said
for all, for its two clusters, and for itself, each over the one before; and as the config of the
worker that writes its records.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aggregator.extras.importers.configs import (
    Imported,
    SettingPlace,
    Settings,
    Sketch,
    Stored,
    is_true,
    seconds_of,
)
from aggregator.extras.importers.connector_source import (
    HEARTBEATS,
    CopiedFlow,
    take_connector,
    tidy_names,
)
from aggregator.extras.importers.hub_drafts import Client, HubsOfFlows, WrittenHub, take_clients
from aggregator.extras.importers.shared_values import settle
from aggregator.features.connectors import config_keys as words
from aggregator.features.connectors.mirror_maker_source import (
    ADDRESS,
    Version,
    is_of_cluster,
    listed,
)
from aggregator.model.errors import ConfigError, Problem

TOOL = "MirrorMaker 2"
CONNECTOR = "MirrorSourceConnector"
INTERVAL = "offset.flush.interval.ms"
STORE = "offset.storage.topic"
OF_CLIENTS = re.compile(r"consumer.*|producer.*|admin.*")
OVERRIDE = "producer.override."
APART = ("target.", "source.producer.", OVERRIDE, "enabled")
"""What the connector of a flow has no use for when it reads its source."""

_NAMES = """
    name connector.class connector.plugin.version tasks.max tasks.max.enforce key.converter
    key.converter.plugin.version value.converter value.converter.plugin.version header.converter
    header.converter.plugin.version transforms predicates config.action.reload errors.retry.timeout
    errors.retry.delay.max.ms errors.tolerance errors.log.enable errors.log.include.messages enabled
    source.cluster.alias target.cluster.alias admin.timeout.ms forwarding.admin.class
    metric.reporters security.protocol offset-syncs.topic.location emit.offset-syncs.enabled
    offset-syncs.topic.replication.factor topic.filter.class topics topics.exclude topics.blacklist
    config.properties.exclude config.properties.blacklist config.property.filter.class
    consumer.poll.timeout.ms refresh.topics.enabled refresh.topics.interval.seconds
    sync.topic.configs.enabled sync.topic.configs.interval.seconds sync.topic.acls.enabled
    sync.topic.acls.interval.seconds offset.lag.max heartbeats.replication.enabled
    replication.factor add.source.alias.to.metrics use.incremental.alter.configs groups
    groups.exclude groups.blacklist group.filter.class checkpoints.topic.replication.factor
    emit.checkpoints.enabled emit.checkpoints.interval.seconds refresh.groups.enabled
    refresh.groups.interval.seconds sync.group.offsets.enabled sync.group.offsets.interval.seconds
    emit.heartbeats.enabled emit.heartbeats.interval.seconds heartbeats.topic.replication.factor
"""
CONFIG_NAMES = frozenset(_NAMES.split())
"""What it hands to its connectors when it is said for all, with `ssl.` and `sasl.`."""
HANDED_ON = ("config.providers", "replication.policy", "ssl.", "sasl.")
OF_WORKERS = (
    *("offset.storage", "config.storage", "status.storage", "task", "worker"),
    *("key.converter", "value.converter", "header.converter"),
)

Said = dict[str, tuple[str, str]]
"""Settings by name: the value, and the key of the file that it is from."""


def import_mm2(files: Sequence[Settings], version: Version | None) -> tuple[Imported, ...]:
    """A config for each cluster that the flows of these files write.

    ConfigError with every reason why one is not had.
    """
    hubs = HubsOfFlows(TOOL)
    readings = [_Reading(file, version) for file in files]
    problems = [problem for reading in readings for problem in reading.problems()]
    for reading in readings:
        reading.take(hubs)
    drafts = hubs.drafts()
    for draft in drafts:
        settle(draft)
        tidy_names(draft)
    hubs.name_those_that_are_read()
    for reading in readings:
        reading.report_unused()
    problems += [problem for draft in drafts for problem in draft.problems]
    if problems:
        source = files[0].file if len(files) == 1 else ""
        raise ConfigError(list(dict.fromkeys(problems)), source)
    return tuple(draft.done() for draft in drafts)


@dataclass(slots=True)
class _Pair:
    """An enabled flow: the configs of its connector and of the worker that writes its records."""

    source: str
    target: str
    connector: Said = field(default_factory=dict)
    worker: Said = field(default_factory=dict)


class _Reading:
    """One file under translation. What no flow has used is noted at the end."""

    def __init__(self, settings: Settings, version: Version | None) -> None:
        self._settings, self._values, self._version = settings, settings.values, version
        self._clusters = list(dict.fromkeys(listed(self._values.get("clusters", ""))))
        self._used = {"clusters"}
        self._overridden: dict[str, str] = {}
        self._noted: dict[str, str] = {}
        self._draft: Sketch | None = None
        self._pairs = [it for it in self._all_pairs() if self._is_enabled(it)]

    def problems(self) -> list[Problem]:
        """Why nothing comes of the file."""
        if self._pairs:
            return []
        reason, hint = "no flow is enabled", "such as A->B.enabled = true"
        return [Problem(str(self._settings.where("clusters")), reason, hint)]

    def take(self, hubs: HubsOfFlows) -> None:
        """Take its flows over into the drafts of their hubs."""
        for pair in self._pairs:
            self._take_pair(hubs, pair)

    def _all_pairs(self) -> list[tuple[str, str]]:
        return [(a, b) for a in self._clusters for b in self._clusters if a != b]

    def _is_enabled(self, pair: tuple[str, str]) -> bool:
        """Whether records are copied: what is said for all counts where heartbeats are written."""
        own = f"{pair[0]}->{pair[1]}."
        self._used |= {f"{own}enabled", "enabled"}
        if f"{own}enabled" in self._values:
            return is_true(self._values[f"{own}enabled"])
        beats = self._values.get(own + HEARTBEATS, self._values.get(HEARTBEATS, "true"))
        return is_true(self._values.get("enabled", "")) and is_true(beats)

    def _put(self, found: Said, name: str, said: tuple[str, str]) -> None:
        """Put a setting, perhaps over one that has no effect on this flow then."""
        if name in found:
            self._overridden[found[name][1]] = said[1]
        found[name] = said

    def _of_cluster(self, cluster: str) -> Said:
        """The settings of a cluster by their names without its own."""
        head = f"{cluster}."
        found = {
            key.removeprefix(head): (value, key)
            for key, value in self._values.items()
            if key.startswith(head)
        }
        for name in [it for it in found if is_of_cluster(it)]:
            for kind in ("producer.", "consumer.", "admin."):
                found.setdefault(kind + name, found[name])
        for key, value in self._values.items():
            if is_of_cluster(key):
                if key in found:
                    self._overridden[key] = found[key][1]
                for kind in ("producer.", "consumer.", "admin.", ""):
                    found.setdefault(kind + key, (value, key))
        return found

    def _connector(self, pair: _Pair) -> Said:
        found: Said = {
            key: (value, key)
            for key, value in self._values.items()
            if key in CONFIG_NAMES or key.startswith(HANDED_ON)
        }
        for end, cluster in (("source", pair.source), ("target", pair.target)):
            for name, said in self._of_cluster(cluster).items():
                head = f"{end}." if OF_CLIENTS.fullmatch(name) else f"{end}.cluster."
                self._put(found, head + name, said)
        found.setdefault("name", (CONNECTOR, "clusters"))
        found.setdefault("connector.class", (words.MIRROR_CLASS, "clusters"))
        found.setdefault("source.cluster.alias", (pair.source, "clusters"))
        found.setdefault("target.cluster.alias", (pair.target, "clusters"))
        head = f"{pair.source}->{pair.target}."
        for key, value in self._values.items():
            if key.startswith(head):
                self._put(found, key.removeprefix(head), (value, key))
        return found

    def _worker(self, pair: _Pair) -> Said:
        found = self._of_cluster(pair.target)
        for key, value in self._values.items():
            if key.startswith(OF_WORKERS):
                self._put(found, key, (value, key))
        for name, said in pair.connector.items():
            if name.startswith(OVERRIDE):
                self._put(found, "producer." + name.removeprefix(OVERRIDE), said)
        return found

    def _take_pair(self, hubs: HubsOfFlows, named: tuple[str, str]) -> None:
        pair = _Pair(*named)
        pair.connector = self._connector(pair)
        pair.worker = self._worker(pair)
        producer = self._client(pair.worker, "producer.")
        producer.setdefault(ADDRESS, self._said(pair.worker, ADDRESS))
        admin = self._client(pair.connector, "target.admin.", "admin.")
        config = {
            name: value
            for name, (value, _) in pair.connector.items()
            if name == "target.cluster.alias" or not (name.startswith(APART) or is_of_cluster(name))
        }
        keys = {name: key for name, (_, key) in pair.connector.items()}

        def where(key: str) -> SettingPlace:
            return self._settings.where(keys.get(key, key))

        address, stood = producer[ADDRESS]
        real = config["source.cluster.alias"].strip()
        read_at = self._source_address(config)
        hub = WrittenHub(pair.target, address, stood or where(f"{pair.target}.{ADDRESS}"))
        draft, alias = hubs.place(hub, pair.source, read_at, config, self._settings.file)
        if draft is None:
            return
        self._draft = self._draft or draft
        take_clients(draft, alias, producer, admin)
        self._take_interval(draft, alias, pair.worker)
        before = len(draft.notes)
        take_connector(draft, CopiedFlow(alias, config, where, self._version))
        self._remember(draft, before, pair, set(config))
        store = pair.worker.get(STORE, (f"mm2-offsets.{pair.source}.internal", ""))[0].strip()
        name = config.get("name", CONNECTOR)
        draft.stored.append(Stored(alias, topic=store, connector=name, cluster=real))

    def _source_address(self, config: Mapping[str, str]) -> str:
        keys = (f"source.consumer.{ADDRESS}", f"consumer.{ADDRESS}", f"source.cluster.{ADDRESS}")
        return next((config[key] for key in keys if config.get(key, "").strip()), "")

    def _said(self, settings: Said, name: str) -> tuple[str, SettingPlace | None]:
        value, key = settings.get(name, ("", ""))
        return value, self._settings.where(key) if key else None

    def _client(self, settings: Said, *prefixes: str) -> Client:
        """The settings that begin with one of these; an earlier one wins."""
        found: Client = {}
        for prefix in prefixes:
            for name, (value, key) in settings.items():
                if name.startswith(prefix):
                    plain = name.removeprefix(prefix)
                    self._used.add(key)
                    found.setdefault(plain, (value, self._settings.where(key)))
        return found

    def _take_interval(self, draft: Sketch, alias: str, worker: Said) -> None:
        path = ("stream", "checkpoint_interval")
        if INTERVAL not in worker:
            draft.share(path, alias, "60s")
            return
        value, key = worker[INTERVAL]
        self._used.add(key)
        length = seconds_of(value)
        if length is not None and 1_000 <= int(value) <= 3_600_000:
            draft.share(path, alias, length, self._settings.where(key))
        else:
            draft.note(self._settings.where(key), "see stream.checkpoint_interval, 1s to 1h")

    def _remember(self, draft: Sketch, before: int, pair: _Pair, taken: set[str]) -> None:
        """Remember what the flow has used. Of a setting that another flow uses there is no note."""
        of_pair = {key for name, (_, key) in pair.connector.items() if name in taken}
        of_source = f"{pair.source}."
        kept = []
        for note in draft.notes[before:]:
            key = note.where.key
            if key.startswith(of_source) and note.decide is False and key in self._values:
                # It may be of use where this cluster is written.
                self._noted.setdefault(key, note.reason)
            else:
                kept.append(note)
        draft.notes[before:] = kept
        self._used |= of_pair - self._noted.keys()

    def report_unused(self) -> None:
        """Say of each setting that no flow has used why."""
        draft = self._draft
        if draft is None:
            return
        flows = tuple(f"{source}->{target}." for source, target in self._all_pairs())
        for key in self._values:
            if key not in self._used:
                draft.note(self._settings.where(key), self._reason(key, flows))

    def _reason(self, key: str, flows: tuple[str, ...]) -> str:
        if key in self._overridden:
            return f"{self._overridden[key]} is given, which counts"
        cluster = max(
            (it for it in self._clusters if key.startswith(f"{it}.")), key=len, default=""
        )
        name = key.removeprefix(f"{cluster}.")
        noted = self._noted.get(key, "")
        if noted and (OF_CLIENTS.fullmatch(name) or not words.no_effect(name)):
            return noted
        if "->" in key:
            if key.startswith(flows):
                head = next(it for it in flows if key.startswith(it))
                enabled = any(head == f"{a}->{b}." for a, b in self._pairs)
                return self._without(key.removeprefix(head)) if enabled else OF_NO_FLOW
            return "names a flow between clusters that are not both in clusters"
        if not cluster:
            return self._reason_at_top(key)
        if name.startswith("producer."):
            return "nothing is written to a source"
        if name.startswith("consumer."):
            return "nothing is read from the hub"
        return self._without(name)

    def _reason_at_top(self, key: str) -> str:
        name = key.partition(".")[2]
        if is_of_cluster(name) or name.startswith(("consumer.", "producer.", "admin.")):
            return f"{key.partition('.')[0]} is not among clusters"
        if key.startswith(("consumer.", "producer.", "admin.", *words.ONLY_OF_FLOW)):
            return f"{TOOL} reads it only with a cluster or a flow in front of it"
        return self._without(key)

    @staticmethod
    def _without(name: str) -> str:
        return words.no_effect(name) or "is not known"


OF_NO_FLOW = "is of a flow that is not enabled"
