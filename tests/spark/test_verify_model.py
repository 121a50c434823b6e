"""Random histories of hub topics, each with one defect or none: an audit finds exactly these.

Whatever it does not judge is counted. All histories are compared at once, by the audit's own
windows, bounds and jobs; only the reading of Kafka is left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from aggregator.datapath.spark.ranges import Holes
from aggregator.features.verify.audit_report import PartitionResult
from aggregator.features.verify.audit_scope import AuditSight, Scope, Window, plan_windows
from aggregator.features.verify.bounds import Bounds
from aggregator.features.verify.hub_ranges import (
    accounted_gaps,
    hub_ranges,
    plan_jobs,
    trimmed,
    unread,
)
from aggregator.features.verify.job import JobResult, JobSettings, run_job
from aggregator.model.values import OffsetRange, Positions, SourcePartition, TopicPartition
from aggregator.plan.positions.start import Observed, Remembered
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.checkpoint.rows import Checkpoint
from support.audited import (
    ALIASES,
    DEFECTS,
    Asides,
    History,
    Rec,
    Step,
    Story,
    rows_of_hub,
    rows_of_source,
)
from support.frames import frame_of

STORIES = 260
TICKS = 14
SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp_ms bigint, "
    "headers array<struct<key:string,value:binary>>"
)
ALL = 10_000
Spot = tuple[SourcePartition, int]

steps = st.builds(
    Step,
    st.sampled_from(
        [
            *("write", "copy", "commit") * 4,
            *("lose", "compact", "expire", "expire", "forget", "skip", "rewind", "again"),
        ]
    ),
    st.sampled_from(ALIASES),
    st.integers(1, 5),
)
stories = st.builds(
    Story,
    compacted=st.booleans(),
    translated=st.booleans(),
    dedup=st.sampled_from([False, False, True]),
    transformed=st.sampled_from([False, False, False, True]),
    partitions=st.integers(1, 2),
    start=st.sampled_from(["earliest", "earliest", "latest"]),
    steps=st.lists(steps, min_size=TICKS - 4, max_size=TICKS - 4).map(
        lambda found: (
            *(Step("write", alias, 4) for alias in ALIASES),
            Step("copy", "eu", 2),
            *found,
            Step("commit", "eu"),
        )
    ),
    records=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(0, 30),
            st.integers(0, 3),
            st.integers(0, 9).map(lambda it: it == 0),
        ),
        min_size=5,
        max_size=30,
    ).map(tuple),
    defect=st.just("none"),
    pick=st.integers(0, 50),
)


def drawn(count: int) -> list[Story]:
    """As many stories; Hypothesis chooses them, and they are played all at once.

    They are the same in each run, so that each kind of defect is planted in some of them and a
    failure comes of a change. Without `derandomize` each run draws others.
    """
    found: list[Story] = []

    @settings(max_examples=count, phases=[Phase.generate], database=None, derandomize=True)
    @given(stories)
    def collect(story: Story) -> None:
        found.append(story)

    collect()
    # Each kind of defect in as many, in topics that can have it.
    spoiled = [with_defect(story, DEFECTS[at % len(DEFECTS)]) for at, story in enumerate(found)]
    return [*spoiled, *map(known, KNOWN)]


KNOWN = (
    # What the hub had deleted is replayed, and then what had come after it is deleted.
    "write4 write4 copy4 commit1 expire2 rewind4 copy4 commit1 expire2",
    # A position is set back to write all again, and nothing is copied for a while.
    "write4 copy2 commit1 again2 commit1 commit1 commit1 commit1 copy4 commit1",
    # A checkpoint is lost, and the copy begins at the end.
    "write4 copy1 commit1 write4 copy4 commit1 lose1 write4 copy4 commit1",
)
"""Histories that chance seldom plays."""


def known(steps: str) -> Story:
    """A plain topic of one source, to which this happens."""
    return Story(
        compacted=False,
        translated=False,
        dedup=False,
        transformed=False,
        partitions=1,
        start="latest" if "lose" in steps else "earliest",
        steps=(
            Step("copy", "us"),
            Step("copy", "eu") if "lose" in steps else Step("commit", "us"),
            *(Step(it[:-1], "eu", int(it[-1])) for it in steps.split()),
        ),
        records=((1, 1, 1, False),),
        defect="none",
        pick=0,
    )


def with_defect(story: Story, defect: str) -> Story:
    """The story with this defect."""
    if defect == "tombstone":
        return replace(story, defect=defect, compacted=True, transformed=False)
    return replace(story, defect=defect)


@dataclass
class Audited:
    """Histories that were played, and what the audit says of them."""

    histories: list[History]
    windows: dict[SourcePartition, Window]
    results: list[JobResult]
    aside_lost: bool
    unread: Mapping[str, int]

    def partition(self, sp: SourcePartition) -> PartitionResult:
        return next(
            it
            for result in self.results
            for it in result.partitions
            if (it.cluster, it.topic, it.partition) == sp
        )

    def findings(self, topic: str, kind: str) -> dict[Spot, str]:
        """The findings of a kind that are about a hub topic."""
        return {
            (
                SourcePartition(it.cluster or "", it.topic or "", it.partition or 0),
                it.offset or 0,
            ): (it.detail)
            for result in self.results
            for it in result.findings
            if it.kind == kind and (it.hub_topic or it.topic) == topic
        }


def audit(
    spark: SparkSession, folder: Path, histories: list[History], *, aside_lost: bool
) -> Audited:
    """Write the checkpoints of the histories, and compare them as `aggregator verify` does."""
    asides = histories[0].asides
    if aside_lost:
        asides.expire()
    table = CheckpointTable.create(str(folder))
    table.claim_epoch("test")
    rows: dict[int, list[Checkpoint]] = defaultdict(list)
    for history in histories:
        for tick, row in history.rows:
            rows[tick].append(row)
    for tick in sorted(rows):
        for one in turns(rows[tick]):
            table.append(*one)
    routes = [route for history in histories for route in history.routes()]
    bounds = Bounds(
        str(folder),
        {},
        {(r.cluster, r.topic): r.hub_topic for r in routes},
        {},
        {
            **{history.topic: "" for history in histories},
            **{tp.topic: "" for tp in asides.parts},
        },
    )
    begun = bounds.begun()
    windows = [
        window
        for history in histories
        for window in plan_windows(
            Scope(),
            AuditSight(
                routes=history.routes(),
                observed=observed(history),
                known=Remembered(
                    Positions(
                        {
                            sp: it.committed
                            for sp, it in history.flows.items()
                            if it.committed is not None
                        }
                    )
                ),
                begun=begun,
                starts=dict.fromkeys(ALIASES, history.story.start),
                hub_topics={history.topic: history.facts()},
            ),
        )
    ]
    logs = {tp: log for history in histories for tp, log in history.hub_logs().items()}
    lowers = {it.partition: it.read.earliest for it in windows if it.compared}
    hub, lost = hub_ranges(logs, bounds.hub_starts(lowers)), trimmed(logs)
    held = {tp: OffsetRange(it.earliest, it.end) for tp, it in asides.parts.items()}
    shelf = {**{tp: part for h in histories for tp, part in h.hub.items()}, **asides.parts}
    sources = {sp: flow.log for history in histories for sp, flow in history.flows.items()}

    def read(
        session: SparkSession,
        ranges: Mapping[TopicPartition, OffsetRange],
        options: Mapping[str, str],
        _without: Holes,
    ) -> DataFrame:
        found = []
        for tp, log in ranges.items():
            if alias := options.get("alias"):
                sp = SourcePartition(alias, *tp)
                mine = [it for it in sources[sp] if log.earliest <= it.at < log.latest]
                found += rows_of_source(sp, mine)
            else:
                found += rows_of_hub(tp, shelf[tp], log.earliest)
        return frame_of(session, found, SCHEMA)

    jobs = JobSettings(
        hub_options={},
        source_options={alias: {"alias": alias} for alias in ALIASES},
        hub_names=(),
        lost=tuple(lost),
        proven=bounds.kept_from(lost),
        set_aside={
            tp: bounds.kept_from({tp: at}, into=tp.topic) for tp, at in trimmed(held).items()
        },
        put_back=bounds.put_back(),
        accounted=[
            it for history in histories for it in accounted_gaps(history.gaps, observed(history))
        ],
        quarantine={tp: log for tp, log in held.items() if log.earliest < log.latest},
        unread=unread(logs, hub),
        examples=ALL,
    )
    results = [run_job(spark, job, jobs, read) for job in plan_jobs(windows, hub, 10**9)]
    by_partition = {it.partition: it for it in windows}
    return Audited(histories, by_partition, results, aside_lost, jobs.unread)


def turns(rows: list[Checkpoint]) -> list[list[Checkpoint]]:
    """The rows of a tick in commits that each name a partition once, in their order."""
    found: list[list[Checkpoint]] = []
    seen: Counter[SourcePartition] = Counter()
    for row in rows:
        (sp,) = row.positions
        if seen[sp] == len(found):
            found.append([])
        found[seen[sp]].append(row)
        seen[sp] += 1
    return found


def observed(history: History) -> Observed:
    return Observed(dict.fromkeys(ALIASES, ""), {}, history.source_logs())


def check(seen: Audited, history: History) -> None:
    """Whether the audit has found what is there, and nothing else."""
    story, planted = history.story, history.planted
    copies = defaultdict(list)
    for tp, part in history.hub.items():
        for at, it in part.order():
            copies[it.origin].append((tp, at, it))
    judged = {
        it.origin: it for flow in history.flows.values() for it in flow.log if history.is_judged(it)
    }
    found = {
        kind: seen.findings(history.topic, kind)
        for kind in ("missing", "twice", "altered", "out_of_order", "foreign")
    }
    twice = {spot for spot, all_ in copies.items() if len(all_) > 1 and spot in judged}
    assert set(found["twice"]) == twice
    if story.defect.startswith("altered") and planted is not None:
        assert found["altered"] == {planted.origin: story.defect.removeprefix("altered_")}
    else:
        assert found["altered"] == {}
    strangers = ("no_origin", "no_such_record", "unknown_source")
    assert len(found["foreign"]) == int(story.defect in strangers)
    check_order(seen, history, judged, found["out_of_order"])
    check_absent(seen, history, judged, copies, set(found["missing"]))
    check_counts(seen, history, judged, copies)


def check_order(
    seen: Audited, history: History, judged: Mapping[Spot, Rec], found: Mapping[Spot, str]
) -> None:
    late: set[Spot] = set()
    unsure: set[Spot] = set()
    first: set[Spot] = set()
    for part in history.hub.values():
        highest: dict[SourcePartition, int] = {}
        for _, it in part.order():
            flow = history.flows.get(it.sp)
            if flow is None or it.at >= seen.windows[it.sp].read.latest:
                continue
            if it.origin not in first and it.origin in judged and highest.get(it.sp, -1) > it.at:
                excused = it.at in flow.aside | flow.skipped
                (unsure if excused or seen.aside_lost else late).add(it.origin)
            first.add(it.origin)
            highest[it.sp] = max(highest.get(it.sp, -1), it.at)
    assert late <= set(found) <= late | unsure
    planted = history.planted
    if history.story.defect == "late" and planted is not None and not seen.aside_lost:
        assert planted.origin in found


def check_absent(
    seen: Audited,
    history: History,
    judged: Mapping[Spot, Rec],
    copies: Mapping[Spot, list[tuple[TopicPartition, int, Rec]]],
    found: set[Spot],
) -> None:
    """What is reported missing was lost; what was lost is reported, where that can be known."""
    planted = history.planted
    lost = {
        (sp, at)
        for sp, flow in history.flows.items()
        for at in flow.lost - flow.copied - flow.aside - flow.skipped
    }
    if history.story.defect in ("missing", "tombstone") and planted is not None:
        lost.add(planted.origin)
    lost = {spot for spot in lost if spot in judged and spot not in copies}
    if history.story.transformed:
        assert found == set()
        return
    unseen = {spot for spot in found - lost if replaced_unseen(history, judged, spot)}
    assert found <= lost | unseen, found - lost - unseen
    for spot in lost - found:
        record = judged[spot]
        assert (
            may_have_expired(seen, history, record)
            or may_be_superseded(history, record)
            or may_be_before_the_copy(seen, history, record)
        ), record


def may_have_expired(seen: Audited, history: History, record: Rec) -> bool:
    """Whether the hub may have deleted it, or a topic in which it might have been kept instead."""
    flow = history.flows[record.sp]
    if seen.aside_lost and not proven(history, record, history.asides.parts):
        return True
    trimmed_parts = {tp: part for tp, part in history.hub.items() if part.earliest}
    if not trimmed_parts or proven(history, record, trimmed_parts):
        return False
    if flow.put_back:
        return True
    return any(
        not [it for it in part.log.values() if it.sp == record.sp]
        or next(it.at for _, it in part.order() if it.sp == record.sp) > record.at
        for part in trimmed_parts.values()
    )


def proven(history: History, record: Rec, parts: Mapping[TopicPartition, object]) -> bool:
    """Whether a commit says that it was written behind all that these partitions have lost."""
    return any(
        row.positions.get(record.sp, record.at + 1) <= record.at
        and all(
            row.hub_ends.get(tp, 0) >= part.earliest  # type: ignore[attr-defined]
            for tp, part in parts.items()
        )
        for _, row in history.rows
    )


def may_be_superseded(history: History, record: Rec) -> bool:
    """Whether compaction may have taken it: not while an earlier one of its key is still there."""
    if not history.story.compacted:
        return False
    key = history._at_hub(record).key
    there = [
        (tp, it) for tp, part in history.hub.items() for it in part.log.values() if it.key == key
    ]
    earlier = any(it.sp == record.sp and it.at < record.at for _, it in there)
    return not earlier


def replaced_unseen(history: History, judged: Mapping[Spot, Rec], spot: Spot) -> bool:
    """Whether compaction took it for a record that neither side shows an audit any more.

    That was the planted loss; or a tombstone that its source has forgotten, or above the position.
    """
    record, planted = judged.get(spot), history.planted
    if not history.story.compacted or record is None:
        return False
    gone = [it for it in history.tombstones if it.origin not in judged]
    if history.story.defect in ("missing", "tombstone") and planted is not None:
        gone.append(planted)
    key = history._at_hub(record).key
    return any(
        history._at_hub(it).key == key and (it.sp != record.sp or it.at > record.at) for it in gone
    )


def may_be_before_the_copy(seen: Audited, history: History, record: Rec) -> bool:
    """Whether it is unknown that its copy had begun, because its checkpoint was lost."""
    flow = history.flows[record.sp]
    if flow.begun is not None or history.story.start == "earliest":
        return False
    there = [
        it.at for part in history.hub.values() for it in part.log.values() if it.sp == record.sp
    ]
    return not there or record.at < min(there)


def check_counts(
    seen: Audited,
    history: History,
    judged: Mapping[Spot, Rec],
    copies: Mapping[Spot, list[tuple[TopicPartition, int, Rec]]],
) -> None:
    """Each record of the source is counted once, and what was not judged as that."""
    for sp, flow in history.flows.items():
        row, own = seen.partition(sp), [spot for spot in judged if spot[0] == sp]
        present = [spot for spot in own if spot in copies]
        assert row.present == len(present), row
        if history.story.transformed:
            assert row.transformed == len(own), row
        else:
            assert row.expected + row.not_begun == len(own), row
            assert row.transformed == 0
        if history.story.translated and not history.story.transformed:
            ids = [it for it in map(judged.get, present) if it is not None and has_id(it)]
            assert row.schemas_unknown == len(ids), row
        else:
            assert row.schemas_unknown == 0
        begin, hub = seen.windows[sp].read.earliest, history.hub.items()
        if flow.committed is not None and not seen.unread.get(history.topic):
            gone = {it.at for _, part in hub for it in part.log.values() if it.sp == sp}
            assert row.forgotten == sum(at < begin for at in gone), row
        assert row.ahead == flow.end - (flow.committed or 0), row


def report_of(seen: Audited, wrong: list[tuple[AssertionError, History]]) -> str:
    """What is wrong with one history of each defect, and how it came to be."""
    lines = [f"{len(wrong)} of {len(seen.histories)}"]
    for error, history in {it.story.defect: (error, it) for error, it in wrong}.values():
        rows = [seen.partition(sp) for sp in history.flows]
        lines += [str(error), str(history.story), str(history.planted), *map(str, rows), ""]
    return "\n".join(lines)


def has_id(record: Rec) -> bool:
    framed = any(it[:1] == b"\x00" for it in (record.key, record.value) if it is not None)
    return framed or any(name == "__value_schema_id" for name, _ in record.headers)


@pytest.fixture(autouse=True, scope="module")
def plain_plans(spark: SparkSession) -> None:
    """A few records need no plan that is made again after each stage."""
    for name in ("spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions"):
        spark.conf.set(name, {"spark.sql.adaptive.enabled": "false"}.get(name, "1"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("aside_lost", [False, True])
def test_each_defect_is_found_and_what_is_not_judged_is_counted(
    spark: SparkSession, tmp_path: Path, aside_lost: bool
) -> None:
    asides = Asides()
    histories = [History(number, story, asides) for number, story in enumerate(drawn(STORIES))]
    for tick in range(TICKS):
        for history in histories:
            history.play(tick)
    for history in histories:
        history.plant()
    seen = audit(spark, tmp_path / "state", histories, aside_lost=aside_lost)
    wrong = []
    for history in histories:
        try:
            check(seen, history)
        except AssertionError as error:
            wrong.append((error, history))
    assert not wrong, report_of(seen, wrong)
    kinds = Counter(it.story.defect for it in histories if it.planted is not None)
    assert kinds.keys() == set(DEFECTS) - {"none"}, kinds
