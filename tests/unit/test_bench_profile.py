"""Where CPU went: threads and samples are sorted by what they are for; waiting is no work."""

from __future__ import annotations

import os

import pytest

from bench.profile import (
    OTHER_AREAS,
    OTHER_THREADS,
    Sample,
    Used,
    area_of,
    by_area,
    by_thread,
    parse,
    thread_kind,
    wakes_by_name,
)

READ = ("org.apache.kafka.common.record.DefaultRecord.readFrom", "a.B.c")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Executor task l", "tasks: read, tag, hand over"),
        ("kafka-producer-", "producers: requests to the hub"),
        ("GC Thread#1", "Java's collector"),
        ("C2 CompilerThre", "Java's compiler"),
        ("python3", "Python: turns, probes, commits"),
        ("dispatcher-even", OTHER_THREADS),
    ],
)
def test_the_name_of_a_thread_says_what_it_is_for(name: str, kind: str) -> None:
    assert thread_kind(name) == kind


@pytest.mark.parametrize(
    ("frames", "area"),
    [
        (("java.util.zip.CRC32C.update", *READ), "checksums"),
        (("java.lang.Math.min", "net.jpountz.lz4.LZ4JNI.compress", *READ), "compression"),
        (READ, "record format"),
        (("java.util.HashMap.get", "aggregator.connector.LaneTask.send"), "the connector's own"),
        (("java.lang.Thread.run",), OTHER_AREAS),
    ],
)
def test_the_area_of_a_sample_is_that_of_its_innermost_known_frame(
    frames: tuple[str, ...], area: str
) -> None:
    assert area_of(frames).startswith(area)


def test_a_thread_that_waits_in_native_code_does_no_work() -> None:
    waits = Sample(1.0, ("sun.nio.ch.EPoll.wait", "org.apache.kafka.common.network.Selector.poll"))
    writes = Sample(1.0, ("sun.nio.ch.SocketDispatcher.write0",))
    assert by_area([waits, writes, waits]) == {"network": 1}


def test_cpu_is_what_was_added_between_two_looks() -> None:
    hertz = os.sysconf("SC_CLK_TCK")
    before = {(1, 1, "python3"): Used(10, 3), (1, 2, "gone"): Used(5)}
    after = {(1, 1, "python3"): Used(10 + hertz, 7), (1, 3, "rdk:broker-1"): Used(2 * hertz, 5)}
    assert wakes_by_name(before, after) == {"python": 4, "rdk:broker": 5}
    assert by_thread(before, after) == {
        "Python: turns, probes, commits": 1.0,
        "Python: librdkafka (probes)": 2.0,
    }


def test_what_the_recorder_is_read_as() -> None:
    assert parse("1500\tmain\ta.B.c\td.E.f\n") == [Sample(1.5, ("a.B.c", "d.E.f"))]
