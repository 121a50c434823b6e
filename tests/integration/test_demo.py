"""`aggregator demo` as a user runs it: counts right, ends on request, leaves nothing behind."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.cli.top import answers_of, whole
from aggregator.cli.top_frame import WIDTH, frame
from aggregator.config import load
from aggregator.extras.embedded.waiting import wait_until
from aggregator.model.errors import EXIT_CLUSTER, EXIT_DONE
from support.browser import Visitor, visiting
from support.pictures import are_pictures_wanted, keep_picture

# Each test starts three brokers and an aggregator of its own.
pytestmark = pytest.mark.timeout(900)

START_SECONDS = 360.0


class Running:
    """A demo as a child process, and what it has said on stderr."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(iter(self.process.stderr.readline, ""))

    def wait_for(self, pattern: str) -> None:
        """Wait for a line on stderr."""

        def said() -> bool:
            assert self.process.poll() is None, "".join(self.lines)
            return any(re.search(pattern, line) for line in list(self.lines))

        wait_until(said, seconds=START_SECONDS, what=lambda: f"{pattern}: {self.lines[-5:]}")


@contextmanager
def demo(*arguments: str) -> Iterator[Running]:
    command = [sys.executable, "-m", "aggregator", "demo", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        running = Running(process)
        try:
            yield running
        finally:
            process.kill()
            running._thread.join()


def of_demo(root: int) -> dict[int, str]:
    """Process id -> command of everything that the demo `root` has started, guards included."""
    found: dict[int, str] = {}
    table = subprocess.run(["ps", "-ww", "-eo", "pid=,ppid=,args="], capture_output=True, text=True)
    rows = [line.split(None, 2) for line in table.stdout.splitlines()]
    parents = {root}
    while parents:
        children = {int(pid): args for pid, ppid, args in rows if int(ppid) in parents}
        found |= children
        parents = set(children)
    return found


def test_ctrl_c_ends_the_load_and_the_count_is_exact() -> None:
    with demo("--seconds", "600", "--rate", "400", "-o", "json") as running:
        running.wait_for(r"streaming: sent")
        running.wait_for(r"the dashboard is at http")
        address = re.search(r"the dashboard is at (\S+)", "".join(running.lines))
        assert address
        with urlopen(address[1], timeout=60) as page:
            assert b"<title>" in page.read()
        running.process.send_signal(signal.SIGINT)
        assert running.process.stdout is not None
        result = json.loads(running.process.stdout.read())
        assert running.process.wait(60) == 0
    assert result["perfect"] is True
    flows = {(flow["source"], flow["topic"]): flow for flow in result["flows"]}
    assert set(flows) == {(s, t) for s in ("eu", "us") for t in ("orders", "payments")}
    assert all(flow["sent"] == flow["in_hub"] > 100 for flow in flows.values())


def test_it_ends_by_itself_and_says_that_all_arrived() -> None:
    with demo("--seconds", "4", "--rate", "400") as running:
        assert running.process.stdout is not None
        text = running.process.stdout.read()
        assert running.process.wait(60) == 0, text
    assert "Every record sent is in the hub, once and in order." in text
    assert "origin.offset" in text
    assert re.search(r"p50 \d+ ms +p95 \d+ ms +p99 \d+ ms", text)


def test_a_world_that_is_kept_lives_can_be_asked_and_ends_cleanly(tmp_path: Path) -> None:
    """Three sources, one of which breaks; the commands that it prints work; SIGTERM ends it."""
    # For a picture there is a past to show, and time to take it.
    rate, every = ("300", "4m") if are_pictures_wanted() else ("60", "30s")
    with demo("--keep", "--rate", rate, "--outage-every", every) as running:
        running.wait_for(r"verify --last")
        started = of_demo(running.process.pid)
        assert sum("kafka.Kafka" in command for command in started.values()) >= 4
        tries = dict(re.findall(r"^  \S+ (.+) -c (\S+)    # ", "".join(running.lines), re.M))
        assert len(tries) == 8
        folder = Path(tries["status"]).parent
        status = answer("status", tries)
        assert {it["alias"] for it in status["sources"] if it["records"]} == {"eu", "us", "apac"}
        assert {row["cluster"] for row in answer("lag", tries)["rows"]} == {"eu", "us", "apac"}
        records = answer("peek shipments", tries)["records"]
        assert {"carrier", "shipped_at"} <= set(json.loads(records[0]["value"])), records[0]
        moved = answer("groups translate billing --source eu", tries)
        assert {it["topic"] for it in moved["partitions"]} == {"orders"}, moved
        shown = CliRunner().invoke(app, ["top", "--once", "-c", tries["top"]])
        assert shown.stdout.startswith("demo  RUNNING  up "), shown.output
        running.wait_for(r"^[\d:]+  apac is away")
        config = load(Path(tries["top"]))
        wait_until(
            lambda: "apac" in [it.source for it in whole(config).attention],
            seconds=60,
            what="a source that is away needs a person",
        )
        keep_picture(frame(answers_of(config)), "top", "aggregator top", WIDTH)
        if are_pictures_wanted():
            with dashboard_of(running, tmp_path) as visitor:
                visitor.page.get_by_role("heading", name="Needs a person").wait_for()
                visitor.take_picture("unreachable")
        running.wait_for(r"^[\d:]+  apac is back")
        if are_pictures_wanted():
            with dashboard_of(running, tmp_path) as visitor:
                take_pictures(visitor)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(60) == 0, running.lines
        assert not _alive(started)
        assert not folder.exists()


@contextmanager
def dashboard_of(running: Running, folder: Path) -> Iterator[Visitor]:
    """The overview of a kept world in a browser."""
    (address,) = re.findall(r"dashboard +(http://[^/]+)", "".join(running.lines))
    with visiting(address, folder) as visitor:
        visitor.go("", "Sources of demo")
        yield visitor


def number_in(text: str) -> float:
    """A count as pages write it; none counts as 0."""
    return float(text.replace(",", "") or 0)


def take_pictures(visitor: Visitor) -> None:
    """What the documentation shows, of a world whose source has come back and caught up."""
    visitor.until("Nothing needs a person.")
    visitor.page.locator("#age").get_by_text("live").wait_for()
    throughput = visitor.page.get_by_role("region", name="Throughput").locator(".value")

    def is_steady() -> bool:
        return number_in(throughput.inner_text()) < 400

    # First what was sent meanwhile comes at once, and then no more than what is sent.
    wait_until(lambda: not is_steady(), seconds=120, what="the source that was away is read")
    wait_until(is_steady, seconds=120, what="the source that was away has caught up")
    visitor.take_picture("overview")
    visitor.take_picture("overview", "dark")
    visitor.go("source/apac", "apac")
    visitor.page.locator("figcaption").get_by_text("Copy latency", exact=True).wait_for()
    visitor.take_picture("source")
    visitor.go("topic/orders", "orders")
    for where in ("the hub", "eu"):
        visitor.page.get_by_role("region", name=f"The newest records at {where}").wait_for()
    visitor.take_picture("topic", "dark")
    visitor.go("events", "Timeline")
    visitor.page.locator("figcaption").first.wait_for()
    visitor.take_picture("timeline")
    assert (visitor.errors, visitor.strangers) == ([], [])


def answer(words: str, tries: dict[str, str]) -> Any:
    """What a command says that was printed to be tried, as JSON; once no source is away."""

    def said() -> str:
        done = CliRunner().invoke(app, [*words.split(), "-c", tries[words], "-o", "json"])
        assert done.exit_code in (EXIT_DONE, EXIT_CLUSTER), done.output
        return done.stdout if done.exit_code == EXIT_DONE else ""

    return json.loads(wait_until(said, seconds=60, what=f"{words} finds a source away"))


def test_nothing_is_left_of_a_demo_that_was_killed() -> None:
    with demo("--seconds", "600", "--rate", "50") as running:
        running.wait_for(r"streaming: sent")
        started = of_demo(running.process.pid)
        assert sum("kafka.Kafka" in command for command in started.values()) >= 3
        assert any("org.apache.spark" in command for command in started.values())
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(60)
        wait_until(lambda: not _alive(started), seconds=30, what=lambda: str(_alive(started)))


def _alive(started: dict[int, str]) -> dict[int, str]:
    """Those of the processes that are still there; a defunct one only waits to be collected."""
    table = subprocess.run(["ps", "-eo", "pid=,stat="], capture_output=True, text=True)
    alive = {
        int(pid)
        for pid, state in (line.split() for line in table.stdout.splitlines())
        if not state.startswith("Z")
    }
    return {pid: command for pid, command in started.items() if pid in alive}
