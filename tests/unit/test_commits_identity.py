"""Positions are committed under the ids of what they were read from; on a real Delta table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.in_force import InForce
from aggregator.datapath.connector.connector import Connector
from aggregator.datapath.hub_ledger import Ends
from aggregator.engine.commits import committer
from aggregator.engine.commits.observer import KnownOf, Observer
from aggregator.model.values import LogId, Positions, SourcePartition
from aggregator.plan.health.suspects import ReadPosition, Seen, foreign
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.checkpoint.identity import Identity, by_identity, known_ends, own_ends
from aggregator.store.checkpoint.rows import HUB
from aggregator.store.checkpoint.start_state import CheckpointState, Entry, Snapshot
from support.examples import examples
from support.flow_world import config_of

SP = SourcePartition("eu", "orders", 0)
OTHER = SP._replace(partition=1)
KEY = ("eu", "orders")


def identity(topic: str) -> Identity:
    return Identity({HUB: "H", "eu": "E"}, {KEY: topic}, {"orders": 1})


class World:
    """A checkpoint whose positions are 5 and 15, of topic T."""

    def __init__(self, folder: Path) -> None:
        table = CheckpointTable.create(str(folder))
        table.claim_epoch("the test")
        connector = cast("Connector", SimpleNamespace(take_cuts=dict))
        self.observer = Observer(
            table,
            self.read,
            connector,
            identity("T"),
            InForce(config_of()),
            3600.0,
            lambda _: None,
        )
        self.observer.moved(Positions({SP: 5, OTHER: 15}))

    def read(self, _: Mapping[str, int]) -> Ends:
        return {}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_positions_are_grouped_by_the_topic_that_they_were_read_from(world: World) -> None:
    world.observer.update(identity("U"))
    world.observer.moved(Positions({OTHER: 0}))
    entries = world.observer.state.entries
    assert [entries[sp].topic_id for sp in (SP, OTHER)] == ["T", "U"]
    new = SP._replace(partition=2)
    groups = by_identity(Positions({SP: 7, OTHER: 3, new: 0}), entries, identity("U"))
    assert [(dict(found), ids.topic_ids[KEY]) for found, ids in groups] == [
        ({SP: 7}, "T"),
        ({OTHER: 3, new: 0}, "U"),
    ]
    assert all(ids.cluster_ids == {HUB: "H", "eu": "E"} for _, ids in groups)


def test_a_log_end_that_was_reported_for_another_topic_is_not_taken_over(world: World) -> None:
    entries = {sp: replace(entry, log_end=40) for sp, entry in world.observer.state.entries.items()}
    at = Positions({SP: 7, OTHER: 3})
    assert known_ends(at, identity("T"), {SP: 50}, entries) == {SP: 50, OTHER: 40}
    assert known_ends(at, identity("U"), {}, entries) == {}


def test_a_step_goes_by_the_checkpoint_and_by_what_is_further_than_it(world: World) -> None:
    known = KnownOf(world.observer)
    assert known.now().positions == Positions({SP: 5, OTHER: 15})
    assert (known.now().unclean, known.now().is_empty, known.now().epoch) == (frozenset(), False, 1)
    world.observer.begin("eu", 1, Positions({SP: 5}), {}, {"orders"})
    world.observer.positions = world.observer.positions.merged({SP: 9})
    assert known.now().unclean == {SP}
    assert known.now().positions[SP] == 9


def test_what_is_asked_for_each_second_leaves_the_hubs_ends_of_all_lanes_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = KnownOf(world.observer)
    world.observer.begin("eu", 1, Positions({SP: 5}), {}, {"orders"})
    world.observer.positions = world.observer.positions.merged({SP: 9})
    expected = known.now().remembered
    monkeypatch.setattr(CheckpointState, "furthest_hub_ends", None)
    assert KnownOf(world.observer).remembered() == expected
    assert expected.positions[SP] == 9


def test_log_ends_of_a_log_that_is_not_the_one_that_is_read_are_left_out(world: World) -> None:
    ends, state = {SP: 12, OTHER: 25}, world.observer.state
    assert own_ends(state, {"eu": Seen(1.0, "E", {"orders": "T"}, ends)}) == ends
    assert own_ends(state, {"eu": Seen(1.0, "E", {"orders": "another"}, ends)}) == {}
    # What is not known proves nothing.
    assert own_ends(state, {"eu": Seen(ends=ends)}) == ends


IDS = st.sampled_from(("", "E", "F"))
SPS = tuple(
    SourcePartition(alias, topic, number)
    for alias in ("eu", "us")
    for topic in ("orders", "more")
    for number in range(2)
)
ENDS = st.dictionaries(st.sampled_from(SPS), st.integers(0, 9))


@st.composite
def answers(draw: st.DrawFn) -> dict[str, Seen]:
    """What some sources have answered."""
    return {
        alias: Seen(
            draw(st.floats(1, 9)),
            draw(IDS),
            draw(st.dictionaries(st.sampled_from(("orders", "more")), IDS)),
            {sp: at for sp, at in draw(ENDS).items() if sp.cluster == alias},
        )
        for alias in draw(st.sets(st.sampled_from(("eu", "us"))))
    }


@examples(100)
@given(st.dictionaries(st.sampled_from(SPS), st.tuples(IDS, IDS)), answers())
def test_log_ends_are_left_out_where_their_log_is_foreign(
    known: dict[SourcePartition, tuple[str, str]], seen: dict[str, Seen]
) -> None:
    snapshot = Snapshot("eu", 1, 1, 0, False, {})
    state = CheckpointState({sp: Entry(1, 1, snapshot, *ids) for sp, ids in known.items()})
    others = foreign({sp: ReadPosition(1, LogId(*ids)) for sp, ids in known.items()}, seen)
    ends = {sp: at for it in seen.values() for sp, at in it.ends.items()}
    assert own_ends(state, seen) == {sp: at for sp, at in ends.items() if sp not in others}


def test_only_what_was_reported_since_is_compared_with_the_checkpoint(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[list[str]] = []

    def counted(state: CheckpointState, seen: Mapping[str, Seen]) -> dict[SourcePartition, int]:
        compared.append(sorted(seen))
        return own_ends(state, seen)

    monkeypatch.setattr(committer, "own_ends", counted)
    us = SP._replace(cluster="us")
    seen = {"eu": Seen(1.0, "E", {"orders": "T"}, {SP: 7}), "us": Seen(1.0, "U", {}, {us: 3})}
    world.observer.saw(seen)
    world.observer.saw({**seen, "us": Seen(2.0, "U", {}, {us: 3})})
    world.observer.saw(seen := {**seen, "us": Seen(3.0, "U", {}, {us: 4})})
    assert compared == [["eu", "us"], ["us"]]
    # After a commit all of it may be of another log.
    world.observer.moved(Positions({SP: 6}))
    world.observer.saw(seen)
    assert compared[2:] == [["eu", "us"]]
    assert world.observer._log_ends == {SP: 7, us: 4}
