"""`aggregator verify` without a cluster: what can be asked, how it ends, how it is shown."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.cli.render import to_text
from aggregator.cli.verify import report_of_audit
from aggregator.features.verify.audit_report import (
    Finding,
    HubTopicResult,
    PartitionResult,
    VerifyReport,
)
from aggregator.features.verify.audit_scope import Standing
from aggregator.features.verify.audit_table import SCHEMA, rows_of
from aggregator.model.errors import EXIT_CLUSTER, EXIT_CONFIG, EXIT_DATA, EXIT_DONE

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
CONFIG = """
hub: {bootstrap_servers: "127.0.0.1:2"}
sources:
  eu: {bootstrap_servers: "127.0.0.1:1", topics: {include: orders}}
"""
ONE = ["--source", "eu", "--topic", "t", "--partition", "0"]


def partition(**parts: Any) -> PartitionResult:
    plain = {"cluster": "eu", "topic": "orders", "partition": 0, "hub_topic": "orders"}
    return PartitionResult(**{**plain, **parts})


def audit(*partitions: PartitionResult, **parts: Any) -> VerifyReport:
    plain = {"audit": "id", "name": "central", "at": AT, "seconds": 1.5, "partitions": partitions}
    return VerifyReport(**{**plain, **parts})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--source", "us"], "sources are eu"),
        (["--from-offset", "5"], "of one partition"),
        (["--source", "eu", "--topic", "t", "--to-offset", "5"], "of one partition"),
        (["--since", "yesterday"], "--since yesterday"),
        (["--until", "2026-01-31T12:00:00"], "no UTC offset"),
        (["--last", "a while"], "--last"),
        (["--last", "1h", "--since", "2026-01-31T12:00:00Z"], "not both"),
        ([*ONE, "--from-offset", "5", "--last", "1h"], "by offset or by time"),
    ],
)
def test_what_makes_no_sense_is_refused(options: list[str], said: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(CONFIG)
    done = CliRunner().invoke(app, ["verify", "-c", str(file), *options])
    assert done.exit_code == EXIT_CONFIG
    assert said in done.stderr


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (audit(partition(expected=5, present=5)), EXIT_DONE),
        (audit(partition(expected=5, present=2, expired=1, superseded=1, accounted=1)), EXIT_DONE),
        (audit(partition(missing=1)), EXIT_DATA),
        (audit(partition(twice=1)), EXIT_DATA),
        (audit(partition(altered=1)), EXIT_DATA),
        (audit(partition(out_of_order=1)), EXIT_DATA),
        (audit(partition(standing=Standing.CONFLICT)), EXIT_DATA),
        (audit(partition(standing=Standing.NOT_STARTED)), EXIT_DONE),
        (audit(partition(standing=Standing.UNREACHABLE)), EXIT_CLUSTER),
        (audit(partition(), unreachable={"us": "gone"}), EXIT_CLUSTER),
        (audit(partition(missing=1), unreachable={"us": "gone"}), EXIT_DATA),
        (audit(hub_topics=(HubTopicResult(topic="t", no_origin=1),)), EXIT_DATA),
    ],
)
def test_how_it_ends(report: VerifyReport, code: int) -> None:
    assert report.exit_code == code


def test_what_others_write_may_be_allowed_and_forgeries_may_not() -> None:
    theirs = HubTopicResult(topic="t", no_origin=3, unknown_source=2)
    assert audit(hub_topics=(theirs,), allow_foreign=True).exit_code == EXIT_DONE
    assert audit(hub_topics=(theirs,)).totals.foreign == 5
    for forged in (
        HubTopicResult(topic="t", no_such_record=1),
        HubTopicResult(topic="t", other_topic=1),
    ):
        assert audit(hub_topics=(forged,), allow_foreign=True).exit_code == EXIT_DATA


def test_it_is_shown_with_what_explains_it() -> None:
    report = audit(
        partition(expected=4, present=3, missing=1),
        partition(partition=1, standing=Standing.UNREACHABLE, reason="us: no answer"),
        hub_topics=(HubTopicResult(topic="orders", offsets=7, no_origin=1),),
        findings=(
            Finding(kind="missing", cluster="eu", topic="orders", partition=0, offset=1234),
            Finding(kind="foreign", detail="has no origin", hub_topic="orders", hub_offset=6),
        ),
        notes=("a note",),
    )
    shown = report_of_audit(report, str)
    text = to_text(shown, tty=False)
    for part in ("1,234", "has no origin", "us: no answer", "a note", "Something is wrong"):
        assert part in text
    assert "superseded" not in text
    assert shown.data["totals"]["missing"] == 1
    assert shown.data["exit_code"] == EXIT_DATA
    assert "All is well" in to_text(report_of_audit(audit(partition()), str), tty=False)


def test_all_is_well_is_said_only_of_what_was_judged() -> None:

    def said(*partitions: PartitionResult) -> str:
        return to_text(report_of_audit(audit(*partitions), str), tty=False)

    reasons = {"forgotten": 3, "not_begun": 4, "schemas_unknown": 5}
    text = said(partition(expected=9, present=9, ahead=1_200, **reasons), partition(expired=1_000))
    assert "All is well" not in text
    assert (
        "Nothing is wrong in what could be judged. Not judged: 1,000 expired, 4 not begun, "
        "3 forgotten, 5 schemas unknown."
    ) in text
    assert "1,200 offsets above the checkpoint's positions are not judged yet" in text
    assert "Something is wrong. Not judged: 2 excused." in said(partition(missing=1, excused=2))
    # What another record proves was judged.
    assert "All is well" in said(partition(expected=3, present=1, superseded=1, accounted=1))
    unreadable = audit(partition(standing=Standing.UNREADABLE, reason="nanoseconds"))
    assert unreadable.exit_code == EXIT_CLUSTER


def test_a_report_fits_the_table_of_audits() -> None:
    report = audit(
        partition(expected=4, present=3, missing=1),
        hub_topics=(HubTopicResult(topic="orders", no_origin=2),),
        commit=9,
    )
    rows = rows_of(report)
    assert set().union(*rows) <= set(SCHEMA.names)
    written = pa.Table.from_pylist(rows, schema=SCHEMA).to_pylist()
    assert [(row["kind"], row["missing"], row["foreign"]) for row in written] == [
        ("partition", 1, 0),
        ("hub_topic", None, 2),
    ]
    assert {(row["audit"], row["commit"], row["exit_code"]) for row in written} == {("id", 9, 4)}
