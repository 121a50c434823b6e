"""A quarantine topic read from its beginning: each record that was refused, and its state. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from aggregator.features.quarantine.records import Note, Origin, Quarantined, RecordState

BUSY_MS = 120_000
"""How long the note of an attempt holds others off: its producer has given up by then.

By the broker's clock: those of two machines that retry may differ by more."""


@dataclass(slots=True)
class LedgerEntry:
    """A quarantined record, what became of it, and attempts of unknown outcome."""

    record: Quarantined
    state: RecordState = RecordState.OPEN
    detail: str = ""
    attempts: list[Note] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter for records; None is any."""

    source: str | None = None
    topic: str | None = None
    reason: str | None = None
    origins: frozenset[Origin] | None = None

    def takes(self, record: Quarantined) -> bool:
        """Whether a record matches."""
        return (
            self.source in (None, record.origin.partition.cluster)
            and self.topic in (None, record.origin.partition.topic)
            and self.reason in (None, record.kind)
            and (self.origins is None or record.origin in self.origins)
        )


class Ledger:
    """Filled record by record, in the order of the topic."""

    def __init__(self) -> None:
        self._entries: dict[Origin, LedgerEntry] = {}
        self._since: dict[int, int] = {}
        """Offset of a note, whose arrival no broker has noted -> when it was there for sure."""
        self._untimed: list[int] = []
        self.next_offset = 0
        self.newest_ms = 0

    def clear(self) -> None:
        """Start over: the topic is another one, or lost its end."""
        for known in (self._entries, self._since, self._untimed):
            known.clear()
        self.next_offset = self.newest_ms = 0

    def add(self, item: Quarantined | Note | None, offset: int, at_ms: int | None) -> None:
        """Take the record at this offset of the topic, that arrived then; None is not known."""
        self.next_offset = offset + 1
        if at_ms is None and isinstance(item, Note):
            self._untimed.append(offset)
        elif at_ms is not None:
            self.newest_ms = max(self.newest_ms, at_ms)
            self._since |= dict.fromkeys(self._untimed, self.newest_ms)
            self._untimed.clear()
        if isinstance(item, Quarantined):
            # Once more, as after a rewind: it is in the hub no more than it was before.
            self._entries.pop(item.origin, None)
            self._entries[item.origin] = LedgerEntry(item)
        elif isinstance(item, Note) and (entry := self._entries.get(item.origin)) is not None:
            _apply(entry, item)

    def __getitem__(self, origin: Origin) -> LedgerEntry:
        return self._entries[origin]

    def __len__(self) -> int:
        return len(self._entries)

    def select(self, wanted: Filter, *, retried: bool) -> Iterator[LedgerEntry]:
        """The matching entries, in the order of their arrival; `retried` ones on demand."""
        # A copy: another thread may keep reading meanwhile.
        for entry in list(self._entries.values()):
            if wanted.takes(entry.record) and (retried or entry.state is not RecordState.RETRIED):
                yield entry

    def busy(self, origin: Origin, by: str) -> Note | None:
        """A foreign attempt that may still be in progress, and came before ours."""
        for note in self[origin].attempts:
            if note.by == by:
                break
            at_ms = self._since.get(note.at) if note.at_ms is None else note.at_ms
            if at_ms is None or at_ms > self.newest_ms - BUSY_MS:
                return note
        return None


def _apply(entry: LedgerEntry, note: Note) -> None:
    if entry.state is RecordState.RETRIED:
        # The hub has it: a retry that notes anything behind that did not know it yet.
        return
    entry.detail = note.detail
    match note.state:
        case RecordState.TRYING:
            entry.attempts.append(note)
        case RecordState.RETRIED:
            entry.attempts.clear()
        case _:
            entry.attempts = [it for it in entry.attempts if it.by != note.by]
    # An attempt without an outcome may have written it.
    left = RecordState.TRYING if entry.attempts else note.state
    entry.state = note.state if note.state is RecordState.RETRIED else left
