"""Hub records land in Delta tables once each, whatever happens to the tee, the hub, or a record."""

from __future__ import annotations

import json
import math
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import duckdb
import polars
import pytest
from deltalake import DeltaTable, write_deltalake
from duckdb_extensions import import_extension
from hypothesis import HealthCheck, given, settings
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.schema import Config
from aggregator.config.schemas import SchemasConfig
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from aggregator.features.delta_sink import next_batch
from aggregator.features.delta_sink.sink import tee
from aggregator.features.delta_sink.sink_report import TeeReport
from aggregator.features.delta_sink.table_maintenance import care
from aggregator.kafka.registry import ID_HEADERS
from aggregator.model.errors import HeldError
from aggregator.model.events import Event
from support.application import application
from support.changing import delete_records
from support.clusters import ClusterFactory
from support.examples import examples
from support.guids import guids_in_front
from support.odd_json import Object, json_values
from support.odd_protobuf import Message, file_of, schemas
from support.odd_schemas import Made, logical, same, topics, unlogical
from support.openlineage import event_problems
from support.people import session_of_people
from support.reading import read_topic, wait_for
from support.registry import ApicurioRegistry, asked, framed_avro, schema_registries
from support.running import make_config, source
from support.turns import turns

KILLS = turns(2, 10)
MANY_SCHEMAS = 205
OPEN = 1_795_000_000_000
"""A moment of 2026-11-18, in milliseconds."""
FIRST_MS, LAST_US, FIRST_DAY = -62_135_596_800_000, 253_402_300_799_999_999, -719_162
"""The ends of the years 1 to 9999: milliseconds, microseconds and days from 1970 on."""


def tee_config(hub: EmbeddedCluster, folder: Path, topic: str, **settings: Any) -> Config:
    """A config whose tee lands one topic of the hub in `folder`/tee, and asks it all the time."""
    return make_config(
        hub,
        folder / "state",
        {"eu": source("127.0.0.1:1", topic)},
        tee={
            "topics": {"include": topic},
            "path": str(folder / "tee"),
            "interval": "100ms",
            **settings,
        },
        supervision={"connect_timeout": "3s"},
        api={"listen": "off"},
    )


def hub_topic(hub: EmbeddedCluster, name: str, partitions: int) -> None:
    """A topic that keeps records whatever their timestamps say."""
    keep = {"retention.ms": "-1"}
    create_topic(hub.bootstrap_servers, name, partitions=partitions, config=keep)


def copied(value: bytes | None, offset: int, **more: Any) -> NewRecord:
    """A record as an aggregator writes it to the hub."""
    origin = {
        "origin.cluster": "eu",
        "origin.topic": "orders",
        "origin.partition": "0",
        "origin.offset": str(offset),
        "origin.timestamp": str(more.get("timestamp", OPEN)),
    }
    own: Sequence[tuple[str, bytes | None]] = more.pop("headers", ())
    headers = (*own, *((name, text.encode()) for name, text in origin.items()))
    return NewRecord(value, more.pop("key", None), headers=headers, **{"timestamp": OPEN, **more})


def rows_of(folder: Path, topic: str) -> list[dict[str, Any]]:
    """All rows of a topic's table, in the order of the hub, read by another library."""
    table = DeltaTable(str(folder / "tee" / topic)).to_pyarrow_table()
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def version_of(folder: Path, topic: str) -> int:
    """How many commits a topic's table has seen, -1 when there is none."""
    table = str(folder / "tee" / topic)
    return DeltaTable(table).version() if DeltaTable.is_deltatable(table) else -1


def assert_landed(hub: EmbeddedCluster, folder: Path, topic: str) -> int:
    """That the table has each record of the hub once, by origin and by place; returns how many."""
    there = read_topic(hub.bootstrap_servers, topic)
    rows = rows_of(folder, topic)
    origins = Counter(
        (row["origin_cluster"], row["origin_topic"], row["origin_partition"], row["origin_offset"])
        for row in rows
    )
    wanted = Counter(record.origin[:4] for record in there)
    assert (wanted - origins, origins - wanted) == (Counter(), Counter())
    assert max(origins.values()) == 1
    assert [(row["partition"], row["offset"], row["value"]) for row in rows] == [
        (record.partition, record.offset, record.value) for record in there
    ]
    return len(rows)


def records_of(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    """An Avro schema of a record."""
    return {"type": "record", "name": name, "fields": list(fields)}


ORDER = records_of(
    "Order",
    {"name": "id", "type": "int"},
    {
        "name": "at",
        "type": ["null", records_of("Place", {"name": "lat", "type": "float"})],
        "default": None,
    },
)
"""Its next version has a field more, at the top and within."""
ORDER_2 = records_of(
    "Order",
    {"name": "id", "type": "long"},
    {
        "name": "at",
        "type": [
            "null",
            records_of(
                "Place",
                {"name": "lat", "type": "float"},
                {"name": "lon", "type": "double", "default": 0.0},
            ),
        ],
        "default": None,
    },
    {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
)
OTHER = records_of("Other", {"name": "id", "type": "string"})


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApicurioRegistry]:
    with schema_registries(tmp_path_factory.mktemp("registry")) as (found,):
        yield found


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails is tried as often, without the fifteen seconds in between."""
    monkeypatch.setattr(next_batch, "FIRST_REST", 0.01)


@contextmanager
def writing(hub: EmbeddedCluster, topic: str) -> Iterator[None]:
    """Some hundred records a second into a hub topic, each with the next origin offset."""
    stop = threading.Event()

    def write() -> None:
        offset = 0
        while not stop.wait(0.1):
            batch = [
                copied(json.dumps({"id": at, "part": at % 7}).encode(), at, key=b"k%d" % (at % 50))
                for at in range(offset, offset + 50)
            ]
            produce(hub.bootstrap_servers, topic, batch)
            offset += len(batch)

    thread = threading.Thread(target=write, name="writing")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def teeing(config: Config, spark: SparkSession) -> Iterator[list[Event]]:
    """A tee in the background, and its events; it has to end well."""
    events: list[Event] = []
    reports: list[TeeReport] = []
    stop = threading.Event()

    def work() -> None:
        reports.append(tee(config, stop=stop, emit=events.append, spark=spark))

    thread = threading.Thread(target=work, name="teeing")
    thread.start()
    try:
        yield events
    finally:
        stop.set()
        thread.join()
    assert [report.problems for report in reports] == [()]


def killed_often(config: Config, folder: Path, topic: str, kills: int) -> list[int]:
    """Kill a tee `kills` times at random moments, then let it land all; how far each life came.

    It is in the middle of a first commit, or of one of the next.
    """
    rng = random.Random(topic[-1])
    landed = [-1]
    for at in range(kills):
        with application(config, folder / "runs", command="tee") as running:
            if at % 3 == 0:
                running.until_logged("tee_running")
            else:
                running.until(lambda: version_of(folder, topic) > landed[-1], "it lands")
            # A moment is what this is about.
            running.wait(rng.uniform(0.0, 2.0))
            running.kill()
            landed.append(version_of(folder, topic))
    with application(config, folder / "runs", command="tee") as running:
        running.until(lambda: version_of(folder, topic) > landed[-1], "it lands")
        running.terminate()
        assert running.wait(60), running.text
        assert running.exit_code == 0, running.text
        assert "records have landed" in running.text
    return landed


@pytest.mark.again
@pytest.mark.timeout(600)
def test_killed_again_and_again_the_tables_have_each_record_of_the_hub_once(
    hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    hub_topic(hub, unique, 3)
    with writing(hub, unique):
        landed = killed_often(tee_config(hub, tmp_path, unique), tmp_path, unique, KILLS)
    assert len(set(landed)) > KILLS // 2, landed
    file = tmp_path / "runs" / "aggregator.yaml"
    done = CliRunner().invoke(app, ["tee", "-c", str(file), "--once", "-o", "json"])
    assert done.exit_code == 0, done.output
    assert assert_landed(hub, tmp_path, unique) > 250


def test_what_a_record_is_made_of_lands_and_a_new_field_becomes_a_column(
    hub: EmbeddedCluster, spark: SparkSession, tmp_path: Path, unique: str
) -> None:
    hub_topic(hub, unique, 1)
    config = tee_config(hub, tmp_path, unique, decode="json")

    def land(*records: NewRecord) -> list[dict[str, Any]]:
        produce(hub.bootstrap_servers, unique, records)
        report = tee(config, once=True, spark=spark)
        assert report.problems == ()
        assert [it.records for it in report.topics] == [len(records)]
        rows = rows_of(tmp_path, unique)
        return rows[len(rows) - len(records) :]

    own = [("trace", b"1"), ("trace", None)]
    (row,) = land(copied(b'{"id": 1, "at": {"lat": 1.5}}', 7, key=b"k", headers=own))
    assert (row["topic"], row["partition"], row["offset"], row["key"]) == (unique, 0, 0, b"k")
    assert row["timestamp"].timestamp() * 1000 == OPEN
    assert row["origin_timestamp"] == row["timestamp"]
    assert row["day"].isoformat() == "2026-11-18"
    assert (row["origin_cluster"], row["origin_topic"]) == ("eu", "orders")
    assert (row["origin_partition"], row["origin_offset"]) == (0, 7)
    assert [(it["key"], it["value"]) for it in row["headers"]] == own
    assert row["value"] == b'{"id": 1, "at": {"lat": 1.5}}'
    assert row["decoded"] == {"id": 1, "at": {"lat": 1.5}}
    assert row["decode_error"] is None
    # A field more, at the top and within; one that has no type yet; a record of no aggregator.
    (row,) = land(
        NewRecord(b'{"id": 2, "at": {"lat": 2, "lon": 3.5}, "tags": ["a"], "not_yet": null}')
    )
    assert row["origin_cluster"] is None
    assert row["headers"] is None
    assert row["decoded"] == {"id": 2, "at": {"lat": 2.0, "lon": 3.5}, "tags": ["a"]}
    # What cannot be decoded is there with its payload, and why.
    wrong: dict[bytes | None, str | None] = {
        b"no json at all": "not JSON",
        b'{"id": 3': "not JSON",
        b"\xff\xfe\x00": "not JSON",
        b"[1, 2]": "JSON, but no object",
        b'{"id": "three", "tags": ["b"]}': "a field is of another type than its column",
    }
    rows = land(*(copied(value, 8) for value in wrong), copied(None, 9))
    assert {row["value"]: row["decode_error"] for row in rows} == {**wrong, None: None}
    assert rows[4]["decoded"] == {"id": None, "at": None, "tags": ["b"]}
    assert [row["decoded"] for at, row in enumerate(rows) if at != 4] == [None] * 5
    # Names that Delta does not take, and one that is there but for its case: value has them.
    (row,) = land(NewRecord(b'{"a b": 1, "ID": 5, "not_yet": 6, "x": 7, "X": 8}'))
    nothing = {"id": None, "at": None, "tags": None}
    assert row["decoded"] == {**nothing, "not_yet": 6, "X": 8}
    assert row["decode_error"] is None
    # And once more nothing: everything has landed.
    assert land() == []


def test_avro_is_decoded_by_the_schemas_that_records_name(
    hub: EmbeddedCluster,
    spark: SparkSession,
    registry: ApicurioRegistry,
    tmp_path: Path,
    unique: str,
) -> None:
    hub_topic(hub, unique, 1)
    config = tee_config(hub, tmp_path, unique, decode="true")
    hub_of = {**config.hub.model_dump(), "schemas": {"registry": registry.url}}
    config = config.model_copy(update={"hub": type(config.hub).model_validate(hub_of)})
    first, other = registry.register(f"{unique}-value", ORDER), registry.register("other", OTHER)

    def land(*values: bytes | None) -> list[dict[str, Any]]:
        produce(hub.bootstrap_servers, unique, [copied(value, 1) for value in values])
        report = tee(config, once=True, spark=spark)
        assert report.problems == ()
        assert [it.records for it in report.topics] == [len(values)]
        rows = rows_of(tmp_path, unique)[-len(values) :]
        assert [row["value"] for row in rows] == list(values)
        return rows

    one = framed_avro(first, ORDER, {"id": 1, "at": {"lat": 0.5}})
    rows = land(one, None)
    assert [row["decoded"] for row in rows] == [{"id": 1, "at": {"lat": 0.5}}, None]
    # A schema that no record has named before, behind one that is known; its fields are columns.
    second = registry.register(f"{unique}-value", ORDER_2)
    two = framed_avro(second, ORDER_2, {"id": 2**40, "at": {"lat": 1, "lon": 2}, "tags": ["a"]})
    rows = land(one, two)
    assert [row["decoded"] for row in rows] == [
        {"id": 1, "at": {"lat": 0.5, "lon": None}, "tags": None},
        {"id": 2**40, "at": {"lat": 1.0, "lon": 2.0}, "tags": ["a"]},
    ]
    assert [row["decode_error"] for row in rows] == [None, None]
    # What cannot be decoded is whole, with its reason; JSON beside Avro is decoded as well.
    unknown = b"\x00" + (10**6).to_bytes(4, "big") + b"?"
    rows = land(
        one[:-2],
        framed_avro(other, OTHER, {"id": "x"}),
        unknown,
        b"plain",
        b'{"id": 7, "by": "me"}',
    )
    assert [row["decode_error"] is None for row in rows] == [False] * 4 + [True]
    assert rows[0]["decode_error"].startswith(f"is not what schema {first} says: ")
    assert rows[1]["decode_error"] == "a field is of another type than its column"
    assert "1000000" in rows[2]["decode_error"]
    assert rows[3]["decode_error"] == "not JSON"
    assert rows[4]["decoded"] == {"id": 7, "at": None, "tags": None, "by": "me"}


def test_a_schema_that_a_header_names_decodes_a_value(
    hub: EmbeddedCluster,
    spark: SparkSession,
    registry: ApicurioRegistry,
    tmp_path: Path,
    unique: str,
) -> None:
    hub_topic(hub, unique, 1)
    config = tee_config(hub, tmp_path, unique, decode="true")
    with guids_in_front(registry.url) as front:
        url = front.url
        hub_of = {**config.hub.model_dump(), "schemas": {"registry": url}}
        config = config.model_copy(update={"hub": type(config.hub).model_validate(hub_of)})
        subject = f"/subjects/{unique}-value/versions"
        guid = UUID(asked(url, "POST", subject, {"schema": json.dumps(ORDER)})["guid"])
        shape = {"type": "object", "properties": {"id": {"type": "integer"}}}
        number = registry.register(f"{unique}-checked", shape, kind="JSON")
        name, unknown = ID_HEADERS["value"], UUID(int=5)
        order = framed_avro(0, ORDER, {"id": 1, "at": {"lat": 0.5}})[5:]
        values = [
            (order, b"\1" + guid.bytes),
            (b'{"id": 2}', b"\0" + number.to_bytes(4, "big")),
            (order, b"\1" + unknown.bytes),
            (b'{"id": 3}', None),
        ]
        written = [copied(value, 1, headers=[(name, header)]) for value, header in values]
        produce(hub.bootstrap_servers, unique, written)
        assert tee(config, once=True, spark=spark).problems == ()
    rows = rows_of(tmp_path, unique)
    assert [row["value"] for row in rows] == [value for value, _ in values]
    assert [row["decoded"] for row in rows] == [
        {"id": 1, "at": {"lat": 0.5}},
        {"id": 2, "at": None},
        None,
        {"id": 3, "at": None},
    ]
    assert f"/schemas/guids/{unknown}: 404" in rows[2]["decode_error"]
    assert [rows[at]["decode_error"] for at in (0, 1, 3)] == [None] * 3


@pytest.mark.usefixtures("restless")
def test_a_registry_that_is_away_holds_a_topic_back(
    hub: EmbeddedCluster, spark: SparkSession, tmp_path: Path, unique: str
) -> None:
    hub_topic(hub, unique, 1)
    config = tee_config(hub, tmp_path, unique, decode="true")
    hub_of = {**config.hub.model_dump(), "schemas": {"registry": "http://127.0.0.1:9"}}
    config = config.model_copy(update={"hub": type(config.hub).model_validate(hub_of)})
    produce(hub.bootstrap_servers, unique, [copied(b"\x00\x00\x00\x00\x07x", 1)])
    report = tee(config, once=True, spark=spark)
    assert version_of(tmp_path, unique) == -1
    assert ["no answer" in it for it in report.problems] == [True]


@pytest.mark.timeout(1200)
def test_a_tee_beside_an_instance_lands_what_it_writes_and_ends_with_it(
    hub: EmbeddedCluster, source_a: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=2)
    lineage = tmp_path / "lineage"
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, unique)},
        tee={"topics": {"include": unique}, "path": str(tmp_path / "tee"), "interval": "100ms"},
        api={"listen": "off"},
        lineage={"transport": {"type": "file", "log_file_path": str(lineage), "append": True}},
    )

    def write() -> None:
        produce(source_a.bootstrap_servers, unique, [NewRecord(b"%d" % at) for at in range(100)])

    def has_landed(count: int) -> bool:
        return version_of(tmp_path, unique) >= 0 and len(rows_of(tmp_path, unique)) == count

    # It cannot begin, and what it is beside continues.
    (tmp_path / "tee").touch()
    write()
    with application(config, tmp_path / "runs") as running:
        running.until_logged("tee_failed")
        running.until(lambda: len(read_topic(hub.bootstrap_servers, unique)) == 100, "replication")
        (tmp_path / "tee").unlink()
        running.until_logged("tee_back")
        running.until(lambda: has_landed(100), "all has landed")
        # No one can ask it to end any more.
        running.kill()
        assert running.wait_gone(), running.members()
    write()
    with application(config, tmp_path / "runs") as running:
        running.until(lambda: has_landed(200), "all has landed")
        running.terminate()
        assert running.wait(60), running.text
        assert running.exit_code == 0, running.text
        assert running.wait_gone(), running.members()
    assert assert_landed(hub, tmp_path, unique) == 200
    events = [json.loads(line) for line in lineage.read_text("utf-8").splitlines()]
    assert [problem for it in events for problem in event_problems(it)] == []
    # A run that was killed says nothing more.
    expected = ["START", "START", "COMPLETE"]
    for kind, servers, made in (
        ("copy", source_a.bootstrap_servers, (f"kafka://{hub.bootstrap_servers}", unique)),
        ("land", hub.bootstrap_servers, ("file", str(tmp_path / "tee" / unique))),
    ):
        own = [it for it in events if it["job"]["name"] == f"{config.name}.{kind}.{unique}"]
        assert [it["eventType"] for it in own] == expected
        for it in own:
            assert [(in_["namespace"], in_["name"]) for in_ in it["inputs"]] == [
                (f"kafka://{servers}", unique)
            ]
            assert [(out["namespace"], out["name"]) for out in it["outputs"]] == [made]
        # The second run finds its table.
        facets = own[1]["outputs"][0].get("facets", {})
        assert ("schema" in facets) == (kind == "land")


def test_a_tee_continues_when_a_hub_that_was_away_is_back(
    cluster_factory: ClusterFactory, spark: SparkSession, tmp_path: Path, unique: str
) -> None:
    own = cluster_factory("tee-hub")
    hub_topic(own, unique, 2)
    produce(own.bootstrap_servers, unique, [copied(b"%d" % at, at) for at in range(200)])
    with teeing(tee_config(own, tmp_path, unique), spark) as events:

        def has_said(kind: str) -> bool:
            return any(event.kind == kind for event in events)

        table = tmp_path / "tee" / unique / "_delta_log" / f"{0:020}.json"
        wait_for(table.exists, "a first commit")
        own.brokers[0].pause()
        wait_for(lambda: has_said("tee_hub_unreachable"), "it says that the hub is away")
        own.brokers[0].resume()
        wait_for(lambda: has_said("tee_hub_back"), "it says that the hub is back")
        produce(own.bootstrap_servers, unique, [copied(b"%d" % at, at) for at in range(200, 400)])
        wait_for(lambda: len(rows_of(tmp_path, unique)) == 400, "all has landed")
        with pytest.raises(HeldError, match="another tee writes there"):
            tee(tee_config(own, tmp_path, unique), once=True, spark=spark)
    assert assert_landed(own, tmp_path, unique) == 400


def test_small_files_become_few_and_days_that_are_too_old_go(
    hub: EmbeddedCluster, spark: SparkSession, tmp_path: Path, unique: str
) -> None:
    hub_topic(hub, unique, 1)
    config = tee_config(hub, tmp_path, unique, keep="1d")
    table = tmp_path / "tee" / unique
    for at in range(3):
        # One of long ago, and one of now, which is not decided by the clock of this test.
        records = [copied(b"old", 2 * at), NewRecord(b"new", timestamp=0)]
        produce(hub.bootstrap_servers, unique, records)
        tee(config, once=True, spark=spark)
    assert len(list(table.glob("day=*/*.parquet"))) == 6
    # No one writes meanwhile, so none of the files that are no part of it have to stay.
    done = care(spark, config.tee.model_copy(update={"unused_files": 0.0}), unique)
    assert done is not None
    assert (done.files_before, done.files_after) == (6, 1)
    assert len(list(table.glob("day=*/*.parquet"))) == 1
    assert [row["value"] for row in rows_of(tmp_path, unique)] == [b"new"] * 3
    # What has landed is still known, though its rows are gone.
    report = tee(config, once=True, spark=spark)
    assert [(it.positions, it.records) for it in report.topics] == [({0: 6}, 0)]


def test_a_table_that_another_tool_has_copied_lands_again_when_it_is_said_from_where(
    hub: EmbeddedCluster, spark: SparkSession, tmp_path: Path, unique: str
) -> None:
    """Its commits say nothing of positions."""
    hub_topic(hub, unique, 2)
    produce(hub.bootstrap_servers, unique, [copied(b"%d" % at, at) for at in range(50)])
    first = tee(tee_config(hub, tmp_path / "first", unique), once=True, spark=spark)
    assert first.problems == ()
    rows = DeltaTable(str(tmp_path / "first" / "tee" / unique)).to_pyarrow_table()
    write_deltalake(str(tmp_path / "tee" / unique), rows, partition_by=["day"])
    produce(hub.bootstrap_servers, unique, [copied(b"%d" % at, at) for at in range(50, 80)])
    config = tee_config(hub, tmp_path, unique)
    (problem,) = tee(config, once=True, spark=spark).problems
    spark.sql(problem[problem.index("ALTER TABLE") : -1])
    report = tee(config, once=True, spark=spark)
    assert report.problems == ()
    assert [it.records for it in report.topics] == [30]
    assert assert_landed(hub, tmp_path, unique) == 80


@pytest.mark.usefixtures("restless")
def test_a_table_that_was_restored_lands_again_what_is_missing_also_while_a_tee_runs(
    hub: EmbeddedCluster, spark: SparkSession, tmp_path: Path, unique: str
) -> None:
    hub_topic(hub, unique, 2)
    config = tee_config(hub, tmp_path, unique)
    people = session_of_people(spark)
    table = f"delta.`{tmp_path / 'tee' / unique}`"
    for at in range(3):
        records = [copied(b"%d" % it, it) for it in range(10 * at, 10 * at + 10)]
        produce(hub.bootstrap_servers, unique, records)
        assert tee(config, once=True, spark=spark).problems == ()
    history = people.sql(f"DESCRIBE HISTORY {table}").where("version = 0").select("timestamp")
    people.sql(f"RESTORE TABLE {table} TO TIMESTAMP AS OF '{history.first()[0]}'")  # type: ignore[index]
    assert len(rows_of(tmp_path, unique)) == 10
    assert [it.records for it in tee(config, once=True, spark=spark).topics] == [20]
    assert assert_landed(hub, tmp_path, unique) == 30
    with teeing(config, spark):
        people.sql(f"RESTORE TABLE {table} TO VERSION AS OF 1")
        produce(hub.bootstrap_servers, unique, [copied(b"%d" % at, at) for at in range(30, 40)])
        wait_for(lambda: len(rows_of(tmp_path, unique)) == 40, "all has landed again")
    assert assert_landed(hub, tmp_path, unique) == 40
    # What is gone before it lands is named, also when nothing is left to land.
    produce(hub.bootstrap_servers, unique, [copied(b"gone", at) for at in range(40, 60)])
    ends = Counter(record.partition for record in read_topic(hub.bootstrap_servers, unique))
    delete_records(hub.bootstrap_servers, unique, ends)
    (done,) = tee(config, once=True, spark=spark).topics
    assert (done.records, done.lost) == (0, 20)
    assert {partition: it for partition, it in done.positions.items() if it} == ends
    # A number of our transactions that no tee can have: it ends, and says why.
    nothing = people.read.format("delta").load(str(tmp_path / "tee" / unique)).limit(0)
    number = {"txnAppId": "aggregator_tee", "txnVersion": "1000000"}
    nothing.write.format("delta").mode("append").options(**number).save(
        str(tmp_path / "tee" / unique)
    )
    produce(hub.bootstrap_servers, unique, [copied(b"40", 40)])
    (problem,) = tee(config, once=True, spark=spark).problems
    assert "its table takes no batch" in problem


def test_a_record_whose_timestamp_spark_cannot_hold_lands_as_the_others(
    hub: EmbeddedCluster, spark: SparkSession, tmp_path: Path, unique: str
) -> None:
    # As a hub of an earlier Kafka takes it, which knows no bound.
    forever = str(2**63 - 1)
    create_topic(
        hub.bootstrap_servers,
        unique,
        partitions=2,
        config={"retention.ms": "-1", "message.timestamp.after.max.ms": forever},
    )
    nanos = OPEN * 1_000_000
    own = [("trace", b"1"), ("trace", None)]
    records = [
        *(copied(b'{"id": %d}' % at, at, key=b"k%d" % at) for at in range(20)),
        copied(b'{"id": 20}', 20, timestamp=nanos, headers=own),
        *(copied(b'{"id": %d}' % at, at, key=b"k%d" % at) for at in range(21, 40)),
        NewRecord(None, b"gone", timestamp=nanos),
    ]
    produce(hub.bootstrap_servers, unique, records)
    report = tee(tee_config(hub, tmp_path, unique, decode="json"), once=True, spark=spark)
    assert report.problems == ()
    rows = rows_of(tmp_path, unique)
    assert len(rows) == len(records)
    ids = [row["decoded"]["id"] for row in rows if row["decoded"] is not None]
    assert sorted(ids) == list(range(40))
    (row,) = (it for it in rows if it["origin_offset"] == 20)
    assert (row["timestamp"], row["origin_timestamp"]) == (None, None)
    assert [(it["key"], it["value"]) for it in row["headers"]] == own
    (others,) = {it["timestamp"] for it in rows if it["origin_offset"] not in (20, None)}
    assert others.timestamp() * 1000 == OPEN


def read_by_all(table: str, spark: SparkSession) -> Iterator[list[dict[str, Any]]]:
    """The rows of a table as Spark, delta-rs, polars and DuckDB read them, in their order."""
    yield [it.asDict(recursive=True) for it in spark.read.format("delta").load(table).collect()]
    yield DeltaTable(table).to_pyarrow_table().to_pylist()
    yield polars.read_delta(table).to_arrow().to_pylist()
    with duckdb.connect() as database:
        database.execute(f"SET extension_directory = '{Path(table).parents[1]}'")
        import_extension("delta", con=database)
        yield database.sql(f"SELECT * FROM delta_scan('{table}')").to_arrow_table().to_pylist()


@given(topics(8), json_values(8), schemas(4))
@settings(examples(1), suppress_health_check=list(HealthCheck), derandomize=True)
def test_what_values_of_any_shape_say_is_in_columns_that_all_readers_have(
    hub: EmbeddedCluster,
    registry: ApicurioRegistry,
    spark: SparkSession,
    tmp_path: Path,
    unique: str,
    made: list[Made],
    objects: list[Object],
    messages: list[Message],
) -> None:
    topic = f"{unique}-{uuid4().hex[:6]}"
    hub_topic(hub, topic, 1)
    config = tee_config(hub, tmp_path, topic, decode="true")
    config = config.model_copy(
        update={
            "hub": config.hub.model_copy(update={"schemas": SchemasConfig(registry=registry.url)})
        }
    )
    written: list[bytes] = []
    for at, one in enumerate(made):
        number = registry.register(f"{topic}-{at}", one.schema)
        good = framed_avro(number, unlogical(one.schema), one.write)
        # As it is; with too much; with too little.
        written += [good, good + b"x", good[:-1] if len(good) > 5 else good + b"x"]
    for at, of_json in enumerate(objects):
        shape = {"type": "object", "title": str(at), "properties": {}}
        number = registry.register(f"{topic}-json-{at}", shape, kind="JSON")
        front = b"\0" + number.to_bytes(4, "big") if at % 2 else b""
        written += [front + of_json.text, front + of_json.text + b"x", front + of_json.text[:-1]]
    # Schemas that no one makes columns of.
    odd = [
        registry.register(f"{topic}-odd-{at}", file_of(it), kind="PROTOBUF")
        for at, it in enumerate(messages)
    ]
    written += [
        b"\0" + number.to_bytes(4, "big") + b"\0" + it.content
        for number, it in zip(odd, messages, strict=True)
    ]
    produce(hub.bootstrap_servers, topic, [copied(it, at) for at, it in enumerate(written)])
    report = tee(config, once=True, spark=spark)
    assert report.problems == ()
    for rows in read_by_all(str(tmp_path / "tee" / topic), spark):
        rows.sort(key=lambda row: row["offset"])
        assert [row["value"] for row in rows] == written
        why = [f"schema {number} is of type PROTOBUF: not decoded" for number in odd]
        assert [it["decode_error"] for it in rows[-len(odd) :]] == why
        for at, of_json in enumerate(objects, len(made)):
            whole, *wrong = rows[3 * at : 3 * at + 3]
            assert same(whole["decoded"], of_json.said), (of_json, whole["decoded"])
            assert whole["decode_error"] is None, whole
            assert [(it["decoded"], it["decode_error"]) for it in wrong] == [(None, "not JSON")] * 2
        for at, one in enumerate(made):
            whole, *wrong = rows[3 * at : 3 * at + 3]
            assert same(whole["decoded"], one.said), (one, whole["decoded"])
            assert (whole["decode_error"] is None) == one.is_whole, (one, whole["decode_error"])
            assert all(row["decoded"] is None for row in wrong)
            assert all("is not what schema" in row["decode_error"] for row in wrong)


def test_hundreds_of_schemas_are_decoded_and_one_that_refers_to_itself(
    hub: EmbeddedCluster,
    registry: ApicurioRegistry,
    spark: SparkSession,
    tmp_path: Path,
    unique: str,
) -> None:
    hub_topic(hub, unique, 1)
    config = tee_config(hub, tmp_path, unique, decode="true")
    config = config.model_copy(
        update={
            "hub": config.hub.model_copy(update={"schemas": SchemasConfig(registry=registry.url)})
        }
    )
    texts: dict[int, bytes] = {}
    for at in range(MANY_SCHEMAS):
        schema = records_of(f"Event{at}", {"name": f"of{at}", "type": "int"})
        number = registry.register(f"{unique}-{at}", schema)
        texts[at] = framed_avro(number, schema, {f"of{at}": at})
    tree = records_of(
        "Tree", {"name": "v", "type": "int"}, {"name": "next", "type": ["null", "Tree"]}
    )
    number = registry.register(f"{unique}-tree", tree)
    deep = {"v": 1, "next": {"v": 2, "next": {"v": 3, "next": None}}}
    texts[MANY_SCHEMAS] = framed_avro(number, tree, deep)
    # A type that Delta takes at the creation of a table alone.
    later = records_of(
        "Later",
        {"name": "at", "type": logical("long", "local-timestamp-millis")},
        {"name": "first", "type": logical("long", "timestamp-millis")},
        {"name": "last", "type": logical("long", "timestamp-micros")},
        {"name": "day", "type": logical("int", "date")},
    )
    of_later = {"at": OPEN + 123, "first": FIRST_MS, "last": LAST_US, "day": FIRST_DAY}
    late = registry.register(f"{unique}-late", later)
    case = records_of("Case", {"name": "a", "type": "int"}, {"name": "A", "type": "int"})
    cased = registry.register(f"{unique}-case", case)
    produce(hub.bootstrap_servers, unique, [copied(it, at) for at, it in texts.items()])
    assert tee(config, once=True, spark=spark).problems == ()
    more = [
        framed_avro(late, unlogical(later), of_later),
        framed_avro(cased, case, {"a": 1, "A": 2}),
        b'\n\t{"json": 5}',
        b'{"a": 1, "a": "twice"}',
        b'{"deep": ' * 500 + b"1" + b"}" * 500,
        b'{"deep": ' * 60 + b"1" + b"}" * 60,
        b'{"nan": NaN, "": 1, "x.y": 2, "\\u0000": 3, "' + b"n" * 3000 + b'": 4}',
    ]
    produce(hub.bootstrap_servers, unique, [copied(it, 1000 + at) for at, it in enumerate(more)])
    began = time.monotonic()
    assert tee(config, once=True, spark=spark).problems == ()
    assert time.monotonic() - began < 60
    rows = rows_of(tmp_path, unique)
    assert [row["value"] for row in rows] == [*texts.values(), *more]
    for at in range(MANY_SCHEMAS):
        assert rows[at]["decoded"][f"of{at}"] == at
    said = rows[MANY_SCHEMAS]["decoded"]
    assert (said["v"], json.loads(said["next"])) == (1, deep["next"])
    added = rows[MANY_SCHEMAS + 1 :]
    assert added[0]["decode_error"] is None
    of_later = added[0]["decoded"]
    assert of_later["at"] == "2026-11-18T11:06:40.123"
    assert of_later["first"] == datetime(1, 1, 1, tzinfo=UTC)
    assert of_later["last"] == datetime.max.replace(tzinfo=UTC)
    assert of_later["day"] == date.min
    assert added[1]["decoded"]["a"] == 1
    assert added[2]["decoded"]["json"] == 5
    assert added[4]["decode_error"] == "nested in more than 100 levels"
    assert math.isnan(added[6]["decoded"]["nan"])
