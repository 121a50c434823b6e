"""History and events: what a minute comes to, the tables, the recorder, REST and the commands."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from typer.testing import CliRunner

from aggregator.api.latest_status import StatusHolder
from aggregator.cli.main import app
from aggregator.config.load import load_text
from aggregator.config.schema import TimelineConfig
from aggregator.engine.control.commands import Control
from aggregator.extras.embedded.waiting import wait_until
from aggregator.features.timeline import recorder as recording
from aggregator.features.timeline.minutes import history_rows, joined, moment_of
from aggregator.features.timeline.past_queries import (
    ALL,
    EVENTS,
    Joining,
    Of,
    events_log,
    history_log,
    read_history,
    within,
)
from aggregator.features.timeline.recorder import UNSAVED, Feed, Recorder
from aggregator.features.timeline.timeline_report import HistoryReport, HistoryRow
from aggregator.model.events import Event
from aggregator.model.values import SourceState
from aggregator.status.copied import Copied
from aggregator.status.schema import Phase, Status
from aggregator.store.state_store import StateStore
from support.rest import ask
from support.serving import app_over, served
from support.statuses import BOUNDS, NOW, counts, whole_status

YAML = """
name: central
hub: {{bootstrap_servers: "hub:9092"}}
sources: {{s0: {{bootstrap_servers: "s0:9092", topics: {{include: ".*"}}}}}}
checkpoint: {{path: "{path}"}}
"""


def later(status: Status, seconds: float, records: int, **source: Any) -> Status:
    """The status of a later moment: `records` more have come to topic t0."""
    first, *others = status.sources
    copied = (Copied(topic="t0", records=records, bytes=records * 100), *first.copied[1:])
    update = {"copied": copied, "records": records, "bytes": records * 100, **source}
    return status.model_copy(
        update={
            "at": status.at + timedelta(seconds=seconds),
            "sources": (first.model_copy(update=update), *others),
        }
    )


def rows_of(before: Status | None, now: Status) -> tuple[HistoryRow, ...]:
    """The rows between two moments, the first of them the start."""
    earlier = {it.alias: it for it in before.sources} if before is not None else {}
    return history_rows(earlier, before.at if before is not None else now.started_at, now, BOUNDS)


def row(minute: float, **more: Any) -> HistoryRow:
    at = NOW + timedelta(minutes=minute)
    fields = {"seconds": 60.0, "source": "eu", "state": "RUNNING", "records": 10, "bytes": 100}
    return HistoryRow.model_validate({"at": at, **fields, **more})


def test_a_row_is_what_came_between_two_moments() -> None:
    running = {"state": SourceState.RUNNING}
    before = later(whole_status(), 0, 10, age_counts=counts(b0=5), **running)
    now = later(before, 60, 130, age_counts=counts(b0=5, b3=99, b9=1), lag=20, **running)
    source, topic = rows_of(before, now)
    assert (source.source, source.topic, source.seconds) == ("s0", None, 60.0)
    assert (source.records, source.bytes, source.lag) == (120, 11_000 + 1_000, 20)
    # The five of before are not counted again.
    assert (source.age_p50_ms, source.age_p99_ms) == (BOUNDS[3], BOUNDS[3])
    assert (topic.topic, topic.records, topic.lag) == ("t0", 120, 10)
    assert topic.age_p99_ms is None


def test_at_the_start_a_row_reaches_back_to_it() -> None:
    now = later(whole_status(), 45, 7)
    source = rows_of(None, now)[0]
    assert (source.records, source.seconds) == (7, (now.at - now.started_at).total_seconds())


def test_history_that_is_copied_has_no_age() -> None:
    now = later(whole_status(), 60, 7)
    source = rows_of(None, now)[0]
    assert source.state == "CATCHING_UP"
    assert source.age_p99_ms is None and source.flight_p99_ms is not None


def test_a_topic_without_records_and_lag_has_no_row() -> None:
    status = whole_status(topics=2)
    still = [it.model_copy(update={"log_end": 90}) for it in status.partitions]
    before = status.model_copy(update={"partitions": tuple(still)})
    rows = rows_of(before, later(before, 60, 20))
    assert [it.topic for it in rows] == [None, "t0"]


def test_a_source_that_began_again_is_not_shown_as_less_than_nothing() -> None:
    before = later(whole_status(), 0, 500)
    assert [it.records for it in rows_of(before, later(before, 60, 3))] == [3, 3]


def test_joined_minutes_add_counts_and_keep_what_was_worst() -> None:
    minutes = [
        row(1, lag=5, age_p99_ms=900, seconds_behind=2.0),
        row(2, lag=0, age_p99_ms=30, state="PAUSED"),
        row(2, source="us"),
        row(3, age_p99_ms=None),
    ]
    found = joined(minutes, 120)
    assert [(it.source, it.records, it.seconds) for it in found] == [
        ("eu", 20, 120.0),
        ("us", 10, 60.0),
        ("eu", 10, 60.0),
    ]
    assert (found[0].lag, found[0].age_p99_ms, found[0].state) == (0, 900, "PAUSED")
    assert found[0].seconds_behind == 2.0 and found[2].age_p99_ms is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", NOW - timedelta(seconds=90)),
        ("7d", NOW - timedelta(days=7)),
        ("0s", NOW),
        ("2026-01-31T13:00:00+01:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_a_moment_is_a_length_of_time_ago_or_a_time(text: str, expected: datetime) -> None:
    assert moment_of(text, NOW) == expected


@pytest.mark.parametrize("text", ["yesterday", "2026-01-31T13:00:00", ""])
def test_what_is_no_moment_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="write 90s, 1h or 7d"):
        moment_of(text, NOW)


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    table = history_log(StateStore(str(tmp_path)))
    assert table.select(within(NOW, NOW + timedelta(hours=1))) == []
    rows = [row(1, topic="orders", lag=5), row(2, age_p99_ms=7), row(90)]
    table.append(rows)
    found = table.select(within(NOW, NOW + timedelta(hours=1), source="eu"))
    assert found == rows[:2]
    assert table.select(within(NOW, NOW + timedelta(hours=1), topic="payments")) == []


def test_all_sources_together_are_a_row_for_each_moment(tmp_path: Path) -> None:
    config = load_text(YAML.format(path=tmp_path))

    def rows(step_seconds: float = 0.0, of: Of = ALL) -> tuple[HistoryRow, ...]:
        return read_history(
            config,
            NOW,
            NOW + timedelta(hours=1),
            of=of,
            joining=Joining(step_seconds, total=True),
        ).rows

    assert rows() == ()
    history_log(StateStore(str(tmp_path))).append(
        [
            row(1, lag=5, lag_bytes=50, age_p99_ms=900, seconds_behind=2.0),
            row(1, source="us", records=30, lag=7, age_p99_ms=30),
            row(1, source="us", topic="orders", records=30),
            row(2, source="us"),
        ]
    )
    first, second = rows()
    assert (first.source, first.topic, first.state, first.seconds) == ("", None, "", 60.0)
    assert (first.records, first.bytes, first.lag, first.lag_bytes) == (40, 200, 12, 50)
    # Of times the longest: there are no percentiles of all of them.
    assert (first.age_p99_ms, first.age_p50_ms, first.seconds_behind) == (900, None, 2.0)
    # What is not known is not 0.
    assert (second.at, second.records, second.lag) == (NOW + timedelta(minutes=2), 10, None)
    (joined_up,) = rows(120)
    assert (joined_up.records, joined_up.seconds, joined_up.age_p99_ms) == (50, 120.0, 900)
    (of_topic,) = rows(of=Of(topic="orders"))
    assert (of_topic.records, of_topic.topic) == (30, "orders")


def test_what_goes_into_a_hub_topic_is_of_its_own_sources_and_topics_only(tmp_path: Path) -> None:
    config = load_text(YAML.format(path=tmp_path))
    history_log(StateStore(str(tmp_path))).append(
        [
            row(1, topic="orders", lag=5),
            row(1, source="us", topic="commandes", records=30),
            row(1, source="us", topic="orders", records=500),
            row(1, source="us", records=700),
            row(2, source="us", topic="commandes", records=20),
        ]
    )

    def rows(of: Of) -> tuple[HistoryRow, ...]:
        joining = Joining(total=True)
        return read_history(config, NOW, NOW + timedelta(hours=1), of=of, joining=joining).rows

    into = (("eu", "orders"), ("us", "commandes"))
    first, second = rows(Of(into=into))
    assert (first.records, first.lag, second.records) == (40, 5, 20)
    assert [it.records for it in rows(Of("us", into=into))] == [30, 20]
    assert rows(Of(into=())) == ()


def test_of_more_rows_than_are_asked_for_the_newest_are_shown_and_that_there_are_more(
    tmp_path: Path,
) -> None:
    config = load_text(YAML.format(path=tmp_path))
    history_log(StateStore(str(tmp_path))).append([row(it + 1) for it in range(5)])
    end = NOW + timedelta(hours=1)

    def report(joining: Joining) -> HistoryReport:
        return read_history(config, NOW, end, joining=joining)

    assert len(report(Joining()).rows) == len(report(Joining(most=5)).rows) == 5
    assert report(Joining(most=5)).cut == ""
    found = report(Joining(most=2))
    assert [it.at for it in found.rows] == [NOW + timedelta(minutes=it) for it in (4, 5)]
    assert found.cut == "rows before these are left out: 2 are the most"
    (whole,) = report(Joining(3600, total=True, most=4)).rows
    assert whole.records == 40


def test_a_first_commit_that_is_under_way_is_no_table_yet(tmp_path: Path) -> None:
    (tmp_path / EVENTS).mkdir()
    (tmp_path / EVENTS / "part-0.parquet").write_bytes(b"")
    table = events_log(StateStore(str(tmp_path)))
    assert table.select(within(NOW, NOW + timedelta(hours=1))) == []


def test_a_lag_that_is_not_known_is_not_shown_as_zero() -> None:
    status = whole_status()
    blind = [it.model_copy(update={"log_end": None}) for it in status.partitions]
    now = later(status.model_copy(update={"partitions": tuple(blind)}), 60, 20)
    (topic,) = (it for it in rows_of(None, now) if it.topic == "t0")
    assert topic.lag is None


def test_what_is_too_old_goes_and_the_files_become_few(tmp_path: Path) -> None:
    table = history_log(StateStore(str(tmp_path)))
    for minute in range(6):
        table.append([row(minute + 1)])
    assert table.table.trim(NOW + timedelta(minutes=3, seconds=30)) == 3
    left = table.select(within(NOW, NOW + timedelta(hours=1)))
    assert [it.at for it in left] == [NOW + timedelta(minutes=it) for it in (4, 5, 6)]
    assert table.table.trim(NOW) == 0
    table.append([row(7)])
    assert len(table.select(within(NOW, NOW + timedelta(hours=1)), most=2)) == 2


def test_numbers_of_events_grow_whatever_the_clock_does() -> None:
    feed = Feed(lambda text: text)
    for seconds in (5, 0, 9):
        feed.take(Event("k", str(seconds), at=NOW + timedelta(seconds=seconds)))
    first, second, third = feed.after(0)
    assert first.id < second.id < third.id == int((NOW.timestamp() + 9) * 1_000_000)
    assert feed.after(second.id) == (third,)
    feed.saved([first, third])
    assert feed.unsaved() == (second,)


def test_of_events_that_cannot_be_kept_the_oldest_are_let_go() -> None:
    feed = Feed(lambda text: text)
    for number in range(UNSAVED + 5):
        feed.take(Event("k", str(number)))
    waiting = feed.unsaved()
    assert (len(waiting), waiting[0].message) == (UNSAVED, "5")


def test_no_secret_is_in_an_event() -> None:
    feed = Feed(lambda text: text.replace("hunter2", "********"))
    feed.take(Event("failed", "login hunter2 is wrong", {"source": "eu", "line": "hunter2"}))
    (event,) = feed.after(0)
    assert "hunter2" not in event.model_dump_json()
    assert (event.source, event.level) == ("eu", "ERROR")


class Running:
    """A recorder over a status that a test changes."""

    def __init__(self, folder: Path, interval: float = 60.0) -> None:
        timeline = TimelineConfig.model_construct(interval=interval, keep=86_400.0)
        config = load_text(YAML.format(path=folder))
        self.config = config.model_copy(update={"timeline": timeline})
        self.control = Control(self.config)
        self.status: Status | None = whole_status()
        self.logged: list[Event] = []
        self.asked = 0
        self.recorder = Recorder(
            self.control.in_force, self.phase, self.latest, str, self.logged.append, BOUNDS
        )

    def phase(self) -> Phase | None:
        return self.status.phase if self.status is not None else None

    def latest(self) -> Status | None:
        self.asked += 1
        return self.status


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(recording, "EVENTS_SECONDS", 0.05)
    made = Running(tmp_path / "state")
    made.recorder.start()
    yield made
    made.recorder.stop()


def events_of(running: Running) -> list[str]:
    table = events_log(StateStore(running.config.checkpoint.path))
    now = datetime.now(UTC)
    return [it.message for it in table.select(within(now - timedelta(days=1), now))]


def test_an_event_is_in_the_table_soon_and_the_rest_at_the_end(running: Running) -> None:
    running.recorder.take(Event("running", "one", {"records": 3}))
    wait_until(lambda: events_of(running) == ["one"], seconds=60, what="the first event is kept")
    assert running.asked == 0, "a status costs seconds where there are thousands of partitions"
    running.recorder.take(Event("stopped", "two"))
    running.recorder.stop()
    assert events_of(running) == ["one", "two"]
    history = history_log(StateStore(running.config.checkpoint.path))
    rows = history.select(within(NOW - timedelta(days=1), NOW + timedelta(days=1)))
    assert [(it.source, it.topic) for it in rows] == [("s0", None), ("s0", "t0")]


def test_a_run_that_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    running = Running(tmp_path / "state")
    running.status = whole_status().model_copy(update={"phase": Phase.STARTING})
    running.recorder.start()
    running.recorder.take(Event("planned", "never ran"))
    running.recorder.stop()
    assert not (tmp_path / "state").exists()


def test_a_table_that_cannot_be_written_is_logged_once_and_costs_no_event(
    running: Running, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.write_text("a file where a folder should be")
    running.recorder.take(Event("running", "one"))
    wait_until(lambda: bool(running.recorder.failing), seconds=60, what="the failure is logged")
    assert "choose another one" in running.recorder.failing
    running.recorder.take(Event("gap", "two"))
    state.unlink()
    wait_until(lambda: not running.recorder.failing, seconds=60, what="it is written again")
    assert [it.kind for it in running.logged] == ["timeline_failed", "timeline_back"]
    assert events_of(running) == ["one", "two"]


def test_a_source_that_was_away_is_not_counted_a_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "EVENTS_SECONDS", 0.05)
    running = Running(tmp_path / "state", interval=0.05)
    first = later(whole_status(sources=2), 0, 40)
    away = later(first, 30, 40).model_copy(update={"sources": first.sources[1:]})
    back = later(first, 60, 50)
    history = history_log(StateStore(running.config.checkpoint.path))

    def rows(source: str) -> list[HistoryRow]:
        found = history.select(
            within(NOW - timedelta(days=1), NOW + timedelta(days=1), source=source)
        )
        return [it for it in found if it.topic is None]

    running.status = first
    running.recorder.start()
    wait_until(lambda: rows("s0"), seconds=60, what="it is counted")
    running.status = away
    wait_until(lambda: any(it.at == away.at for it in rows("s1")), seconds=60, what="it is away")
    running.status = back
    running.recorder.stop()
    assert sum(it.records for it in rows("s0")) == 50


def test_a_span_is_as_long_as_it_was_though_the_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "EVENTS_SECONDS", 0.05)
    running = Running(tmp_path / "state", interval=0.05)
    first = whole_status()
    running.status, back = first, later(first, -3600, 50)
    history = history_log(StateStore(running.config.checkpoint.path))

    def rows() -> list[HistoryRow]:
        return history.select(within(NOW - timedelta(days=1), NOW + timedelta(days=1)))

    running.recorder.start()
    wait_until(rows, seconds=60, what="there is a row")
    running.status = back
    running.recorder.stop()
    spans = [it.seconds for it in rows() if it.at == back.at]
    assert spans and all(0 <= each < 60 for each in spans)


def test_whatever_goes_wrong_is_an_event_and_not_the_end_of_it(running: Running) -> None:
    good = running.status
    running.status = good.model_copy(update={"sources": None}) if good is not None else None
    running.recorder.take(Event("running", "one"))
    running.recorder.take(Event("gap", "two"))
    wait_until(lambda: events_of(running) == ["one", "two"], seconds=60, what="they are kept")
    running.recorder.stop()
    assert [it.kind for it in running.logged] == ["timeline_failed"]


@pytest.fixture
def url(running: Running) -> Iterator[str]:
    holder = StatusHolder()
    holder.put(NOW, Phase.RUNNING, whole_status)
    with served(app_over(running.control, holder, running.recorder)) as server:
        yield server.url
        running.recorder.feed.close()


def test_rest_shows_events_kept_or_not_and_history(running: Running, url: str) -> None:
    running.recorder.take(Event("gap", "lost", {"source": "s0"}))
    running.recorder.take(Event("running", "runs"))
    code, body = ask("GET", f"{url}/api/events?source=s0")
    assert code == 200
    assert [it["message"] for it in body["events"]] == ["lost"]
    wait_until(lambda: len(events_of(running)) == 2, seconds=60, what="they are kept")
    # It is in the table and in memory, and is shown once.
    body = ask("GET", f"{url}/api/events?kind=gap")[1]
    assert [it["message"] for it in body["events"]] == ["lost"]
    after = body["events"][0]["id"]
    assert [it["message"] for it in ask("GET", f"{url}/api/events?after={after}")[1]["events"]] == [
        "runs"
    ]
    running.recorder.stop()
    since = quote((NOW - timedelta(hours=1)).isoformat())
    rows = ask("GET", f"{url}/api/history?since={since}")[1]["rows"]
    assert [(it["source"], it["topic"], it["records"]) for it in rows] == [("s0", None, 0)]
    assert len(ask("GET", f"{url}/api/history?since={since}&topic=t0&step=1h")[1]["rows"]) == 1
    for topic, many in (("hub.t0", 1), ("absent", 0)):
        path = f"{url}/api/history?since={since}&hub_topic={topic}"
        assert len(ask("GET", path)[1]["rows"]) == many
    (whole,) = ask("GET", f"{url}/api/history?since={since}&total=true")[1]["rows"]
    assert (whole["source"], whole["records"]) == ("", 0)
    limited = ask("GET", f"{url}/api/history?since={since}&limit=1")[1]
    assert (len(limited["rows"]), limited["cut"]) == (1, "")


@pytest.mark.parametrize(
    "query",
    [
        "events?since=soon",
        "events?since=0001-01-01T00:00:00%2B23:59",
        "history?until=soon",
        "history?step=soon",
        "history?step=0.1ms",
        "history?limit=0",
        "history?limit=100001",
        "history?topic=t0&hub_topic=hub.t0",
        "live/history?source=s0&hub_topic=hub.t0",
        "events?limit=0",
    ],
)
def test_what_is_asked_wrongly_is_a_400_with_the_reason(url: str, query: str) -> None:
    code, body = ask("GET", f"{url}/api/{query}")
    assert (code, body["error_code"]) == (400, 400) and body["message"]


def test_who_follows_gets_each_event_and_continues_where_it_was(running: Running, url: str) -> None:
    running.recorder.take(Event("running", "before"))
    lines: list[str] = []

    def follow(request: Request) -> None:
        with urlopen(request, timeout=60) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            lines.extend(line.decode().strip() for line in response)

    stream = f"{url}/api/events/stream"
    first = running.recorder.feed.last
    followers = [
        threading.Thread(target=follow, args=(it,))
        for it in (Request(stream), Request(stream, headers={"Last-Event-ID": str(first - 1)}))
    ]
    for follower in followers:
        follower.start()
    wait_until(lambda: lines.count(": here") == 2, seconds=60, what="both follow")
    running.recorder.take(Event("gap", "new"))
    wait_until(lambda: lines.count("event: gap") == 2, seconds=60, what="both get it")
    running.recorder.feed.close()
    for follower in followers:
        follower.join(60)
        assert not follower.is_alive()
    # Only the one that asked for it gets what was before.
    assert lines.count("event: running") == 1
    shown = json.loads(next(it for it in lines if it.startswith("data:"))[5:])
    assert set(shown) >= {"id", "at", "kind", "message"}


def command(*arguments: str, path: Path) -> Any:
    config = path / "aggregator.yaml"
    config.write_text(YAML.format(path=path / "state") + "api: {listen: 'off'}\n")
    return CliRunner().invoke(app, [*arguments, "-c", str(config)])


def test_the_commands_read_the_tables_when_nothing_runs(running: Running, tmp_path: Path) -> None:
    running.recorder.take(Event("gap", "lost 5 offsets", {"source": "s0"}))
    running.recorder.stop()
    shown = command("events", "--kind", "gap", path=tmp_path)
    assert shown.exit_code == 0 and "lost 5 offsets" in shown.stdout
    assert "No such events" in command("events", "--source", "us", path=tmp_path).stdout
    since = (NOW - timedelta(hours=1)).isoformat()
    shown = command("history", "--since", since, "--until", "0s", path=tmp_path)
    assert shown.exit_code == 0 and "CATCHING_UP" in shown.stdout
    rows = json.loads(command("history", "--since", since, "-o", "json", path=tmp_path).stdout)
    assert len(rows["rows"]) == 1


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("events", "--since", "soon"), "--since"),
        (("history", "--until", "soon"), "--until"),
        (("history", "--step", "soon"), "--step"),
    ],
)
def test_a_wrong_time_names_its_option(
    arguments: tuple[str, ...], option: str, tmp_path: Path
) -> None:
    shown = command(*arguments, path=tmp_path)
    assert shown.exit_code == 2 and option in shown.stderr
