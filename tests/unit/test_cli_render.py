from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from aggregator.cli.check import report_of_checks, results_of
from aggregator.cli.plan import report_of_plan
from aggregator.cli.render import Cell, Report, Table, cell, to_json, to_text
from aggregator.kafka.admin import CheckResult
from aggregator.kafka.admin.parallel import Replies
from aggregator.model.errors import ClusterError
from aggregator.model.values import (
    ClusterFacts,
    ClusterFailure,
    FailureKind,
    Lane,
    Route,
    SourcePartition,
)
from aggregator.plan.actions import CreateTopic
from aggregator.plan.lanes.rate_limits import Limit, Pace
from aggregator.plan.lanes.slots import SlotPlan
from aggregator.plan.plan import Plan
from aggregator.plan.topics.routes import SkippedTopic

TABLE = Table("Things", ("name", "count"), [("a", 1), ("b" * 200, None)], frozenset({"count"}))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        (1234567, "1,234,567"),
        (1234.56, "1,234.6"),
        (datetime(2026, 1, 31, 13, 0, 5, tzinfo=UTC), "2026-01-31 13:00:05"),
        ("[bold]x[/bold] :smile:", "[bold]x[/bold] :smile:"),
    ],
)
def test_cells(value: Cell, text: str) -> None:
    assert cell(value) == text
    assert text in to_text(Report(None, (Table("t", ("c",), [(value,)]),)), tty=False)


def test_piped_output_is_never_cut_and_has_no_colours() -> None:
    text = to_text(Report({}, (TABLE, "a line " * 100)), tty=False)
    assert "b" * 200 in text
    assert "a line " * 99 in text
    assert "\x1b" not in text
    assert "…" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_numbers_stand_at_the_right() -> None:
    table = Table("t", ("count",), [(1,), (1000,)], frozenset({"count"}))
    assert to_text(Report({}, (table,)), tty=False).splitlines()[-2:] == ["    1", "1,000"]


def test_a_terminal_gets_its_width() -> None:
    text = to_text(Report({}, (TABLE,)), tty=True, width=60)
    assert "\x1b[1m" in text


def test_an_empty_table_is_not_shown() -> None:
    assert to_text(Report({}, (Table("Things", ("name",), []), "end")), tty=False) == "end\n"


def test_json_keeps_what_is_not_ascii() -> None:
    assert json.loads(to_json({"a": "ü"})) == {"a": "ü"}
    assert "ü" in to_json({"a": "ü"})


def test_checks_as_a_report() -> None:
    results = [
        CheckResult("(hub)", "reachable", True, "1 broker"),
        CheckResult("eu", "reachable", False, "refused", "start it"),
    ]
    report = report_of_checks(results, ["careful"])
    text = to_text(report, tty=False)
    assert "1 of 2 checks failed." in text
    assert "start it" in text
    assert "warning: careful" in text
    assert report.data["ok"] is False
    assert report.data["checks"][1]["hint"] == "start it"
    assert report_of_checks(results[:1], ()).data["ok"] is True


def test_a_cluster_without_an_answer_is_a_failed_check() -> None:
    found = results_of(Replies({}, {"eu": ClusterError("no answer within 3 s")}), "eu")
    assert found == [CheckResult("eu", "reachable", False, "no answer within 3 s")]


PLAN = Plan(
    hub=ClusterFacts("(hub)", "hub-id", 1, {}),
    sources={"eu": ClusterFacts("eu", "eu-id", 3, {})},
    failed={"us": ClusterFailure("us", FailureKind.UNREACHABLE, "connection refused")},
    routes=(Route("eu", "orders", "orders", 6, 4),),
    hub_topics={},
    actions=(CreateTopic("orders", 4, None),),
    lanes=(Lane("eu", tuple(SourcePartition("eu", "orders", each) for each in range(6))),),
    slots=SlotPlan("local[1024]", 1024, 6),
    pace=Pace({"eu": Limit(1500, 2_000_000), "us": Limit(5)}),
    tasks=4,
    skipped=tuple(SkippedTopic("eu", f"t{each}", "not in include") for each in range(8)),
    warnings=("look out",),
    refusals=("not so",),
)


def test_the_plan_as_a_report() -> None:
    report = report_of_plan(PLAN)
    nothing: dict[str, object] = {
        "gaps": [],
        "moved": {},
        "recovered": [],
        "started": [],
        "waiting": {},
    }
    assert report.data == {**PLAN.to_dict(), "first": nothing, "first_unknown": ""}
    text = to_text(report, tty=False)
    for part in (
        "hub-id",
        "unreachable: connection refused",
        "create orders: 4 partitions, replication factor default",
        "eu 1,500 records/s, eu 2,000,000 bytes/s",
        "Slots: 6 needed, 1,024 given by local[1024]",
        "Tasks: 4 for each source at most",
        "t0, t1, t2, t3, t4, and 3 more",
        "warning: look out",
        "refused: not so",
    ):
        assert part in text
