"""Fixtures for everyone: real clusters, started once per session and only when a test asks."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from aggregator.extras.embedded.cluster import EmbeddedCluster
from support.clusters import ClusterFactory, factory
from support.commands import keep_commands
from support.examples import register_profiles
from support.java_options import OF_SUBMIT
from support.jobs import jobs_here
from support.order import name_apart, put_in_order
from support.scratch import Scratch
from support.shared import Owner, joined, log_tails, started

# So that an assertion in there says what the values were.
pytest.register_assert_rewrite(
    "support.one_writer", "support.running", "support.reading", "support.verdict"
)

OWNER, BESIDE = "shared_clusters", "beside"
"""What a test process gets to know: where these are, and whether it runs unit tests alone."""
OWNERS = pytest.StashKey[Owner]()
NICE = 5
"""The niceness of the process with unit tests alone: the tests of others have deadlines."""

# A process that is started by another one to test has the folder of that one.
SCRATCH = None if "PYTEST_XDIST_WORKER" in os.environ else Scratch()

register_profiles()
keep_commands()
# Collecting tests makes objects that stay, and hardly any rubbish.
gc.disable()

# Spark's launcher gives this to each JVM that it starts for a driver, those of child processes as
# well.
os.environ.setdefault("SPARK_SUBMIT_OPTS", OF_SUBMIT)

# A shell that starts us in the background has us ignore Ctrl-C. A process that a test starts and
# interrupts by it would ignore it, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_configure(config: pytest.Config) -> None:
    """One that has unit tests alone leaves the others the cores that they want."""
    if getattr(config, "workerinput", {}).get(BESIDE):
        os.nice(NICE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `--dist loadfile` a process takes one file after the other, in this order."""
    name_apart(items)
    put_in_order(items)


def pytest_collection_finish() -> None:
    """What is there by now is looked at no more when rubbish is collected."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """What `-n auto` means; `-n logical` is one process for each core."""
    if config.option.numprocesses != "auto":
        return None
    from support import scheduling

    jobs = jobs_here()
    # Fewer are for a machine with little memory. Other ways to distribute know of no such process.
    beside = jobs >= scheduling.SHARE and config.getvalue("dist") == "loadfile"
    config.stash[scheduling.BESIDE] = beside
    return jobs + beside


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Which process takes which file, with `--dist loadfile`; None leaves it to xdist."""
    # Imported here: a run of one file without more processes needs no xdist.
    from support.scheduling import scheduler

    return scheduler(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass a new test process the place of the clusters that all of them share."""
    from support.scheduling import is_beside

    stash = node.config.stash
    if OWNERS not in stash:
        stash[OWNERS] = Owner()
    node.workerinput[OWNER] = str(stash[OWNERS].folder)
    node.workerinput[BESIDE] = is_beside(node.config, node)


def pytest_unconfigure(config: pytest.Config) -> None:
    """All tests are over: stop these clusters, and remove what is left of what was started."""
    if OWNERS in config.stash:
        config.stash[OWNERS].end()
    if SCRATCH is not None:
        SCRATCH.remove()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails shows what the brokers said last: their logs are gone with the session."""
    report = yield
    if report.failed:
        for fixture in ("shared_clusters", "versions"):
            found = cast("dict[str, EmbeddedCluster]", item.funcargs.get(fixture, {}))
            for name, cluster in found.items():
                report.sections.append((f"log of {name}", log_tails(cluster)))
    return report


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name what fails as it fails: a run that is ended before its summary still says so."""
    if report.failed and SCRATCH is not None:
        print(f"\nfailed: {report.nodeid} ({report.when})", file=sys.__stdout__, flush=True)


@pytest.fixture
def cluster_factory() -> Iterator[ClusterFactory]:
    """`cluster_factory("name", brokers=1, config={...})` -> a running cluster of one's own.

    Takes what `EmbeddedCluster` takes. Stopped at the end of the test, or earlier by its user:
    twenty brokers that no test uses any more have 2,000 threads, which wake all the time.
    """
    with factory() as make:
        yield make


@pytest.fixture(scope="module")
def lasting_clusters() -> Iterator[ClusterFactory]:
    """The same for a cluster that the tests of a module share: stopped at the end of the module."""
    with factory() as make:
        yield make


@pytest.fixture(scope="session")
def shared_clusters(request: pytest.FixtureRequest) -> Iterator[dict[str, EmbeddedCluster]]:
    """The two sources and the hub that tests share; started at once, when first asked for.

    Other processes use them at the same time, for topics of their own names. Do not kill or pause
    these: take one from `cluster_factory` for that.
    """
    given = getattr(request.config, "workerinput", {}).get(OWNER)
    if given:
        yield joined(Path(given))
        return
    with started() as clusters:
        yield clusters


@pytest.fixture(scope="session")
def source_a(shared_clusters: dict[str, EmbeddedCluster]) -> EmbeddedCluster:
    return shared_clusters["source-a"]


@pytest.fixture(scope="session")
def source_b(shared_clusters: dict[str, EmbeddedCluster]) -> EmbeddedCluster:
    return shared_clusters["source-b"]


@pytest.fixture(scope="session")
def hub(shared_clusters: dict[str, EmbeddedCluster]) -> EmbeddedCluster:
    return shared_clusters["hub"]


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A suffix for topic names that no other test has: the test's name and a random part."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:60]
    return f"{name}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A Spark session as a run builds it, with two slots.

    Per module, because runs build sessions of their own, and a JVM has one at a time.
    """
    # Imported here: most tests need no Spark.
    from support.sessions import running_session

    with running_session() as session:
        yield session
