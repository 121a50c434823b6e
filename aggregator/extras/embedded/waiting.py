"""Wait for something to become true, with a deadline: never a bare sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

from aggregator.model.errors import ClusterError

T = TypeVar("T")

POLL_SECONDS = 0.05


def wait_until(
    check: Callable[[], T | None], *, seconds: float, what: str | Callable[[], str]
) -> T:
    """Call `check` until it returns something true, and return that.

    Raises `ClusterError` with `what` (a text, or a function that makes it then) after `seconds`.
    Errors of `check` itself are not caught.
    """
    deadline = time.monotonic() + seconds
    while True:
        result = check()
        if result:
            return result
        if time.monotonic() >= deadline:
            text = what if isinstance(what, str) else what()
            raise ClusterError(f"not within {seconds:g} s: {text}")
        time.sleep(POLL_SECONDS)
