"""The last fifteen minutes by the second, in memory: what the dashboard draws as it happens.

Of each source and hub topic a fixed number of seconds is kept, so memory does not grow with time.
"""

import math
import threading
from array import array
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import NamedTuple

from aggregator.datapath.connector.reports import bucket_bounds
from aggregator.model.alike import made_of
from aggregator.model.values import SourceState
from aggregator.plan.health.delays import longest_by_source
from aggregator.status.copied import Copied
from aggregator.status.figures import SourceFigures, percentiles_of
from aggregator.status.lag import sum_known
from aggregator.status.live_report import (
    LiveFigures,
    LiveFlow,
    LiveHistory,
    LiveMoment,
    LiveSeries,
    LiveSource,
)
from aggregator.status.partition_status import behind_fields
from aggregator.status.schema import NOT_BEGUN, Latency, Percentiles
from aggregator.status.view import View

KEPT = 900
"""Moments that are kept: the engine publishes one a second."""
RATE_SECONDS = 10.0
"""Rates of now are over about this time: a second alone shows how reports arrive."""
SPARKS = 60
"""Points of a source in the history of all."""
MOST_FLOWS = 400
"""With more routes than this their rates are left out of a moment, which each viewer gets, and
those of hub topics are not kept.
"""
NAN = math.nan
NOTHING = SourceFigures()
"""Those of a source that has reported nothing yet."""
COLUMNS = tuple(LiveSeries.model_fields)
RATES = ("records_per_second", "bytes_per_second")
"""The columns of a hub topic: tasks count no latency by topic."""


class _Newest(NamedTuple):
    """The newest view with what its figures are found from: its number, lags, and a view before."""

    number: int
    view: View
    past: tuple[datetime, Mapping[str, SourceFigures]]
    lag: Mapping[str, int]


class Recent:
    """Thread-safe: the engine gives a view about once a second, any thread reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bounds = bucket_bounds()
        self._times = array("d", [NAN]) * KEPT
        self._total = _Ring()
        self._sources: dict[str, _Ring] = {}
        self._topics: dict[str, _Ring] = {}
        self._count = 0
        self._past: deque[tuple[datetime, Mapping[str, SourceFigures]]] = deque()
        self._newest: _Newest | None = None
        self._made: LiveMoment | None = None

    def take(self, view: View) -> None:
        """Note a moment. One that is before the newest, as when the clock is set, begins again."""
        if view.phase in NOT_BEGUN:
            return
        with self._lock:
            before = self._past[-1] if self._past else None
            if before is not None and view.at <= before[0]:
                self._past.clear()
                self._sources.clear()
                self._topics.clear()
                self._total, self._times, self._count = _Ring(), array("d", [NAN]) * KEPT, 0
                before = None
            lag = self._note(view, before)
            self._past.append((view.at, view.figures))
            while len(self._past) > 2 and _apart(self._past[1][0], view.at) >= RATE_SECONDS:
                self._past.popleft()
            self._newest = _Newest(self._count, view, self._past[0], lag)

    @property
    def number(self) -> int:
        """How many moments there were; it grows by one with each."""
        newest = self._newest
        return newest.number if newest is not None else 0

    def newest(self) -> LiveMoment | None:
        """The newest moment, None before the first. It is kept for all who ask.

        It waits for no lock: the thread that answers all requests asks for it. Two threads that ask
        at once may both make it.
        """
        newest, made = self._newest, self._made
        if newest is None:
            return None
        if made is None or made.number != newest.number:
            made = self._made = _moment(newest)
        return made

    def history(self, alias: str | None = None, hub_topic: str | None = None) -> LiveHistory:
        """What is kept: of a source, or of a hub topic, of which only rates are.

        With neither: of all sources together, with a few points of each.
        """
        is_whole = alias is None and hub_topic is None
        # Only copied here: the engine waits for the lock.
        with self._lock:
            count, times = self._count, self._times[:]
            if hub_topic is not None:
                ring = self._topics.get(hub_topic, _Ring(RATES))
            elif alias is not None:
                ring = self._sources.get(alias, _Ring())
            else:
                ring = self._total
            columns = ring.columns()
            rings = self._sources if is_whole else {}
            rates = {name: it.rates() for name, it in rings.items()}
        known = min(count, KEPT)
        return LiveHistory(
            times=tuple(round(it, 1) for it in _in_order(times, count, known)),
            series=_series(columns, count, known),
            sparks={name: _sparks(it, count, known) for name, it in rates.items()},
        )

    def _note(
        self, view: View, before: tuple[datetime, Mapping[str, SourceFigures]] | None
    ) -> Mapping[str, int]:
        """Fill the place of a view, and return the lag of each source (alias)."""
        place = self._count % KEPT
        self._times[place] = view.at.timestamp()
        then, old = before if before is not None else (view.at, view.figures)
        seconds = _apart(then, view.at)
        lag = view.measured.known_lags(view.positions)
        states = {alias: it.state for alias, it in view.state.sources.items()}
        self._sources = {it: ring for it, ring in self._sources.items() if it in states}
        rates: list[tuple[float | None, float | None]] = []
        for alias, state in states.items():
            now = view.figures.get(alias)
            # The first second of a source has all that was copied before it was first looked at.
            rates.append(_rates(now, old[alias], seconds) if alias in old else (None, None))
            figures = _figures((now or NOTHING).latency, state, rates[-1], lag.get(alias))
            self._sources.setdefault(alias, _Ring()).put(place, figures)
        live = [it for it, state in states.items() if state is not SourceState.CATCHING_UP]
        latency = Latency(
            age_ms=_since(view.figures, old, "age", live, self._bounds),
            flight_ms=_since(view.figures, old, "flight", tuple(states), self._bounds),
        )
        records, bytes_ = (sum_known(it[number] for it in rates) for number in (0, 1))
        self._total.put(
            place,
            _figures(latency, SourceState.RUNNING, (records, bytes_), sum_known(lag.values())),
        )
        self._note_topics(place, view, old, seconds)
        self._count += 1
        return lag

    def _note_topics(
        self, place: int, view: View, old: Mapping[str, SourceFigures], seconds: float
    ) -> None:
        """Fill the place of a view for the hub topics; too many have none."""
        # The first second of a source has all that was copied before it was first looked at.
        known = {alias: it for alias, it in view.figures.items() if alias in old}
        sums: dict[str, tuple[int, int]] = {}
        for (_, topic), (records, bytes_) in (_sent(view, known, old) or {}).items():
            before = sums.get(topic, (0, 0))
            sums[topic] = (before[0] + records, before[1] + bytes_)
        self._topics = {it: ring for it, ring in self._topics.items() if it in sums}
        for topic, both in sums.items():
            rates = [it / seconds if seconds > 0 else None for it in both]
            ring = self._topics.setdefault(topic, _Ring(RATES))
            ring.put(place, dict(zip(RATES, rates, strict=True)))


class _Ring:
    """Some columns of a source, a topic, or all: a number for each kept moment, NaN is unknown."""

    def __init__(self, names: Sequence[str] = COLUMNS) -> None:
        self._columns = {name: array("f", [NAN]) * KEPT for name in names}

    def put(self, place: int, values: Mapping[str, float | None]) -> None:
        """Overwrite a place by new values."""
        for name, column in self._columns.items():
            value = values[name]
            column[place] = NAN if value is None else value

    def columns(self) -> dict[str, Sequence[float]]:
        """A copy of all of them."""
        return {name: column[:] for name, column in self._columns.items()}

    def rates(self) -> Sequence[float]:
        """A copy of the records per second."""
        return self._columns["records_per_second"][:]


def _series(columns: Mapping[str, Sequence[float]], count: int, known: int) -> LiveSeries:
    """All that is kept, the oldest first."""
    return LiveSeries(
        **{
            name: tuple(map(_known, _in_order(column, count, known)))
            for name, column in columns.items()
        }
    )


def _sparks(column: Sequence[float], count: int, known: int) -> tuple[float | None, ...]:
    """The mean rates of equal spans of what can be kept, the oldest first."""
    rates = [NAN] * (KEPT - known)
    rates += _in_order(column, count, known)
    size = KEPT // SPARKS
    return tuple(_mean(rates[at : at + size]) for at in range(0, KEPT, size))


def _in_order(column: Sequence[float], count: int, known: int) -> list[float]:
    begin = count % KEPT if known == KEPT else 0
    return [*column[begin:known], *column[:begin]]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 1)


def _mean(values: Sequence[float]) -> float | None:
    known = [it for it in values if not math.isnan(it)]
    return round(sum(known) / len(known), 1) if known else None


def _apart(before: datetime, now: datetime) -> float:
    return (now - before).total_seconds()


def _rates(
    now: SourceFigures | None, old: SourceFigures | None, seconds: float
) -> tuple[float | None, float | None]:
    """Records and bytes per second; unknown where there is nothing to compare with.

    Figures count from 0 at the start of a run: one without any by then had copied nothing.
    """
    old = old or NOTHING
    if now is None or seconds <= 0:
        return None, None
    # Each is a sum over all topics.
    records = now.records - old.records
    if records < 0:
        return None, None
    return records / seconds, (now.bytes_ - old.bytes_) / seconds


def _figures(
    latency: Latency,
    state: SourceState,
    rates: tuple[float | None, float | None],
    lag: int | None,
) -> dict[str, float | None]:
    """The values of the columns; what was old before it was read has no age to show."""
    age = None if state is SourceState.CATCHING_UP else latency.age_ms
    flight = latency.flight_ms
    return {
        "records_per_second": rates[0],
        "bytes_per_second": rates[1],
        "lag": lag,
        "flight_p50_ms": flight.p50 if flight is not None else None,
        "flight_p99_ms": flight.p99 if flight is not None else None,
        "age_p50_ms": age.p50 if age is not None else None,
        "age_p99_ms": age.p99 if age is not None else None,
    }


def _since(
    now: Mapping[str, SourceFigures],
    old: Mapping[str, SourceFigures],
    kind: str,
    aliases: Collection[str],
    bounds: Sequence[int],
) -> Percentiles | None:
    """Percentiles of what some sources have counted since an earlier moment, together."""
    counts = [0] * (len(bounds) + 1)
    for alias in aliases:
        if alias not in now:
            continue
        new, was = getattr(now[alias], kind), getattr(old.get(alias, NOTHING), kind)
        if new != was:
            for at, (one, other) in enumerate(zip_longest(new, was, fillvalue=0)):
                counts[at] += max(0, one - other)
    return percentiles_of(counts, bounds)


def _moment(newest: _Newest) -> LiveMoment:
    number, view, (then, old), lag = newest
    seconds = _apart(then, view.at)
    behind = longest_by_source(view.measured.behind)
    sources = []
    for alias, life in view.state.sources.items():
        now = view.figures.get(alias)
        records, bytes_ = _rates(now, old.get(alias), seconds)
        sources.append(
            LiveSource(
                alias=alias,
                state=life.state,
                records_per_second=records,
                bytes_per_second=bytes_,
                lag=lag.get(alias),
                latency=(now or NOTHING).latency,
                **behind_fields(behind.get(alias)),
            )
        )
    bounds = bucket_bounds()
    live = [it.alias for it in sources if it.state is not SourceState.CATCHING_UP]
    total = LiveFigures(
        records_per_second=sum_known(it.records_per_second for it in sources),
        bytes_per_second=sum_known(it.bytes_per_second for it in sources),
        lag=sum_known(it.lag for it in sources),
        seconds_behind=max(
            (it.seconds_behind for it in sources if it.seconds_behind is not None), default=None
        ),
        seconds_behind_at_least=any(it.seconds_behind_at_least for it in sources),
        latency=Latency(
            age_ms=_since(view.figures, old, "age", live, bounds),
            flight_ms=_since(view.figures, old, "flight", tuple(view.figures), bounds),
        ),
    )
    return made_of(
        LiveMoment,
        view,
        number=number,
        rate_seconds=round(seconds, 1),
        total=total,
        sources=tuple(sources),
        flows=_flows(view, old, seconds),
    )


def _flows(
    view: View, old: Mapping[str, SourceFigures], seconds: float
) -> tuple[LiveFlow, ...] | None:
    """Rates from each source into each hub topic; None when they are too many."""
    sent = _sent(view, view.figures, old)
    if sent is None or seconds <= 0:
        return None if sent is None else ()
    return tuple(
        LiveFlow(
            source=alias,
            topic=topic,
            records_per_second=records / seconds,
            bytes_per_second=bytes_ / seconds,
        )
        for (alias, topic), (records, bytes_) in sent.items()
    )


def _sent(
    view: View, figures: Mapping[str, SourceFigures], old: Mapping[str, SourceFigures]
) -> dict[tuple[str, str], tuple[int, int]] | None:
    """Records and bytes since an earlier moment from each source into each hub topic.

    None when there are too many.
    """
    routes = view.state.plan.routes if view.state.plan is not None else ()
    if len(routes) > MOST_FLOWS:
        return None
    into = {(it.cluster, it.topic): it.hub_topic for it in routes}
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for alias, now in figures.items():
        was = {it.topic: it for it in old.get(alias, NOTHING).copied}
        for it in now.copied:
            topic = into.get((alias, it.topic))
            if topic is None:
                continue
            then = was.get(it.topic, Copied(topic=it.topic, records=0, bytes=0))
            records, bytes_ = sums.get((alias, topic), (0, 0))
            sums[alias, topic] = (
                records + max(0, it.records - then.records),
                bytes_ + max(0, it.bytes - then.bytes),
            )
    return sums
