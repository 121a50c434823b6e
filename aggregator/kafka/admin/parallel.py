"""The same question to several clusters at once: a hung one costs its own answer, no other's."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from aggregator.model.errors import ClusterError

Answer = TypeVar("Answer")


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
