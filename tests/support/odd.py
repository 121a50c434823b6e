"""Records as strange as producers really write them: the worst of them by name, and at random."""

from __future__ import annotations

import time
from collections.abc import Mapping

from hypothesis import strategies as st
from kafka import KafkaProducer

from aggregator.extras.embedded.topics import NewRecord, produce

NOW_MS = time.time_ns() // 1_000_000
SECONDS, MICROS, NANOS = NOW_MS // 1000, NOW_MS * 1000, NOW_MS * 1_000_000
"""What a producer writes that takes Kafka's milliseconds for another unit."""
LONGEST = 2**63 - 1
YEAR_10000 = 253_402_300_800_000
NO_TIME = -1

ODD_TIMES: Mapping[str, int] = {
    "in seconds": SECONDS,
    "in nanoseconds": NANOS,
    "none": NO_TIME,
    "1970": 0,
    "just after": 1,
    "below none": -2,
    "the least": -(2**63),
    "the last moment of the calendar": YEAR_10000 - 1,
    "beyond it": YEAR_10000,
    "the last that Spark holds": LONGEST // 1000,
    "the first that it does not": LONGEST // 1000 + 1,
    "in microseconds": MICROS,
    "the largest": LONGEST,
    "tomorrow": NOW_MS + 86_400_000,
}
OPEN = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(LONGEST)}
"""Of a topic that takes and keeps them, as all did before Kafka 3.6."""

_OURS = [
    ("origin.cluster", b"eu"),
    ("origin.topic", b"t"),
    ("origin.partition", b"0"),
    ("origin.offset", b"7"),
]
ODD_SHAPES: Mapping[str, NewRecord] = {
    "no key": NewRecord(b"value"),
    "tombstone": NewRecord(None, b"key"),
    "nothing at all": NewRecord(None, None),
    "empty": NewRecord(b"", b""),
    "a huge header": NewRecord(b"v", b"k", headers=[("huge", b"\xfe" * 100_000)]),
    "many headers": NewRecord(b"v", b"k", headers=[("h", b"%d" % at) for at in range(1_000)]),
    "headers of one name": NewRecord(
        b"v", b"k", headers=[("b", b"2"), ("a", b"1"), ("b", None), ("b", b"")]
    ),
    "no name": NewRecord(b"v", b"k", headers=[("", None), ("", b"")]),
    "a name of no ASCII": NewRecord(b"v", b"k", headers=[("grüße\n\x00", b"\xf0\x28")]),
    "a whole origin": NewRecord(
        b"v", b"k", headers=[*_OURS, ("origin.timestamp", b"%d" % LONGEST)]
    ),
    "an origin of no numbers": NewRecord(
        b"v", b"k", headers=[*_OURS[:3], ("origin.offset", b"9" * 30), ("origin.timestamp", None)]
    ),
    "one header like ours": NewRecord(b"v", b"k", headers=[("origin", b"eu/t/0/7")]),
    "one that is none": NewRecord(b"v", b"k", headers=[("origin", b"eu/t/x\n")]),
    "like the quarantine's": NewRecord(b"v", b"k", headers=[("quarantine.reason", b"\xff")]),
    "no UTF-8": NewRecord(b"\xff\xfe\x00\x80", b"\xc3\x28\x00"),
    "a key of half an object": NewRecord(b"v", b'{"id": '),
    "a key as if it named a schema": NewRecord(b"v", b"\x00\x00\x00\x00\x07abc"),
    "a value as if it named a schema": NewRecord(b"\x00\x7f\xff\xff\xff{}", b"k"),
    "only the zero byte": NewRecord(b"\x00", b"\x00"),
    "as if by a GUID": NewRecord(b"\x01" + b"\xff" * 20, b"k"),
    "a header of a schema": NewRecord(b"v", b"k", headers=[("__value_schema_id", b"\x01abc")]),
    "JSON behind white space": NewRecord(b'\n\t\r {"a": 1}', b"k"),
    "JSON behind a mark": NewRecord(b'\xef\xbb\xbf{"a": 1}', b"k"),
    "JSON in UTF-16": NewRecord('{"a": 1}'.encode("utf-16"), b"k"),
    "no numbers": NewRecord(b'{"a": NaN, "b": -Infinity}', b"k"),
    "large numbers": NewRecord(b'{"a": 9007199254740993, "b": 1e400, "c": %s}' % (b"9" * 5000)),
    "half a character": NewRecord(rb'{"a": "\ud800"}', b"k"),
    "names twice": NewRecord(b'{"a": 1, "A": 2, "a": 3, "": 4}', b"k"),
    "deep": NewRecord(b"[" * 5_000 + b"]" * 5_000, b"k"),
    "deep objects": NewRecord(b'{"a":' * 2_000 + b"1" + b"}" * 2_000, b"k"),
    "a long text": NewRecord(b'{"a": "' + b"x" * 500_000 + b'"}', b"k"),
    "a terminal's": NewRecord(b"\x1b[2J\x1b]0;owned\x07", b"\x1b[31m"),
    "right to left": NewRecord("\u202egnp.exe\u2066".encode(), b"k"),
}


def odd_contents() -> st.SearchStrategy[bytes | None]:
    """A key, a value or a header's."""
    framed = st.builds(lambda first, rest: first + rest, st.sampled_from([b"\0", b"\1"]), bytes_())
    return st.one_of(
        st.none(),
        bytes_(),
        framed,
        st.text(max_size=20).map(str.encode),
        st.sampled_from([it.value for it in ODD_SHAPES.values() if len(it.value or b"") < 100]),
    )


def bytes_() -> st.SearchStrategy[bytes]:
    return st.binary(max_size=30)


def odd_records() -> st.SearchStrategy[NewRecord]:
    """A record of such contents, headers and times."""
    names = st.one_of(
        st.sampled_from([name for it in ODD_SHAPES.values() for name, _ in it.headers]),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    )
    headers = st.lists(st.tuples(names, odd_contents()), max_size=7)
    times = st.one_of(st.sampled_from(list(ODD_TIMES.values())), st.integers(-(2**63), LONGEST))
    return st.builds(NewRecord, odd_contents(), odd_contents(), headers=headers, timestamp=times)


def odd_times() -> list[NewRecord]:
    """A record for each of `ODD_TIMES`, which its value names, between two that are plain."""
    odd = [
        NewRecord(b'{"at": "%s"}' % name.encode(), b"k", timestamp=at)
        for name, at in ODD_TIMES.items()
    ]
    plain = [NewRecord(b'{"at": "%d"}' % at, b"p", timestamp=NOW_MS - 5_000 + at) for at in (1, 2)]
    return [plain[0], *odd, plain[1]]


def write_times(bootstrap: str, topic: str) -> None:
    """Write `odd_times`; those come first for which librdkafka has no time.

    It takes 0 for now, and nothing below.
    """
    other = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    try:
        for it in odd_times():
            if it.timestamp <= 0:
                other.send(topic, it.value, it.key, timestamp_ms=it.timestamp).get(60)
    finally:
        other.close()
    produce(bootstrap, topic, [it for it in odd_times() if it.timestamp > 0])
