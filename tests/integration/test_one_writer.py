"""One writer: refused, taken over, frozen, killed, overruled; each origin is in the hub once."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.topics import create_topic
from aggregator.model.errors import EXIT_DATA, EXIT_DONE
from aggregator.store.lease.lock import holder_of
from support import elsewhere, second_attempt
from support.application import KILLED, Application, application
from support.one_writer import MORE, World, config_of, ended
from support.reading import read_topic, wait_for

LOG = logging.getLogger(__name__)
SECONDS = 240.0
TAKE_OVER = ("--take-over",)


@pytest.fixture
def world(source_a: EmbeddedCluster, hub: EmbeddedCluster, unique: str) -> Iterator[World]:
    create_topic(source_a.bootstrap_servers, unique, partitions=3)
    world = World(source_a, hub, unique)
    yield world
    world.end()


def first_of(instances: list[Application]) -> tuple[Application, Application]:
    """Of two that start at once: the one that runs, and the one that has ended."""
    wait_for(lambda: any(not each.alive for each in instances), "one is refused", SECONDS)
    loser, winner = sorted(instances, key=lambda each: each.alive)
    winner.until_logged("running")
    return winner, loser


@pytest.mark.timeout(900)
def test_two_start_one_wins_and_is_taken_over_even_when_it_is_frozen(
    world: World, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    config = config_of(world, tmp_path, api={"listen": f"127.0.0.1:{port}"})
    quiet = config_of(world, tmp_path)
    with (
        application(config, tmp_path / "a") as one,
        application(quiet, tmp_path / "b") as two,
    ):
        first, refused = first_of([one, two])
        code, log = ended(refused)
        assert code == EXIT_DATA
        holder = holder_of(config.checkpoint.path)
        assert holder is not None
        assert holder.pid == first.pid
        assert f"another aggregator runs on it ({holder})" in log
        for remedy in ("stop that one first", "aggregator run --take-over", "of its own"):
            assert remedy in log
        world.wait_for_more()
        # Taken over while it writes: it is asked to stop, and does.
        with application(config, tmp_path / "c", arguments=TAKE_OVER) as second:
            second.until_logged("running")
            code, log = ended(first)
            assert code == EXIT_DONE, log
            assert second.has_logged("taking_over")
            assert not second.has_logged("recovered")
            world.wait_for_more()
            # Frozen, Python and JVM: it still has the lock, and the port of the API.
            second.signal_all(signal.SIGSTOP)
            with application(config, tmp_path / "d") as third:
                code, log = ended(third)
                assert code == EXIT_DATA
                assert f"pid {second.pid}" in log
            with application(config, tmp_path / "e", arguments=TAKE_OVER) as fourth:
                assert ended(second)[0] == KILLED
                fourth.until_logged("running")
                assert second.members() == {}
                assert fourth.has_logged("recovered")
                fourth.until_logged("api")
                verdict = world.end_with(fourth)
    assert not verdict.problems, verdict.problems
    assert verdict.copied >= 2 * MORE


@pytest.mark.timeout(900)
def test_frozen_past_its_lease_and_not_replaced_it_continues(world: World, tmp_path: Path) -> None:
    lease = 3.0
    config = config_of(world, tmp_path, checkpoint={"lease": f"{lease:g}s"})
    with application(config, tmp_path / "a") as running:
        running.until_logged("running")
        world.wait_for_more()
        # Python alone: the JVM sends to the end of the lease, and waits there.
        jvm = jvm_of(config)
        running.signal_all(signal.SIGSTOP)
        over = time.monotonic() + lease
        os.kill(jvm, signal.SIGCONT)
        # A slow machine is still as well: only silence after the lease shows that the JVM waits.
        wait_for(
            lambda: time.monotonic() > over and world.is_still(2.0),
            "the JVM waits for the lease",
            60,
        )
        running.signal_all(signal.SIGCONT)
        running.until_logged("lease_over")
        running.until_logged("lease_renewed")
        world.wait_for_more()
        # Both: the same, from the moment at which they wake.
        running.signal_all(signal.SIGSTOP)
        # A broker may still have requests to do that were sent before.
        wait_for(lambda: world.is_still(4.0), "what was under way is done", 60)
        running.signal_all(signal.SIGCONT)
        world.wait_for_more()
        assert not running.has_logged("lane_failed")
        # Python is killed, and its JVM cannot end by itself: the next start sees to it.
        os.kill(jvm, signal.SIGSTOP)
        running.kill()
        assert jvm in running.members()
        with application(config, tmp_path / "a") as after:
            after.until_logged("running")
            assert jvm not in running.members()
            assert [after.has_logged(kind) for kind in ("killing", "recovered")] == [True, True]
            verdict = world.end_with(after)
    assert not verdict.problems, verdict.problems
    assert verdict.copied >= 3 * MORE


@pytest.mark.timeout(900)
def test_without_a_lock_the_lease_in_the_table_decides(world: World, tmp_path: Path) -> None:
    """As on an object store, and as if each instance had a machine of its own."""
    config = config_of(
        world,
        tmp_path,
        checkpoint={"lease": "4s"},
        hub={"producer": {"delivery.timeout.ms": "6000", "request.timeout.ms": "3000"}},
    )
    program = elsewhere.PROGRAM
    with application(config, tmp_path / "a", program=program) as first:
        first.until_logged("running")
        world.wait_for_more()
        with application(config, tmp_path / "b", program=program) as second:
            code, log = ended(second)
        assert code == EXIT_DATA
        assert f"host machine-{first.pid}, pid {first.pid}, since " in log
        first.signal_all(signal.SIGSTOP)
        frozen = time.time()
        with application(config, tmp_path / "c", program=program) as third:
            third.until_logged("running")
            assert third.has_logged("waiting")
            world.wait_for_more()
            first.signal_all(signal.SIGCONT)
            code, log = ended(first)
            assert (code, "fenced: " in log) == (EXIT_DATA, True), log
            assert f"host machine-{third.pid}" in log
            world.wait_for_more()
            # One that runs is overruled: it finds out, and ends.
            with application(
                config, tmp_path / "d", program=program, arguments=TAKE_OVER
            ) as fourth:
                code, log = ended(third)
                assert (code, "fenced: " in log) == (EXIT_DATA, True), log
                fourth.until_logged("running")
                verdict = world.end_with(fourth)
    # What the frozen one had handed to its producer before it froze is delivered when it wakes.
    LOG.warning("written twice by the frozen one: %d", len(verdict.duplicated))
    later = {("eu", r.partition, r.offset) for r in world.records if r.timestamp > frozen * 1000}
    assert not later & set(verdict.duplicated)
    verdict.duplicated.clear()
    assert not verdict.problems, verdict.problems
    assert verdict.copied >= 3 * MORE


def test_a_second_attempt_of_a_task_writes_nothing(hub: EmbeddedCluster, unique: str) -> None:
    plain, guarded = f"{unique}.plain", f"{unique}.guarded"
    for topic in (plain, guarded):
        create_topic(hub.bootstrap_servers, topic, partitions=1)
    done = subprocess.run(
        [
            sys.executable,
            second_attempt.__file__,
            *(hub.bootstrap_servers, hub.cluster_id, plain, guarded),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    # Spark does try again, and would write.
    assert len(read_topic(hub.bootstrap_servers, plain)) == second_attempt.RECORDS
    assert "refused: a second attempt of a task would write its records twice" in done.stdout
    assert read_topic(hub.bootstrap_servers, guarded) == []


def jvm_of(config: Config) -> int:
    """The JVM that the running instance has noted."""
    holder = holder_of(config.checkpoint.path)
    assert holder is not None
    assert holder.jvm
    return holder.jvm
