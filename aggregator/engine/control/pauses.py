"""What is paused: sources, topics and partitions, kept over restarts."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from aggregator.config.schema import CheckpointConfig
from aggregator.model.errors import CheckpointError
from aggregator.model.values import Part, Pause
from aggregator.store.controls import Controls, to_resume
from aggregator.store.state_store import StateStore


def out_of(sources: Mapping[str, Pause]) -> dict[str, str]:
    """Why these sources, by their aliases, must not run, in words."""
    return {
        alias: f"{_words(pause)}; aggregator resume {alias}" for alias, pause in sources.items()
    }


def out_of_parts(parts: Mapping[Part, Pause]) -> dict[Part, str]:
    """Why these parts of sources must not run, in words."""
    found = {}
    for part, pause in parts.items():
        again = f"aggregator resume {part.cluster} --topic {part.topic}"
        if part.partition is not None:
            again += f" --partition {part.partition}"
        found[part] = f"{_words(pause)}; {again}"
    return found


def _words(pause: Pause) -> str:
    by = f" by {pause.by}" if pause.by else ""
    return f"paused since {pause.since.isoformat(timespec='seconds')}{by}"


class Pauses:
    """`sources` by their aliases, and `parts` of them that are paused by themselves.

    Values are replaced and never changed, so any thread may read them; the engine's own writes.
    Each method raises CheckpointError when it cannot be stored, and then changes nothing.
    """

    def __init__(self, place: CheckpointConfig) -> None:
        self.sources: Mapping[str, Pause] = {}
        self.parts: Mapping[Part, Pause] = {}
        self._controls = Controls(StateStore.of(place))

    def load(self) -> None:
        """Load what was paused before."""
        found = self._controls.read()
        self.sources, self.parts = found.sources, found.parts

    def pause(self, alias: str, *, stopped: bool, by: str) -> None:
        """Pause a source; with `stopped` it is marked so. The first pause is recorded."""
        before = self.sources.get(alias)
        if before is None or stopped != before.stopped:
            at = self._controls.put(alias, paused=True, stopped=stopped, by=by)
            now = Pause(at, stopped, by) if before is None else replace(before, stopped=stopped)
            self.sources = {**self.sources, alias: now}

    def resume(self, alias: str, by: str) -> None:
        """Resume a source; its parts that were paused by themselves stay paused."""
        if alias in self.sources:
            self._controls.put(alias, paused=False, by=by)
            self.sources = {name: it for name, it in self.sources.items() if name != alias}

    @contextmanager
    def around(self, alias: str, *, paused: bool | None, stopped: bool, by: str) -> Iterator[None]:
        """Pause a source before the block stores it, or resume it after that; None: neither.

        So one that must begin paused never runs, also where this ends in between.
        """
        was_paused = alias in self.sources
        if paused or stopped:
            self.pause(alias, stopped=stopped, by=by)
        try:
            yield
        except CheckpointError:
            if not was_paused:
                self.resume(alias, by)
            raise
        if paused is False and not stopped:
            self.resume(alias, by)

    def pause_part(self, part: Part, by: str) -> None:
        """Pause a topic or a partition."""
        if part not in self.parts:
            at = self._controls.put_parts([part], paused=True, by=by)
            self.parts = {**self.parts, part: Pause(at, by=by)}

    def resume_part(self, part: Part, by: str) -> None:
        """Resume a topic, with its partitions, or one partition.

        RefusedError for a partition of a topic that is paused as a whole.
        """
        self._resume(to_resume(part, self.parts), by)

    def forget(self, alias: str) -> None:
        """A source is gone: added again, it begins as any other."""
        self.resume(alias, "")
        self._resume([part for part in self.parts if part.cluster == alias], "")

    def _resume(self, parts: list[Part], by: str) -> None:
        if parts:
            self._controls.put_parts(parts, paused=False, by=by)
            self.parts = {it: pause for it, pause in self.parts.items() if it not in parts}
