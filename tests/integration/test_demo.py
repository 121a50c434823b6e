"""`aggregator demo` as a user runs it: counts right, ends when told, leaves nothing behind."""

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
from urllib.request import urlopen

import pytest

from aggregator.extras.embedded.topics import NewRecord, end_offsets, produce
from aggregator.extras.embedded.waiting import wait_until

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
        with urlopen(address[1], timeout=10) as page:
            assert b"<title>" in page.read()
        running.process.send_signal(signal.SIGINT)
        assert running.process.stdout is not None
        result = json.loads(running.process.stdout.read())
        assert running.process.wait(60) == 0
    assert result["perfect"] is True
    flows = {(flow["source"], flow["topic"]): flow for flow in result["flows"]}
    assert set(flows) == {(s, t) for s in ("eu", "us") for t in ("orders", "payments")}
    assert all(flow["sent"] == flow["in_hub"] > 100 for flow in flows.values())


def test_it_ends_by_itself_keeps_the_clusters_and_can_be_gone_on_with() -> None:
    with demo("--seconds", "4", "--rate", "400", "--keep") as running:
        running.wait_for(r"run until Ctrl-C")
        running.wait_for(r"aggregator run -c ")
        said = "".join(running.lines)
        hub = re.search(r"hub +(127\.0\.0\.1:\d+)", said)
        config = re.search(r"run -c (\S+)", said)
        assert hub and config
        held = sum(sum(end_offsets(hub[1], topic).values()) for topic in ("orders", "payments"))
        assert held > 400
        folder = Path(config[1]).parent
        assert folder.exists()
        # The aggregator was stopped cleanly: started again, it copies what is new and no more.
        eu = re.search(r"eu +(127\.0\.0\.1:\d+)", said)
        assert eu
        produce(eu[1], "orders", [NewRecord(b"{}", b"%d" % n) for n in range(50)])
        again = [sys.executable, "-m", "aggregator", "run", "-c", config[1], "--until-caught-up"]
        done = subprocess.run(again, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        after = sum(sum(end_offsets(hub[1], topic).values()) for topic in ("orders", "payments"))
        assert after == held + 50
        running.process.send_signal(signal.SIGINT)
        assert running.process.stdout is not None
        text = running.process.stdout.read()
        assert running.process.wait(60) == 0
    assert "Every record sent is in the hub, once and in order." in text
    assert "origin.offset" in text
    assert re.search(r"p50 \d+ ms +p95 \d+ ms +p99 \d+ ms", text)
    assert not folder.exists()


def test_nothing_is_left_of_a_demo_that_was_killed() -> None:
    with demo("--seconds", "600", "--rate", "50") as running:
        running.wait_for(r"streaming: sent")
        started = of_demo(running.process.pid)
        assert sum("kafka.Kafka" in command for command in started.values()) >= 3
        assert any("org.apache.spark" in command for command in started.values())
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(10)
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
