"""The timeline of gaps, quarantine, recoveries and audits; and audits as they are read back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from aggregator.api.incidents import Incident, incidents
from aggregator.features.quarantine.quarantined import QuarantinedRecord
from aggregator.features.timeline.timeline_report import EventRow
from aggregator.features.verify.audit_report import HubTopicResult, PartitionResult, VerifyReport
from aggregator.features.verify.audit_table import append_audit, rows_of
from aggregator.features.verify.past_audits import AuditSummary, PastAudits
from aggregator.status.schema import GapStatus, RecoveryStatus
from aggregator.store.state_store import StateStore
from support.statuses import NOW

MINUTE = timedelta(minutes=1)


def gap(**parts: Any) -> GapStatus:
    fields: dict[str, Any] = {
        "id": "g1",
        "cluster": "eu",
        "topic": "orders",
        "partition": 3,
        "cause": "BELOW_EARLIEST",
        "from_offset": 20,
        "to_offset": 30,
        "lost": 10,
        "position": 20,
        "reason": "20 to 29 were deleted",
        "found_at": NOW,
        "epoch": 1,
        "cluster_id_then": "c",
        "cluster_id_now": "c",
        "topic_id_then": "t",
        "topic_id_now": "t",
        "decision": "stop",
        "decided_at": None,
        "resolved": False,
        "resumes_at": None,
        "note": "",
    }
    return GapStatus(**{**fields, **parts})


def record(**parts: Any) -> QuarantinedRecord:
    fields: dict[str, Any] = {
        "origin": "eu/orders-3@5",
        "source": "eu",
        "topic": "orders",
        "partition": 3,
        "offset": 5,
        "timestamp_ms": 1,
        "reason": "too_large",
        "hub_topic": "orders",
        "bytes": 9,
        "kept": "whole",
        "state": "open",
        "detail": "",
        "quarantined_at_ms": int(NOW.timestamp() * 1000),
    }
    return QuarantinedRecord(**{**fields, **parts})


def recovery() -> RecoveryStatus:
    return RecoveryStatus(
        at=NOW, partitions=3, tail=100, found=90, holed=1, replayed=10, seconds=0.7
    )


def audit(**parts: Any) -> AuditSummary:
    fields: dict[str, Any] = {
        "audit": "a",
        "at": NOW,
        "seconds": 2.0,
        "commit": 5,
        "exit_code": 0,
        "partitions": 6,
        "expected": 100,
        "missing": 0,
        "twice": 0,
        "altered": 0,
        "out_of_order": 0,
        "foreign": 0,
    }
    return AuditSummary(**{**fields, **parts})


def one(*found: Incident) -> Incident:
    (only,) = found
    return only


@pytest.mark.parametrize(
    ("parts", "level", "state", "is_open"),
    [
        ({}, "error", "open", True),
        ({"decision": "accept", "decided_at": NOW}, "warning", "accepted, continues soon", False),
        ({"decided_at": NOW, "resolved": True}, "warning", "decided", False),
    ],
)
def test_a_gap_waits_until_somebody_decides(
    parts: dict[str, Any], level: str, state: str, is_open: bool
) -> None:
    it = one(*incidents([gap(**parts)], (), None, (), ()))
    assert (it.level, it.state, it.open, it.id) == (level, state, is_open, "g1")
    assert it.what == "orders-3, offsets 20 to 29: 20 to 29 were deleted"


@pytest.mark.parametrize(
    ("state", "is_open"),
    [("open", True), ("refused", True), ("trying", True), ("retried", False)],
)
def test_a_quarantined_record_waits_until_the_hub_has_it(state: str, is_open: bool) -> None:
    it = one(*incidents((), [record(state=state)], None, (), ()))
    assert (it.open, it.id, it.at) == (is_open, "eu/orders-3@5", NOW)


def test_an_audit_says_what_is_wrong() -> None:
    well, partly, wrong = (
        one(*incidents((), (), None, (), [it]))
        for it in (audit(), audit(exit_code=3), audit(exit_code=4, missing=2, out_of_order=1))
    )
    assert (well.level, well.state) == ("info", "well") and "all is well" in well.what
    assert partly.state == "partly"
    assert (wrong.level, wrong.state) == ("error", "wrong")
    assert wrong.what.endswith("wrong: 2 missing, 1 out of order")
    unsure = one(*incidents((), (), None, (), [audit(not_judged=1_500)]))
    assert unsure.what.endswith("nothing is wrong in them; 1,500 could not be judged")


def test_all_are_in_one_timeline_and_a_recovery_is_shown_once() -> None:
    earlier = EventRow(
        id=1, at=NOW - MINUTE, kind="recovering", level="info", message="reading 5 offsets"
    )
    # The event of the recovery that the status itself shows, logged when it began.
    begun = NOW - timedelta(seconds=1)
    own = earlier.model_copy(update={"at": begun, "message": "reading 100 offsets"})
    found = incidents(
        [gap(found_at=NOW + 2 * MINUTE)],
        [record()],
        recovery(),
        [earlier, own],
        [audit(at=NOW - 2 * MINUTE)],
    )
    assert [str(it.kind) for it in found] == [
        *("gap", "quarantine", "recovery", "recovery", "audit")
    ]
    assert [it.what.split(":")[0] for it in found if it.kind == "recovery"] == [
        "3 partitions",
        "reading 5 offsets",
    ]


def test_audits_are_read_back_as_they_were_recorded(tmp_path: Path) -> None:
    past = PastAudits(StateStore(str(tmp_path)))
    assert past.newest(20) == ()
    for number in range(3):
        report = VerifyReport(
            audit=f"a{number}",
            name="central",
            at=NOW + number * MINUTE,
            seconds=1.5,
            commit=7,
            partitions=tuple(
                PartitionResult(
                    cluster="eu",
                    topic="orders",
                    partition=at,
                    hub_topic="orders",
                    expected=10,
                    present=9,
                    missing=number,
                    foreign=1,
                )
                for at in range(4)
            ),
            hub_topics=(HubTopicResult(topic="orders", no_origin=3, no_such_record=1),),
        )
        append_audit(StateStore(str(tmp_path)), rows_of(report))
        assert past.newest(1)[0].audit == f"a{number}"
    newest, before = past.newest(2)
    assert (newest.audit, before.audit) == ("a2", "a1")
    assert (newest.partitions, newest.expected, newest.missing) == (4, 40, 8)
    # Once, where they lie: as the report counts them.
    assert newest.foreign == 4 == report.totals.foreign
    assert newest.findings == "8 missing, 4 foreign"
    assert newest.exit_code == 4
