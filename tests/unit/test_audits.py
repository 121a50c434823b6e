"""The newest audit as a running instance sees it: a table that is read, and never waited for."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from aggregator.cli.render import to_text
from aggregator.cli.status import report_of_status
from aggregator.config.schema import CheckpointConfig, Config
from aggregator.features.maintenance.maintain_all import maintain_all
from aggregator.features.verify.audit_report import HubTopicResult, PartitionResult, VerifyReport
from aggregator.features.verify.audit_scope import Standing
from aggregator.features.verify.audit_table import SCHEMA, append_audit, rows_of, trim_audits
from aggregator.features.verify.audit_table import record as write_audit
from aggregator.features.verify.past_audits import AuditWatch
from aggregator.model.values import SourcePartition
from aggregator.plan.positions.gaps import GapRecord, gap_id
from aggregator.plan.positions.start import Gap, GapKind
from aggregator.status.schema import AuditStatus
from aggregator.store import state_store
from aggregator.store.gaps import GapTable
from aggregator.store.state_store import StateStore
from support.reading import wait_for
from support.statuses import NOW, status_with

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
BEFORE = AT - timedelta(minutes=1)


def report_of(hours: int = 0, no_origin: int = 0, **counts: int) -> VerifyReport:
    """An audit of three partitions, of which one was silent and one has these counts."""
    partitions = (
        PartitionResult(cluster="eu", topic="t", partition=0, hub_topic="t", **counts),
        PartitionResult(cluster="eu", topic="t", partition=1, hub_topic="t", expected=5, present=5),
        PartitionResult(
            cluster="us", topic="t", partition=0, hub_topic="t", standing=Standing.UNREACHABLE
        ),
    )
    return VerifyReport(
        audit=f"audit {hours}",
        name="central",
        at=AT + timedelta(hours=hours),
        seconds=1.0,
        partitions=partitions,
        hub_topics=(HubTopicResult(topic="t", no_origin=no_origin),),
    )


def record(folder: Path, hours: int = 0, no_origin: int = 0, **counts: int) -> None:
    """Append such an audit."""
    append_audit(StateStore(str(folder)), rows_of(report_of(hours, no_origin, **counts)))


@pytest.fixture
def watch(tmp_path: Path) -> AuditWatch:
    return AuditWatch(CheckpointConfig(path=str(tmp_path)))


def seen(watch: AuditWatch) -> AuditStatus:
    watch._loop.take_turn()
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
        patched.setattr("aggregator.features.verify.audit_table.SCHEMA", older)
        record(tmp_path, 0, expected=9, present=7, expired=2)
    assert seen(watch).not_judged == 2
    record(tmp_path, 1, expected=9, present=9, forgotten=3, not_begun=1, ahead=50, superseded=4)
    assert seen(watch).not_judged == 4


def test_a_table_that_cannot_be_read_is_reported_beside_what_is_known(
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


def test_a_damaged_table_of_which_nothing_is_known_is_reported_as_well(
    watch: AuditWatch, tmp_path: Path
) -> None:
    record(tmp_path)
    (commit,) = (tmp_path / "audits" / "_delta_log").glob("*.json")
    commit.write_text("")
    assert seen(watch).at is None
    assert "audits" in seen(watch).error


def config_at(path: Path, **parts: Any) -> Config:
    """A config whose checkpoint is there."""
    eu = {"bootstrap_servers": "eu:1", "topics": {"include": "t"}}
    hub = {"bootstrap_servers": "hub:1"}
    tree = {"name": "central", "hub": hub, "sources": {"eu": eu}, "checkpoint": {"path": str(path)}}
    return Config.model_validate({**tree, **parts})


def audits_in(folder: Path) -> list[str]:
    rows = DeltaTable(str(folder / "audits")).to_pyarrow_table(columns=["audit"])
    return sorted(set(rows["audit"].to_pylist()))


def test_old_audits_are_dropped_but_the_newest_of_each_partition_and_hub_topic_stays(
    watch: AuditWatch, tmp_path: Path
) -> None:
    assert trim_audits(StateStore(str(tmp_path)), AT) is None
    record(tmp_path, 0, expected=9, present=9)
    gone = PartitionResult(cluster="it's", topic="gone", partition=0, hub_topic="gone", expected=4)
    alone = VerifyReport(
        audit="it's gone", name="central", at=BEFORE, seconds=1.0, partitions=(gone,)
    )
    append_audit(StateStore(str(tmp_path)), rows_of(alone))
    for hours in (1, 2, 3):
        record(tmp_path, hours, expected=9, present=9 - hours, missing=hours)
    assert trim_audits(StateStore(str(tmp_path)), AT + timedelta(hours=2)) == 8
    assert audits_in(tmp_path) == ["audit 2", "audit 3", alone.audit]
    assert (seen(watch).missing, seen(watch).at) == (3, AT + timedelta(hours=3))
    # All are old, by now.
    assert trim_audits(StateStore(str(tmp_path)), AT + timedelta(days=90)) == 4
    assert audits_in(tmp_path) == ["audit 3", alone.audit]
    assert seen(watch).missing == 3


def test_a_table_is_trimmed_by_the_audit_that_is_due_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_store, "TIDY_EVERY", 3)
    config = config_at(tmp_path)
    for hours in range(4):
        write_audit(config, report_of(hours))
        assert len(audits_in(tmp_path)) == (hours + 1 if hours < 3 else 1)


def test_upkeep_maintains_the_tables_of_gaps_and_audits_that_are_there(tmp_path: Path) -> None:
    state = tmp_path / "state"
    config = config_at(state, tee={"path": str(tmp_path / "none")})
    state.mkdir()
    names = {it.table for it in maintain_all(config).tables}
    assert not names & {"gaps", "audits"}
    for hours in range(3):
        write_audit(config, report_of(hours))
    gap = Gap(SourcePartition("eu", "t", 0), GapKind.BELOW_EARLIEST, 2, 5, "deleted", 2, 3)
    GapTable(StateStore(str(state))).append([GapRecord(gap_id(gap), gap, AT, 1)])
    done = {it.table: it for it in maintain_all(config).tables}
    assert (done["audits"].done, done["audits"].rows_deleted) == (True, 8)
    assert (done["gaps"].done, done["gaps"].rows_deleted) == (True, 0)
    assert audits_in(state) == ["audit 2"]


def test_its_thread_looks_by_itself_and_ends(
    watch: AuditWatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.features.verify.past_audits.LOOK_SECONDS", 0.05)
    watch.start()
    record(tmp_path, expected=1, present=1)
    wait_for(lambda: watch.latest is not None and watch.latest.expected == 6, "it is seen")
    watch.stop()
    assert not watch._loop.is_alive


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
