"""The lanes that run: starts, reduces and ends them, and passes on their reports.

Nothing is decided here; which lane does what comes as commands of `aggregator.plan.lifecycle`.
"""

import time
from collections.abc import Callable, Collection, Mapping

from pyspark.sql import SparkSession

from aggregator.datapath.connector.connector import Connector
from aggregator.datapath.spark.frames import plan_readings
from aggregator.datapath.spark.lane import LaneQuery, LaneSettings
from aggregator.engine.commits.observer import Observer
from aggregator.features.schemas.translator import Translator
from aggregator.model.errors import AggregatorError
from aggregator.model.failpoint import failpoint
from aggregator.model.values import SourcePartition
from aggregator.plan.health.fetched_ends import Fetches
from aggregator.plan.lanes.rate_limits import Pace
from aggregator.plan.lifecycle.commands import Start, Started
from aggregator.plan.lifecycle.inputs import LaneSeen

TICK_SECONDS = 0.05


class Lanes:
    """All running lanes of an engine. Used by the engine's thread alone."""

    def __init__(
        self,
        spark: SparkSession,
        connector: Connector,
        observer: Observer,
        translator: Translator,
    ) -> None:
        self.spark = spark
        self._translator = translator
        self._connector = connector
        self._observer = observer
        self._running: dict[str, LaneQuery] = {}
        self._generation = 0
        self._translated = translator.known
        self._taken = 0

    @property
    def names(self) -> Collection[str]:
        """The lanes that run."""
        return self._running.keys()

    def start(self, start: Start, settings: LaneSettings) -> Started:
        """Commit where a lane begins, then start its query.

        Raises CheckpointError or ClusterError when the start cannot be committed, and whatever
        Spark says against the query; the lane then does not run.
        """
        self._generation += 1
        self._translator.follow(start.routes)
        name = start.lane.name
        skips = {sp: hole.skip for sp, hole in start.holes.items()}
        older = {sp: hole.ends for sp, hole in start.holes.items()}
        failpoint("before-begin")
        into = {topic for route in start.routes for topic in route.hub_topics}
        snapshot = self._observer.begin(name, self._generation, start.positions, older, into)
        failpoint("after-begin")
        query = LaneQuery.start(
            self.spark,
            self._connector,
            start.lane,
            self._generation,
            plan_readings(start.routes, start.positions),
            settings,
            skips,
            snapshot,
        )
        failpoint("after-start")
        query.schemas(self._translator.known)
        self._observer.watch(query)
        self._running[name] = query
        return Started(self._generation, query.key)

    def end(self, name: str) -> None:
        """End a lane as soon as its tasks have reported their positions. Returns at once."""
        failpoint("before-drain")
        self._running[name].end()

    def hold(self, name: str, partitions: Collection[SourcePartition]) -> None:
        """Stop reading some partitions in a lane that keeps running. Returns at once."""
        self._running[name].hold(partitions)

    def pace(self, pace: Pace) -> None:
        """Read at this pace from now on."""
        for query in self._running.values():
            query.pace(pace)

    def translate(self) -> None:
        """Request the hub's schema ids that tasks wait for, and pass on the known ones."""
        self._translated = self._translator.known
        for query in self._running.values():
            self._translator.serve(query)

    @property
    def has_news(self) -> bool:
        """Whether a task has reported, came or went since `seen`, or schema ids were found."""
        is_same = self._translator.known is self._translated
        return not is_same or self._connector.news != self._taken

    def seen(self) -> dict[str, LaneSeen]:
        """The last report of each lane's tasks, and the state of its query."""
        self._taken = self._connector.news
        return {name: _seen(query) for name, query in self._running.items()}

    def fetches(self) -> Fetches:
        """What the answers to their fetches say of the sources by now."""
        self._connector.poll()
        return self._connector.fetches

    def release(self, name: str, partitions: Collection[SourcePartition]) -> None:
        """Commit where a lane has given partitions up; raises as the observer's `left` does."""
        self._observer.left(self._running[name], partitions)

    def finish(self, name: str, *, clean: bool) -> str:
        """Stop a lane and commit where it got to; returns what went wrong, or "".

        `clean`: its tasks have reported that they send nothing more. Raises AggregatorError when it
        does not stop.
        """
        query = self._running[name]
        query.stop()
        del self._running[name]
        problem = "" if clean else query.failure() or "its tasks did not end in time"
        try:
            failpoint("before-final-commit")
            self._observer.finish(query, clean=clean)
            failpoint("after-final-commit")
        except AggregatorError as error:
            problem = problem or f"its last position is not committed: {error}"
        query.close()
        return problem

    def end_all(
        self, timeout_seconds: float, tick: Callable[[Mapping[str, str]], None]
    ) -> dict[str, str]:
        """Let all lanes end, and wait for it. Returns lane -> what went wrong, or "".

        Each is committed as it ends: after a kill before the last there is less to recover. `tick`
        gets now and then what has ended so far. Raises AggregatorError for a lane that does not
        stop, when the others are committed.
        """
        ended: dict[str, str] = {}
        error: Exception | None = None
        for name in sorted(self._running):
            self.end(name)
        late = time.monotonic() + timeout_seconds
        waiting = set(self._running)
        while waiting:
            time.sleep(TICK_SECONDS)
            self._connector.poll()
            for name, seen in self.seen().items():
                if name not in waiting:
                    continue
                if seen.ended or not seen.active or time.monotonic() >= late:
                    waiting.remove(name)
                    try:
                        ended[name] = self.finish(name, clean=seen.ended)
                    except Exception as its_own:  # raised below: first the others
                        error = error or its_own
            tick(ended)
        if error is not None:
            raise error
        return ended

    def kill(self) -> None:
        """End all lanes at once and commit nothing."""
        for query in self._running.values():
            query.stop()
            query.close()
        self._running.clear()


def _seen(query: LaneQuery) -> LaneSeen:
    report, active = query.report, query.active
    return LaneSeen(
        active,
        report.whole,
        report.ended,
        None if active else query.failure(),
        report.states,
        report.reasons,
        report.errors,
        report.cuts,
    )
