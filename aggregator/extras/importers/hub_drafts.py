"""Collects the flows of all files and tools by the hub that they write: one draft each. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aggregator.config.kafka_names import READERS
from aggregator.extras.importers.configs import (
    SettingPlace,
    Sketch,
    alias_of,
    numbered,
    plain_address,
)
from aggregator.extras.importers.mirror_maker_1_keys import CONNECTION, NO_CLIENTS, reason_without
from aggregator.features.connectors.mirror_maker_source import (
    ADDRESS,
    OF_ADMIN,
    TARGET_ALIAS,
    is_of_cluster,
    shown,
)
from aggregator.model.errors import Problem

Client = dict[str, tuple[str, SettingPlace | None]]
"""The settings of a client by name, with where each was found."""
HUB_CLIENTS = ("dest.kafka.", "target.cluster.", "target.admin.", "dest.producer.")
OF_ITS_OWN = ("producer.override.", "target.producer.")
"""What begins so in the config of a connector is about the cluster that it writes."""


@dataclass(frozen=True, slots=True)
class WrittenHub:
    """A cluster that is written, as a flow calls it."""

    name: str
    address: str
    where: SettingPlace

    @property
    def brokers(self) -> frozenset[str]:
        """Its brokers, in one spelling."""
        return brokers_of(self.address)


@dataclass(slots=True)
class _Placed:
    """A hub and the flows into it. `flows` are the sources by alias, each with its brokers."""

    draft: Sketch
    brokers: frozenset[str]
    flows: dict[str, frozenset[str]] = field(default_factory=dict)
    configs: dict[str, tuple[str, str, Mapping[str, str]]] = field(default_factory=dict)


def brokers_of(address: str) -> frozenset[str]:
    """The brokers of an address as `host:port`, in one spelling."""
    return frozenset(it.lower() for it in plain_address(address).split(",") if it)


class HubsOfFlows:
    """The drafts under construction. Two addresses are of one cluster when they share a broker."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._placed: list[_Placed] = []

    def drafts(self) -> list[Sketch]:
        """A draft for each hub."""
        return [it.draft for it in self._placed]

    def place(
        self, hub: WrittenHub, source: str, read_at: str, config: Mapping[str, str], file: str
    ) -> tuple[Sketch | None, str]:
        """The draft that a flow belongs to, and the alias of its source there.

        None when it is there already: each machine of a tool has a copy of its file.
        """
        placed = self._find(hub)
        for alias, (at, of_file, other) in placed.configs.items():
            if brokers_of(at) != brokers_of(read_at) or of_file == file:
                continue
            if dict(other) == dict(config):
                reason = f"is the same flow as in {of_file}: it is taken once"
                placed.draft.note(hub.where._replace(key=f"{source} to {hub.name}"), reason)
                return None, alias
            if other.get("source.cluster.alias") == config.get("source.cluster.alias"):
                reason = (
                    f"{of_file} has a flow between the same clusters with other settings; here they"
                    " are two sources, and what both take comes twice"
                )
                where = hub.where._replace(key=f"{source} to {hub.name}")
                placed.draft.note(where, reason, decide=True)
        alias = alias_of(source, placed.flows)
        placed.flows[alias] = brokers_of(read_at)
        placed.configs[alias] = (read_at, file, config)
        return placed.draft, alias

    def _find(self, hub: WrittenHub) -> _Placed:
        for placed in self._placed:
            if placed.brokers & hub.brokers:
                placed.brokers |= hub.brokers
                return placed
        names = [str(it.draft.tree["name"]) for it in self._placed]
        target = numbered(hub.name, (it.draft.target for it in self._placed))
        draft = Sketch(target, self._tool)
        draft.put(("name",), alias_of(hub.name, names), hub.where)
        if hub.address.strip():
            draft.put(("hub", "bootstrap_servers"), hub.address.strip(), hub.where)
        else:
            reason, hint = "the address of the target is not given", "host:port, or several"
            draft.problems.append(Problem(str(hub.where), reason, hint))
        self._placed.append(_Placed(draft, hub.brokers))
        return self._placed[-1]

    def name_those_that_are_read(self) -> None:
        """What flows back into a hub must not come there again, whatever its topic is called."""
        for placed in self._placed:
            known = [
                alias
                for other in self._placed
                for alias, brokers in other.flows.items()
                if brokers & placed.brokers
            ]
            if known:
                where = placed.draft.came[("name",)]
                placed.draft.put(("hub", "known_as"), list(dict.fromkeys(known)), where)


def take_clients(draft: Sketch, alias: str, producer: Client, admin: Client) -> None:
    """Take what writes the records as the settings of the hub.

    What its admin client has apart from it becomes a DECIDE: here all clients log in alike.
    """
    for name, (value, where) in producer.items():
        if name == ADDRESS or where is None:
            continue
        if reason := reason_without(name, value):
            draft.note(where, reason)
            continue
        part = "kafka" if name.startswith(CONNECTION) else "producer"
        draft.share(("hub", part, name), alias, value, where)
    for name, (value, where) in admin.items():
        if where is None:
            continue
        if not is_of_cluster(name):
            if reason := _reason_of_admin(name):
                draft.note(where, reason)
            continue
        written = producer.get(name, ("", None))[0]
        same = written.strip() == value.strip()
        if name == ADDRESS:
            same = bool(brokers_of(written) & brokers_of(value))
        if not same:
            reason = (
                f"topics are created with {shown(name, value)} there, and records are written with "
                f"{shown(name, written) or 'nothing'}; here both go with the latter"
            )
            draft.note(where, reason, decide=True)


def _reason_of_admin(name: str) -> str:
    """Why a setting of what creates topics has no place here; "" when it is none of a client."""
    if "admin" in READERS.get(name, frozenset()):
        return OF_ADMIN
    return NO_CLIENTS.get(name, "")


def without_hub(config: Mapping[str, str]) -> dict[str, str]:
    """What a connector says apart from the cluster that it writes."""
    return {
        key: value
        for key, value in config.items()
        if key == TARGET_ALIAS or not key.startswith((*HUB_CLIENTS, *OF_ITS_OWN))
    }
