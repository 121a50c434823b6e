"""Odd records: what producers really write is copied as it is, and all who show or compare it cope.

One run copies all of `support.odd`; then each of those who show or compare records is asked.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from aggregator.api.latest_status import StatusHolder
from aggregator.cli.main import app
from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.engine.control.commands import Control
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from aggregator.extras.notebook import Hub
from aggregator.features.delta_sink.sink import tee
from aggregator.features.timeline.minutes import history_rows
from aggregator.features.verify.audit import VerifyRequest, verify
from aggregator.features.verify.audit_scope import Scope
from aggregator.model.errors import EXIT_DONE
from aggregator.status.schema import Status
from support.browser import visiting
from support.odd import NOW_MS, ODD_SHAPES, ODD_TIMES, OPEN, YEAR_10000, odd_times, write_times
from support.reading import Record, read_topic, wait_for, wait_until_topic_has
from support.rest import ask
from support.running import make_config, run_in_background, source
from support.serving import app_over, served
from support.sessions import running_session
from support.statuses import BOUNDS
from support.verdict import assert_copied

TRANSFORM = "support.transforms:timestamp_as_value"
BEYOND_MS = YEAR_10000 - 86_400_000
PLAIN = 100
LANDED = ("times", "appended", "shapes")
"""Each table costs seconds; records that are changed have the timestamps of `times`."""


@dataclass
class Copied:
    """The topics at their source, the hub, and what the run said of itself."""

    eu: EmbeddedCluster
    hub: EmbeddedCluster
    config: Config
    unique: str
    statuses: list[Status]

    def topic(self, name: str) -> str:
        return f"{self.unique}-{name}"

    def at_hub(self, name: str) -> list[Record]:
        return read_topic(self.hub.bootstrap_servers, self.topic(name))

    def at_source(self, name: str) -> list[Record]:
        return read_topic(self.eu.bootstrap_servers, self.topic(name))

    @property
    def all_at_source(self) -> list[Record]:
        names = ("times", "changed", "appended", "shapes", "plain")
        return [it for name in names for it in self.at_source(name)]


@pytest.fixture(scope="module")
def copied(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Copied:
    unique, servers = f"odd-{uuid.uuid4().hex[:8]}", source_a.bootstrap_servers
    appended = {**OPEN, "message.timestamp.type": "LogAppendTime"}
    for name, settings in {
        "times": OPEN,
        "changed": OPEN,
        "appended": appended,
        "shapes": OPEN,
        "plain": {},
    }.items():
        create_topic(servers, f"{unique}-{name}", config=settings)
    for name in ("times", "changed", "appended"):
        write_times(servers, f"{unique}-{name}")
    produce(servers, f"{unique}-shapes", ODD_SHAPES.values())
    produce(servers, f"{unique}-plain", [NewRecord(b"%d" % at, b"k") for at in range(PLAIN)])
    folder = tmp_path_factory.mktemp("odd")
    config = make_config(
        hub,
        folder / "state",
        {"eu": source(source_a, f"{unique}-.*")},
        topics={"overrides": {f"{unique}-changed": {"transform": TRANSFORM}}},
        tee={
            "topics": {"include": f"{unique}-({'|'.join(LANDED)})"},
            "path": str(folder / "tee"),
            "decode": "json",
        },
        api={"listen": "off"},
    )
    wanted = {"times": len(odd_times()), "appended": len(odd_times()), "changed": len(odd_times())}
    wanted |= {"shapes": len(ODD_SHAPES), "plain": PLAIN}
    with run_in_background(config) as running:
        for name, count in wanted.items():
            wait_until_topic_has(hub.bootstrap_servers, f"{unique}-{name}", count)

        def complete() -> bool:
            found = running.status.completeness
            return found is not None and len(found.topics) >= len(wanted)

        running.wait_for(complete, "what is complete is reported")
        now = running.status.at
        running.wait_for(
            lambda: complete() and (running.status.at - now).total_seconds() > 4, "more is copied"
        )
    return Copied(source_a, hub, config, unique, running.statuses)


@pytest.fixture(scope="module")
def session(copied: Copied) -> Iterator[SparkSession]:
    """A session after the run's: a JVM has one at a time."""
    with running_session() as spark:
        yield spark


def strict(text: str) -> Any:
    """JSON without what JSON does not have."""

    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_a_plain_reader_finds_every_record_as_it_is_at_its_source(copied: Copied) -> None:
    for name in ("times", "appended", "shapes", "plain"):
        topic = copied.topic(name)
        where = {"eu": (copied.eu.bootstrap_servers, topic)}
        assert_copied(where, (copied.hub.bootstrap_servers, topic))
    found = {json.loads(it.value or b"")["at"]: it for it in copied.at_hub("times")}
    said = {name: found[name].origin.timestamp for name in ODD_TIMES}
    assert said == dict(ODD_TIMES)
    kept = {name: found[name].timestamp for name, at in ODD_TIMES.items() if at >= 0}
    assert kept == {name: at for name, at in ODD_TIMES.items() if at >= 0}


def test_a_transform_is_given_no_time_where_there_is_none(copied: Copied) -> None:
    years = {it.origin.timestamp: it.value for it in copied.at_hub("changed")}
    this = str(datetime.fromtimestamp(NOW_MS / 1000, UTC).year).encode()
    for name, at in ODD_TIMES.items():
        if not 0 <= at < BEYOND_MS:
            assert years[at] == b"none", name
        else:
            assert years[at] in (b"1970", this), name
    # And the record keeps its own.
    times = {it.origin.timestamp: it.timestamp for it in copied.at_hub("changed")}
    assert all(times[at] == at for at in ODD_TIMES.values() if at >= 0)


def test_what_is_complete_and_how_old_records_are_is_reported_in_sane_figures(
    copied: Copied,
) -> None:
    status = copied.statuses[-1]
    assert status.completeness is not None
    for topic in status.completeness.topics:
        if topic.topic.startswith(copied.unique):
            assert topic.up_to is not None, topic
            # Other tests ran between the first record's time and this run.
            assert NOW_MS / 1000 - 600 < topic.up_to.timestamp() < status.at.timestamp() + 60, topic
    (eu,) = status.sources
    assert eu.lag == 0
    # What is of the future says nothing of how long it took.
    hour = status.at.timestamp() * 1000 + 3_600_000
    assert sum(eu.age_counts) == sum(0 <= it.timestamp <= hour for it in copied.all_at_source)
    rows = history_rows({}, copied.statuses[0].at, status, BOUNDS)
    for row in rows:
        for name in ("age_p50_ms", "age_p95_ms", "age_p99_ms", "seconds_behind"):
            value = getattr(row, name)
            assert value is None or 0 <= value <= BOUNDS[-1], (name, row)
        strict(row.model_dump_json())
    strict(status.model_dump_json())


def test_rest_and_the_dashboard_show_them(copied: Copied, tmp_path: Path) -> None:
    holder = StatusHolder()
    for it in copied.statuses[-2:]:
        holder.put(it.at, it.phase, lambda it=it: it)  # type: ignore[misc]
    names = ("times", "shapes", "changed", "appended")
    looks = [
        f"/api/topics/{copied.topic(name)}/look?records=50{at}"
        for name in names
        for at in ("", "&source=eu")
    ]
    with served(app_over(Control(copied.config), holder)) as server:
        for path in ("/api/status", "/api/lag", "/api/overview", "/api/hub/topics", *looks):
            code, found = ask("GET", f"{server.url}{path}")
            assert code == 200, (path, found)
            if "/look" in path:
                name = path.split("/")[3].removeprefix(f"{copied.unique}-")
                there = copied.at_source if "source=eu" in path else copied.at_hub
                shown = sorted((it["partition"], it["offset"]) for it in found["records"])
                assert shown == [(it.partition, it.offset) for it in there(name)], path
                times = {it["offset"]: it["timestamp_ms"] for it in found["records"]}
                assert times == {it.offset: it.timestamp for it in there(name)}, path
        with visiting(server.url, tmp_path) as visitor:
            visitor.go(f"topic/{copied.topic('times')}", copied.topic("times"))
            # As JavaScript rounds it.
            visitor.until("about 9223372036854776000 ms")
            visitor.until(f"{ODD_TIMES['in microseconds']} ms")
            assert visitor.errors == []


def test_peek_prints_all_of_them(copied: Copied, tmp_path: Path) -> None:
    path = tmp_path / "aggregator.yaml"
    path.write_text(to_yaml(copied.config))
    for name, count in (("times", len(odd_times())), ("shapes", len(ODD_SHAPES))):
        for where in ([], ["--source", "eu"]):
            asked = ["peek", copied.topic(name), "-c", str(path), *where, "--limit", "50"]
            shown = CliRunner().invoke(app, asked)
            assert shown.exit_code == EXIT_DONE, shown.output
            data = CliRunner().invoke(app, [*asked, "--output", "json"])
            assert len(strict(data.stdout)["records"]) == count
        if name == "times":
            for at in ODD_TIMES.values():
                if at >= YEAR_10000:
                    assert f"{at} ms" in " ".join(shown.output.split()), at


def test_verify_judges_all_of_them(copied: Copied, session: SparkSession) -> None:
    report = verify(copied.config, VerifyRequest(Scope()), spark=session)
    assert report.exit_code == EXIT_DONE, (report.findings, report.partitions)
    assert {str(it.standing) for it in report.partitions} == {"compared"}
    assert report.totals.present == len(copied.all_at_source)


def test_verify_finds_a_time_that_differs_by_one(
    copied: Copied, session: SparkSession, tmp_path: Path
) -> None:
    nanos = ODD_TIMES["in nanoseconds"]
    name = copied.topic("torn")
    create_topic(copied.hub.bootstrap_servers, name, config=OPEN)
    (whole,) = (it for it in copied.at_hub("times") if it.timestamp == nanos)
    torn = [
        NewRecord(it.value, it.key, headers=it.headers, timestamp=it.timestamp + (it == whole))
        for it in copied.at_hub("times")
        if it.timestamp > 0
    ]
    produce(copied.hub.bootstrap_servers, name, torn)
    config = make_config(
        copied.hub,
        tmp_path / "none",
        {"eu": source(copied.eu, copied.topic("times"))},
        topics={"rename": name},
    )
    report = verify(config, VerifyRequest(Scope()), spark=session)
    assert [(it.kind, it.offset) for it in report.findings] == [
        ("missing", 1),
        ("altered", whole.origin.offset),
    ]
    assert report.totals.present == len(torn)


def test_a_notebook_has_them_as_frames(copied: Copied, session: SparkSession) -> None:
    hub = Hub(copied.config, session)
    for name in ("times", "appended", "shapes"):
        there = {it.offset: it for it in copied.at_hub(name)}
        rows = hub.records(copied.topic(name)).collect()
        assert {it.offset: it.timestamp_ms for it in rows} == {
            at: it.timestamp for at, it in there.items()
        }
        for row in rows:
            sane = 0 <= row.timestamp_ms < BEYOND_MS
            assert (row.timestamp is not None) == sane, row
            said = there[row.offset].origin.timestamp
            assert (row.origin_timestamp is not None) == (0 <= said < BEYOND_MS), row
        frame = hub.source_records("eu", copied.topic(name))
        assert frame.count() == len(there)
        assert hub.records(copied.topic(name)).toArrow().num_rows == len(there)
    odd = next(it for it in rows_of(hub, copied) if it.timestamp_ms == ODD_TIMES["the largest"])
    found = hub.source_of(odd)
    assert found.same, found
    moment = datetime.fromtimestamp(NOW_MS / 1000 - 60, UTC)
    since = hub.records(copied.topic("times"), since=moment)
    wanted = [it for it in ODD_TIMES.values() if it >= NOW_MS - 60_000]
    assert {*wanted} <= {it.timestamp_ms for it in since.collect()}
    offsets = {0: (0, 3)}
    assert hub.records(copied.topic("times"), offsets=offsets).count() == 3
    assert hub.records(copied.topic("times"), offsets={0: (0, 10**6)}).count() == len(odd_times())
    assert hub.records(copied.topic("times"), offsets={0: (2, 2)}).count() == 0


def test_a_live_frame_has_them(copied: Copied, session: SparkSession) -> None:
    servers, topic = copied.hub.bootstrap_servers, copied.topic("live")
    create_topic(servers, topic, config=OPEN)
    query = (
        Hub(copied.config, session)
        .live(topic)
        .writeStream.format("memory")
        .queryName("odd_live")
        .start()
    )
    try:
        # It begins where the topic ends when it begins to look.
        wait_for(lambda: query.lastProgress, "it has looked")
        write_times(servers, topic)

        def times() -> set[int]:
            assert query.exception() is None
            return {it.timestamp_ms for it in session.table("odd_live").collect()}

        wait_for(lambda: times() == {it.timestamp for it in read_topic(servers, topic)}, "all came")
    finally:
        query.stop()


def rows_of(hub: Hub, copied: Copied) -> list[Any]:
    return hub.records(copied.topic("times")).collect()


def test_all_of_them_land_where_other_readers_read_them(
    copied: Copied, session: SparkSession
) -> None:
    report = tee(copied.config, once=True, spark=session)
    assert report.problems == ()
    for name in LANDED:
        there = {it.offset: it for it in copied.at_hub(name)}
        path = Path(copied.config.tee.path) / copied.topic(name)
        rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
        assert {it["offset"] for it in rows} == there.keys()
        for row in rows:
            at = there[row["offset"]].timestamp
            sane = 0 <= at < BEYOND_MS
            assert (row["timestamp"] is None, row["odd_timestamp"]) == (
                (False, None) if sane else (True, at)
            ), row
        # Not a folder for each such time.
        assert len({it["day"] for it in rows}) <= 3
        files = f"{path}/*/*.parquet"
        (count,) = duckdb.sql(f"SELECT count(*) FROM '{files}'").fetchall()[0]
        assert count == len(there)
