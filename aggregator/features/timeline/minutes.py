"""History rows of a minute from two views; joining rows; parsing times. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import zip_longest

from aggregator.config.node import timestamp_to_millis
from aggregator.config.values import parse_duration
from aggregator.features.timeline.timeline_report import EventRow, HistoryRow
from aggregator.model.events import Event, level_of
from aggregator.status.copied import Copied
from aggregator.status.lag import sum_known
from aggregator.status.percentiles import percentile
from aggregator.status.schema import SourceStatus, Status
from aggregator.status.sizes import lag_bytes_of, sizes_of

PERCENTS = (50, 95, 99)


def history_rows(
    earlier: Mapping[str, SourceStatus], begun: datetime, now: Status, bounds: Sequence[int]
) -> tuple[HistoryRow, ...]:
    """The rows of the span from `begun` to a moment of a run.

    `earlier` is each source (alias) as it was at the end of the last span that it was in: one that
    was taken out and is back has counted on.

    A row for each source, and one for each of its topics that had records or has a lag.
    Percentiles are of a source: tasks do not count them by topic. `bounds` are the upper bounds, in
    ms, of the buckets in which the tasks count.
    """
    seconds = round((now.at - begun).total_seconds(), 3)
    lags: dict[str, dict[str, list[int | None]]] = defaultdict(lambda: defaultdict(list))
    for part in now.partitions:
        lags[part.cluster][part.topic].append(part.lag)
    size, sizes = sizes_of(now), lag_bytes_of(now)
    rows: list[HistoryRow] = []
    for source in now.sources:
        # No count ever goes back: these counts have restarted.
        old = earlier.get(source.alias)
        if old is not None and old.records > source.records:
            old = None
        of_source = _of_source(source, old, now.at, seconds, bounds)
        rows.append(of_source.model_copy(update={"lag_bytes": sizes.get(source.alias)}))
        copied = {it.topic: it for it in source.copied}
        was = {it.topic: it for it in old.copied} if old is not None else {}
        own = lags[source.alias]
        for topic in sorted(copied.keys() | own.keys()):
            new = copied.get(topic, Copied(topic=topic, records=0, bytes=0))
            past = was.get(topic, Copied(topic=topic, records=0, bytes=0))
            lag = sum_known(own.get(topic, ()))
            if new.records == past.records and not lag:
                continue
            rows.append(
                HistoryRow(
                    at=now.at,
                    seconds=seconds,
                    source=source.alias,
                    topic=topic,
                    state=source.state,
                    records=new.records - past.records,
                    bytes=new.bytes - past.bytes,
                    lag=lag,
                    lag_bytes=size(source.alias, topic, lag),
                )
            )
    return tuple(rows)


def joined(rows: Iterable[HistoryRow], step_seconds: float) -> tuple[HistoryRow, ...]:
    """Rows joined to spans of `step_seconds`, each of one source and topic, in the order of time.

    Counts are added up; state and lag are the last ones; how far behind, and each percentile, is
    the largest of its minutes: what was bad for one of them is not hidden by the others.
    """
    spans: dict[tuple[int, str, str | None], HistoryRow] = {}
    for row in sorted(rows, key=lambda it: it.at):
        # A row ends its span: one that ends on the border belongs to what was before it.
        number = -int(-row.at.timestamp() // step_seconds)
        key = (number, row.source, row.topic)
        spans[key] = _added(spans[key], row) if key in spans else row
    return tuple(spans.values())


def event_row(event: Event, number: int, mask: Callable[[str], str]) -> EventRow:
    """An event as it is kept, without secrets."""
    fields = {
        name: mask(value) if isinstance(value, str) else value
        for name, value in event.fields.items()
    }
    source = fields.get("source")
    return EventRow(
        id=number,
        at=event.at,
        kind=event.kind,
        level=level_of(event.kind, event.fields),
        message=mask(event.message),
        source=str(source) if source is not None else None,
        fields=fields,
    )


def moment_of(text: str, now: datetime) -> datetime:
    """The moment that is meant: a duration before `now` (`90s`, `1h`, `7d`), or an ISO time.

    ValueError for anything else, and for a time without a UTC offset.
    """
    try:
        return now - timedelta(seconds=parse_duration(text.strip()))
    except (ValueError, OverflowError):
        pass
    try:
        millis = int(timestamp_to_millis(datetime.fromisoformat(text.strip())))
    except ValueError as error:
        raise ValueError(
            f"'{text}' is no time ({error}); write 90s, 1h or 7d ago, or 2026-01-31T12:00:00Z"
        ) from error
    return datetime.fromtimestamp(millis / 1000, UTC)


def _of_source(
    source: SourceStatus,
    old: SourceStatus | None,
    at: datetime,
    seconds: float,
    bounds: Sequence[int],
) -> HistoryRow:
    age = _since(source.age_counts, old.age_counts if old is not None else ())
    flight = _since(source.flight_counts, old.flight_counts if old is not None else ())
    # What is old whatever we do says nothing of how we are.
    catching_up = source.state == "CATCHING_UP"
    age_p50, age_p95, age_p99 = (
        None if catching_up else percentile(age, bounds, it) for it in PERCENTS
    )
    flight_p50, flight_p95, flight_p99 = (percentile(flight, bounds, it) for it in PERCENTS)
    return HistoryRow(
        at=at,
        seconds=seconds,
        source=source.alias,
        state=source.state,
        records=source.records - (old.records if old is not None else 0),
        bytes=source.bytes - (old.bytes if old is not None else 0),
        lag=source.lag,
        seconds_behind=source.seconds_behind,
        age_p50_ms=age_p50,
        age_p95_ms=age_p95,
        age_p99_ms=age_p99,
        flight_p50_ms=flight_p50,
        flight_p95_ms=flight_p95,
        flight_p99_ms=flight_p99,
    )


def _since(now: Sequence[int], before: Sequence[int]) -> list[int]:
    return [max(0, new - old) for new, old in zip_longest(now, before, fillvalue=0)]


WORST = (
    *("seconds_behind", "age_p50_ms", "age_p95_ms", "age_p99_ms"),
    *("flight_p50_ms", "flight_p95_ms", "flight_p99_ms"),
)


def _added(one: HistoryRow, other: HistoryRow) -> HistoryRow:
    known = {
        name: [it for it in (getattr(one, name), getattr(other, name)) if it is not None]
        for name in WORST
    }
    return other.model_copy(
        update={
            "seconds": round(one.seconds + other.seconds, 3),
            "records": one.records + other.records,
            "bytes": one.bytes + other.bytes,
            **{name: max(values, default=None) for name, values in known.items()},
        }
    )
