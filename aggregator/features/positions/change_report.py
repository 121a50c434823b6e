"""Positions that are set by hand, as a document: what the dry run shows, and what was done."""

from pydantic import Field

from aggregator.features.positions.targets import MoveKind, PositionMove
from aggregator.model.alike import made_of
from aggregator.status.schema import Document


class MoveRow(Document):
    """One source partition. `position` and `new` are NEXT offsets; an unknown one is null."""

    cluster: str
    topic: str
    partition: int
    position: int | None
    new: int
    difference: int | None
    kind: MoveKind
    skipped_from: int | None = Field(default=None, description="offsets that are never copied")
    skipped_to: int | None = Field(default=None, description="up to here, without it")
    what: str


class MovesReport(Document):
    """All of one command. `commit` is the checkpoint's, null when nothing was committed."""

    name: str
    dry_run: bool
    running: bool = Field(description="done by the running instance")
    moves: tuple[MoveRow, ...]
    commit: int | None = None
    tail: int = Field(default=0, description="hub offsets that are read before it continues")
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> int:
        """How many partitions change."""
        return sum(move.kind is not MoveKind.STAY for move in self.moves)


def row_of(move: PositionMove) -> MoveRow:
    """A move as a row."""
    lost = move.skipped
    return made_of(
        MoveRow,
        move.partition,
        move,
        skipped_from=None if lost is None else lost.earliest,
        skipped_to=None if lost is None else lost.latest,
        what=str(move),
    )
