"""A model of runs, crashes and positions set by hand, over a real checkpoint table.

The hub is a list, and a lane writes into it. What decides is the code itself: the move, the bound
out of the history, the tail, what a lane leaves out. However they follow each other, each record is
in the hub once; or as often as it was when --again was last said, and once more.
"""

from __future__ import annotations

import tempfile
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from aggregator.features.positions.proposal import places_of
from aggregator.features.positions.targets import BeforeMove, MoveKind, MoveRequest, plan_moves
from aggregator.model.values import (
    LogId,
    OffsetRange,
    Positions,
    Skip,
    SourcePartition,
    TopicPartition,
)
from aggregator.plan.positions.recovery import plan_skips, plan_tail, recovered_positions
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.checkpoint.past_commits import AGAIN, SET, Past, fitting, least
from aggregator.store.checkpoint.rows import Checkpoint
from support.examples import examples
from support.hub_ends import hub_ends_for
from support.offsets import offsets_in, ranges_of

SP = SourcePartition("eu", "orders", 0)
HUB = TopicPartition("orders", 0)
IDS = {SP: LogId("cluster", "topic")}
END = 12
LOG = OffsetRange(0, END)
MARKERS = {4, 9}
"""Offsets that are no records."""


class World:
    """One source partition of `END` offsets, copied into one hub partition."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.hub: list[int] = []
        self.table = CheckpointTable.create(folder)
        self.table.claim_epoch("me")
        self.now = 0
        self.skipped: set[int] = set()
        self.allowed = dict.fromkeys(range(END), 1)
        self.commit(0, clean=True)

    def commit(self, position: int, *, clean: bool, lane: str = "eu", bound: int = -1) -> None:
        self.now += 1
        self.table.append(
            Checkpoint(
                lane,
                1,
                self.now,
                Positions({SP: position}),
                {HUB: len(self.hub) if bound < 0 else bound},
                self.now,
                {"eu": "cluster"},
                {("eu", "orders"): "topic"},
                clean=clean,
            )
        )

    def run(self, count: int, *, crash: bool) -> None:
        """Recover if need be, then copy `count` offsets; `crash`: without a last commit."""
        entry = self.table.load().entries[SP]
        position, skip, bound = entry.position, Skip([(0, 0)]), -1
        if not entry.snapshot.clean:
            position, skip, bound = self.recover(Positions({SP: position}))
        self.commit(position, clean=False, bound=bound)
        end = min(position + count, END)
        left_out = MARKERS | offsets_in(skip.ranges)
        self.hub += [at for at in range(position, end) if at not in left_out]
        if not crash:
            through = end >= skip.ranges[-1][1]
            self.commit(end, clean=through, bound=-1 if through else bound)

    def recover(self, positions: Positions) -> tuple[int, Skip, int]:
        """Where it continues, what it leaves out, and the bound of that; -1 for the hub's end."""
        logs = {HUB: OffsetRange(0, len(self.hub))}
        tail = plan_tail(positions, hub_ends_for(self.table.load(), [SP]), logs)
        read = [at for log in tail.ranges.values() for at in self.hub[log.earliest : log.latest]]
        ranges = ranges_of(at for at in read if at >= positions[SP])
        found = {SP: Skip(ranges)} if ranges else {}
        done = recovered_positions(
            positions, {sp: it.ranges for sp, it in found.items()}, {SP: LOG}
        )
        skips = plan_skips(done, found, {})
        bound = tail.ranges[HUB].earliest if skips else -1
        self.commit(done[SP], clean=not skips, lane="recovery", bound=bound)
        return done[SP], skips.get(SP, Skip([(0, 0)])), bound

    def set(self, offset: int, *, again: bool) -> None:
        """As `positions set --to-offset`."""
        past = Past(self.folder, {}, IDS)
        (known,) = places_of(IDS, self.table.load(), past.furthest(), {})
        place = BeforeMove(SP, LOG, known.position, known.clean, known.furthest)
        plan = plan_moves(MoveRequest(to_offset=offset, again=again), [place])
        assert not plan.problems
        for move in plan.changes:
            if move.skipped is not None:
                self.skipped |= set(range(move.skipped.earliest, move.skipped.latest))
            more = 1 if move.kind is MoveKind.AGAIN else 0
            there = Counter(self.hub)
            for at in range(move.new, END):
                self.allowed[at] = max(1, there[at] + more)
            bound = least(
                fitting(it, "", {HUB: OffsetRange(0, len(self.hub))})
                for it in past.bounds({SP: move.new}).values()
            )
            lane = AGAIN if move.kind is MoveKind.AGAIN else SET
            at = -1 if move.clean else bound.hub_ends.get(HUB, 0)
            self.commit(move.new, clean=move.clean, lane=lane, bound=at)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(0, END), st.booleans()),
        st.tuples(st.just("set"), st.integers(0, END), st.sampled_from([False, False, True])),
    ),
    max_size=8,
)


@examples(25)
@given(steps=STEPS)
def test_each_record_is_there_once_whatever_is_done_by_hand(
    steps: list[tuple[str, int, bool]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder)
        for what, number, flag in steps:
            if what == "run":
                world.run(number, crash=flag)
            else:
                world.set(number, again=flag)
        world.run(END, crash=False)
        counted = Counter(world.hub)
        for at in set(range(END)) - MARKERS:
            least_often = 0 if at in world.skipped else 1
            assert least_often <= counted[at] <= world.allowed[at], (at, world.hub)
        assert not MARKERS & counted.keys()
