"""The pace in force: what a lag and another config change, and what is said of it. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from aggregator.config.schema import Config
from aggregator.model.values import Positions, SourcePartition, SourceState
from aggregator.plan.lanes.rate_limits import Limit, Pace
from aggregator.plan.lifecycle.commands import Emit, SetPace
from aggregator.plan.lifecycle.inputs import Measured, StepInputs
from aggregator.plan.lifecycle.read_rates import follow_pace, pace_starting
from aggregator.plan.lifecycle.stage import Stage
from aggregator.plan.lifecycle.state import Partition, SourceLife, State
from aggregator.plan.lifecycle.step_context import StepContext

EU, US = SourcePartition("eu", "t", 0), SourcePartition("us", "t", 0)


def config(limit: int | None = 100, always: int | None = None) -> Config:
    common = {"bootstrap_servers": "a:1", "topics": {"include": "t"}}
    eu = {"catch_up_records_per_second": limit, "max_records_per_second": always}
    return Config.model_validate(
        {"hub": {"bootstrap_servers": "h:1"}, "sources": {"eu": {**common, **eu}, "us": common}}
    )


class Scene:
    """Both sources run; what was said, and the pace that the lanes were given last."""

    def __init__(self, limit: int | None = 100, always: int | None = None) -> None:
        self.config = config(limit, always)
        reading = Partition(Stage.READING)
        self.state = State(self.config, partitions={EU: reading, US: reading})
        self.words: list[str] = []
        self.pace = Pace()
        self.follow({})

    def starting(self, backlog: int) -> None:
        """The source eu is about to be read, and has so far to go."""
        ctx = self._context({}, frozenset())
        pace_starting(ctx, {EU, US}, Positions({EU: 0, US: 0}), {EU: backlog, US: 5_000})
        self._take(ctx)

    def lags(self, eu: int, *, catching_up: bool = True) -> bool:
        return self.follow({"eu": eu, "us": 10**9}, {"eu"} if catching_up else set())

    def follow(self, lags: dict[str, int], catching_up: set[str] | None = None) -> bool:
        """Whether the lanes are given another pace."""
        ctx = self._context(lags, frozenset(catching_up or ()))
        follow_pace(ctx)
        return self._take(ctx)

    def reconfigure(self, changed: Config) -> None:
        self.config = changed
        self.follow({})

    def _context(self, lags: dict[str, int], catching_up: frozenset[str]) -> StepContext:
        at = datetime.now(UTC)
        for alias in self.config.sources:
            late = alias in catching_up
            state = SourceState.CATCHING_UP if late else SourceState.RUNNING
            lives = {**self.state.sources, alias: SourceLife(state, at)}
            self.state = replace(self.state, sources=lives)
        measured = Measured(ends={EU: 0, US: 0}, lags=lags)
        return StepContext(self.state, StepInputs(self.config, at, measured=measured), 0.0)

    def _take(self, ctx: StepContext) -> bool:
        self.state = ctx.state
        self.words += [it.event.message for it in ctx.commands if isinstance(it, Emit)]
        given = [it.pace for it in ctx.commands if isinstance(it, SetPace)]
        self.pace = given[-1] if given else self.pace
        assert self.pace == self.state.pace
        return bool(given)


SLOW = Pace({"eu": Limit(100.0)})


def test_a_source_with_a_long_way_to_go_starts_at_its_limit_and_joins_when_it_is_near() -> None:
    scene = Scene()
    assert scene.pace == Pace()
    scene.starting(5_000)
    assert scene.pace == SLOW
    assert not scene.lags(4_000)
    assert scene.lags(400)
    assert scene.pace == Pace()
    assert scene.words == [
        "source eu is 5,000 records behind: it catches up at 100 a second",
        "source eu has caught up",
    ]


def test_a_source_that_falls_behind_while_it_runs_is_held_back_too() -> None:
    scene = Scene()
    assert not scene.lags(900)
    assert scene.lags(1_100)
    assert scene.pace == SLOW
    # A lane that starts again in the meantime changes nothing.
    scene.starting(600)
    assert scene.pace == SLOW
    assert len(scene.words) == 1


def test_a_lag_alone_is_no_backlog_before_its_source_is_seen_to_catch_up() -> None:
    scene = Scene()
    assert not scene.lags(10**6, catching_up=False)
    assert scene.pace == Pace()


def test_a_lag_counts_when_all_ends_are_known() -> None:
    scene = Scene()
    scene.starting(5_000)
    assert not scene.follow({})
    assert scene.pace == SLOW
    assert scene.lags(0)
    assert scene.pace == Pace()


def test_without_the_setting_nothing_changes() -> None:
    scene = Scene(limit=None)
    scene.starting(10**9)
    assert not scene.lags(10**9)
    assert scene.pace == Pace()


def test_a_source_that_is_not_read_keeps_what_was_decided() -> None:
    scene = Scene()
    scene.lags(2_000)
    assert not scene.follow({"us": 10**9})
    assert scene.pace == SLOW


def test_a_limit_that_always_counts_stays_when_a_source_has_caught_up() -> None:
    scene = Scene(limit=100, always=300)
    assert scene.pace == Pace({"eu": Limit(300.0)})
    assert scene.lags(2_000)
    assert scene.pace == SLOW
    assert scene.lags(0)
    assert scene.pace == Pace({"eu": Limit(300.0)})


def test_another_config_counts_at_once() -> None:
    scene = Scene()
    scene.lags(2_000)
    scene.reconfigure(config(300))
    assert scene.pace == Pace({"eu": Limit(300.0)})
    scene.reconfigure(config(None))
    assert scene.pace == Pace()
    # A source that is gone is not behind when it comes again.
    scene.reconfigure(config(300))
    gone = config(300)
    scene.reconfigure(gone.model_copy(update={"sources": {"us": gone.sources["us"]}}))
    scene.reconfigure(config(300))
    assert scene.pace == Pace()
