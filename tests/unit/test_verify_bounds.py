"""What the checkpoint's history proves: where a copy began, what lies behind what at the hub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from aggregator.features.verify.audit_scope import CopyBegin
from aggregator.features.verify.audit_table import append_audit
from aggregator.features.verify.bounds import Bounds
from aggregator.model.errors import CheckpointError
from aggregator.model.values import Positions, SourcePartition, TopicPartition
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.checkpoint.rows import HUB, Checkpoint
from aggregator.store.state_store import StateStore

MINUTE = 60_000
SP0, SP1 = (SourcePartition("eu", "orders", partition) for partition in (0, 1))
OTHER = SourcePartition("eu", "other", 0)
P0, P1 = (TopicPartition("hub-orders", partition) for partition in (0, 1))
ROUTES = {("eu", "orders"): "hub-orders", ("eu", "other"): "hub-other"}


class History:
    """A checkpoint table that is written minute by minute."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.table = CheckpointTable.create(self.path)
        self.table.claim_epoch("test")

    def commit(
        self,
        minute: int,
        positions: Mapping[SourcePartition, int],
        ends: tuple[int, ...],
        topic_id: str = "",
        hub_id: str = "",
        *,
        lane: str = "eu",
        clean: bool = False,
        doubted: frozenset[str] = frozenset(),
    ) -> None:
        topics = {(sp.cluster, sp.topic): topic_id for sp in positions}
        self.table.append(
            Checkpoint(
                lane,
                1,
                minute,
                Positions(positions),
                {TopicPartition("hub-orders", number): end for number, end in enumerate(ends)},
                minute * MINUTE,
                topic_ids={**topics, (HUB, "hub-orders"): hub_id},
                clean=clean,
                doubted=doubted,
            )
        )

    def bounds(self, topic_id: str = "", hub_id: str = "") -> Bounds:
        return Bounds(self.path, {}, ROUTES, {("eu", "orders"): topic_id}, {"hub-orders": hub_id})


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "state")


def test_the_first_position_is_where_the_copy_began(history: History) -> None:
    history.commit(0, {SP0: 40}, (0, 0))
    history.commit(1, {SP0: 90}, (10, 10))
    history.commit(2, {SP0: 95, SP1: 7}, (20, 20))
    history.commit(3, {OTHER: 1}, ())
    expected = {
        SP0: CopyBegin(40, exact=True),
        SP1: CopyBegin(7, exact=True),
        OTHER: CopyBegin(1, exact=True),
    }
    assert history.bounds().begun() == expected


def test_where_old_rows_are_gone_the_copy_may_have_begun_before(history: History) -> None:
    history.commit(0, {SP0: 40}, (0, 0))
    history.table.claim_epoch("later")
    history.commit(5, {SP0: 90, SP1: 7}, (10, 10))
    history.table.delta.delete("seq < 3")
    expected = {SP0: CopyBegin(40, exact=False), SP1: CopyBegin(7, exact=True)}
    assert history.bounds().begun() == expected


def test_what_was_looked_for_in_the_hub_is_no_beginning(history: History) -> None:
    """A checkpoint was lost: one partition was found again, one began at its end, one is new."""
    us = frozenset({"eu"})
    history.commit(0, {}, (0, 0), lane="doubt", doubted=us)
    history.commit(1, {SP0: 40}, (0, 0), lane="doubt")
    history.commit(2, {SP0: 90}, (10, 10), lane="recovery", clean=True)
    history.commit(3, {SP1: 70}, (10, 10))
    history.commit(4, {}, (), lane="doubt", clean=True, doubted=us)
    history.commit(5, {SP0: 95, SP1: 75, OTHER: 3}, (20, 20))
    expected = {
        SP0: CopyBegin(40, exact=False),
        SP1: CopyBegin(70, exact=False),
        OTHER: CopyBegin(3, exact=True),
    }
    assert history.bounds().begun() == expected


def test_a_commit_behind_records_that_were_written_again_does_not_cover_their_first_copies(
    history: History,
) -> None:
    history.commit(0, {SP0: 0}, (0, 0))
    history.commit(20, {SP0: 50}, (50, 50))
    history.commit(40, {SP0: 100}, (100, 100))
    history.commit(41, {SP0: 50}, (100, 100), lane="positions --again", clean=True)
    history.commit(60, {SP0: 100}, (150, 150))
    history.commit(80, {SP0: 200}, (250, 250))
    bounds = history.bounds()
    assert bounds.hub_starts({SP0: 60}) == {P0: 0, P1: 0}
    assert bounds.hub_starts({SP0: 99}) == {P0: 0, P1: 0}
    # From where it had been before there is one copy of each.
    assert bounds.hub_starts({SP0: 120}) == {P0: 100, P1: 100}
    assert bounds.put_back() == {SP0}
    history.commit(81, {SP1: 5}, (250, 250), lane="positions set")
    history.commit(82, {OTHER: 5}, (), lane="positions set", clean=True)
    assert history.bounds().put_back() == {SP0, SP1}


def test_what_the_topics_set_aside_have_lost_is_proven_by_the_same_commits(
    history: History,
) -> None:
    history.commit(0, {SP0: 0, SP1: 0}, (0, 0))
    history.commit(1, {SP0: 10, SP1: 5}, (8, 8))
    history.commit(2, {SP0: 20}, (15, 12))
    bounds = Bounds(history.path, {}, dict.fromkeys(ROUTES, "elsewhere"), {}, {"hub-orders": ""})
    assert bounds.kept_from({P0: 9}) == {}
    assert bounds.kept_from({P0: 8}, into="hub-orders") == {SP0: 10, SP1: 5}
    assert bounds.kept_from({P0: 9}, into="hub-orders") == {SP0: 20}


def test_rows_about_a_topic_that_was_created_again_do_not_count(history: History) -> None:
    history.commit(0, {SP0: 40}, (0, 0), topic_id="then")
    history.commit(1, {SP0: 3}, (50, 50), topic_id="now")
    assert history.bounds("now").begun() == {SP0: CopyBegin(3, exact=True)}
    assert history.bounds("then").begun()[SP0].position == 40


def test_what_lies_behind_all_that_was_deleted_was_not(history: History) -> None:
    history.commit(0, {SP0: 0, SP1: 0}, (0, 0))
    history.commit(1, {SP0: 10, SP1: 5}, (8, 8))
    history.commit(2, {SP0: 20, SP1: 9}, (15, 12))
    history.commit(3, {SP0: 30}, (25, 18))
    bounds = history.bounds()
    assert bounds.kept_from({P0: 9}) == {SP0: 20, SP1: 9}
    assert bounds.kept_from({P0: 9, P1: 12}) == {SP0: 20, SP1: 9}
    assert bounds.kept_from({P0: 9, P1: 13}) == {SP0: 30}
    assert bounds.kept_from({P0: 26}) == {}


def test_a_hub_partition_that_a_commit_does_not_know_proves_nothing(history: History) -> None:
    history.commit(0, {SP0: 10}, (8,))
    assert history.bounds().kept_from({P0: 1, P1: 1}) == {}


def test_ends_of_a_hub_topic_that_was_created_again_prove_nothing(history: History) -> None:
    history.commit(0, {SP0: 10}, (80, 80), hub_id="then")
    history.commit(1, {SP0: 20}, (3, 3), hub_id="now")
    assert history.bounds(hub_id="now").kept_from({P0: 1}) == {SP0: 20}


@pytest.mark.slow
def test_the_hub_is_read_from_a_commit_that_covers_with_a_margin(history: History) -> None:
    for minute in range(0, 60, 4):
        history.commit(minute, {SP0: 10 * minute, SP1: 5 * minute}, (100 + minute, 200 + minute))
    bounds = history.bounds()
    # 300 was the position in minute 28 or 30; ten minutes before that the ends were those of 16.
    assert bounds.hub_starts({SP0: 300}) == {P0: 116, P1: 216}
    assert bounds.hub_starts({SP0: 300, SP1: 300}) == {P0: 116, P1: 216}
    # The lowest of all that flow into a hub topic.
    assert bounds.hub_starts({SP0: 300, SP1: 280}) == {P0: 116, P1: 216}
    assert bounds.hub_starts({SP0: 560, SP1: 100}) == {P0: 108, P1: 208}
    # Nothing is old enough.
    assert bounds.hub_starts({SP0: 40}) == {}
    assert bounds.hub_starts({SP0: 300, SP1: 20}) == {}
    # Nothing is known of a partition: its hub topic is read from the beginning.
    assert bounds.hub_starts({SP0: 300, SourcePartition("eu", "orders", 9): 300}) == {}


def test_without_a_checkpoint_nothing_is_proven(tmp_path: Path) -> None:
    bounds = Bounds(str(tmp_path / "none"), {}, ROUTES, {}, {})
    assert bounds.begun() == {}
    assert bounds.kept_from({P0: 5}) == {}
    assert bounds.hub_starts({SP0: 5}) == {}


def test_a_damaged_checkpoint_is_an_error(history: History) -> None:
    history.commit(0, {SP0: 10}, (8,))
    for file in Path(history.path).glob("checkpoints/*.parquet"):
        file.unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        history.bounds().begun()


def test_an_audit_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    with pytest.raises(CheckpointError, match="audits"):
        append_audit(StateStore(str(taken)), [{"audit": "1", "kind": "partition"}])
