"""The dashboard's documents and files: what needs a person, rates, and a strict policy."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from aggregator.api.dashboard import FILES, POLICY
from aggregator.api.incidents import Incident, Incidents
from aggregator.api.latest_status import StatusHolder
from aggregator.config import load_text
from aggregator.datapath.connector.reports import bucket_bounds
from aggregator.engine.control.commands import Control
from aggregator.features.peek.topic_report import LogSpan, PeekedRecord, TopicLook
from aggregator.features.quarantine.quarantined import RetryRow
from aggregator.features.verify.audit_process import AuditRun
from aggregator.model.values import SourceState
from aggregator.status.hub_topics import HubTopics, hub_topics
from aggregator.status.overview import attention, overview, source_page
from aggregator.status.schema import (
    AuditStatus,
    CheckpointStatus,
    HeartbeatsStatus,
    PartitionState,
    Phase,
    RefusedTopicStatus,
    SourceStatus,
    Status,
)
from support.rest import SETS, ask
from support.serving import app_over, served
from support.statuses import NOW, status_with, whole_status

PAGES = sorted(path for path in FILES.rglob("*") if path.is_file())
OWN = [path for path in PAGES if path.parent.name != "vendor"]


def source_with(**parts: object) -> SourceStatus:
    fields = {"alias": "eu", "state": SourceState.RUNNING, "since": NOW, "topics": 1}
    return SourceStatus.model_validate({**fields, **parts})


def test_rates_are_of_two_moments() -> None:
    before = status_with(sources=(source_with(records=100, bytes=1_000),))
    now = before.model_copy(
        update={
            "at": NOW + timedelta(seconds=20),
            "sources": (source_with(records=300, bytes=5_000), source_with(alias="us", records=9)),
        }
    )
    eu, us = overview(now, before, {"eu": "Frankfurt"}).sources
    assert (eu.title, eu.records_per_second, eu.bytes_per_second) == ("Frankfurt", 10, 200)
    # It was not there before: nothing is known of its rate.
    assert (us.title, us.records_per_second) == ("", None)


@pytest.mark.parametrize(
    ("status", "level", "words"),
    [
        (status_with(phase=Phase.FAILED, reason="the hub is gone"), "error", "the hub is gone"),
        (
            status_with(checkpoint=CheckpointStatus(path="/s", error="the disk is full")),
            "error",
            "cannot be committed: the disk is full",
        ),
        (
            status_with(sources=(source_with(state=SourceState.UNREACHABLE, reason="no answer"),)),
            "error",
            "unreachable: no answer",
        ),
        (
            status_with(audit=AuditStatus(at=NOW, wrong=True, twice=3, not_compared=1)),
            "error",
            "found 3 twice, 1 partitions not compared (aggregator verify)",
        ),
        (status_with(sources=(source_with(topics=0),)), "warning", "none of its topics matches"),
        (
            status_with(
                refused_topics=(
                    RefusedTopicStatus(hub_topic="a", sources=("eu/a", "us/a"), reason="compacted"),
                )
            ),
            "warning",
            "eu/a, us/a not taken into hub topic a: compacted",
        ),
        (status_with(sources=(source_with(group_error="no right"),)), "warning", "no right"),
        (
            status_with(heartbeats=HeartbeatsStatus(topic="heartbeats", error="no right")),
            "warning",
            "no heartbeats are written: no right",
        ),
    ],
)
def test_what_needs_a_person_is_said(status: Status, level: str, words: str) -> None:
    (found,) = attention(status)
    assert found.level == level and words in found.what


def test_a_reason_that_names_source_and_state_is_said_once() -> None:
    source = source_with(state=SourceState.UNREACHABLE, reason="eu: unreachable: no answer")
    (found,) = attention(status_with(sources=(source,)))
    assert (found.source, found.what) == ("eu", "unreachable: no answer")


def test_partitions_that_are_not_read_are_reported_once_for_a_source() -> None:
    status = whole_status(partitions=3)
    held = [
        it.model_copy(update={"state": PartitionState.HELD, "reason": "no leader"})
        for it in status.partitions
    ]
    found = list(attention(status.model_copy(update={"partitions": tuple(held)})))
    assert [it.what for it in found] == ["3 partitions are not read: no leader"]


def test_where_all_is_well_nothing_needs_a_person() -> None:
    assert list(attention(whole_status())) == []


def test_a_source_is_shown_topic_by_topic() -> None:
    page = source_page(whole_status(sources=2, topics=2), None, {}, "s1")
    assert page is not None and page.source.alias == "s1"
    assert [it.topic for it in page.topics] == ["t0", "t1"]
    (topic, _) = page.topics
    assert (topic.hub_topic, topic.partitions, topic.records) == ("hub.t0", 2, 10)
    assert (topic.states, topic.lag) == ({"QUARANTINED": 1, "RUNNING": 1}, 10)
    assert source_page(whole_status(), None, {}, "nix") is None


def test_five_thousand_partitions_make_a_small_overview() -> None:
    status = whole_status(sources=50, topics=10, partitions=10)
    assert len(overview(status, None, {}).model_dump_json()) < 100_000


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One for all: nothing is changed by it."""
    state = tmp_path_factory.mktemp("pages")
    config = load_text("", [*SETS, f"checkpoint.path={state}", "api.read_token=read-me-0123456789"])
    holder, status = StatusHolder(), whole_status()
    holder.put(status.at, status.phase, lambda: status)
    with served(app_over(Control(config), holder)) as server:
        yield server.url


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(FILES)))
def test_every_file_is_served_without_a_token_and_under_the_policy(url: str, path: Path) -> None:
    place = f"{url}/ui/{path.relative_to(FILES)}"
    with urllib.request.urlopen(place, timeout=60) as answer:
        assert answer.read() == path.read_bytes()
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_browser_is_led_to_the_page_and_a_tool_is_not(url: str) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    request = urllib.request.Request(url, headers=browser)
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.url == f"{url}/ui/" and b"<main" in answer.read()
    assert ask("GET", url + "/")[0] == 401
    token = {"authorization": "Bearer read-me-0123456789"}
    assert "kafka_cluster_id" in ask("GET", url + "/", headers=token)[1]


def test_what_the_pages_ask_for_needs_the_token(url: str) -> None:
    for path in ("/api/overview", "/api/sources/s0"):
        assert ask("GET", url + path)[0] == 401
    token = {"authorization": "Bearer read-me-0123456789"}
    code, body = ask("GET", f"{url}/api/overview", headers=token)
    assert code == 200 and body["sources"][0]["alias"] == "s0"
    assert ask("GET", f"{url}/api/sources/s0", headers=token)[0] == 200
    assert ask("GET", f"{url}/api/sources/nix", headers=token)[0] == 404
    assert ask("GET", f"{url}/ui/../serve/app.py", headers=token)[0] in (400, 404)


def test_all_calls_are_described_by_openapi_and_no_page_of_another_host_shows_them(
    url: str,
) -> None:
    token = {"authorization": "Bearer read-me-0123456789"}
    code, body = ask("GET", f"{url}/api/openapi.json", headers=token)
    assert code == 200 and body["openapi"].startswith("3.")
    for path in ("/api/overview", "/api/sources/{alias}", "/api/status", "/connectors/{name}"):
        assert path in body["paths"]
    for path in ("/docs", "/redoc", "/api/docs"):
        assert ask("GET", url + path, headers=token)[0] == 404


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_nothing_is_asked_of_another_host_and_nothing_is_inline(path: Path) -> None:
    text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|//[a-z]+\.[a-z]", text)
    if path.suffix == ".html":
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|style=", text)
    if path.suffix == ".js":
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)


def test_every_module_that_is_imported_and_every_file_that_is_named_is_there() -> None:
    for path in OWN:
        text = path.read_text("utf-8")
        named = re.findall(r"from \"(\./[^\"]+)\"|(?:src|href)=\"([^\"#/][^\"]*)\"", text)
        for one, other in named:
            assert (FILES / (one or other)).is_file(), f"{path.name} names {one or other}"


def test_each_field_that_a_page_shows_is_in_its_document() -> None:
    """The pages are no part of the types: a field that was renamed would show as undefined."""
    status = whole_status()
    page = source_page(status, None, {}, "s0")
    assert page is not None
    known = json.loads(page.model_dump_json())
    whole = json.loads(overview(status, None, {}).model_dump_json())
    topics = json.loads(hub_topics(status, None, {}).model_dump_json())
    texts = {path.name: path.read_text("utf-8") for path in OWN if path.suffix == ".js"}
    incident = set(Incidents.model_fields)
    for name, fields in {
        "overview.js": whole.keys(),
        "source.js": known.keys(),
        "topic.js": topics.keys(),
        "incidents.js": incident,
    }.items():
        for used in re.findall(r"\bnow\.([a-z_]+)", texts[name]):
            assert used in fields, (name, used)
    for used in re.findall(r"\bt\.([a-z_]+)", texts["source.js"]):
        assert used in known["topics"][0], used
    (topic,) = topics["topics"]
    own = {*topic, *topic["sources"][0], *PeekedRecord.model_fields, *LogSpan.model_fields}
    for used in re.findall(r"\b(?:it|side)\.([a-z_]+)", texts["topic.js"]):
        assert used in {*own, "facts", "title"}, used
    looked = {*TopicLook.model_fields, *HubTopics.model_fields}
    for used in re.findall(r"\btold\.([a-z_]+)\b(?![A-Z(])", texts["topic.js"]):
        assert used in looked, used
    for used in re.findall(r"\bit\.([a-z_]+)", texts["incidents.js"]):
        assert used in {*Incident.model_fields, *RetryRow.model_fields}, used
    for used in re.findall(r"\baudit\.([a-z_]+)", texts["incidents.js"]):
        assert used in AuditRun.model_fields, used


def test_a_hub_topic_is_shown_with_all_that_goes_into_it() -> None:
    status = whole_status(sources=2, topics=1)
    later = status.model_copy(update={"at": NOW + timedelta(seconds=10)})
    (topic,) = hub_topics(later, status, {"s1": "Virginia"}).topics
    assert (topic.topic, topic.partitions, topic.records) == ("hub.t0", 4, 20)
    assert [(it.source, it.title) for it in topic.sources] == [("s0", ""), ("s1", "Virginia")]
    assert topic.records_per_second == 0
    (topic,) = hub_topics(later, None, {}).topics
    assert topic.records_per_second is None


def test_the_pages_know_the_longest_time_that_is_counted() -> None:
    found = re.search(r"LONGEST_MS = ([0-9_]+)", (FILES / "format.js").read_text("utf-8"))
    assert found is not None
    assert int(found[1]) == bucket_bounds()[-1]
