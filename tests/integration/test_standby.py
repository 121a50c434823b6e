"""One that stands by takes the place of the writer, however that one ends: none lost or twice."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path

import pytest

from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.ports import free_ports
from aggregator.embedded.topics import create_topic
from aggregator.errors import EXIT_DATA
from aggregator.writing.lock import holder_of
from support import elsewhere
from support.application import Application, application
from support.java_options import QUICK_START
from support.one_writer import World, config_of, ended, stop
from support.rest import ask
from support.turns import turns

STANDBY = ("--standby",)
LEASE = 3.0


@pytest.fixture
def world(source_a: EmbeddedCluster, hub: EmbeddedCluster, unique: str) -> Iterator[World]:
    create_topic(source_a.bootstrap_servers, unique, partitions=3)
    world = World(source_a, hub, unique)
    yield world
    world.end()


def kill(writer: Application) -> None:
    writer.kill()


def freeze(writer: Application) -> None:
    writer.signal_all(signal.SIGSTOP)


def freeze_and_wake(writer: Application) -> None:
    """For less than its lease: it writes on, and is killed then."""
    writer.signal_all(signal.SIGSTOP)
    time.sleep(LEASE / 4)
    writer.signal_all(signal.SIGCONT)
    kill(writer)


WAYS = (kill, freeze, stop, freeze_and_wake)
TURNS = turns(len(WAYS), 10)


@pytest.mark.again
@pytest.mark.timeout(900)
def test_whoever_stands_by_takes_over_each_time_and_says_for_whom_it_waits(
    world: World, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    listens = {"api": {"listen": f"127.0.0.1:{port}"}}
    fast = {
        "checkpoint": {"lease": f"{LEASE:g}s"},
        "spark": {"conf": {"spark.driver.extraJavaOptions": QUICK_START}},
    }
    shown, quiet = config_of(world, tmp_path, **listens, **fast), config_of(world, tmp_path, **fast)
    with ExitStack() as all_of_them:

        def one(number: int) -> Application:
            folder, config = tmp_path / f"{number}", shown if number == 1 else quiet
            return all_of_them.enter_context(application(config, folder, arguments=STANDBY))

        writer = one(0)
        writer.until_logged("running")
        # Two wait: one of them is quicker.
        waiting = [one(1), one(2)]
        for each in waiting:
            each.until_logged("standing_by")
        url = f"http://127.0.0.1:{port}"
        assert ask("GET", f"{url}/health")[1]["status"] == "standby"
        holder = holder_of(shown.checkpoint.path)
        assert holder is not None and holder.pid == writer.pid
        assert ask("GET", f"{url}/api/status")[1]["reason"] == f"stands by: {holder} writes"
        for number, end in enumerate(islice(cycle(WAYS), TURNS), start=3):
            world.wait_for_more()
            end(writer)
            writes = waiting[0].until(
                lambda: [it for it in waiting if it.has_logged("running")],
                f"one of them writes after {end.__name__}",
            )
            (writer,) = writes
            waiting.remove(writer)
            waiting.append(one(number))
        for each in waiting:
            each.until_logged("standing_by")
            stop(each)
        verdict = world.end_with(writer)
    assert not verdict.problems, verdict.problems


@pytest.mark.timeout(900)
def test_on_another_machine_it_waits_for_the_lease_and_the_one_that_wakes_ends(
    world: World, tmp_path: Path
) -> None:
    config = config_of(
        world,
        tmp_path,
        checkpoint={"lease": f"{LEASE:g}s"},
        hub={"producer": {"delivery.timeout.ms": "6000", "request.timeout.ms": "3000"}},
        spark={"conf": {"spark.driver.extraJavaOptions": QUICK_START}},
    )
    program = elsewhere.PROGRAM
    with application(config, tmp_path / "a", program=program) as first:
        first.until_logged("running")
        with application(config, tmp_path / "b", program=program, arguments=STANDBY) as second:
            second.until_logged("standing_by")
            world.wait_for_more()
            freeze(first)
            frozen = time.time()
            second.until_logged("running")
            world.wait_for_more()
            first.signal_all(signal.SIGCONT)
            code, log = ended(first)
            assert (code, "fenced: " in log) == (EXIT_DATA, True), log
            verdict = world.end_with(second)
    # What the frozen one had handed to its producer before it froze is delivered when it wakes.
    later = {("eu", r.partition, r.offset) for r in world.records if r.timestamp > frozen * 1000}
    assert not later & set(verdict.duplicated)
    verdict.duplicated.clear()
    assert not verdict.problems, verdict.problems
