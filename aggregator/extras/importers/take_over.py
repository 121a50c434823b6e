"""Takes over what another tool has stored: shown first, and set by what sets positions by hand.

The hub's last records are compared with those that the other tool has read last at a source.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from pydantic import Field

from aggregator.config.schema import Config
from aggregator.extras.importers.configs import Stored
from aggregator.extras.importers.hub_ahead import (
    Beyond,
    Copy,
    hub_partition_of,
    records_beyond,
    summed,
)
from aggregator.extras.importers.read_stored import stored_positions
from aggregator.extras.importers.stored_positions import StoredPositions, by_topic, how_far_off
from aggregator.features.positions.change_report import MovesReport
from aggregator.features.positions.targets import MoveRequest
from aggregator.kafka.admin import HUB, open_admin
from aggregator.kafka.reader import RangeReader
from aggregator.model.errors import ClusterError
from aggregator.model.values import OffsetRange, Raw, SourcePartition, TopicPartition
from aggregator.status.schema import Document
from aggregator.store.checkpoint.checkpoint_table import stored_state
from aggregator.store.checkpoint.rows import to_moment

MOST_PARTITIONS = 200
MOST_RECORDS = 5_000
"""Beyond the position that was stored; who flushes every minute and wrote more stays unknown."""
MARKERS = 10
"""The end of a log may be markers of transactions, which are no records."""


def beyond(config: Config, positions: Mapping[SourcePartition, int]) -> Beyond:
    """Compare each partition, as far as the hub's end shows it. Raises nothing."""
    places = {sp: tp for sp in positions if (tp := hub_partition_of(config, sp)) is not None}
    chosen = dict(sorted(places.items())[:MOST_PARTITIONS])
    found: list[tuple[SourcePartition, int | None]] = [
        (sp, None) for sp in positions if sp not in chosen
    ]
    timeout = config.supervision.connect_timeout
    try:
        with open_admin(config, HUB) as admin:
            counts = admin.partition_counts(timeout) if chosen else {}
            there = [tp for tp in chosen.values() if tp.partition < counts.get(tp.topic, 0)]
            logs = admin.offsets(there, timeout).ranges if there else {}
        with RangeReader(config) as reader:
            for sp, tp in chosen.items():
                log = logs.get(tp)
                count = None
                if log is not None:
                    count = _of_one(reader, sp, positions[sp], tp, log)
                found.append((sp, count))
    except ClusterError:
        # It is for information only; what matters was read from the clusters before.
        found = [(sp, None) for sp in positions]
    return summed(found)


def _of_one(
    reader: RangeReader,
    sp: SourcePartition,
    position: int,
    hub: TopicPartition,
    log: OffsetRange,
) -> int | None:
    end = OffsetRange(max(log.earliest, log.latest - MARKERS), log.latest)
    last = deque(reader.read_range(HUB, hub, end), maxlen=1)
    span = OffsetRange(max(0, position - MARKERS), position + MOST_RECORDS)
    records = reader.read_range(sp.cluster, sp.topic_partition, span)
    return records_beyond(
        _content(last[0]) if last else None,
        [(raw.offset, _content(raw)) for raw in records],
        position,
    )


def _content(raw: Raw) -> Copy:
    return Copy(raw.key, raw.value, raw.at_ms)


SetPositions = Callable[[MoveRequest], MovesReport]
"""Does a request, or only shows its effect."""


class TakenOver(Document):
    """One source, and what was stored of it. With `refused` nothing was to be had."""

    source: str
    stored_at: datetime | None = Field(default=None, description="when it was stored last")
    moves: MovesReport | None = None
    how_far_off: str = ""
    compared: str = Field(default="", description="what the hub's last records show about it")
    refused: str = ""


def take_over(
    config: Config,
    stored: Iterable[Stored],
    set_positions: SetPositions,
    *,
    overwrite: bool = False,
) -> list[TakenOver]:
    """Have the positions of each source set to what the other tool has stored of it.

    Partitions that have one already keep it, unless `overwrite`. Raises as `stored_positions` and
    `set_positions` do.
    """
    return [_one(config, stored_positions(config, it), set_positions, overwrite) for it in stored]


def _one(
    config: Config, found: StoredPositions, set_positions: SetPositions, overwrite: bool
) -> TakenOver:
    if found.refused:
        return TakenOver(source=found.alias, refused=found.refused)
    known = _known(config, found.alias) if overwrite else set()
    fresh = {tp: at for tp, at in found.positions.items() if tp not in known}
    again = {tp: at for tp, at in found.positions.items() if tp in known}
    reports = []
    for positions, taken_over in ((fresh, True), (again, False)):
        if positions:
            request = MoveRequest(
                source=found.alias, to_offsets=by_topic(positions), taken_over=taken_over
            )
            reports.append(set_positions(request))
    report = reports[0]
    for more in reports[1:]:
        report = report.model_copy(
            update={
                "moves": (*report.moves, *more.moves),
                "notes": (*report.notes, *more.notes),
                "commit": more.commit or report.commit,
                "tail": report.tail + more.tail,
            }
        )
    return TakenOver(
        source=found.alias,
        stored_at=to_moment(found.when_ms) if found.when_ms else None,
        moves=report,
        how_far_off=_how_far_off(config, found, report),
        compared=str(beyond(config, _set_to(report))),
    )


def _known(config: Config, alias: str) -> set[object]:
    """The partitions of a source that have a position."""
    known = stored_state(config.checkpoint).entries
    return {sp.topic_partition for sp in known if sp.cluster == alias}


def _how_far_off(config: Config, found: StoredPositions, report: MovesReport) -> str:
    changed = {sp.topic_partition: at for sp, at in _set_to(report).items()}
    if not changed:
        return ""
    with open_admin(config, found.alias) as admin:
        ends = admin.log_ends(changed, config.supervision.connect_timeout)
    return how_far_off(found.alias, changed, ends)


def _set_to(report: MovesReport) -> dict[SourcePartition, int]:
    """The partitions of a report with their new positions."""
    return {SourcePartition(it.cluster, it.topic, it.partition): it.new for it in report.moves}
