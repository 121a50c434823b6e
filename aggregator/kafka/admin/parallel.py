"""Queries several clusters at once, so that a hung one delays no other; splits large queries."""

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from aggregator.model.errors import ClusterError

MOST_TOPICS, MOST_PARTITIONS = 200, 500
"""That one request asks about. The answer has tens of configs for each topic; and librdkafka takes
time by the square of the partitions."""

LATE_SECONDS = 1.0
"""Calls end at their timeout by themselves; a thread that is later than this is given up."""

Answer = TypeVar("Answer")
Each = TypeVar("Each")


class LateError(ClusterError):
    """A cluster has not answered within its time."""


@dataclass(frozen=True, slots=True)
class Replies(Generic[Answer]):
    """What each of several clusters (alias, or HUB) answered; of the others, why they did not.

    Both are in the order in which the clusters were named.
    """

    ok: dict[str, Answer]
    failed: dict[str, Exception]

    def of(self, alias: str) -> Answer:
        """What this one answered; ClusterError when it did not."""
        failure = self.failed.get(alias)
        if failure is None:
            return self.ok[alias]
        if isinstance(failure, ClusterError):
            raise failure
        raise ClusterError(f"{alias}: {failure}") from failure


def ask_all(jobs: Mapping[str, Callable[[], Answer]], seconds: float) -> Replies[Answer]:
    """Run a job per cluster at the same time; what each returned or raised.

    Returns after `seconds` at the latest: a cluster that has not answered by then has failed with a
    LateError, and its thread is abandoned (a daemon: it delays no exit).
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
    all_ = {name: answers.get(name, late) for name in jobs}
    return Replies(
        {name: it for name, it in all_.items() if not isinstance(it, Exception)},
        {name: it for name, it in all_.items() if isinstance(it, Exception)},
    )


def in_parts(wanted: Collection[Each], most: int) -> Iterator[list[Each]]:
    """The same in their order, at most `most` at a time."""
    all_ = list(wanted)
    return (all_[at : at + most] for at in range(0, len(all_), most))


def seconds_for(timeout: float, *, topics: int = 0, partitions: int = 0) -> float:
    """How long a cluster may take that answers each request within `timeout`."""
    return timeout * max(1, -(-topics // MOST_TOPICS), -(-partitions // MOST_PARTITIONS))
