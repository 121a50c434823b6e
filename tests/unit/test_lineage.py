"""Lineage: which datasets flow into which, which events are due, and what a catalog is sent.

What a running instance sends is in tests/integration/test_tee.py.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.features.lineage import emitter
from aggregator.features.lineage.catalog import Catalog
from aggregator.features.lineage.emitter import (
    Emission,
    Lineage,
    Reported,
    plan_emissions,
    tables_of,
)
from aggregator.features.lineage.lineage_jobs import (
    Dataset,
    LineageJob,
    plan_lineage,
    table_dataset,
    topic_at,
)
from aggregator.features.service import Now
from aggregator.model.errors import ConfigError
from aggregator.model.events import Event
from aggregator.model.values import ClusterFacts, Discovery, TopicFacts
from aggregator.plan import Plan, make_plan
from aggregator.store.checkpoint.start_state import CheckpointState
from support.openlineage import event_problems
from support.reading import wait_for

SETS = (
    "name=central",
    "hub.bootstrap_servers=hub:9092,hub2:9092",
    "sources.eu.bootstrap_servers=eu:9093",
    "sources.eu.topics.include=.*",
    "sources.us.bootstrap_servers=us:9094",
    "sources.us.topics.include=orders",
)


def config_of(*sets: str) -> Config:
    return load_text("", [*SETS, *sets])


def cluster(alias: str, *topics: str) -> ClusterFacts:
    facts = {name: TopicFacts(name, f"{alias}-{name}", 2, 1) for name in topics}
    return ClusterFacts(alias, alias.upper(), 1, facts)


def plan_of(config: Config, *topics: str) -> Plan:
    found = {"eu": cluster("eu", "orders", *topics), "us": cluster("us", "orders")}
    return make_plan(config, Discovery(found), cluster("hub"))


def to_file(path: Path, *sets: str) -> Config:
    transport = {"type": "file", "log_file_path": str(path), "append": True}
    return config_of(f"lineage.transport={json.dumps(transport)}", *sets)


def sent(path: Path) -> list[dict[str, Any]]:
    return (
        [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    )


def states(path: Path) -> list[tuple[str, str]]:
    return [(it["eventType"], it["job"]["name"]) for it in sent(path)]


def test_each_hub_topic_and_each_table_is_a_job_of_its_own(tmp_path: Path) -> None:
    config = config_of("tee.topics.include=orders", f"tee.path={tmp_path}")
    plan = plan_of(config, "payments")
    assert plan_lineage(config, plan, tables_of(config, plan)) == (
        LineageJob(
            "central.copy.orders",
            (Dataset("kafka://eu:9093", "orders"), Dataset("kafka://us:9094", "orders")),
            Dataset("kafka://hub:9092", "orders"),
        ),
        LineageJob(
            "central.copy.payments",
            (Dataset("kafka://eu:9093", "payments"),),
            Dataset("kafka://hub:9092", "payments"),
        ),
        LineageJob(
            "central.land.orders",
            (Dataset("kafka://hub:9092", "orders"),),
            Dataset("file", f"{tmp_path}/orders"),
        ),
    )
    alone = config_of()
    assert tables_of(alone, plan_of(alone)) == {}


def test_datasets_have_the_names_that_other_tools_give_them() -> None:
    from openlineage.client.naming import dataset

    kafka = dataset.Kafka("a", "9092", "orders")
    assert topic_at("a:9092,b:9092", "orders") == Dataset(kafka.get_namespace(), kafka.get_name())
    s3 = dataset.S3("lake", "tee/orders")
    assert table_dataset("s3a://lake/tee/orders/") == Dataset(s3.get_namespace(), s3.get_name())
    local = dataset.LocalFileSystem("/data/tee/orders")
    expected = Dataset(local.get_namespace(), local.get_name())
    assert table_dataset("/data/tee/orders") == table_dataset("file:///data/tee/orders") == expected


JOBS = st.builds(
    LineageJob,
    st.sampled_from("abc"),
    st.sets(st.sampled_from([Dataset("kafka://s:1", it) for it in "xyz"]), min_size=1).map(
        lambda it: tuple(sorted(it))
    ),
    st.just(Dataset("kafka://h:1", "h")),
)
PLANS = st.lists(JOBS, max_size=3, unique_by=lambda it: it.name).map(tuple)


@given(plans=st.lists(PLANS, max_size=6), interval=st.sampled_from([1.0, 5.0]))
def test_a_catalog_that_got_all_events_knows_exactly_what_flows(
    plans: list[tuple[LineageJob, ...]], interval: float
) -> None:
    reported: dict[str, Reported] = {}
    for now, jobs in enumerate(plans):
        for it in plan_emissions(jobs, reported, now, interval):
            assert (it.state == "START") == (it.job.name not in reported)
            if it.state == "COMPLETE":
                del reported[it.job.name]
            else:
                reported[it.job.name] = Reported(it.job, now)
        assert {it.job for it in reported.values()} == set(jobs)
        assert all(now - it.at < interval for it in reported.values())
        assert plan_emissions(jobs, reported, now, interval) == ()
    ends = plan_emissions((), reported, len(plans), interval)
    assert {it.job.name for it in ends} == set(reported)
    assert all(it.state == "COMPLETE" for it in ends)


def test_a_catalog_is_sent_what_flows_and_what_changes_and_the_end(tmp_path: Path) -> None:
    path = tmp_path / "events"
    config = to_file(path)
    events: list[Event] = []
    lineage = Lineage(events.append)
    assert lineage.status() is None
    now = Now(config, plan_of(config), CheckpointState())
    lineage.follow(now)
    wait_for(lambda: states(path) == [("START", "central.copy.orders")], "it begins")
    lineage.follow(replace(now, plan=plan_of(config, "payments")))
    wait_for(lambda: ("START", "central.copy.payments") in states(path), "another topic")
    lineage.follow(now)
    wait_for(lambda: ("COMPLETE", "central.copy.payments") in states(path), "it is gone")
    status = lineage.status()
    assert status is not None
    assert (status.jobs, status.events, status.error) == (1, 3, "")
    lineage.end()
    lineage.stop()
    assert states(path)[3:] == [("COMPLETE", "central.copy.orders")]
    for event in sent(path):
        assert event_problems(event) == []
        assert event["run"]["facets"]["parent"]["job"]["name"] == "central"
        assert event["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    runs = {it["job"]["name"]: it["run"]["runId"] for it in sent(path)}
    assert len(set(runs.values())) == 2
    assert all(it["run"]["runId"] == runs[it["job"]["name"]] for it in sent(path))
    assert events == []


def test_a_table_is_shown_with_its_columns_once_it_is_there(tmp_path: Path) -> None:
    path, table = tmp_path / "events", tmp_path / "table"
    catalog = Catalog(to_file(path))
    job = LineageJob("a", (), Dataset("file", str(table)))
    catalog.send("START", job)
    catalog.send("RUNNING", replace(job, output=Dataset("s3://bucket", "table")))
    write_deltalake(table, pa.table({"value": [b"x"], "at": [1], "tags": [["x"]]}))
    catalog.send("RUNNING", job)
    (table / "_delta_log" / f"{0:020}.json").write_text("{")
    catalog.send("RUNNING", job)
    catalog.close()
    events = sent(path)
    assert [event_problems(it) for it in events] == [[]] * 4
    facets = [it["outputs"][0].get("facets", {}) for it in events]
    assert [facets[at] for at in (0, 1, 3)] == [{}] * 3
    assert [(it["name"], it["type"]) for it in facets[2]["schema"]["fields"]] == [
        ("value", "binary"),
        ("at", "long"),
        ("tags", "array"),
    ]


def test_the_schemas_find_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "events"
    catalog = Catalog(to_file(path))
    catalog.send("START", LineageJob("a", (), Dataset("file", "/a")))
    catalog.close()
    (event,) = sent(path)
    assert event_problems(event) == []
    event["run"]["runId"] = "no uuid"
    event["job"]["facets"]["jobType"].pop("integration")
    assert len(event_problems(event)) == 2


@contextmanager
def receiver(answer: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An HTTP server that keeps what it is sent, and gives this answer."""
    kept: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            kept.append({"path": self.path, "key": self.headers["Authorization"], **body})
            self.send_response(answer)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_catalog_that_refuses_is_named_and_delays_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(emitter, "RETRY_SECONDS", 0.01)
    events: list[Event] = []
    lineage = Lineage(events.append)
    key = {"type": "api_key", "apiKey": "confidential"}
    with receiver(403) as (refusing, _), receiver(201) as (taking, kept):
        transport = {"type": "http", "url": refusing, "auth": key}
        config = config_of(f"lineage.transport={json.dumps(transport)}")
        now = Now(config, plan_of(config), CheckpointState())
        lineage.follow(now)
        wait_for(lambda: bool(events), "it says that it cannot")
        assert [it.kind for it in events] == ["lineage_failed"]
        status = lineage.status()
        assert status is not None
        assert "403" in status.error
        assert "confidential" not in status.error + str(events)
        assert status.attention().startswith("no lineage is reported: ")
        assert (status.jobs, status.events) == (0, 0)
        # Another address, as a reload of the config gives it.
        other = config_of(f"lineage.transport={json.dumps({**transport, 'url': taking})}")
        lineage.follow(replace(now, config=other))
        wait_for(lambda: bool(kept), "the other one takes it")
        lineage.end()
        lineage.stop()
    assert [it["eventType"] for it in kept] == ["START", "COMPLETE"]
    assert {it["path"] for it in kept} == {"/api/v1/lineage"}
    assert {it["key"] for it in kept} == {"Bearer confidential"}


def test_without_a_catalog_any_more_nothing_is_due(tmp_path: Path) -> None:
    config = to_file(tmp_path / "events", "lineage.interval=1s")
    events: list[Event] = []
    lineage = Lineage(events.append)
    now = Now(config, plan_of(config), CheckpointState())
    lineage.follow(now)
    wait_for(lambda: bool(sent(tmp_path / "events")), "it begins")
    lineage.follow(replace(now, config=config_of()))
    # Else the loop would take one turn after the other as soon as the interval is over.
    wait_for(lambda: not lineage._reported, "what was reported is forgotten")
    lineage.end()
    lineage.stop()
    assert lineage.status() is None


def test_a_transport_without_a_type_and_one_that_is_unknown_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"lineage\.transport: has no type; write type: http"):
        config_of('lineage.transport={"url": "http://catalog:5000"}')
    config = config_of('lineage.transport={"type": "file"}')
    with pytest.raises(ConfigError, match=r"lineage\.transport: .*log_file_path"):
        Catalog(config)
    config = config_of('lineage.transport={"type": "kafka", "topics": "lineage"}')
    with pytest.raises(ConfigError, match=r"\.topics: is not known(?s:.*)\.topic: is missing"):
        Catalog(config)
    config = config_of('lineage.transport={"type": "kafka", "topic": "a", "config": {"acks": "x"}}')
    with pytest.raises(ConfigError, match=r"lineage\.transport: .*acks"):
        Catalog(config)


def test_without_the_package_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openlineage.client.transport", None)
    with pytest.raises(ConfigError, match=r"pip install 'kafka-aggregator\[lineage\]'"):
        Catalog(to_file(tmp_path / "events"))


def test_emissions_are_ends_first() -> None:
    job = LineageJob("a", (), Dataset("file", "/a"))
    other = replace(job, name="b")
    found = plan_emissions((other,), {"a": Reported(job, 0.0)}, 1.0, 9.0)
    assert found == (Emission("COMPLETE", job), Emission("START", other))


def test_an_end_that_could_not_be_sent_is_sent_again_as_that_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events"
    catalog = Catalog(to_file(path))
    job = LineageJob("a", (), Dataset("file", "/a"))
    catalog.send("START", job)

    def refuse(_: object) -> None:
        raise OSError("no answer")

    with monkeypatch.context() as away:
        away.setattr(catalog._transport, "emit", refuse)
        with pytest.raises(OSError, match="no answer"):
            catalog.send("COMPLETE", job)
    catalog.send("COMPLETE", job)
    catalog.send("START", job)
    catalog.close()
    first, end, next_one = (it["run"]["runId"] for it in sent(path))
    assert first == end != next_one
