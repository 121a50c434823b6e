"""A Java that has ended is named as that, with what its exit code says."""

from __future__ import annotations

import signal

import pytest

from aggregator.datapath.spark.jvm import naming_java, why_gone
from aggregator.model.errors import AggregatorError, CheckpointConflictError


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, "exit code 3: its memory was used up: raise spark.driver.memory"),
        (70, "exit code 70: one of its threads died of an error"),
        (-signal.SIGKILL, "exit code 137: it was killed"),
        (1, "exit code 1: see what it wrote above"),
        (None, "Java answers no more"),
    ],
)
def test_the_exit_code_says_why(code: int | None, words: str) -> None:
    assert words in why_gone(code)


def test_a_call_that_failed_as_java_is_gone_says_so() -> None:
    with pytest.raises(AggregatorError, match="Java answers no more"), naming_java():
        raise ConnectionRefusedError(111, "Connection refused")


def test_other_errors_stay_as_they_are() -> None:
    with pytest.raises(ValueError, match="a defect"), naming_java():
        raise ValueError("a defect")
    with pytest.raises(CheckpointConflictError, match="another"), naming_java():
        raise CheckpointConflictError("another one writes")
