"""Whoever reads the hub: `aggregator peek`, the notebook API, and the notebooks; real clusters.

One run has copied what all of it looks at, with a registry for each of the two sources.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars
import pytest
from duckdb_extensions import import_extension
from pyspark.sql import Row

from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.topics import NewRecord, create_topic, end_offsets, produce
from aggregator.errors import AggregatorError, CheckpointError
from aggregator.notebook import Hub, open_hub
from support.registry import ApicurioRegistry, framed_avro, schema_registries

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
RECORDS = 300
# The clusters are shared with other tests.
PLAIN, ORDERS, MIXED = (f"{it}-{uuid.uuid4().hex[:8]}" for it in ("plain", "orders", "mixed"))
ADDRESS = {
    "type": "record",
    "name": "Address",
    "namespace": "shop",
    "fields": [{"name": "city", "type": "string"}],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "ship_to", "type": ADDRESS}],
}
"""With its reference in place; `with_reference` is what is registered."""
LATER = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": "-"}]}
USER = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "string"}]}

# A run, and then notebooks with a Spark session of their own.
pytestmark = pytest.mark.timeout(900)


def with_reference(schema: dict[str, Any]) -> dict[str, Any]:
    fields = [
        it | {"type": "shop.Address"} if it["name"] == "ship_to" else it for it in schema["fields"]
    ]
    return {**schema, "fields": fields}


@pytest.fixture(scope="module")
def registries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ApicurioRegistry]]:
    with schema_registries(tmp_path_factory.mktemp("registries"), 2) as found:
        yield found


@pytest.fixture(scope="module")
def ids(registries: list[ApicurioRegistry]) -> dict[str, int]:
    """The same ids name other schemas at the two registries, as it is in real life."""
    a, b = registries
    b.register("users-value", USER)
    found = {}
    for name, registry in (("a", a), ("b", b)):
        registry.register("address-value", ADDRESS)
        schema = ORDER if name == "a" else LATER
        references = [("shop.Address", "address-value", 1)]
        found[name] = registry.register("orders-value", with_reference(schema), references)
    found["user"] = a.register("users-value", USER)
    assert found["user"] == found["b"]
    return found


@pytest.fixture(scope="module")
def config_file(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    registries: list[ApicurioRegistry],
    ids: dict[str, int],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A config whose two sources have been copied into the hub by one run."""
    for number, (name, source) in enumerate((("a", source_a), ("b", source_b)), 1):
        at = source.bootstrap_servers
        for topic in (PLAIN, ORDERS):
            create_topic(at, topic, partitions=number)
        headers = [("own", b"1"), ("own", b"2")]
        values = (json.dumps({"n": n, "by": name}).encode() for n in range(RECORDS))
        produce(at, PLAIN, [NewRecord(it, b"k%d" % n, -1, headers) for n, it in enumerate(values)])
        order = {"ship_to": {"city": "Köln"}, "note": "soon"}
        schema = ORDER if name == "a" else LATER
        produce(
            at,
            ORDERS,
            [NewRecord(framed_avro(ids[name], schema, {**order, "id": n})) for n in range(20)],
        )
    at = source_a.bootstrap_servers
    create_topic(at, MIXED, partitions=1)
    whole = framed_avro(ids["a"], ORDER, {"id": 1, "ship_to": {"city": "Bonn"}})
    mixed = [whole, whole[:-2], whole + b"x", b"\0\0\0\3\xe7?", b"\0\1", b"text", b'{"a": 1}', None]
    mixed.append(framed_avro(ids["user"], USER, {"id": "u"}))
    produce(at, MIXED, [NewRecord(it, b"\xff") for it in mixed])
    folder = tmp_path_factory.mktemp("run")
    file = folder / "aggregator.yaml"
    a, b = registries
    file.write_text(f"""\
name: notebook
hub: {{bootstrap_servers: "{hub.bootstrap_servers}"}}
sources:
  a:
    bootstrap_servers: "{source_a.bootstrap_servers}"
    topics: {{include: "{PLAIN}|{ORDERS}|{MIXED}"}}
    schemas: {{registry: "{a.url}"}}
  b:
    bootstrap_servers: "{source_b.bootstrap_servers}"
    topics: {{include: "{PLAIN}|{ORDERS}"}}
    schemas: {{registry: "{b.url}"}}
topics: {{partitions: 3}}
checkpoint: {{path: {folder / "state"}}}
timeline: {{interval: 5s}}
api: {{listen: "off"}}
""")
    done = aggregator("run", "-c", str(file), "--until-caught-up")
    assert done.returncode == 0, done.stderr
    assert sum(end_offsets(hub.bootstrap_servers, PLAIN).values()) == 2 * RECORDS
    assert aggregator("verify", "-c", str(file)).returncode == 0
    return file


def aggregator(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aggregator", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def peeked(config: Path, *words: str) -> list[dict[str, Any]]:
    done = aggregator("peek", *words, "-c", str(config), "-o", "json")
    assert done.returncode == 0, done.stderr
    records: list[dict[str, Any]] = json.loads(done.stdout)["records"]
    return records


def test_peek_shows_each_record_decoded_by_the_registry_of_its_source(
    config_file: Path, ids: dict[str, int]
) -> None:
    records = peeked(config_file, ORDERS, "--limit", "40")
    assert len(records) == 40
    for record in records:
        source = record["origin"][0]
        assert (record["value_format"], record["value_schema"]) == ("avro", ids[source])
        value = json.loads(record["value"])
        assert value["ship_to"] == {"city": "Köln"}
        assert value.get("note") == (None if source == "a" else "soon")
    assert len({(it["origin"]) for it in records}) == 40
    (one,) = peeked(config_file, ORDERS, "--source", "b", "--partition", "0", "--limit", "1")
    assert (one["origin"], one["partition"]) == (None, 0)


def test_peek_loses_no_record_and_says_why_it_cannot_be_decoded(config_file: Path) -> None:
    found = {
        it["offset"]: (it["value_format"], it["value"], it["problem"])
        for it in peeked(config_file, MIXED, "--source", "a")
    }
    assert len(found) == 9
    assert found[0] == ("avro", '{"id": 1, "ship_to": {"city": "Bonn"}}', "")
    for offset, why in ((1, "is not what its schema says"), (2, "1 bytes are left over")):
        assert found[offset][0] == "bytes" and why in found[offset][2], found[offset]
    assert found[3][:2] == ("bytes", "0x000000" + "03e73f") and "999" in found[3][2]
    assert [found[at] for at in range(4, 8)] == [
        ("bytes", "0x0001", ""),
        ("text", "text", ""),
        ("json", '{"a": 1}', ""),
        ("null", None, ""),
    ]
    assert found[8][1] == '{"id": "u"}'
    table = aggregator("peek", MIXED, "-c", str(config_file))
    assert f"a/{MIXED}-0@5" in table.stdout and "0x0001 (2 bytes)" in table.stdout


def test_peek_of_what_is_not_there_says_so(config_file: Path) -> None:
    for words, code in (
        (("nix",), 1),
        ((PLAIN, "--partition", "9"), 1),
        ((PLAIN, "--source", "x"), 2),
    ):
        done = aggregator("peek", *words, "-c", str(config_file))
        assert (done.returncode, done.stdout) == (code, ""), done


@pytest.fixture(scope="module")
def opened(config_file: Path) -> Iterator[Hub]:
    with open_hub(config_file) as found:
        yield found


def test_records_are_had_by_topic_source_time_and_offsets(opened: Hub) -> None:
    everything = opened.records(PLAIN)
    assert everything.count() == 2 * RECORDS
    assert opened.records(PLAIN, sources="a").count() == RECORDS
    assert opened.records(PLAIN, since="1h").count() == 2 * RECORDS
    assert opened.records(PLAIN, until="1h").count() == 0
    first = opened.records(PLAIN, offsets={0: (2, 5), 2: (0, 1)}).orderBy("partition", "offset")
    assert [(it.partition, it.offset) for it in first.collect()] == [(0, 2), (0, 3), (0, 4), (2, 0)]
    assert set(opened.topics) == {PLAIN, ORDERS, MIXED}
    assert opened.source_records("b", PLAIN).count() == RECORDS
    with pytest.raises(AggregatorError, match="offsets are those of one topic"):
        opened.records(offsets={0: (0, 1)})
    with pytest.raises(AggregatorError, match="there is no source x"):
        opened.records(PLAIN, sources="x")


def test_avro_of_several_registries_becomes_one_struct(opened: Hub, ids: dict[str, int]) -> None:
    rows = opened.decoded(opened.records(ORDERS), "avro").collect()
    assert len(rows) == 40
    for row in rows:
        note = "-" if row.origin_cluster == "a" else "soon"
        expected = Row(id=row.value_decoded.id, ship_to=Row(city="Köln"), note=note)
        assert (row.value_decoded, row.value_problem) == (expected, None)
        assert row.value_schema == ids[row.origin_cluster]
    assert {row.value_decoded.id for row in rows} == set(range(20))


def test_what_cannot_be_decoded_keeps_its_row_and_the_reason(opened: Hub) -> None:
    rows = opened.decoded(opened.records(MIXED), "avro").orderBy("origin_offset").collect()
    problems = [row.value_problem for row in rows]
    assert [row.value_decoded is None for row in rows] == [False, True, False] + [True] * 6
    assert problems[0] is None and problems[7] is None
    assert "is not what schema" in problems[1]
    assert "No content with id" in problems[3]
    for at in (4, 5, 6):
        assert problems[at] == "is not in the wire format: no zero byte and an id"
    assert "cannot be read as the others are" in problems[8]
    users = opened.decoded(opened.records(MIXED), "avro", reader=USER)
    assert [
        it.value_decoded.id for it in users.where("value_problem is null").collect() if it.value
    ] == ["u"]
    table = opened.decoded(opened.records(MIXED), "json").orderBy("origin_offset").collect()
    assert [row.offset for row in table if row.value_decoded is not None] == [table[6].offset]
    assert table[6].value_decoded == Row(a=1) and table[0].value_problem
    texts = opened.decoded(opened.records(MIXED), "text", column="key").collect()
    assert all(row.key_problem == "is no UTF-8 text" for row in texts)


def test_json_and_plain_avro_are_decoded_by_a_given_schema(opened: Hub) -> None:
    frame = opened.decoded(opened.records(PLAIN), "json", schema="n BIGINT, by STRING")
    assert frame.where("value_decoded.by = origin_cluster").count() == 2 * RECORDS
    stripped = opened.records(ORDERS, sources="a").selectExpr("substring(value, 6) AS value")
    assert (
        opened.decoded(stripped, "avro", schema=ORDER).where("value_problem is null").count() == 20
    )


def test_a_row_leads_to_its_source_and_is_compared(opened: Hub) -> None:
    row = opened.records(PLAIN, sources="b").first()
    assert row is not None
    found = opened.source_of(row)
    assert found.record is not None
    assert (found.source, found.topic, found.same, found.differs) == ("b", PLAIN, True, ())
    assert json.loads(str(found.record.value))["by"] == "b"
    other = opened.source_of({**row.asDict(), "key": b"other", "value": None})
    assert other.differs == ("key", "value")
    gone = opened.source_of({**row.asDict(), "origin_offset": 10**6})
    assert (gone.record, gone.same) == (None, False)
    with pytest.raises(AggregatorError, match="does not say where it came from"):
        opened.source_of({"key": b"k"})


def test_tables_are_frames_with_time_travel(opened: Hub, config_file: Path) -> None:
    # The table was made empty by its first version.
    assert opened.checkpoints(version=0).count() == 0
    assert 0 < opened.checkpoints(version=1).count() < opened.checkpoints().count()
    assert opened.checkpoints(as_of="0s").count() == opened.checkpoints().count()
    with pytest.raises(CheckpointError, match="nothing of it is kept"):
        opened.checkpoints(as_of="7d")
    assert opened.history().where("topic is null").agg({"records": "sum"}).first() == (
        (2 * RECORDS + 49),
    )
    assert opened.audits().where("missing > 0").count() == 0
    assert opened.events().count() > 0
    with pytest.raises(CheckpointError, match="no table of gaps yet"):
        opened.gaps()
    for plot in (opened.plot_lag, opened.plot_throughput, opened.plot_latency, opened.plot_flow):
        assert plot().axes


def test_polars_and_duckdb_read_the_tables_without_spark(config_file: Path, tmp_path: Path) -> None:
    path = config_file.parent / "state" / "history"
    by_polars = polars.read_delta(str(path)).filter(polars.col("topic").is_null())
    assert by_polars["records"].sum() == 2 * RECORDS + 49
    database = duckdb.connect()
    database.execute(f"SET extension_directory = '{tmp_path}'")
    import_extension("delta", con=database)
    query = f"SELECT sum(records) FROM delta_scan('{path}') WHERE topic IS NULL"
    assert database.execute(query).fetchall() == [(2 * RECORDS + 49,)]


@pytest.fixture(scope="module")
def shown(config_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each notebook prints, cell by cell; all in one kernel, so that Java starts once."""
    program = tmp_path_factory.mktemp("notebooks") / "run.py"
    program.write_text(RUN_ALL)
    done = subprocess.run(
        [sys.executable, str(program), *map(str, sorted(NOTEBOOKS.glob("*.ipynb")))],
        capture_output=True,
        text=True,
        timeout=500,
        env={
            **os.environ,
            "AGGREGATOR_CONFIG": str(config_file),
            "TOPIC": PLAIN,
            "AVRO_TOPIC": ORDERS,
        },
    )
    assert done.returncode == 0, done.stderr[-5_000:]
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


RUN_ALL = """\
import json, sys
from pathlib import Path
import nbformat
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

manager, client = start_new_kernel()
client.stop_channels()
shown = {}
for path in map(Path, sys.argv[1:]):
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, km=manager, timeout=240).execute(cleanup_kc=False)
    shown[path.stem] = [
        "".join(str(it.get("text", "") or sorted(it.get("data", {}))) for it in cell.outputs)
        for cell in book.cells if cell.cell_type == "code"
    ]
manager.shutdown_kernel(now=True)
print(json.dumps(shown))
"""


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_a_first_look_shows_origins_and_checkpoints(shown: dict[str, list[str]]) -> None:
    counted = next(text for text in shown["first-look"] if "distinct_origins" in text)
    for source in ("a", "b"):
        lines = [cells_of(it) for it in counted.splitlines() if it.startswith(f"|{source} ")]
        assert [source, PLAIN, PLAIN, str(RECORDS), str(RECORDS)] in [it[:5] for it in lines]
    positions = next(text for text in shown["first-look"] if "moved" in text)
    rows = [cells_of(line) for line in positions.splitlines() if PLAIN in line]
    assert len(rows) == 3
    assert sum(int(row[3]) for row in rows) == 2 * RECORDS


def test_the_other_notebooks_show_what_they_say(
    shown: dict[str, list[str]], ids: dict[str, int]
) -> None:
    assert "{" in "".join(shown["where-from"])
    schemas = next(text for text in shown["avro-across-clusters"] if "count" in text)
    rows = [cells_of(line) for line in schemas.splitlines() if line.startswith("|")]
    assert rows[1:] == [["a", str(ids["a"]), "20"], ["b", str(ids["b"]), "20"]]
    assert sum("image/png" in text for text in shown["lag-over-time"]) == 4
    compared = next(text for text in shown["compare-sources-and-hub"] if "altered" in text)
    rows = [cells_of(line) for line in compared.splitlines() if line.startswith("|")]
    assert rows[1:] == [[it, str(RECORDS), "0", "0"] for it in ("a", "b")]
