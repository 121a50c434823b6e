"""The status from the checkpoint alone, when no instance answers: positions, lag, history."""

import time
from collections.abc import Iterable, Mapping
from datetime import datetime

import pyarrow.compute as pc
from pydantic import Field

from aggregator.config.schema import CheckpointConfig, Config
from aggregator.model.alike import made_of
from aggregator.model.values import SourcePartition
from aggregator.status.command_answers import paused_parts
from aggregator.status.lag import LagReport, LagRow, make_report
from aggregator.status.rates import LagSample, Rates, rate_window, rates
from aggregator.status.schema import Document, PausedPart
from aggregator.store.checkpoint.history import history, state_at
from aggregator.store.checkpoint.rows import POSITION, partition_of, to_moment
from aggregator.store.checkpoint.start_state import CheckpointState, Entry
from aggregator.store.controls import Controls
from aggregator.store.delta import open_delta, translated
from aggregator.store.state_store import StateStore

STOPPED = "STOPPED"
RATE_COMMITS = 200
SILENT_INTERVALS = 3
SILENT_GRACE_SECONDS = 30.0
STILL_SECONDS = 60.0
"""Where nothing moves, a running instance commits no more often than this."""


class PositionRow(Document):
    """One source partition in the checkpoint, and the commit that says so."""

    cluster: str
    topic: str
    partition: int
    position: int
    log_end: int | None
    lane: str
    generation: int
    batch: int
    seq: int
    snapshot_at: datetime
    clean: bool


class PositionChange(Document):
    """One source partition in one commit."""

    seq: int
    committed_at: datetime
    epoch: int
    cluster: str
    topic: str
    partition: int
    position: int
    log_end: int | None
    lane: str
    clean: bool


class CheckpointView(Document):
    """The state of the checkpoint at one commit; `seq` is null when there is no checkpoint."""

    name: str
    path: str
    running: bool = False
    seq: int | None = None
    epoch: int | None = None
    committed_at: datetime | None = None
    clean: bool = True
    paused: dict[str, datetime] = Field(default_factory=dict, description="sources, since when")
    paused_by: dict[str, str] = Field(default_factory=dict, description="and who did it")
    paused_parts: tuple[PausedPart, ...] = Field(
        default=(), description="topics and partitions that are paused by themselves"
    )
    positions: tuple[PositionRow, ...] = ()


def checkpoint_view(
    config: Config, *, seq: int | None = None, at_ms: int | None = None
) -> CheckpointView:
    """The checkpoint now, after commit `seq`, or at a moment.

    CheckpointError when it cannot be read, or when a past is asked for that is not kept.
    """
    place = config.checkpoint
    newest = history(place.path, place.storage_options, limit=1)
    if not newest and seq is None and at_ms is None:
        return CheckpointView(name=config.name, path=place.path)
    state = state_at(place.path, place.storage_options, seq=seq, at_ms=at_ms)
    committed = {commit.seq: commit.committed_at_ms for commit in newest}
    if state.seq not in committed:
        committed |= _committed_at(place, state.seq)
    paused = Controls(StateStore.of(place)).read()
    return CheckpointView(
        name=config.name,
        path=place.path,
        seq=state.seq,
        epoch=state.epoch,
        committed_at=to_moment(committed[state.seq]) if state.seq in committed else None,
        clean=state.clean,
        paused={alias: it.since for alias, it in paused.sources.items()},
        paused_by={alias: it.by for alias, it in paused.sources.items() if it.by},
        paused_parts=paused_parts(paused.parts),
        positions=position_rows(state),
    )


def position_rows(state: CheckpointState) -> tuple[PositionRow, ...]:
    """The positions of a state, in order."""
    return tuple(
        made_of(
            PositionRow,
            sp,
            entry,
            entry.snapshot,
            snapshot_at=to_moment(entry.snapshot.snapshot_at_ms),
        )
        for sp, entry in sorted(state.entries.items())
    )


def position_changes(
    place: CheckpointConfig,
    *,
    cluster: str | None,
    topic: str | None,
    partition: int | None,
    limit: int,
) -> list[PositionChange]:
    """The last `limit` rows about the partitions that match, newest first.

    CheckpointError when the table cannot be read; empty when there is none.
    """
    delta = open_delta(place.path, place.storage_options)
    if delta is None:
        return []
    wanted = pc.field("kind") == POSITION
    for name, value in (("cluster", cluster), ("topic", topic), ("partition", partition)):
        if value is not None:
            wanted = wanted & (pc.field(name) == value)
    with translated(place.path, "read"):
        table = delta.to_pyarrow_dataset().to_table(filter=wanted)
        newest = table.sort_by(
            [
                ("seq", "descending"),
                ("cluster", "ascending"),
                ("topic", "ascending"),
                ("partition", "ascending"),
            ]
        ).slice(0, limit)
    return [
        PositionChange(
            **{name: row[name] for name in PositionChange.model_fields.keys() & row.keys()}
            | {"position": row["offset"], "clean": bool(row["clean"])}
        )
        for row in newest.to_pylist()
    ]


def stopped_lag(config: Config) -> LagReport:
    """The lag as far as the checkpoint shows it: positions, and rates of its last commits.

    Log ends are those of the checkpoint; `aggregator.status.lag.measured` puts live ones in.
    """
    place = config.checkpoint
    now_ms = time.time_ns() // 1_000_000
    commits = history(place.path, place.storage_options, limit=RATE_COMMITS)
    if not commits:
        note = f"there is no checkpoint under {place.path} yet: nothing was copied"
        return make_report(config.name, (), running=False, at=to_moment(now_ms), notes=(note,))
    last_ms = commits[0].committed_at_ms
    state = state_at(place.path, place.storage_options)
    interval = config.stream.checkpoint_interval
    since_ms = last_ms - rate_window(interval) * 1000
    recent = [one for one in commits if one.committed_at_ms >= since_ms]
    earlier = first_readings(place, recent[-1].seq)
    silent = (now_ms - last_ms) / 1000
    patience = max(SILENT_INTERVALS * interval, STILL_SECONDS) + SILENT_GRACE_SECONDS
    running = not state.clean and silent <= patience
    said = to_moment(last_ms).isoformat(timespec="seconds")
    notes = [f"no running instance answers; positions are the checkpoint's of {said}"]
    if gone := sorted({sp.cluster for sp in state.entries} - set(config.sources)):
        notes.append(f"not shown, as the config has no such source: {', '.join(gone)}")
    paused = Controls(StateStore.of(place)).read()
    for alias in sorted(paused.sources):
        notes.append(f"source {alias} is paused: aggregator resume {alias}")
    notes += [f"{part} is paused" for part in sorted(map(str, paused.parts))]
    rows = lag_rows(
        ((sp, it) for sp, it in state.entries.items() if sp.cluster in config.sources), earlier
    )
    if not running:
        rows = [row.model_copy(update={"state": STOPPED}) for row in rows]
    return make_report(config.name, rows, running=running, at=to_moment(now_ms), notes=notes)


def lag_rows(
    entries: Iterable[tuple[SourcePartition, Entry]], earlier: Mapping[SourcePartition, LagSample]
) -> list[LagRow]:
    """A row per entry, with its rates since an earlier reading."""
    rows = []
    for sp, entry in entries:
        old, now = earlier.get(sp), entry.snapshot.snapshot_at_ms / 1000
        rate = Rates()
        if old is not None:
            rate = rates(old, LagSample(now, entry.position, entry.log_end))
        rows.append(
            made_of(
                LagRow,
                sp,
                entry,
                lag=max(0, entry.log_end - entry.position) if entry.log_end is not None else None,
                consumed_per_second=rate.consumed,
                produced_per_second=rate.produced,
                lane=entry.snapshot.lane,
            )
        )
    return rows


def first_readings(place: CheckpointConfig, since_seq: int) -> dict[SourcePartition, LagSample]:
    """The first that the commits from `since_seq` on say of each partition."""
    delta = open_delta(place.path, place.storage_options)
    if delta is None:
        return {}
    with translated(place.path, "read"):
        wanted = (pc.field("kind") == POSITION) & (pc.field("seq") >= since_seq)
        rows = delta.to_pyarrow_dataset().to_table(filter=wanted).sort_by([("seq", "descending")])
    return {
        partition_of(row): LagSample(row["snapshot_at"].timestamp(), row["offset"], row["log_end"])
        for row in rows.to_pylist()
    }


def _committed_at(place: CheckpointConfig, seq: int) -> dict[int, int]:
    commits = history(place.path, place.storage_options, limit=1_000_000)
    return {commit.seq: commit.committed_at_ms for commit in commits if commit.seq == seq}
