"""Queries several clusters at once: a hung one costs only its own answer. And large queries."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

from aggregator.model.errors import ClusterError

MOST_TOPICS, MOST_PARTITIONS = 200, 500
"""That one request asks about. The answer has tens of configs for each topic; and librdkafka takes
time by the square of the partitions."""

Answer = TypeVar("Answer")
Each = TypeVar("Each")


class LateError(ClusterError):
    """A cluster has not answered within its time."""


def ask_all(
    jobs: Mapping[str, Callable[[], Answer]], seconds: float
) -> dict[str, Answer | Exception]:
    """Run a job per cluster at the same time; its answer, or what it raised, by cluster.

    Returns after `seconds` at the latest: who has not answered then has a LateError for an answer,
    and its thread is given up (a daemon: it delays no exit).
    """
    done: queue.SimpleQueue[tuple[str, Answer | Exception]] = queue.SimpleQueue()

    def run(name: str, job: Callable[[], Answer]) -> None:
        try:
            done.put((name, job()))
        except Exception as error:  # a thread has no caller to raise to: it becomes the answer
            done.put((name, error))

    for name, job in jobs.items():
        threading.Thread(target=run, args=(name, job), daemon=True, name=f"ask-{name}").start()
    end = time.monotonic() + seconds
    answers: dict[str, Answer | Exception] = {}
    while len(answers) < len(jobs):
        try:
            name, answer = done.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
        answers[name] = answer
    late = LateError(f"no answer within {seconds:.3g} s")
    return {name: answers.get(name, late) for name in jobs}


def in_parts(wanted: Collection[Each], most: int) -> Iterator[list[Each]]:
    """The same in their order, at most `most` at a time."""
    all_ = list(wanted)
    return (all_[at : at + most] for at in range(0, len(all_), most))


def seconds_for(timeout: float, *, topics: int = 0, partitions: int = 0) -> float:
    """How long a cluster may take that answers each request within `timeout`."""
    return timeout * max(1, -(-topics // MOST_TOPICS), -(-partitions // MOST_PARTITIONS))
