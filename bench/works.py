"""What is measured: each work, how large it is, and the goal that it has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from bench.measure import (
    BATCH_LOOP,
    FRANZ_LOOP,
    LOOP,
    LOOP_ORIGIN,
    MIRROR_1,
    OURS,
    OURS_ON_2,
    OURS_ON_4,
    PASS_LOOP,
    STOCK_SPARK,
    THEIRS,
    THEIRS_2,
    THEIRS_4,
    THEIRS_DEFAULTS,
    THEIRS_EXACTLY,
    Goal,
)


class Kind(StrEnum):
    """How a work is measured."""

    COPY = "copy"
    """The records are there before the tool starts: records per second from first to last."""
    FLOW = "flow"
    """A steady rate: how long after its timestamp a record arrives."""
    IDLE = "idle"
    """Nothing arrives: what a tool costs that has caught up."""
    KILL = "kill"
    """kill -9 under a steady rate, and a new start at once."""
    MIGRATE = "migrate"
    """The records are there, and groups in them: until all is in the hub, and the groups are."""

    @property
    def preloads(self) -> bool:
        """Whether the records are written once, before any tool starts."""
        return self in (Kind.COPY, Kind.MIGRATE)


@dataclass(frozen=True, slots=True)
class Work:
    """One line of the result. `records` are per source, `rate` is of all.

    `partitions` are per source and topic.
    """

    name: str
    says: str
    kind: Kind
    goals: tuple[Goal, ...] = ()
    tools: tuple[str, ...] = (OURS, THEIRS)
    sources: int = 2
    partitions: int = 6
    hub_partitions: int = 4
    size: int = 1_000
    compression: str = "lz4"
    values: str = "random"
    records: int = 2_000_000
    rate: float = 1_000.0
    seconds: float = 90.0
    warm_up: float = 60.0
    """Seconds before what counts; of an idle tool twice, once with records and once without."""
    brokers_warm_up: float = 45.0
    """Seconds of an uncounted plain loop: until brokers that have just started have compiled."""
    rounds: int = 3
    delay_ms: float = 0.0
    """One way, between the first source and the tool; a network device of its own."""
    copies_batches: bool = False
    """This project copies batches as they are."""
    topics: int = 1
    """Of each source; they share its records evenly."""
    groups: int = 0
    """Consumer groups of each source, without members."""
    curve: str = ""
    """The growth curve that it is a point of, at `at`."""
    at: float = 0.0

    @property
    def aliases(self) -> tuple[str, ...]:
        """The sources' names."""
        return tuple(f"s{number:02d}" for number in range(1, self.sources + 1))

    @property
    def records_of_topic(self) -> int:
        """The records of each topic of a source."""
        return self.records // self.topics

    def numbered(self, name: str) -> tuple[str, ...]:
        """This name for each topic: alone for the first one, with a number for the others."""
        return (name, *(f"{name}-{number}" for number in range(2, self.topics + 1)))


def _theirs(**factors: float) -> tuple[Goal, ...]:
    """Goals beside the tuned MirrorMaker 2, by measure."""
    return tuple(Goal(measure, THEIRS, factor) for measure, factor in factors.items())


FULL_SPEED = (
    OURS,
    THEIRS,
    MIRROR_1,
    STOCK_SPARK,
    LOOP,
    LOOP_ORIGIN,
    FRANZ_LOOP,
    BATCH_LOOP,
)

WORKS: dict[str, Work] = {
    work.name: work
    for work in (
        Work(
            "copy-1k",
            "2 sources of 6 partitions into 4, records of 1 kB, no compression",
            Kind.COPY,
            (
                *_theirs(records_per_second=2.5, cpu_per_million=0.35),
                Goal("records_per_second", FRANZ_LOOP, 0.8),
            ),
            FULL_SPEED,
            compression="none",
        ),
        Work(
            "copy-100",
            "the same with records of 100 bytes and lz4",
            Kind.COPY,
            (
                *_theirs(records_per_second=3.5, cpu_per_million=0.3),
                Goal("records_per_second", LOOP_ORIGIN, 2.5),
                Goal("records_per_second", FRANZ_LOOP, 1.1),
            ),
            FULL_SPEED,
            size=100,
            records=4_000_000,
        ),
        Work(
            "copy-json",
            "the same with 1 kB of JSON, zstd at the sources and at the hub",
            Kind.COPY,
            (
                *_theirs(records_per_second=1.9, cpu_per_million=0.5),
                Goal("records_per_second", FRANZ_LOOP, 1.0),
            ),
            FULL_SPEED,
            compression="zstd",
            values="json",
        ),
        Work(
            "flow-1k",
            "latency at 1,000 records/s, and a cold start",
            Kind.FLOW,
            _theirs(p50_ms=0.6, p99_ms=0.8, p999_ms=1.0, cpu_per_million=0.7, startup_seconds=0.7),
        ),
        Work(
            "flow-10k",
            "latency at 10,000 records/s",
            Kind.FLOW,
            _theirs(p99_ms=0.35, p999_ms=1.0),
            rate=10_000.0,
        ),
        Work(
            "flow-200-partitions",
            "latency of 2 sources with 100 partitions each, 2,000 records/s",
            Kind.FLOW,
            _theirs(p99_ms=0.23, p999_ms=0.5, memory_mib=0.45),
            partitions=100,
            hub_partitions=100,
            rate=2_000.0,
        ),
        Work(
            "flow-10-sources",
            "latency of 10 sources with 20 partitions each, 2,000 records/s in all",
            Kind.FLOW,
            _theirs(p99_ms=0.5),
            sources=10,
            partitions=20,
            hub_partitions=20,
            rate=2_000.0,
            brokers_warm_up=90.0,
        ),
        Work(
            "flow-1000-partitions",
            "latency of 5 sources with 200 partitions each, 2,000 records/s in all",
            Kind.FLOW,
            _theirs(p50_ms=0.35, p99_ms=0.6, cpu_per_million=0.6, memory_mib=0.6),
            sources=5,
            partitions=200,
            hub_partitions=200,
            rate=2_000.0,
            brokers_warm_up=120.0,
        ),
        Work(
            "idle",
            "2 sources with 100 partitions each, and nothing arrives",
            Kind.IDLE,
            _theirs(cpu_percent=0.85, memory_mib=0.5),
            partitions=100,
            hub_partitions=100,
            warm_up=45.0,
            seconds=60.0,
        ),
        Work(
            "copy-far",
            "1 source of 6 partitions, 1 kB, with a round trip of 50 ms to it",
            Kind.COPY,
            (
                Goal("records_per_second", THEIRS_DEFAULTS, 5.0),
                Goal("records_per_second", THEIRS, 1.0),
            ),
            (OURS, THEIRS, THEIRS_DEFAULTS),
            sources=1,
            compression="none",
            # A connection with Kafka's own buffers carries 1 or 2 MB a second so far.
            records=300_000,
            delay_ms=25.0,
        ),
        Work(
            "kill",
            "kill -9 under 2,000 records/s of 100 bytes, and a new start at once",
            Kind.KILL,
            _theirs(first_record_seconds=0.7, caught_up_seconds=0.7),
            (OURS, THEIRS, THEIRS_EXACTLY),
            size=100,
            rate=2_000.0,
            warm_up=30.0,
            seconds=15.0,
        ),
        Work(
            "migrate",
            "1 kB of JSON in 4 topics of 3 partitions, as they are, and 20 consumer groups",
            Kind.MIGRATE,
            _theirs(groups_seconds=0.5),
            sources=1,
            partitions=3,
            hub_partitions=3,
            values="json",
            records=10_000_000,
            copies_batches=True,
            topics=4,
            groups=20,
        ),
    )
}


def _passed() -> Iterator[Work]:
    """Full copies of such records with batches as they are, into as many partitions.

    More records where they are small: a copy that is over in five seconds is mostly Java's warm-up.
    """
    tools = (OURS, THEIRS, LOOP, PASS_LOOP)
    for name, records, factors in (
        ("1k", 2_000_000, {"records_per_second": 2.8}),
        ("100", 6_000_000, {"records_per_second": 5.0}),
        ("json", 4_000_000, {"records_per_second": 4.0, "cpu_per_million": 0.1}),
    ):
        copied = WORKS[f"copy-{name}"]
        yield replace(
            copied,
            name=f"pass-{name}",
            says=f"copy-{name} with batches as they are, into 6 partitions",
            goals=(*_theirs(**factors), Goal("records_per_second", PASS_LOOP, 0.85)),
            tools=tools,
            records=records,
            hub_partitions=copied.partitions,
            copies_batches=True,
        )


def _on_executors() -> Iterator[Work]:
    """What several processes cost and give, here and there."""
    for name in ("copy-1k", "flow-1k"):
        yield replace(
            WORKS[name],
            name=f"executors-{name}",
            says=f"{name} by several processes",
            goals=(),
            tools=(OURS, OURS_ON_2, OURS_ON_4, THEIRS, THEIRS_2, THEIRS_4),
        )


WORKS |= {work.name: work for work in (*_passed(), *_on_executors())}

CURVES = {
    "sources": "sources, 60 partitions and 1,000 records/s in all",
    "partitions": "partitions of 2 sources, 1,000 records/s in all",
    "size": "bytes of a record, copied at full speed",
}
"""What grows, and what does not."""
MOST_BYTES = 400_000_000
MOST_RECORDS = 1_000_000
POINT = Work(
    "",
    "",
    Kind.FLOW,
    (),
    (OURS,),
    hub_partitions=12,
    seconds=60.0,
    warm_up=60.0,
    # Enough where only the tool's own CPU counts.
    brokers_warm_up=20.0,
    rounds=1,
)


def _growth() -> Iterator[Work]:
    """One work for each point of a curve; our costs alone, as the goal is that they do not grow."""
    for number in (1, 2, 5, 10, 20):
        yield replace(
            POINT,
            name=f"sources-{number}",
            says=f"{number} sources, 60 partitions and 1,000 records/s in all",
            sources=number,
            partitions=60 // number,
            curve="sources",
            at=number,
        )
    for number in (12, 48, 200, 500, 1000, 2000):
        yield replace(
            POINT,
            name=f"partitions-{number}",
            says=f"{number} partitions of 2 sources, 1,000 records/s in all",
            partitions=number // 2,
            curve="partitions",
            at=number,
        )
    for size in (100, 1_000, 10_000, 100_000, 1_000_000):
        yield replace(
            POINT,
            name=f"size-{size}",
            says=f"records of {size:,} bytes at full speed",
            kind=Kind.COPY,
            size=size,
            compression="none",
            records=min(MOST_RECORDS, MOST_BYTES // size),
            curve="size",
            at=size,
        )


WORKS |= {work.name: work for work in _growth()}

GROUPS: dict[str, Sequence[str]] = {
    "all": tuple(WORKS),
    "pairs": tuple(name for name, work in WORKS.items() if not work.curve),
    "growth": tuple(name for name, work in WORKS.items() if work.curve),
    **{
        str(kind): tuple(
            name for name, work in WORKS.items() if work.kind is kind and not work.curve
        )
        for kind in Kind
        if str(kind) not in WORKS
    },
}


def chosen(names: Sequence[str], **changes: float | int | None) -> list[Work]:
    """The works of these names and groups, each once, with what is given in place of their own.

    ValueError for a name that is none.
    """
    wanted: dict[str, Work] = {}
    for name in names:
        if name not in GROUPS and name not in WORKS:
            raise ValueError(f"'{name}' is no work; there are {', '.join([*GROUPS, *WORKS])}")
        wanted |= {each: WORKS[each] for each in GROUPS.get(name, (name,))}
    given = {key: value for key, value in changes.items() if value is not None}
    return [replace(work, **given) for work in wanted.values()]  # type: ignore[arg-type]
