"""MirrorMaker 2's properties: its flows become a config for each cluster that is written. Pure.

A flow is read as MirrorMaker 2 does it: as the config of a connector, made of what is said for all,
for its two clusters, and for itself, each over the one before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from aggregator.config.kafka_names import READERS
from aggregator.connect import core_words as words
from aggregator.errors import ConfigError, Problem
from aggregator.imports.core import (
    Imported,
    Settings,
    Sketch,
    Stored,
    Where,
    alias_of,
    is_true,
    seconds_of,
)
from aggregator.imports.core_connect import take_connector, tidy_names
from aggregator.imports.core_words import CONNECTION, WITHOUT

TOOL = "MirrorMaker 2"
CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
CONNECTOR = "MirrorSourceConnector"
EXCLUDE = r"mm2.*\.internal,.*\.replica,__.*"
"""Its default, as in connect-mirror 4.3.1."""
NOT_OF_FLOW = (*CONNECTION, "consumer.", "producer.")
"""What begins so at the top is not for the connectors."""
INTERVAL = "offset.flush.interval.ms"
STORE = "offset.storage.topic"


@dataclass(slots=True)
class _Connector:
    """The config of one flow, and the key of the file that each of its keys is from."""

    config: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)

    def set(self, key: str, value: str, own: str) -> None:
        self.config[key], self.keys[key] = value, own


def import_mm2(settings: Settings) -> tuple[Imported, ...]:
    """A config for each target of its flows; ConfigError with every reason why one is not had."""
    return _Reading(settings).read()


class _Reading:
    """One file under translation. What no flow has used is told at the end."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._values = settings, settings.values
        self._clusters = _listed(self._values.get("clusters", ""))
        self._used = {"clusters"}
        self._used_by_flows: set[str] = set()

    def read(self) -> tuple[Imported, ...]:
        flows = [it for it in self._flows() if self._is_enabled(*it)]
        if not flows:
            reason, hint = "no flow is enabled", "such as A->B.enabled = true"
            raise ConfigError([Problem("clusters", reason, hint)], self._settings.file)
        drafts: dict[str, Sketch] = {}
        for _, target in flows:
            drafts.setdefault(target, Sketch(target, TOOL))
        sources = {source for source, _ in flows}
        for target, draft in drafts.items():
            draft.put(("name",), alias_of(target), self._settings.where("clusters"))
            self._take_target(draft, target, known=target in sources)
            aliases: list[str] = []
            for source in [source for source, it in flows if it == target]:
                aliases.append(alias_of(source, aliases))
                self._take_flow(draft, source, target, aliases[-1])
            tidy_names(draft)
        self._tell_unused(next(iter(drafts.values())))
        problems = [problem for draft in drafts.values() for problem in draft.problems]
        if problems:
            raise ConfigError(list(dict.fromkeys(problems)), self._settings.file)
        return tuple(draft.done() for draft in drafts.values())

    def _flows(self) -> Iterator[tuple[str, str]]:
        for source in self._clusters:
            for target in self._clusters:
                if source != target:
                    yield source, target

    def _is_enabled(self, source: str, target: str) -> bool:
        own = f"{source}->{target}.enabled"
        self._used |= {own, "enabled"}
        return is_true(self._values.get(own, self._values.get("enabled", "")))

    def _of_cluster(self, cluster: str) -> Iterator[tuple[str, str, str]]:
        """The settings of a cluster by their names without its own: name, value, key."""
        names = set()
        for key, value in self._values.items():
            if self._owner(key) == cluster:
                name = key.removeprefix(f"{cluster}.")
                names.add(name)
                yield name, value, key
        for key, value in self._values.items():
            if key not in names and _is_connection(key):
                yield key, value, key

    def _owner(self, key: str) -> str:
        """The cluster that a key is about, "" if none; the longest of its names counts."""
        found = [it for it in self._clusters if key.startswith(f"{it}.") and "->" not in key]
        return max(found, key=len, default="")

    def _take_target(self, draft: Sketch, target: str, *, known: bool) -> None:
        for name, value, key in self._of_cluster(target):
            where = self._settings.where(key)
            plain = re.sub(r"^(producer|admin)\.", "", name)
            if name == INTERVAL:
                length = seconds_of(value)
                if length is not None and 1_000 <= int(value) <= 3_600_000:
                    draft.put(("stream", "checkpoint_interval"), length, where)
            elif name == "bootstrap.servers":
                draft.put(("hub", "bootstrap_servers"), value.strip(), where)
            elif plain in WITHOUT:
                self._note(draft, key, WITHOUT[plain])
            elif name.startswith("producer."):
                part = "kafka" if plain.startswith(CONNECTION) else "producer"
                draft.put(("hub", part, plain), value, where)
            elif name.startswith("admin.") or _is_client(name):
                draft.put(("hub", "kafka", plain), value, where)
            else:
                continue
            self._used.add(key)
        if "bootstrap_servers" not in draft.tree.get("hub", {}):
            reason, hint = "the address of the target is not given", "host:port, or several"
            draft.problems.append(Problem(f"{target}.bootstrap.servers", reason, hint))
        if known:
            # What flows back must not come here again, whatever its topic is called.
            draft.put(("hub", "known_as"), [alias_of(target)], self._settings.where("clusters"))

    def _take_flow(self, draft: Sketch, source: str, target: str, alias: str) -> None:
        connector = self._connector(source, target)
        config, keys = connector.config, connector.keys
        config.setdefault("topics", ".*")
        given = [config[key] for key in words.EXCLUDE_PATTERNS if key in config]
        exclude = [*(given or [EXCLUDE])]
        if config.get(words.POLICY, words.DEFAULT_POLICY).endswith(words.DEFAULT_POLICY):
            # Topics that came from the target are not sent back to it.
            mark = re.escape(config.get(words.SEPARATOR, "."))
            exclude.append(f"(.*{mark})?{re.escape(target)}{mark}.+")
        config["topics.exclude"] = ",".join(exclude)
        config.pop("topics.blacklist", "")

        def where(key: str) -> Where:
            return self._settings.where(keys.get(key, key))

        take_connector(draft, alias, config, where)
        topic = self._values.get(f"{target}.{STORE}", f"mm2-offsets.{source}.internal")
        name = config.get("name", CONNECTOR)
        draft.stored.append(Stored(alias, topic=topic, connector=name, cluster=source))

    def _connector(self, source: str, target: str) -> _Connector:
        found = _Connector()
        found.set("connector.class", CLASS, "connector.class")
        found.set("source.cluster.alias", source, "clusters")
        for key, value in self._values.items():
            of_all = not self._owner(key) and "->" not in key and key not in self._used
            if of_all and not key.startswith(NOT_OF_FLOW):
                found.set(key, value, key)
        for name, value, key in self._of_cluster(source):
            if name.startswith(("consumer.", "admin.")):
                found.set(f"source.{name}", value, key)
            elif name == "bootstrap.servers" or _is_client(name):
                found.set(f"source.cluster.{name}", value, key)
        head = f"{source}->{target}."
        for key, value in self._values.items():
            if key.startswith(head) and key != f"{head}enabled":
                found.set(key.removeprefix(head), value, key)
        self._used_by_flows |= set(found.keys.values())
        return found

    def _tell_unused(self, draft: Sketch) -> None:
        heads = tuple(f"{source}->{target}." for source, target in self._flows())
        for key in self._values:
            if key in self._used or key in self._used_by_flows:
                continue
            cluster = self._owner(key)
            name = key.removeprefix(f"{cluster}.")
            if "->" in key:
                known = key.startswith(heads)
                reason = "is of a flow that is not enabled" if known else "is not known"
            elif not cluster and key.startswith(("consumer.", "producer.")):
                reason = f"{TOOL} reads it only with a cluster in front of it"
            elif name.startswith("producer."):
                reason = "nothing is written to a source"
            elif name.startswith("consumer."):
                reason = "nothing is read from the hub"
            else:
                begins = [it for it in words.NO_EFFECT if name.startswith(it)]
                reason = words.NO_EFFECT[max(begins, key=len)] if begins else "is not known"
            self._note(draft, key, reason)

    def _note(self, draft: Sketch, key: str, reason: str) -> None:
        draft.note(self._settings.where(key), reason)


def _listed(text: str) -> list[str]:
    return [it.strip() for it in text.split(",") if it.strip()]


def _is_client(name: str) -> bool:
    return name in READERS or name.startswith(CONNECTION)


def _is_connection(name: str) -> bool:
    return name.startswith(CONNECTION)
