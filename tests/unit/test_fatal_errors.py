"""A Java in which a thread has died of an Error ends, and says of what; it is never half alive."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

from aggregator.datapath.spark.java_options import executor_options
from support.java_tests import SOURCES, compile_tests, run_java

ENDED, NO_MEMORY, ALIVE = 70, 3, 9
"""Exit codes: our own, that of Java's own option, and that of a Java that continued."""

pytestmark = pytest.mark.slow

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    target = tmp_path_factory.mktemp("classes")
    compile_tests([SOURCES / "DieOfErrors.java"], target)

    def call(what: str, *options: str) -> CompletedProcess[str]:
        return run_java(target, *options, "aggregator.connector.DieOfErrors", what)

    return call


def test_an_error_of_any_thread_ends_it(run: Run) -> None:
    done = run("error")
    assert done.returncode == ENDED, done.stderr
    assert "the JVM ends: thread worker died of java.lang.StackOverflowError" in done.stderr


def test_an_exception_does_not(run: Run) -> None:
    done = run("exception")
    assert done.returncode == ALIVE, done.stderr
    assert 'Exception in thread "worker" java.lang.IllegalStateException' in done.stderr


def test_an_error_in_the_thread_by_which_a_producer_sends_ends_it(run: Run) -> None:
    done = run("producer")
    assert done.returncode == ENDED, done.stderr
    thread = "kafka-producer-network-thread | a"
    assert f"the JVM ends: thread {thread} died of java.lang.NoClassDefFoundError" in done.stderr


@pytest.mark.parametrize(
    ("options", "code"), [(executor_options(""), NO_MEMORY), ("", ALIVE)], ids=["ours", "none"]
)
def test_with_our_options_a_full_heap_ends_it_whatever_catches_that(
    run: Run, options: str, code: int
) -> None:
    given = [it for it in shlex.split(options) if not it.startswith("-XX:+Use")]
    done = run("memory", *given, "-Xmx16m")
    assert done.returncode == code, done.stderr
    if options:
        assert "Terminating due to java.lang.OutOfMemoryError" in done.stdout + done.stderr
