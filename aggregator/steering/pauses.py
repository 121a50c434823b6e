"""What is paused, as the engine goes by it: sources, topics and partitions, kept over restarts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from aggregator.checkpoint.controls import Controls, to_resume
from aggregator.config.schema import CheckpointConfig
from aggregator.model import Part, Pause


def out_of(paused: Mapping[str, datetime]) -> dict[str, str]:
    """Why nothing of these sources (alias -> since when they are paused) is to run, in words."""
    return {
        alias: f"paused since {since.isoformat(timespec='seconds')}; aggregator resume {alias}"
        for alias, since in paused.items()
    }


def out_of_parts(parts: Mapping[Part, Pause]) -> dict[Part, str]:
    """Why nothing of these parts of sources is to run, in words."""
    found = {}
    for part, pause in parts.items():
        again = f"aggregator resume {part.cluster} --topic {part.topic}"
        if part.partition is not None:
            again += f" --partition {part.partition}"
        by = f" by {pause.by}" if pause.by else ""
        found[part] = f"paused since {pause.since.isoformat(timespec='seconds')}{by}; {again}"
    return found


class Pauses:
    """`sources` (alias -> since when), `stopped` those of them that Connect calls so, and `parts`.

    Values are replaced and never changed, so any thread may read them; the engine's own writes.
    Each method raises CheckpointError when it cannot be noted, and then changes nothing.
    """

    def __init__(self, place: CheckpointConfig) -> None:
        self.sources: Mapping[str, datetime] = {}
        self.stopped: frozenset[str] = frozenset()
        self.parts: Mapping[Part, Pause] = {}
        self._controls = Controls(place.path, place.storage_options)

    def load(self) -> None:
        """Take up what was paused before."""
        found = self._controls.read()
        self.sources = {alias: it.since for alias, it in found.sources.items()}
        self.stopped = frozenset(alias for alias, it in found.sources.items() if it.stopped)
        self.parts = found.parts

    def pause(self, alias: str, *, stopped: bool, by: str = "") -> None:
        """Pause a source; with `stopped` it is called so."""
        if alias not in self.sources or stopped != (alias in self.stopped):
            at = self._controls.put(alias, paused=True, stopped=stopped, by=by)
            self.sources = {alias: at, **self.sources}
            self.stopped = self.stopped | {alias} if stopped else self.stopped - {alias}

    def resume(self, alias: str) -> None:
        """Let a source go on; its parts that were paused by themselves stay so."""
        if alias in self.sources:
            self._controls.put(alias, paused=False)
            self.sources = {name: at for name, at in self.sources.items() if name != alias}
            self.stopped -= {alias}

    def pause_part(self, part: Part, by: str) -> None:
        """Pause a topic or a partition."""
        if part not in self.parts:
            at = self._controls.put_parts([part], paused=True, by=by)
            self.parts = {**self.parts, part: Pause(at, by=by)}

    def resume_part(self, part: Part, by: str) -> None:
        """Let a topic, with its partitions, or a partition go on.

        RefusedError for a partition of a topic that is paused as a whole.
        """
        self._resume(to_resume(part, self.parts), by)

    def forget(self, alias: str) -> None:
        """A source is gone: added again, it begins as any other."""
        self.resume(alias)
        self._resume([part for part in self.parts if part.cluster == alias], "")

    def _resume(self, parts: list[Part], by: str) -> None:
        if parts:
            self._controls.put_parts(parts, paused=False, by=by)
            self.parts = {it: pause for it, pause in self.parts.items() if it not in parts}
