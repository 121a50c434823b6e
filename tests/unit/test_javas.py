"""A Java that tests use again goes from one that ended well to the next, and to no one else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from aggregator.datapath.spark.gateway import SERVER, Server
from support.javas import MOST_FREE, Javas
from support.processes import is_there, processes
from support.reading import wait_for

Start = Callable[[], subprocess.Popen[bytes]]
# Each starts processes.
pytestmark = pytest.mark.slow

NO_PROCESS = 2**22 + 1
"""No process has this id."""


def commands() -> dict[int, str]:
    return {it.pid: it.command for it in processes()}


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts what looks like such a Java to anyone who lists processes."""
    started: list[subprocess.Popen[bytes]] = []

    def one() -> subprocess.Popen[bytes]:
        words = [sys.executable, "-c", "import sys; sys.stdin.read()", SERVER]
        java = subprocess.Popen(words, stdin=subprocess.PIPE)
        started.append(java)
        # A process has its command a moment after it has become another program.
        wait_for(lambda: SERVER in commands().get(java.pid, ""), "it is listed", 30)
        return java

    yield one
    for each in started:
        each.kill()
        each.communicate()


@pytest.fixture
def javas() -> Iterator[Javas]:
    made = Javas()
    yield made
    made.end_all()


def is_over(java: subprocess.Popen[bytes]) -> None:
    wait_for(lambda: java.poll() is not None, "it is killed", 30)


def test_one_that_was_given_back_is_taken_once_and_for_the_same_command(
    javas: Javas, start: Start
) -> None:
    java = start()
    javas.taken("a", Server(java, 1234, "word"))
    assert javas.take("a") is None
    javas.give_back()
    assert javas.take("b") is None
    assert javas.take("a") == Server(None, 1234, "word")
    assert javas.take("a") is None
    assert is_there(java.pid)


def test_one_that_was_not_given_back_ends_with_its_application(javas: Javas, start: Start) -> None:
    java = start()
    javas.taken("a", Server(java, 1234, "word"))
    javas.end_of(NO_PROCESS)
    assert is_there(java.pid)
    javas.end_of(os.getpid())
    is_over(java)
    assert javas.take("a") is None


def test_one_that_has_died_is_not_taken(javas: Javas, start: Start) -> None:
    java = start()
    javas.taken("a", Server(java, 1234, "word"))
    javas.give_back()
    java.kill()
    java.wait()
    assert javas.take("a") is None


def test_few_wait_and_none_is_left(start: Start) -> None:
    javas = Javas()
    started = [start() for _ in range(MOST_FREE + 1)]
    for number, java in enumerate(started):
        javas.taken("a", Server(java, number, "word"))
        javas.give_back()
        # A file system may keep times to a hundredth of a second only.
        (free,) = javas._folder.glob(f"a-{java.pid}.free")
        os.utime(free, (number, number))
        javas.end_of(NO_PROCESS)
    is_over(started[0])
    assert all(java.poll() is None for java in started[1:])
    javas.end_all()
    for java in started:
        is_over(java)
