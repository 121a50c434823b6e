"""A standby takes the place of the writer, however that one ends: no record is lost or twice."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any

import pytest

from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.topics import create_topic, produce
from aggregator.model.errors import EXIT_DATA
from aggregator.store.lease.lock import holder_of
from support import elsewhere
from support.application import Application, application
from support.java_options import QUICK_START
from support.load import records
from support.one_writer import World, config_of, ended, stop
from support.probes import manifest_container, probed
from support.reading import wait_for, wait_until_topic_has
from support.rest import ask
from support.turns import turns

STANDBY = ("--standby",)
LEASE = 3.0
SPEED = 12.0
"""Probes look twelve times as often, so that a take-over lasts as long for them as in life."""
TAIL_SECONDS = 6.0
MIRROR = {"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector"}


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


def fill_heap(writer: Application) -> None:
    """Its Java needs more memory than it may have: it ends at once, and Python says why."""
    (writer.log.parent / FILL).touch()
    code, log = ended(writer)
    assert code and "its memory was used up" in log, f"exit code {code}\n{log}"


FILL = "fill"
FILLED = """
import pathlib, sys, threading, time
from pyspark import SparkContext
from aggregator.cli.main import main

def fill(file):
    while not file.exists():
        time.sleep(0.1)
    gateway = SparkContext._gateway
    kept = [gateway.new_array(gateway.jvm.long, 1 << 23) for _ in range(10_000)]

file = pathlib.Path(sys.argv[3]).with_name("%s")
threading.Thread(target=fill, args=(file,), daemon=True).start()
main()
"""
"""`aggregator` whose Java is filled up when that file is there."""
SMALL = {
    "spark": {"conf": {"spark.driver.extraJavaOptions": QUICK_START, "spark.driver.memory": "768m"}}
}

WAYS = (kill, freeze, stop, freeze_and_wake)
TURNS = turns(1 + len(WAYS), 10)


@pytest.mark.again
@pytest.mark.timeout(900)
def test_the_standby_takes_over_each_time_and_says_for_whom_it_waits(
    world: World, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    listens = {"api": {"listen": f"127.0.0.1:{port}"}}
    fast = {
        "checkpoint": {"lease": f"{LEASE:g}s"},
        "spark": {"conf": {"spark.driver.extraJavaOptions": QUICK_START}},
    }
    shown, quiet = config_of(world, tmp_path, **listens, **fast), config_of(world, tmp_path, **fast)
    filled = config_of(world, tmp_path, **fast | SMALL)
    with ExitStack() as all_of_them:

        def one(number: int) -> Application:
            folder, config = tmp_path / f"{number}", {0: filled, 1: shown}.get(number, quiet)
            program = None if number else ("-c", FILLED % FILL)
            return all_of_them.enter_context(
                application(config, folder, arguments=STANDBY, program=program)
            )

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
        assert ask("GET", f"{url}/api/status")[1]["reason"] == f"is on standby: {holder} writes"
        for number, end in enumerate(islice(chain([fill_heap], cycle(WAYS)), TURNS), start=3):
            world.wait_for_more()
            first = end is fill_heap
            with probed(url, manifest_container(), SPEED) if first else nullcontext() as kubelet:
                end(writer)
                writes = waiting[0].until(
                    lambda: [it for it in waiting if it.has_logged("running")],
                    f"one of them writes after {end.__name__}",
                )
            assert kubelet is None or not kubelet.killed
            (writer,) = writes
            waiting.remove(writer)
            # Whether it tried and was slower, or did not.
            assert not [it for it in waiting[0].members().values() if "/java" in it]
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
    """And it goes by the config as it is then; no probe ends it, however long that takes."""
    one, two = (f"127.0.0.1:{port}" for port in free_ports(2))

    def config(listen: str, **parts: Any) -> Config:
        return config_of(
            world,
            tmp_path,
            api={"listen": listen},
            checkpoint={"lease": f"{LEASE:g}s"},
            hub={"producer": {"delivery.timeout.ms": "6000", "request.timeout.ms": "3000"}},
            spark={"conf": {"spark.driver.extraJavaOptions": QUICK_START}},
            **parts,
        )

    servers, more = world.source.bootstrap_servers, f"{world.topic}-more"
    create_topic(servers, more)
    produce(servers, more, records(10))
    program = elsewhere.PROGRAM
    with application(config(one), tmp_path / "a", program=program) as first:
        first.until_logged("running")
        # To the probes a hub whose tail is read for longer than any of them waits.
        long = f"after-scan=pause:{TAIL_SECONDS:g}"
        with application(
            config(two), tmp_path / "b", program=program, arguments=STANDBY, failpoint=long
        ) as second:
            second.until_logged("standing_by")
            assert second.has_logged("api")
            with probed(f"http://{two}", manifest_container(), SPEED) as kubelet:
                wait_for(lambda: kubelet.ready == [True], "the standby is ready")
                world.wait_for_more()
                # One change that only the writer gets, and one that only the file has.
                wanted = {**MIRROR, "source.cluster.bootstrap.servers": servers, "topics": more}
                assert ask("PUT", f"http://{one}/connectors/added/config", wanted)[0] == 201
                edited = to_yaml(config(two, metrics={"partitions": True}))
                (tmp_path / "b" / "aggregator.yaml").write_text(edited)
                freeze(first)
                frozen = time.time()
                second.until_logged("running")
                wait_for(lambda: kubelet.ready[-1], "it is ready again")
            assert second.failpoints() == ["after-scan:1"]
            assert (kubelet.killed, kubelet.ready) == ("", [True, False, True])
            shown = ask("GET", f"http://{two}/api/config")[1]
            assert set(shown["sources"]) == {"eu", "added"}
            assert shown["metrics"]["partitions"] is True
            wait_until_topic_has(world.hub.bootstrap_servers, more, 10)
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
