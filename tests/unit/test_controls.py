"""Which sources are paused, in a real table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError
from hypothesis import given
from hypothesis import strategies as st

from aggregator.features.connectors import connector_table
from aggregator.features.connectors.connector_table import ConnectorTable
from aggregator.model.errors import CheckpointConflictError, CheckpointError, RefusedError
from aggregator.model.values import Part, Pause
from aggregator.store import controls, state_store
from aggregator.store.controls import TABLE as TABLE_OF_CONTROLS
from aggregator.store.controls import ControlRow, Controls, Paused, to_resume
from aggregator.store.delta import TABLE, make_durable, open_delta, translated
from aggregator.store.row_model import RowModel
from aggregator.store.state_store import StateStore
from support.examples import examples


def test_the_newest_word_about_a_source_counts(tmp_path: Path) -> None:
    controls = Controls(StateStore(str(tmp_path / "state")))
    assert controls.read() == Paused()
    assert not (tmp_path / "state").exists()
    first = controls.put("eu", paused=True, by="ann")
    controls.put("us", paused=True)
    assert controls.read().sources.keys() == {"eu", "us"}
    controls.put("us", paused=False)
    controls.put("us", paused=False)
    # Pausing it again changes nothing: the first time counts, and who did it then.
    controls.put("eu", paused=True, by="bob")
    assert Controls(StateStore(str(tmp_path / "state"))).read().sources == {
        "eu": Pause(first, by="ann")
    }
    controls.put("eu", paused=False)
    later = controls.put("eu", paused=True)
    assert controls.read().sources == {"eu": Pause(later)}
    assert later > first


def test_topics_and_partitions_are_paused_by_themselves(tmp_path: Path) -> None:
    controls = Controls(StateStore(str(tmp_path / "state")))
    topic, partition = Part("eu", "orders"), Part("eu", "orders", 3)
    first = controls.put_parts([partition], paused=True, by="ann")
    controls.put_parts([partition], paused=True, by="bob")
    second = controls.put_parts([topic], paused=True, by="bob")
    controls.put("eu", paused=True)
    found = controls.read()
    assert found.parts == {partition: Pause(first, by="ann"), topic: Pause(second, by="bob")}
    assert found.sources.keys() == {"eu"}
    controls.put("eu", paused=False)
    assert controls.read().parts == found.parts
    controls.put_parts(to_resume(topic, found.parts), paused=False)
    assert controls.read() == Paused()


def test_a_table_from_before_there_were_parts_is_read(tmp_path: Path) -> None:
    old = RowModel(ControlRow).schema.empty_table().select(["at", "cluster", "paused", "stopped"])
    row = {"at": datetime.now(UTC), "cluster": "eu", "paused": True, "stopped": False}
    StateStore(str(tmp_path / "state")).table(TABLE_OF_CONTROLS).append_notes([row], old.schema)
    controls = Controls(StateStore(str(tmp_path / "state")))
    assert controls.read().sources.keys() == {"eu"}
    controls.put_parts([Part("us", "orders")], paused=True)
    assert controls.read().sources.keys() == {"eu"}
    assert controls.read().parts.keys() == {Part("us", "orders")}


def test_many_notes_become_few_files_and_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_store, "TIDY_EVERY", 8)
    path = str(tmp_path / "state")
    controls = Controls(StateStore(path))
    first = controls.put("eu", paused=True, by="ann")
    for _ in range(19):
        controls.put("us", paused=True)
    assert controls.read().sources["eu"] == Pause(first, by="ann")
    table = open_delta(path, {}, TABLE_OF_CONTROLS)
    assert table is not None
    assert len(table.file_uris()) <= 8
    assert len(StateStore(path).table(TABLE_OF_CONTROLS).rows()) == 20


ID_SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("id", pa.string())])


def test_of_what_has_a_key_the_newest_row_stays(tmp_path: Path) -> None:
    path, begin = str(tmp_path / "state"), datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(7):
        # By ever later clocks, and then by one that is late.
        row = {"at": begin - timedelta(number == 6, microseconds=-number), "id": "ab'"[number % 3]}
        StateStore(path).table("t").append_notes([row], ID_SCHEMA, "id")
    assert StateStore(path).table("t").tidy("id") == 4
    assert [row["id"] for row in StateStore(path).table("t").rows()] == ["b", "'", "a"]
    assert StateStore(path).table("none").tidy() is None


def test_a_table_whose_rows_have_no_numbers_is_read_by_its_times(tmp_path: Path) -> None:
    """So it is after an update, and after a version of before it has written once more."""
    path, begin = str(tmp_path / "state"), datetime(2026, 1, 1, tzinfo=UTC)

    def as_before(seconds: int, name: str) -> None:
        row = {"at": begin + timedelta(0, seconds), "id": name}
        StateStore(path).table("t").append(pa.Table.from_pylist([row], schema=ID_SCHEMA))

    def ids() -> list[str]:
        return [row["id"] for row in StateStore(path).table("t").rows()]

    as_before(2, "b")
    as_before(1, "a")
    assert ids() == ["a", "b"]
    assert StateStore(path).table("t").tidy("id") == 0
    for seconds, name in ((9, "c"), (5, "a")):
        row = {"at": begin + timedelta(0, seconds), "id": name}
        StateStore(path).table("t").append_notes([row], ID_SCHEMA)
    assert ids() == ["a", "b", "c", "a"]
    as_before(10, "c")
    assert ids() == ["a", "b", "c", "a", "c"]
    assert StateStore(path).table("t").tidy("id") == 2
    assert ids() == ["b", "a", "c"]


class Clock(datetime):
    """A clock that is ahead of all others, or behind, by this."""

    ahead = timedelta()

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Clock:
        return cls.fromtimestamp((datetime.now(tz) + cls.ahead).timestamp(), tz)


@given(
    st.lists(
        st.tuples(st.integers(-60, 60), st.sampled_from(("eu", "us")), st.booleans()),
        min_size=2,
        max_size=6,
    )
)
@examples(15)
def test_what_was_decided_last_counts_whatever_the_clocks_say(
    decided: list[tuple[int, str, bool]],
) -> None:
    with TemporaryDirectory() as path, pytest.MonkeyPatch.context() as patch:
        kept, changed = Controls(StateStore(path)), ConnectorTable(StateStore(path))
        for module in (controls, connector_table):
            patch.setattr(module, "datetime", Clock)
        for number, (ahead, alias, paused) in enumerate(decided):
            Clock.ahead = timedelta(seconds=ahead)
            # As by another process each: nothing of the table is kept between two calls.
            kept.put(alias, paused=paused)
            changed.put(alias, {"version": str(number)}, "me")
        last = {alias: (number, paused) for number, (_, alias, paused) in enumerate(decided)}
        assert kept.read().sources.keys() == {
            alias for alias, (_, paused) in last.items() if paused
        }
        assert {it.name: it.config for it in changed.changes().values()} == {
            alias: {"version": str(number)} for alias, (number, _) in last.items()
        }


def test_what_is_forced_to_the_disk_is_the_row_that_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controls, others = (Controls(StateStore(str(tmp_path / "state"))) for _ in range(2))
    controls.put("eu", paused=True)
    forced: list[int] = []
    written, write = make_durable, write_deltalake

    def after_another(*arguments: Any, **named: Any) -> None:
        monkeypatch.setattr(state_store, "write_deltalake", write)
        others.put("us", paused=True)
        forced.clear()
        write(*arguments, **named)

    def durable(path: str, version: int, table: str) -> None:
        forced.append(version)
        written(path, version, table)

    monkeypatch.setattr(state_store, "make_durable", durable)
    monkeypatch.setattr(state_store, "write_deltalake", after_another)
    controls.put("eu", paused=False)
    assert forced == [2, 3]
    rows = StateStore(str(tmp_path / "state")).table(TABLE_OF_CONTROLS).rows()
    assert [(row["seq"], row["cluster"]) for row in rows] == [(1, "eu"), (2, "us"), (3, "eu")]


def test_what_is_resumed_with_what() -> None:
    topic, first, other = Part("eu", "a"), Part("eu", "a", 0), Part("eu", "b", 0)
    assert to_resume(topic, [first, other]) == [first]
    assert to_resume(topic, [topic, first]) == [topic, first]
    assert to_resume(first, [first, other]) == [first]
    assert to_resume(first, []) == []
    with pytest.raises(RefusedError, match="eu/a is paused as a whole: aggregator resume eu"):
        to_resume(first, [topic, first])


def test_a_table_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a folder has to be")
    with pytest.raises(CheckpointError, match="the table of controls cannot be written"):
        Controls(StateStore(str(tmp_path / "state"))).put("eu", paused=True)


def test_another_writer_is_a_conflict_in_the_checkpoint_table_alone() -> None:
    with pytest.raises(CheckpointConflictError), translated("state", "written", TABLE):
        raise CommitFailedError("version 7 is there")
    with (
        pytest.raises(CheckpointError, match="controls was written by another") as raised,
        translated("state", "written", "controls"),
    ):
        raise CommitFailedError("version 7 is there")
    assert not isinstance(raised.value, CheckpointConflictError)
