"""Which ACLs a hub topic needs, so that it exposes nothing beyond the rights at sources. Pure.

Only READ and DESCRIBE are granted at the hub. Let T be a hub topic and t its source topics, of all
sources. A principal on a host may do it on T when it may on every t: grants are met, pair by pair
(`*` meets everything), and what a source denies is denied. So

- READ comes of ALLOW READ and ALLOW ALL; of ALLOW WRITE, ALTER and DELETE only DESCRIBE, which they
  imply in Kafka. A right to write at a source gives no right to read at the hub;
- patterns (`*`, prefixes) are narrowed to T alone, as they may mean more at the hub;
- a denial is written for those whom a grant is for; where it would take a right from all users,
  ourselves among them, the grants that it touches are left out instead;
- a T of which one source does not list its ACLs, or does not have `acls.sync`, gets no grant; nor
  does one into which a source may flow that has not answered yet.

Nothing is ever removed. What the hub grants beyond this is named, and left to people.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from aggregator.model.values import Route

ALLOW, DENY = "ALLOW", "DENY"
READ, DESCRIBE, ALL = "READ", "DESCRIBE", "ALL"
LITERAL, PREFIXED = "LITERAL", "PREFIXED"
ANY = "*"
GIVES = {
    READ: frozenset({READ, ALL}),
    DESCRIBE: frozenset({DESCRIBE, READ, "WRITE", "DELETE", "ALTER", ALL}),
}
"""What a reader needs -> the operations at a source by which Kafka allows it."""


NO_SOURCES: Mapping[str, Collection[str]] = MappingProxyType({})


class Acl(NamedTuple):
    """One rule about topics, in Kafka's words."""

    pattern: str
    name: str
    principal: str
    host: str
    operation: str
    permission: str

    def is_of(self, topic: str) -> bool:
        """Whether it holds for this topic."""
        if self.pattern == PREFIXED:
            return topic.startswith(self.name)
        return self.name in (topic, ANY)

    def __str__(self) -> str:
        where = "" if self.host == ANY else f" from {self.host}"
        what = f"{self.name}*" if self.pattern == PREFIXED else self.name
        return f"{self.permission} {self.operation} on {what} to {self.principal}{where}"


class Grantee(NamedTuple):
    """A principal on a host; either may be any."""

    principal: str
    host: str

    def covers(self, other: Grantee) -> bool:
        """Whether it covers all whom `other` covers."""
        return (
            self.principal == other.principal
            or (_is_anybody(self.principal) and _kind(self.principal) == _kind(other.principal))
        ) and self.host in (other.host, ANY)

    def meet(self, other: Grantee) -> Grantee | None:
        """The principal and host that both cover; None when there are none."""
        principal = _meet(self.principal, other.principal, _is_anybody)
        host = _meet(self.host, other.host, lambda it: it == ANY)
        if _kind(self.principal) != _kind(other.principal) or principal is None or host is None:
            return None
        return Grantee(principal, host)


@dataclass(frozen=True, slots=True)
class AclPlan:
    """ACLs to add at the hub. `superfluous` are grants there that no source has.

    `notes` say what is left out, and why.
    """

    add: tuple[Acl, ...] = ()
    superfluous: tuple[Acl, ...] = ()
    notes: tuple[str, ...] = ()


def plan_acls(
    routes: Iterable[Route],
    synced: Collection[str],
    listed: Mapping[str, Sequence[Acl]],
    at_hub: Collection[Acl],
    ours: str = "",
    unseen: Mapping[str, Collection[str]] = NO_SOURCES,
) -> AclPlan:
    """The ACLs that the hub topics of these routes need and lack.

    `routes` are all, of every source; `synced` are the sources with `acls.sync`, `listed` their
    ACLs, and no others; `at_hub` is what the hub has of topics. Of `ours`, the principal by which
    we write there, nothing is said. `unseen` has, for a hub topic, the sources that may flow into
    it as well and whose topics are not known.
    """
    fed: dict[str, list[Route]] = {}
    for route in routes:
        fed.setdefault(route.hub_topic, []).append(route)
    present, add, superfluous, notes = set(at_hub), [], [], []
    for hub_topic, own in sorted(fed.items()):
        if not any(it.cluster in synced for it in own):
            continue
        feeding = {it.cluster for it in own} | set(unseen.get(hub_topic, ()))
        silent = sorted(feeding - listed.keys())
        silent += sorted(set(unseen.get(hub_topic, ())) & listed.keys())
        if silent:
            notes.append(f"{hub_topic}: nothing is granted, as {_why(silent, synced)}")
            wanted: set[Acl] = set()
        else:
            wanted, more = _wanted(hub_topic, [(listed[it.cluster], it.topic) for it in own], ours)
            notes += more
        add += sorted(wanted - present)
        if not silent:
            superfluous += _superfluous(hub_topic, wanted, present, ours)
    return AclPlan(tuple(add), tuple(superfluous), tuple(notes))


def _wanted(
    hub_topic: str, sources: Sequence[tuple[Sequence[Acl], str]], ours: str
) -> tuple[set[Acl], list[str]]:
    """What one hub topic needs; `sources` are the ACLs of each cluster with its topic."""
    rules = [[it for it in acls if it.is_of(topic)] for acls, topic in sources]
    denied = {
        operation: {
            Grantee(it.principal, it.host)
            for own in rules
            for it in own
            if it.permission == DENY and it.operation in (operation, ALL)
        }
        for operation in (READ, DESCRIBE)
    }
    wanted: set[Acl] = set()
    left: dict[str, set[str]] = {}
    granted: set[Grantee] = set()
    for operation in (READ, DESCRIBE):
        # The right to read implies the right to describe.
        needs = (READ, DESCRIBE) if operation == READ else (DESCRIBE,)
        for who in sorted(_granted(rules, operation)):
            if who.principal == ours or any(it.covers(who) for it in granted):
                continue
            if any(it.covers(who) for it in denied[operation]):
                continue
            touching = [
                (need, met)
                for need in needs
                for it in sorted(denied[need])
                if (met := it.meet(who)) is not None
            ]
            if any(_is_anybody(met.principal) or met.principal == ours for _, met in touching):
                left.setdefault(operation, set()).add(who.principal)
                continue
            granted.add(who)
            wanted.add(_acl(hub_topic, who, operation, ALLOW))
            wanted |= {_acl(hub_topic, met, need, DENY) for need, met in touching}
    notes = [
        f"{hub_topic}: {', '.join(sorted(names))} gets no {operation}, as a denial at a source "
        "would be one for everybody here"
        for operation, names in left.items()
    ]
    return wanted, notes


def _granted(rules: Sequence[Sequence[Acl]], operation: str) -> set[Grantee]:
    """Whom every one of the source topics allows it."""
    found: set[Grantee] | None = None
    for own in rules:
        allowed = {
            Grantee(it.principal, it.host)
            for it in own
            if it.permission == ALLOW and it.operation in GIVES[operation]
        }
        if found is None:
            found = allowed
        else:
            found = {met for a in found for b in allowed if (met := a.meet(b)) is not None}
    some = found or set()
    return {it for it in some if not any(other != it and other.covers(it) for other in some)}


def _superfluous(
    hub_topic: str, wanted: Collection[Acl], present: Iterable[Acl], ours: str
) -> list[Acl]:
    """Grants of reading, on this very topic, that the sources do not have."""
    granted = {
        operation: {
            Grantee(it.principal, it.host)
            for it in wanted
            if it.permission == ALLOW and it.operation in GIVES[operation]
        }
        for operation in (READ, DESCRIBE)
    }
    return sorted(
        it
        for it in present
        if (it.pattern, it.name, it.permission) == (LITERAL, hub_topic, ALLOW)
        and it.operation in (READ, DESCRIBE)
        and it.principal != ours
        and not any(who.covers(Grantee(it.principal, it.host)) for who in granted[it.operation])
    )


def _acl(hub_topic: str, who: Grantee, operation: str, permission: str) -> Acl:
    return Acl(LITERAL, hub_topic, who.principal, who.host, operation, permission)


def _why(silent: Sequence[str], synced: Collection[str]) -> str:
    without = [it for it in silent if it not in synced]
    if without:
        return f"{', '.join(without)} flows into it as well, without acls.sync"
    return f"{', '.join(silent)} does not list its ACLs"


def _kind(principal: str) -> str:
    return principal.partition(":")[0]


def _is_anybody(principal: str) -> bool:
    return principal.endswith(":*")


def _meet(one: str, other: str, is_any: Callable[[str], bool]) -> str | None:
    if one == other or is_any(other):
        return one
    return other if is_any(one) else None
