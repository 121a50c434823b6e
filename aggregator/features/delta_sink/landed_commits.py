"""Decides what has landed in a table from its history and our own commits. Pure.

Delta takes a commit of an application only if its transaction's number is above the newest one. Our
number is the version of the commit that says where the batch begins, plus one. So of two batches
that begin at the same place the second is refused, however far it reaches; one that begins at an
older place is refused as well; and after a RESTORE, which has the highest version, none is.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from aggregator.features.delta_sink.next_batch import NONE, Batch, Landed

KEY = "aggregator_tee"
"""The name of our part of a commit's user metadata, and of our transactions."""
PROPERTY = "aggregator.tee.next"
"""People set this property of a table to say where it continues: {"<partition>": <offset>}."""
QUARTERS_OF_HOURS = range(-14 * 4, 14 * 4 + 1)
"""Time zones are so far from UTC."""


class TableCommit(NamedTuple):
    """Of a table's history; `at` is when it was made, in milliseconds."""

    version: int
    operation: str
    metadata: str | None
    parameters: Mapping[str, str | None]
    at: int = 0


class RestoredByTime(NamedTuple):
    """Commit `version` has restored the table to a moment; which version that was it does not say.

    `candidates` are those that it may have been, the likeliest first.
    """

    version: int
    candidates: tuple[int, ...]


class Cloned(NamedTuple):
    """Commit `version` has made the table what another one was at `source_version`.

    `since` is the commit that the positions are taken from.
    """

    version: int
    source: str
    source_version: int
    since: int


class Unclear(NamedTuple):
    """Why it cannot be said what has landed."""

    reason: str


Said = Landed | RestoredByTime | Cloned | Unclear


def number_of(batch: Batch) -> int:
    """The number of its transaction."""
    return batch.follows + 1


def to_metadata(batch: Batch) -> str:
    """What a commit says of itself; `from_history` reads it."""
    after = batch.after
    own: dict[str, Any] = {
        "topic_id": after.topic_id,
        "next": _plain(after.positions),
        "lost": [list(it) for it in batch.lost],
        "follows": batch.follows,
    }
    if after.earlier:
        own["earlier"] = {topic_id: _plain(it) for topic_id, it in after.earlier.items()}
    return json.dumps({KEY: own})


def from_history(
    commits: Sequence[TableCommit], restored: Mapping[int, int], *, all_there: bool
) -> Said | None:
    """What our newest commit of a table says, None when there is none among these.

    The newest commit comes first. A table that was restored says what the version said that it was
    restored to; `restored` says of commits which version that was, where they say a moment alone.
    They are not `all_there` where the history has older ones.
    """
    most: int | None = None
    since = NONE
    for at, commit in enumerate(commits):
        if most is not None and commit.version > most:
            continue
        decides = since if since != NONE else commit.version
        if commit.operation == "RESTORE":
            version = _restored_to(commit, restored)
            if version is None:
                return RestoredByTime(commit.version, _candidates(commit, commits[at + 1 :]))
            most, since = version, decides
        elif commit.operation == "CLONE":
            return _cloned(commit, decides)
        elif (landed := _of(commit)) is not None:
            return _checked(landed, commit, commits[at + 1 :], decides, all_there)
    return None


def _of(commit: TableCommit) -> tuple[Landed, int | None] | None:
    """What it says has landed, and the commit that it follows; None when it is not our own."""
    return _from_metadata(commit.metadata) or _from_property(commit)


def _from_metadata(text: str | None) -> tuple[Landed, int | None] | None:
    try:
        own: dict[str, Any] = json.loads(text or "")[KEY]
        follows = own.get("follows")
        landed = Landed(
            str(own["topic_id"]),
            _positions(own["next"]),
            # An earlier release wrote down no partitions that were empty.
            whole=follows is not None,
            earlier={name: _positions(it) for name, it in own.get("earlier", {}).items()},
        )
        return landed, None if follows is None else int(follows)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _from_property(commit: TableCommit) -> tuple[Landed, int | None] | None:
    try:
        said = json.loads(json.loads(commit.parameters["properties"] or "")[PROPERTY])
        return Landed("", _positions(said), whole=False), None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _checked(
    said: tuple[Landed, int | None],
    commit: TableCommit,
    earlier: Sequence[TableCommit],
    decides: int,
    all_there: bool,
) -> Landed | Unclear | None:
    landed, follows = said
    found = replace(landed, version=decides)
    if follows is None:
        return found
    for other in earlier:
        if other.version <= follows:
            return found
        if other.operation in ("RESTORE", "CLONE") or _of(other) is not None:
            return Unclear(
                f"version {commit.version} of its table begins where version {follows} ended, and "
                f"another writer wrote version {other.version} ({other.operation}) meanwhile: "
                "records may be missing or twice (RESTORE it TO VERSION AS OF "
                f"{commit.version - 1}, and it continues from there)"
            )
    return found if all_there or follows == commit.version - 1 else None


def _restored_to(commit: TableCommit, restored: Mapping[int, int]) -> int | None:
    text = str(commit.parameters.get("version", ""))
    return int(text) if text.isdigit() else restored.get(commit.version)


def _candidates(restore: TableCommit, earlier: Sequence[TableCommit]) -> tuple[int, ...]:
    """The text of a moment is in the time zone of the one who restored, and does not name it."""
    try:
        text = str(restore.parameters["timestamp"]).strip('"')
        moment = datetime.fromisoformat(text[:26]).replace(tzinfo=UTC)
    except (ValueError, KeyError):
        return ()
    found: list[int] = []
    for quarters in sorted(QUARTERS_OF_HOURS, key=abs):
        # What a moment has beyond milliseconds is cut off of commits.
        most = moment.timestamp() * 1000 + quarters * 15 * 60_000
        version = next((it.version for it in earlier if it.at <= most), None)
        if version is not None:
            found.append(version)
    return tuple(dict.fromkeys(found))


def _cloned(commit: TableCommit, since: int) -> Cloned | Unclear:
    try:
        version = int(commit.parameters["sourceVersion"] or "")
        return Cloned(commit.version, str(commit.parameters["source"]), version, since)
    except (ValueError, KeyError):
        return Unclear(f"version {commit.version} of its table is a clone of one that has no name")


def _positions(said: Mapping[str, Any]) -> dict[int, int]:
    return {int(at): int(it) for at, it in said.items()}


def _plain(positions: Mapping[int, int]) -> dict[str, int]:
    return {str(at): it for at, it in sorted(positions.items())}
