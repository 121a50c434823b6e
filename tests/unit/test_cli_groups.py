"""`aggregator groups`: what it prints, and how it ends. What it does has real clusters
(tests/integration/test_groups_at_the_hub.py)."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from aggregator.cli.groups import report_of_group
from aggregator.cli.main import app
from aggregator.cli.render import to_text
from aggregator.features.groups.group_report import (
    GroupAtHub,
    GroupAtSource,
    GroupReport,
    UntranslatedTopic,
)
from aggregator.features.groups.hub_offsets import PlaceVerdict
from aggregator.model.errors import EXIT_CLUSTER, EXIT_CONFIG

SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=t",
    "supervision.connect_timeout=0.2s",
)


def invoke(*words: str) -> tuple[int, str]:
    sets = [word for value in SETS for word in ("--set", value)]
    done = CliRunner().invoke(app, ["groups", *words, *sets])
    return done.exit_code, done.output


def place(partition: int, verdict: PlaceVerdict, again: int | None = 0) -> GroupAtHub:
    return GroupAtHub(
        topic="all.orders",
        partition=partition,
        offset=1200,
        again=again,
        at_end=False,
        before=None,
        verdict=verdict,
        reason="why" if verdict is PlaceVerdict.ACTIVE else "",
    )


def report(*places: GroupAtHub, dry_run: bool = False, refused: bool = False) -> GroupReport:
    return GroupReport(
        name="central",
        group="billing",
        dry_run=dry_run,
        bootstrap_servers="hub:9092",
        sources=(GroupAtSource(source="eu", state="EMPTY", partitions=3, waiting=7),),
        partitions=places,
        refused=(UntranslatedTopic(topic="other", reason="is not there"),) if refused else (),
        notes=("said",),
    )


def test_the_report_ends_with_what_has_to_start_where() -> None:
    found = report(place(0, PlaceVerdict.WRITE, 5), place(1, PlaceVerdict.SAME, 2))
    assert (found.done, found.again) == (True, 7)
    text = to_text(report_of_group(found), tty=False)
    assert "bootstrap.servers=hub:9092, group.id=billing, topics all.orders." in text
    assert "They miss nothing. Read again: 7 records." in text
    assert "note: said" in text
    assert json.loads(json.dumps(report_of_group(found).data))["again"] == 7


def test_what_is_not_written_is_said_and_it_is_not_done() -> None:
    found = report(place(0, PlaceVerdict.WRITE), place(1, PlaceVerdict.ACTIVE), refused=True)
    assert not found.done
    text = to_text(report_of_group(found), tty=False)
    assert "Not all of the group is at the hub." in text
    assert "not translated: other: is not there" in text
    assert "active" in text
    assert not report(refused=True).done
    assert report(place(0, PlaceVerdict.WRITE, None)).again is None


def test_a_dry_run_says_that_nothing_was_written() -> None:
    text = to_text(report_of_group(report(place(0, PlaceVerdict.WRITE), dry_run=True)), tty=False)
    assert "would be written" in text


@pytest.mark.parametrize("words", [("list",), ("translate", "a"), ("apply", "a"), ("cutover", "a")])
def test_clusters_that_give_no_answer_end_it_with_3(words: tuple[str, ...]) -> None:
    code, text = invoke(*words)
    assert code == EXIT_CLUSTER, text
    assert "127.0.0.1:" in text


def test_usage() -> None:
    assert invoke("list", "--source", "xx") == (
        EXIT_CONFIG,
        "error: refused:\n  - there is no source xx; sources are eu\n",
    )
    code, text = invoke("apply", "a", "--timeout", "soon")
    assert code == EXIT_CONFIG
    assert "'soon' is not a duration" in text
