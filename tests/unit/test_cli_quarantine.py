"""`aggregator quarantine` without a hub: usage, a hub that is away, and what its tables say."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner, Result

from aggregator.cli.main import app
from aggregator.cli.quarantine import report_of_entries
from aggregator.cli.render import to_text
from aggregator.cli.status import quarantine_line
from aggregator.config import load_text
from aggregator.features.quarantine.ledger import LedgerEntry
from aggregator.features.quarantine.records import Origin, Quarantined, RecordState
from aggregator.model.values import SourcePartition
from aggregator.status.schema import QuarantineStatus

SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=orders",
    "supervision.connect_timeout=1s",
)
CONFIG = load_text(
    """
    hub: {bootstrap_servers: "127.0.0.1:9"}
    sources: {eu: {bootstrap_servers: "127.0.0.1:10", topics: {include: orders}}}
    """
)


def call(*words: str) -> Result:
    sets = [word for value in SETS for word in ("--set", value)]
    return CliRunner().invoke(app, ["quarantine", *words, *sets])


def entry(
    offset: int, state: RecordState = RecordState.OPEN, timestamp: int = 1_769_860_800_000
) -> LedgerEntry:
    origin = Origin(SourcePartition("eu", "orders", 3), offset)
    record = Quarantined(
        origin, timestamp, "too_large", "orders", 2_000_000, "key", 1, 1_769_860_801_000
    )
    return LedgerEntry(record, state, "still too large" if state is RecordState.REFUSED else "")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("retry",), "--all"),
        (("retry", "--origin", "orders-3@5"), "source/topic-partition@offset"),
        (("list", "--reason", "ugly"), "--reason"),
    ],
)
def test_usage(words: tuple[str, ...], shown: str) -> None:
    done = call(*words)
    assert done.exit_code == 2
    assert shown in done.output


@pytest.mark.parametrize("words", [("list",), ("retry", "--all")])
def test_a_hub_that_is_away_ends_with_3(words: tuple[str, ...]) -> None:
    done = call(*words)
    assert done.exit_code == 3
    assert "(hub)" in done.output


def test_the_list_is_for_eyes_and_for_programs() -> None:
    entries = [
        entry(5),
        entry(6, RecordState.REFUSED),
        entry(7, timestamp=9_000_000_000_000_000_000),
    ]
    report = report_of_entries(entries, CONFIG, 2)
    text = to_text(report, tty=False)
    assert "eu/orders-3@5" not in text
    for words in ("eu/orders-3@6", "refused", "still too large", "2,000,000", "central.quarantine"):
        assert words in text
    assert "the newest 2 of them" in text
    assert [it["offset"] for it in report.data] == [6, 7]
    assert report.data[0]["state"] == "refused"
    nothing = report_of_entries([], CONFIG, 2)
    assert nothing.data == []
    assert "Nothing in central.quarantine" in to_text(nothing, tty=False)


def test_the_status_says_what_went_aside() -> None:
    quiet = QuarantineStatus(topic="q")
    assert quarantine_line(quiet) == "Quarantine q: nothing since the start"
    some = QuarantineStatus(
        topic="q", records=3, reasons={"no_key": 2, "timestamp": 1}, newest="eu/a-0@1", error="gone"
    )
    line = quarantine_line(some)
    for words in ("3 records", "2 no_key, 1 timestamp", "eu/a-0@1", "not all is known: gone"):
        assert words in line


def test_times_are_utc() -> None:
    text = to_text(report_of_entries([entry(5)], CONFIG, 9), tty=False)
    assert datetime.fromtimestamp(1_769_860_800, UTC).strftime("%Y-%m-%d %H:%M:%S") in text
