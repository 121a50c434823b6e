"""The newest audit as a running instance sees it: a table that is read, and never waited for."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from aggregator.audits.table import SCHEMA, append_audit
from aggregator.audits.watch import AuditWatch
from aggregator.cli.render import to_text
from aggregator.cli.status import report_of_status
from aggregator.config.schema import CheckpointConfig
from aggregator.documents.document import AuditStatus
from aggregator.verify.core import Standing
from aggregator.verify.record import rows_of
from aggregator.verify.report import HubTopicResult, PartitionResult, VerifyReport
from support.reading import wait_for
from support.statuses import NOW, status_with

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


def record(folder: Path, hours: int = 0, no_origin: int = 0, **counts: int) -> None:
    """An audit of three partitions, of which one was silent and one has these counts."""
    partitions = (
        PartitionResult(cluster="eu", topic="t", partition=0, hub_topic="t", **counts),
        PartitionResult(cluster="eu", topic="t", partition=1, hub_topic="t", expected=5, present=5),
        PartitionResult(
            cluster="us", topic="t", partition=0, hub_topic="t", standing=Standing.UNREACHABLE
        ),
    )
    report = VerifyReport(
        audit=f"audit {hours}",
        name="central",
        at=AT + timedelta(hours=hours),
        seconds=1.0,
        partitions=partitions,
        hub_topics=(HubTopicResult(topic="t", no_origin=no_origin),),
    )
    append_audit(str(folder), {}, rows_of(report))


@pytest.fixture
def watch(tmp_path: Path) -> AuditWatch:
    return AuditWatch(CheckpointConfig(path=str(tmp_path)))


def seen(watch: AuditWatch) -> AuditStatus:
    watch.look()
    assert watch.latest is not None
    return watch.latest


def test_without_an_audit_there_is_nothing_to_show(watch: AuditWatch) -> None:
    watch.look()
    assert watch.latest is None


def test_the_newest_audit_counts_and_no_other(watch: AuditWatch, tmp_path: Path) -> None:
    record(tmp_path, 0, expected=9, present=7, missing=2, no_origin=4)
    first = seen(watch)
    assert (first.at, first.wrong) == (AT, True)
    assert (first.partitions, first.not_compared) == (3, 1)
    assert (first.expected, first.present, first.missing, first.foreign) == (14, 12, 2, 4)
    # One that began later and was recorded first stays the newest.
    record(tmp_path, 2, expected=9, present=9)
    record(tmp_path, 1, expected=9, present=9, twice=1)
    newest = seen(watch)
    assert (newest.at, newest.wrong) == (AT + timedelta(hours=2), False)
    assert (newest.expected, newest.missing, newest.twice, newest.foreign) == (14, 0, 0, 0)


def test_a_table_of_an_older_version_counts_what_was_not_judged_from_now_on(
    watch: AuditWatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = pa.schema([field for field in SCHEMA if field.name not in ("forgotten", "not_begun")])
    with monkeypatch.context() as patched:
        patched.setattr("aggregator.audits.table.SCHEMA", older)
        record(tmp_path, 0, expected=9, present=7, expired=2)
    assert seen(watch).not_judged == 2
    record(tmp_path, 1, expected=9, present=9, forgotten=3, not_begun=1, ahead=50, superseded=4)
    assert seen(watch).not_judged == 4


def test_a_table_that_cannot_be_read_is_told_beside_what_is_known(
    watch: AuditWatch, tmp_path: Path
) -> None:
    record(tmp_path, expected=9, present=7, missing=2)
    assert seen(watch).error == ""
    (commit,) = (tmp_path / "audits" / "_delta_log").glob("*.json")
    text = commit.read_text("utf-8")
    commit.write_text("")
    broken = seen(watch)
    assert "audits" in broken.error and broken.missing == 2
    commit.write_text(text)
    assert seen(watch).error == ""
    shutil.rmtree(tmp_path / "audits")
    watch.look()
    assert watch.latest is None


def test_a_damaged_table_of_which_nothing_is_known_is_told_as_well(
    watch: AuditWatch, tmp_path: Path
) -> None:
    record(tmp_path)
    (commit,) = (tmp_path / "audits" / "_delta_log").glob("*.json")
    commit.write_text("")
    assert seen(watch).at is None
    assert "audits" in seen(watch).error


def test_its_thread_looks_by_itself_and_ends(
    watch: AuditWatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.audits.watch.LOOK_SECONDS", 0.05)
    watch.start()
    record(tmp_path, expected=1, present=1)
    wait_for(lambda: watch.latest is not None and watch.latest.expected == 6, "it is seen")
    watch.stop()
    assert not watch._thread.is_alive()


@pytest.mark.parametrize(
    ("audit", "words"),
    [
        (AuditStatus(at=NOW, expected=1234), "1,234 records judged, nothing is wrong"),
        (AuditStatus(at=NOW, wrong=True, missing=2), "2 missing (aggregator verify)"),
        (AuditStatus(error="no right"), "Audits cannot be read: no right"),
        (AuditStatus(at=NOW, error="no right"), "a newer one may not be known: no right"),
    ],
)
def test_the_status_has_a_line_for_it(audit: AuditStatus, words: str) -> None:
    assert words in to_text(report_of_status(status_with(audit=audit)), tty=False)
    assert "Audit" not in to_text(report_of_status(status_with()), tty=False)
