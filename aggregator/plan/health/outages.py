"""Finds unreachable sources: no answer to a probe for longer than a deadline. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Probe:
    """The probe results of one source: when it last answered, and why it does not now."""

    answered_at: float
    failure: str = ""


def sick_sources(probes: Mapping[str, Probe], deadline: float, now: float) -> dict[str, str]:
    """Alias -> why, of the sources that have not answered for longer than `deadline` seconds."""
    return {
        alias: probe.failure or f"no answer for {deadline:g} s"
        for alias, probe in probes.items()
        if now - probe.answered_at > deadline
    }
