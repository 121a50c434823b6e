"""The comparison of `aggregator verify`, on a few records without a broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from aggregator.features.verify.audit_scope import Standing, Window
from aggregator.features.verify.compact_frames import Numbers, Others, hub_rows, source_rows
from aggregator.features.verify.findings import FLAGS, compare, settle
from aggregator.features.verify.hub_ranges import Accounted, ReasonBelow
from aggregator.model.values import OffsetRange, SourcePartition, TopicPartition
from support.frames import frame_of

SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp_ms bigint, "
    "headers array<struct<key:string,value:binary>>"
)
MILLIS = 1_769_860_800_123
EU0 = SourcePartition("eu", "orders", 0)
EU1 = SourcePartition("eu", "orders", 1)
WINDOW = Window(EU0, "orders", OffsetRange(0, 10), beyond=20)
Headers = Sequence[tuple[str, bytes | None]] | None
FEW = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
"""A few records need no plan that is made again after each stage, which is a fifth of the work."""


@pytest.fixture(autouse=True, scope="module")
def plain_plans(spark: SparkSession) -> None:
    for name, value in FEW.items():
        spark.conf.set(name, value)


def source(offset: int, **parts: Any) -> tuple[Any, ...]:
    """A record at the source; `parts` are laid over a plain one."""
    it = {"key": b"k", "value": b"v", "headers": None, "millis": MILLIS, "partition": 0, **parts}
    at = (it["partition"], offset, it["millis"])
    return (it["key"], it["value"], "orders", *at, it["headers"])


def origin(offset: int, sp: SourcePartition = EU0, millis: object = MILLIS) -> list[Any]:
    values = (*sp, offset, millis)
    names = ("cluster", "topic", "partition", "offset", "timestamp")
    return [(f"origin.{n}", str(v).encode()) for n, v in zip(names, values, strict=True)]


def one(offset: int, sp: SourcePartition = EU0) -> list[Any]:
    return [("origin", f"{sp.cluster}/{sp.topic}/{sp.partition}/{offset}".encode())]


def copy(at: int, offset: int, hub_partition: int = 0, **parts: Any) -> tuple[Any, ...]:
    """The hub's copy of a record, at a hub offset; `parts` are laid over a faithful one."""
    it = {"key": b"k", "value": b"v", "headers": None, "millis": MILLIS, "sp": EU0, **parts}
    said = it.get("said", it["millis"])
    ours = one(offset, it["sp"]) if it.get("one") else origin(offset, it["sp"], said)
    tagged = [*(it["headers"] or ()), *ours]
    hub_topic = it.get("topic", "orders")
    return (it["key"], it["value"], hub_topic, hub_partition, at, it["millis"], tagged)


def bare(at: int, headers: Headers = None) -> tuple[Any, ...]:
    """A record of somebody else at the hub."""
    return (b"k", b"v", "orders", 0, at, MILLIS, headers)


class Case:
    """Records of both sides, compared; hub partitions 0 and 1 begin at offset 100."""

    def __init__(self, spark: SparkSession, *windows: Window) -> None:
        self.spark = spark
        self.numbers = Numbers(
            windows or (WINDOW,),
            tuple((TopicPartition("orders", p), OffsetRange(100, 1000)) for p in (0, 1)),
        )
        self.others = Others()
        self.stamped: tuple[str, ...] = ()
        self.hub_names: tuple[str, ...] = ()
        self.superseding = False

    def findings(self, ours: list[tuple[Any, ...]], hub: list[tuple[Any, ...]]) -> DataFrame:
        left = frame_of(self.spark, ours, SCHEMA)
        right = frame_of(self.spark, hub, SCHEMA)
        rows = [
            source_rows(left, "eu", self.numbers, self.hub_names),
            hub_rows(
                right,
                self.numbers,
                self.others,
                self.stamped,
                superseding=self.superseding,
            ),
        ]
        return compare(rows, superseding=self.superseding, translated=self.numbers.translated)

    def judged(self, ours: list[tuple[Any, ...]], hub: list[tuple[Any, ...]]) -> dict[Any, Any]:
        """What is not well: (sid, offset) -> its kind, or its flags."""
        return by_offset(self.findings(ours, hub).collect())


def by_offset(rows: list[Row]) -> dict[Any, Any]:
    return {
        (row["sid"], row["at"]): [flag for flag in FLAGS if row[flag]] or row["kind"]
        for row in rows
        if row["at"] is not None
    }


ODD: list[Headers] = [
    None,
    [("a", b"1"), ("b", None), ("a", b"1")],
    [("a", None), ("b", b"x")],
    [("", b"")],
    [("origin.cluster", b"asia"), ("origin.offset", None)],
]


def test_a_faithful_copy_has_no_findings(spark: SparkSession) -> None:
    parts: list[dict[str, Any]] = [
        *({"headers": headers} for headers in ODD),
        {"key": None},
        {"value": None},
        {"key": b"", "value": b""},
    ]
    ours = [source(at, **part) for at, part in enumerate(parts)]
    hub = [copy(100 + at, at, **part) for at, part in enumerate(parts)]
    (row,) = Case(spark).findings(ours, hub).collect()
    assert (row["kind"], row["origins"], row["records"]) == ("present", 8, 8)
    assert (row["sid"], row["hid"], row["lowest"], row["opening"]) == (0, 0, 0, 0)


DIFFERENCES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"key": None}, {"key": b""}, "key"),
    ({"key": b"k"}, {"key": b"K"}, "key"),
    ({"value": None}, {"value": b""}, "value"),
    (
        {"headers": [("a", b"1"), ("b", b"2")]},
        {"headers": [("b", b"2"), ("a", b"1")]},
        "headers",
    ),
    ({"headers": [("a", None)]}, {"headers": [("a", b"")]}, "headers"),
    (
        {"headers": [("a", None), ("b", b"x")]},
        {"headers": [("a", b"b"), ("x", None)]},
        "headers",
    ),
    ({"headers": [("a", b"1"), ("a", b"1")]}, {"headers": [("a", b"1")]}, "headers"),
    ({"headers": None}, {"headers": [("a", b"1")]}, "headers"),
    ({"headers": [("a", b"1")]}, {"headers": None}, "headers"),
    ({}, {"millis": MILLIS + 1, "said": MILLIS}, "timestamp"),
    ({}, {"said": MILLIS + 1}, "timestamp"),
    ({"millis": 2**63 - 1}, {"millis": 2**63 - 2, "said": 2**63 - 1}, "timestamp"),
    ({}, {"said": "noon"}, "timestamp"),
    ({"millis": -1}, {"millis": MILLIS, "said": MILLIS}, "timestamp"),
]
"""What is at the source, what is different at the hub, and how it is named."""


def test_whatever_differs_is_named(spark: SparkSession) -> None:
    case = Case(spark, replace(WINDOW, read=OffsetRange(0, 100)))
    ours = [source(at, **there) for at, (there, _, _) in enumerate(DIFFERENCES)]
    hub = [
        copy(100 + at, at, **{**there, **here}) for at, (there, here, _) in enumerate(DIFFERENCES)
    ]
    expected = {(0, at): [part] for at, (_, _, part) in enumerate(DIFFERENCES)}
    assert case.judged(ours, hub) == expected


def test_an_origin_in_one_header_is_compared_as_one_in_five(spark: SparkSession) -> None:
    parts: list[dict[str, Any]] = [
        *({"headers": headers} for headers in [*ODD, [("origin", b"web")], one(7), origin(7)]),
        {"key": None},
        {"value": None},
    ]
    # In one topic every second record has it in the other form.
    forms = [(part, first) for first in (True, False) for part in parts]
    ours = [source(at, **part) for at, (part, _) in enumerate(forms)]
    hub = [
        copy(100 + at, at, one=(at % len(parts) % 2 == 0) is first, **part)
        for at, (part, first) in enumerate(forms)
    ]
    case = Case(spark, replace(WINDOW, read=OffsetRange(0, 100), beyond=100))
    assert case.judged(ours, hub) == {}


def test_whatever_differs_is_named_where_the_origin_is_one_header(spark: SparkSession) -> None:
    case = Case(spark, replace(WINDOW, read=OffsetRange(0, 100), beyond=100))
    # It says no timestamp that could be wrong.
    differences = [it for it in DIFFERENCES if "said" not in it[1]]
    differences.append(({}, {"millis": MILLIS + 1}, "timestamp"))
    differences.append(({}, {"millis": -1}, "timestamp"))
    ours = [source(at, **there) for at, (there, _, _) in enumerate(differences)]
    hub = [
        copy(100 + at, at, one=True, **{**there, **here})
        for at, (there, here, _) in enumerate(differences)
    ]
    expected = {(0, at): [part] for at, (_, _, part) in enumerate(differences)}
    assert len(expected) > 9
    assert case.judged(ours, hub) == expected


def test_timestamps_of_copies_in_both_forms(spark: SparkSession) -> None:
    case = Case(spark, replace(WINDOW, read=OffsetRange(0, 100), beyond=100))
    ours = [source(0, millis=-1), source(1), source(2), source(3, millis=-1), source(4)]
    hub = [
        # A record without a timestamp gets that of its writing, each time another one.
        *(copy(100, 0, one=True), copy(101, 0, one=True, millis=MILLIS + 9)),
        *(copy(102, 1, one=True), copy(103, 1)),
        *(copy(104, 2, one=True, millis=MILLIS + 1), copy(105, 2)),
        *(copy(106, 3, one=True), copy(107, 3, said=MILLIS)),
        *(copy(108, 4, one=True), copy(109, 4, said=MILLIS + 1)),
    ]
    assert case.judged(ours, hub) == {
        (0, 0): ["twice"],
        (0, 1): ["twice"],
        (0, 2): ["twice", "timestamp"],
        (0, 3): ["twice", "timestamp"],
        (0, 4): ["twice", "timestamp"],
    }


def test_a_record_without_a_timestamp_gets_that_of_its_writing(spark: SparkSession) -> None:
    ours = [source(at, millis=-1) for at in (3, 4)]
    assert Case(spark).judged(ours, [copy(100, 3, said=-1), copy(101, 4, one=True)]) == {}


def test_a_hub_topic_may_have_timestamps_of_its_own(spark: SparkSession) -> None:
    case = Case(spark)
    case.stamped = ("orders",)
    hub = [
        copy(100, 3, millis=MILLIS + 5000, said=MILLIS),
        copy(101, 4, said=MILLIS + 1),
        # Nothing says what it was at its source.
        copy(102, 5, one=True, millis=MILLIS + 5000),
    ]
    assert case.judged([source(at) for at in (3, 4, 5)], hub) == {(0, 4): ["timestamp"]}


def test_missing_twice_and_late(spark: SparkSession) -> None:
    ours = [source(at) for at in range(8)]
    order = [1, 2, 5, 3, 2, 6]
    hub = [copy(100 + at, offset) for at, offset in enumerate(order)]
    # In another hub partition the same order is not broken.
    hub.append(copy(100, 4, hub_partition=1))
    found = Case(spark).judged(ours, hub)
    assert found == {
        (0, 0): "absent",
        (0, 7): "absent",
        (0, 2): ["twice"],
        (0, 3): ["late"],
    }


def test_what_is_not_judged(spark: SparkSession) -> None:
    window = replace(WINDOW, read=OffsetRange(3, 6))
    hub = [copy(100, 2), copy(101, 2), copy(102, 7), copy(103, 6), copy(104, 6), copy(105, 4)]
    assert Case(spark, window).judged([source(4)], hub) == {}


def test_foreign_records(spark: SparkSession) -> None:
    case = Case(spark, WINDOW, replace(WINDOW, partition=EU1, hub_topic="other"))
    case.numbers = replace(
        case.numbers, hub=(*case.numbers.hub, (TopicPartition("other", 0), OffsetRange(0, 9)))
    )
    case.others = Others(
        known=[SourcePartition("eu", "gone", 0)],
        elsewhere=[SourcePartition("eu", "elsewhere", 0)],
        unreachable=["us"],
    )
    hub = [
        copy(100, 3),
        bare(101),
        bare(102, [("a", b"1")]),
        bare(103, origin(3)[1:]),
        bare(104, [*origin(3), ("behind", b"1")]),
        copy(105, -7),
        bare(114, [*origin(3), ("origin", b"eu/orders/x/3")]),
        bare(115, [*one(3), ("behind", b"1")]),
        copy(116, 3, one=True, sp=SourcePartition("asia", "orders", 0)),
        copy(117, 20, one=True),
        copy(106, 3, sp=SourcePartition("asia", "orders", 0)),
        copy(107, 3, sp=SourcePartition("eu", "orders", 77)),
        copy(108, 3, sp=EU1),
        copy(109, 4),
        copy(110, 20),
        copy(111, 3, sp=SourcePartition("eu", "elsewhere", 0)),
        # These are no one's fault.
        copy(112, 3, sp=SourcePartition("eu", "gone", 0)),
        copy(113, 3, sp=SourcePartition("us", "anything", 5)),
    ]
    found = case.judged([source(3)], hub)
    nothing = dict.fromkeys([(-1, at) for at in range(101, 106)], "no_origin")
    assert found == nothing | {
        (-1, 106): "unknown_source",
        (-1, 107): "unknown_source",
        (-1, 108): "other_topic",
        (-1, 111): "other_topic",
        **dict.fromkeys([(-1, 114), (-1, 115)], "no_origin"),
        (-1, 116): "unknown_source",
        (0, 4): "no_such_record",
        (0, 20): "no_such_record",
    }


def test_the_source_may_have_forgotten_what_it_had(spark: SparkSession) -> None:
    hub = [copy(100, 2), copy(101, 4), copy(102, 4), copy(103, 25)]
    sparse = Case(spark, replace(WINDOW, sparse=True)).judged([], hub)
    assert sparse == {(0, 4): ["twice"], (0, 25): "no_such_record"}
    silent = replace(WINDOW, standing=Standing.UNREACHABLE, beyond=2**62)
    assert Case(spark, silent).judged([], hub) == {(0, 4): ["twice"]}
    conflict = replace(WINDOW, standing=Standing.CONFLICT, read=OffsetRange(0, 0))
    assert Case(spark, conflict).judged([], hub) == {}


def test_a_transform_may_drop_and_change_but_not_double(spark: SparkSession) -> None:
    case = Case(spark, replace(WINDOW, loose=True))
    ours = [source(at) for at in range(5)]
    hub = [copy(100, 1, value=b"other"), copy(101, 3), copy(102, 2), copy(103, 3), copy(104, 7)]
    assert case.judged(ours, hub) == {(0, 2): ["late"], (0, 3): ["twice"], (0, 7): "no_such_record"}


def test_a_record_that_came_from_this_hub_is_not_expected(spark: SparkSession) -> None:
    case = Case(spark)
    case.hub_names = ("central",)
    five = [("origin.cluster", b"central")]
    single = one(5, SourcePartition("central", "orders", 0))
    ours = [source(1, headers=five), source(2, headers=five), source(3)]
    ours += [source(4, headers=single), source(5, headers=single), source(6)]
    hub = [copy(100, 2, headers=five), copy(101, 3)]
    hub += [copy(102, 5, headers=single), copy(103, 6, one=True)]
    assert case.judged(ours, hub) == dict.fromkeys([(0, 2), (0, 5)], "no_such_record")


def test_of_a_hub_of_hubs_the_last_origin_counts(spark: SparkSession) -> None:
    earlier = origin(77, SourcePartition("asia", "orders", 3))
    assert Case(spark).judged([source(3, headers=earlier)], [copy(100, 3, headers=earlier)]) == {}


def test_what_may_have_been_compacted_away(spark: SparkSession) -> None:
    case = Case(spark, WINDOW, replace(WINDOW, partition=EU1))
    case.superseding = True
    ours = [
        source(0, key=b"a"),
        source(1, key=b"b"),
        source(2, key=b"a"),
        source(3, key=b"c"),
        source(4, key=b"c", value=None),
        source(5, key=b"d"),
        source(6, key=b"e"),
        source(7, key=b"e"),
        source(8, key=b"f"),
        source(9, key=b"f", value=None),
        source(0, key=b"d", partition=1),
        source(10, key=b"g"),
        source(1, key=b"g", value=None, partition=1),
    ]
    hub = [
        *(copy(100, 2, key=b"a"), copy(101, 0, key=b"d", sp=EU1), copy(102, 6, key=b"e")),
        copy(103, 8, key=b"f"),
    ]
    absent = {
        (row["sid"], row["at"]): row["superseded"]
        for row in case.findings(ours, hub).collect()
        if row["kind"] == "absent"
    }
    assert absent == {
        (0, 0): True,  # a later record of its key is there
        (0, 1): False,  # nothing of its key is
        (0, 3): True,  # a tombstone came later
        (0, 4): True,  # tombstones go away
        (0, 5): True,  # a record of its key from elsewhere may have come later
        (0, 7): False,  # only an earlier one is there
        (0, 9): False,  # so the tombstone never came: compaction takes the older one first
        (0, 10): True,  # a tombstone from elsewhere may have come later
        (1, 1): True,
    }


def test_compaction_takes_the_older_one_first(spark: SparkSession) -> None:
    case = Case(spark, replace(WINDOW, read=OffsetRange(1, 7)), replace(WINDOW, partition=EU1))
    case.superseding = True
    case.others = Others(known=[SourcePartition("us", "orders", 0)], unreachable=["asia"])
    keys = [b"a", b"a", b"a", b"b", b"b", b"c", b"d", b"e", b"f"]
    ours = [source(at, key=key) for at, key in enumerate(keys)][1:7]
    hub = [
        # Below what is read, and still there: nothing of its key was replaced.
        *(copy(100, 0, key=b"a"), copy(101, 2, key=b"a")),
        # In another hub partition, as after the topic has grown: that proves nothing.
        *(copy(102, 3, key=b"b"), copy(100, 0, hub_partition=1, key=b"b", sp=EU1)),
        # What is not judged may have replaced others all the same.
        copy(103, 8, key=b"c"),
        copy(104, 3, key=b"d", sp=SourcePartition("us", "orders", 0)),
    ]
    absent = {
        row["at"]: row["superseded"]
        for row in case.findings(ours, hub).collect()
        if row["kind"] == "absent"
    }
    assert absent == {1: False, 4: True, 5: True, 6: True}


AVRO = b"\x00\x00\x00\x00\x07payload"
GUID = b"\x01" + bytes(range(16))
KEY_ID, VALUE_ID = "__key_schema_id", "__value_schema_id"


def at_hub(content: bytes, number: int = 200) -> bytes:
    return content[:1] + number.to_bytes(4, "big") + content[5:]


def test_where_schema_ids_are_translated_all_else_is_compared(spark: SparkSession) -> None:
    case = Case(
        spark,
        replace(WINDOW, read=OffsetRange(0, 100), beyond=100, translated=True),
        replace(WINDOW, partition=EU1, hub_topic="other"),
    )
    named: list[tuple[str, bytes | None]] = [("a", b"1"), (VALUE_ID, GUID + b"\x02"), ("b", None)]
    renamed = [named[0], (VALUE_ID, at_hub(bytes(5)) + b"\x02"), named[2]]
    equal: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({"value": AVRO}, {"value": at_hub(AVRO)}),
        ({"key": AVRO, "value": None}, {"key": at_hub(AVRO, 300), "value": None}),
        ({"value": AVRO, "headers": named}, {"value": AVRO, "headers": renamed}),
        ({"headers": [(VALUE_ID, None)], "value": AVRO}, {"value": at_hub(AVRO)}),
        ({"headers": [(KEY_ID, b"odd")], "key": AVRO}, {}),
    ]
    differ: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"value": AVRO}, {"value": at_hub(AVRO) + b"!"}, "value"),
        ({"value": AVRO}, {"value": b"\x01" + AVRO[1:]}, "value"),
        ({"value": AVRO}, {"value": AVRO[5:]}, "value"),
        ({"value": AVRO}, {"value": None}, "value"),
        ({"key": AVRO}, {"key": AVRO[:4]}, "key"),
        # Its schema is in a header, so the connector leaves the content as it is.
        ({"value": AVRO, "headers": named}, {"value": at_hub(AVRO), "headers": renamed}, "value"),
        ({"headers": [(KEY_ID, b"odd")], "key": AVRO}, {"key": at_hub(AVRO)}, "key"),
        ({"headers": named}, {"headers": [renamed[1], named[0], named[2]]}, "headers"),
        ({"headers": named}, {"headers": [named[0], (VALUE_ID, GUID), named[2]]}, "headers"),
        ({"headers": named}, {"headers": [named[0], ("x", GUID + b"\x02"), named[2]]}, "headers"),
    ]
    plain = [(AVRO, AVRO), (AVRO, at_hub(AVRO))]
    cases = [*((there, here, "") for there, here in equal), *differ]
    ours = [source(at, **there) for at, (there, _, _) in enumerate(cases)]
    ours += [source(at, partition=1, value=value) for at, (value, _) in enumerate(plain)]
    hub = [copy(100 + at, at, **{**there, **here}) for at, (there, here, _) in enumerate(cases)]
    numbers = replace(
        case.numbers, hub=(*case.numbers.hub, (TopicPartition("other", 0), OffsetRange(100, 999)))
    )
    case.numbers = numbers
    hub += [
        copy(100 + at, at, topic="other", sp=EU1, value=value)
        for at, (_, value) in enumerate(plain)
    ]
    found = case.findings(ours, hub).collect()
    expected = {(0, at): [part] for at, (_, _, part) in enumerate(cases) if part}
    # Not where they are not translated.
    assert by_offset(found) == expected | {(1, 1): ["value"]}
    pairs = {
        (row["sid"], row["theirs"], row["ours"]): row["origins"]
        for row in found
        if row["theirs"] is not None and row["at"] is None
    }
    seven, guid = "0000000007", GUID.hex().upper()
    assert pairs == {
        (0, f"/{seven}", "/00000000C8"): 2,
        (0, f"{seven}/", "000000012C/"): 1,
        (0, f"/{guid}", "/00000000C8"): 1,
    }


def test_every_absent_record_gets_a_reason(spark: SparkSession) -> None:
    ours = [source(at) for at in range(9)]
    # 5 is out of order and 7 is, too; 8 there twice.
    hub = [copy(100 + at, offset) for at, offset in enumerate([8, 7, 5, 8])]
    found = Case(spark).findings(ours, hub)
    ranges = [(0, Accounted(EU0, OffsetRange(3, 4), "a gap"))]
    ranges += [(0, Accounted(EU0, OffsetRange(7, 8), "a gap"))]
    aside = frame_of(spark, [(0, 6), (0, 6)], "sid int, at bigint")
    settled = settle(found, {0: ReasonBelow(1, 3)}, ranges, aside)
    assert by_offset(settled.collect()) == {
        (0, 0): "not_begun",
        (0, 1): "expired",
        (0, 2): "expired",
        (0, 3): "accounted",
        (0, 4): "missing",
        (0, 5): ["late"],
        (0, 6): "accounted",
        # Late for a known reason: all there is to say is that it is there.
        (0, 7): "present",
        (0, 8): ["twice"],
    }


def test_what_came_beside_the_live_flow_may_be_late_but_not_absent(spark: SparkSession) -> None:
    ours = [source(at) for at in range(6)]
    hub = [copy(100 + at, offset) for at, offset in enumerate([4, 5, 0, 1, 3])]
    found = Case(spark).findings(ours, hub)
    ranges = [(0, Accounted(EU0, OffsetRange(0, 3), "it came by backfill b1", backfilled=True))]
    assert by_offset(settle(found, {}, ranges).collect()) == {
        **{(0, at): "present" for at in (0, 1)},
        (0, 2): "missing",
        (0, 3): ["late"],
    }


def test_where_offsets_were_given_twice_an_origin_proves_nothing(spark: SparkSession) -> None:
    ours = [source(at) for at in range(6)]
    order = [1, 2, 3, 0, 1, 2, 4, 4, 8]
    hub = [copy(100 + at, offset, value=b"%d" % at) for at, offset in enumerate(order)]
    found = Case(spark).findings(ours, hub)
    ranges = [(0, Accounted(EU0, OffsetRange(0, 4), "created again", reused=True))]
    ranges += [(0, Accounted(EU0, OffsetRange(5, 9), "created again", reused=True))]
    by_place = by_offset(settle(found, {}, ranges).collect())
    assert by_place == {
        **{(0, at): "present" for at in range(4)},
        (0, 4): ["twice", "value"],
        (0, 5): "accounted",
        (0, 8): "alone",
    }
