"""The one list of services, by which all that follows the plan is made, shown and ended."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import TypeVar

from aggregator.datapath.connector.reports import bucket_bounds
from aggregator.features.acls.acl_sync import AclSync
from aggregator.features.completeness.claim_maker import CompletenessWatch
from aggregator.features.dedup.event_keeper import DedupKeeper
from aggregator.features.delta_sink.supervisor import TeeBeside
from aggregator.features.groups.group_sync import GroupSync
from aggregator.features.groups.position_groups import Groups
from aggregator.features.heartbeats.heartbeats import Heartbeats
from aggregator.features.lineage.emitter import Lineage
from aggregator.features.quarantine.follower import QuarantineWatch
from aggregator.features.service import Now, Resources, Service
from aggregator.features.verify.past_audits import AuditWatch
from aggregator.kafka.discovery.hub_logs import read_topic_id
from aggregator.status.service_status import ServicePart, ServiceStatus

S = TypeVar("S", bound=Service)

SERVICES: Mapping[type[Service], Callable[[Resources], Service]] = {
    TeeBeside: lambda it: TeeBeside(it.in_force, it.emit),
    AclSync: lambda it: AclSync(it.emit),
    GroupSync: lambda it: GroupSync(it.emit, it.open_origins),
    Groups: lambda it: Groups(it.emit),
    Heartbeats: lambda it: Heartbeats(it.emit),
    Lineage: lambda it: Lineage(it.emit),
    AuditWatch: lambda it: AuditWatch(it.in_force.config.checkpoint),
    CompletenessWatch: lambda it: CompletenessWatch(it.in_force, it.emit, bucket_bounds()),
    QuarantineWatch: lambda it: QuarantineWatch(it.in_force.config, it.emit, it.hub),
    DedupKeeper: lambda it: DedupKeeper(
        it.in_force,
        it.events,
        partial(read_topic_id, it.hub, timeout=it.in_force.config.supervision.connect_timeout),
        it.emit,
    ),
}
"""How each is made for a run, which asks and starts nothing. Started in this order and stopped in
the reverse one: what keeps the last records of a run, as dedup and quarantine do, before what may
take longer."""


def parts() -> dict[str, type[ServiceStatus]]:
    """By their names the types of parts for which the status document has no field of its own."""
    return {it.name: it.part for it in SERVICES if it.part is not None}


class Services:
    """The services of one run. Used by the engine's thread."""

    def __init__(self, given: Resources) -> None:
        self._all = tuple(make(given) for make in SERVICES.values())

    def __iter__(self) -> Iterator[Service]:
        return iter(self._all)

    def of(self, kind: type[S]) -> S:
        """The one of this kind."""
        return next(it for it in self._all if isinstance(it, kind))

    def follow(self, now: Now) -> None:
        """Pass this to all of them."""
        for it in self._all:
            it.follow(now)

    def status(self) -> dict[str, ServicePart]:
        """The parts of the status document of those that are on."""
        parts = ((it.name, it.status()) for it in self._all)
        return {name: part for name, part in parts if part is not None}

    def source_errors(self) -> dict[str, str]:
        """What services cannot do for a source: alias -> why."""
        return {alias: why for it in self._all for alias, why in it.source_errors().items()}

    def has_heard(self, aliases: Collection[str]) -> bool:
        """Whether all of them know what they have to of the ends of these sources."""
        heard = [it.heard() for it in self._all]
        return all(set(aliases) <= set(it) for it in heard if it is not None)

    def with_last(
        self, kind: type[Service], parts: Mapping[str, ServicePart]
    ) -> dict[str, ServicePart]:
        """These parts, with the one that a service of this kind has by now."""
        last = self.of(kind).status()
        return {**parts, kind.name: last} if last is not None else dict(parts)

    def end(self) -> None:
        """Have all of them begin nothing new; returns at once."""
        for it in self._all:
            it.end()
