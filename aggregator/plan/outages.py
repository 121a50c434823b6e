"""Which sources are sick, which of them leave the lanes they share, and when they come back. Pure.

A source that has not answered a probe for `deadline` seconds is unreachable. In lanes of its own
it hurts nobody, and goes on by itself when it is back. From a lane that it shares it is taken out,
because the lane would wait for it at its next batch end. It comes back, into a lane of its own,
after it has answered for 2, 4, 8 ... 60 seconds; when it has caught up it may share again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from aggregator.plan.backoff import DELAYS_SECONDS, FORGOTTEN_AFTER_SECONDS


@dataclass(frozen=True, slots=True)
class Probe:
    """What the probes of one source have told: when it last answered, and why it does not now."""

    answered_at: float
    failure: str = ""


def sick_sources(probes: Mapping[str, Probe], deadline: float, now: float) -> dict[str, str]:
    """Alias -> why, of the sources that have not answered for longer than `deadline` seconds."""
    return {
        alias: probe.failure or f"no answer for {deadline:g} s"
        for alias, probe in probes.items()
        if now - probe.answered_at > deadline
    }


@dataclass(slots=True)
class _Outage:
    count: int
    since: float
    well_since: float | None = None


@dataclass(slots=True)
class Outages:
    """Sources taken out (`out`: alias -> why) and sources that share no lane for now (`apart`)."""

    deadline: float
    out: Mapping[str, str] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()
    _outages: dict[str, _Outage] = field(default_factory=dict)

    def follow(
        self,
        probes: Mapping[str, Probe],
        sharing: Collection[str],
        caught_up: Collection[str],
        now: float,
    ) -> bool:
        """Take one more look; True when `out` or `apart` have changed.

        `sharing` are the sources in lanes with others now, `caught_up` those that run and are not
        behind.
        """
        before = (set(self.out), self.apart)
        sick = sick_sources(probes, self.deadline, now)
        out = {alias: why for alias, why in self.out.items() if alias in probes}
        apart = {alias for alias in self.apart if alias in probes}
        for alias, why in sick.items():
            if alias in sharing and alias not in out:
                self._outages[alias] = _Outage(self._count(alias, now), now)
                out[alias] = why
            elif alias in out:
                self._outages[alias].well_since = None
        for alias in out.keys() - sick.keys():
            outage = self._outages[alias]
            if outage.well_since is None:
                outage.well_since = now
            elif now - outage.well_since >= self._patience(outage):
                del out[alias]
                apart.add(alias)
        self.out = out
        self.apart = frozenset(apart - (set(caught_up) - out.keys()))
        return (set(self.out), self.apart) != before

    def separate(self, aliases: Collection[str]) -> None:
        """A lane that these sources share has failed: alone, only the culprit fails again."""
        if len(set(aliases)) > 1:
            self.apart = self.apart | set(aliases)

    def _count(self, alias: str, now: float) -> int:
        before = self._outages.get(alias)
        if before is None or now - before.since > FORGOTTEN_AFTER_SECONDS:
            return 1
        return before.count + 1

    @staticmethod
    def _patience(outage: _Outage) -> float:
        return DELAYS_SECONDS[min(outage.count, len(DELAYS_SECONDS)) - 1]
