"""The order of test files names files that are there."""

from __future__ import annotations

from pathlib import Path

from support.order import LONGEST

INTEGRATION = Path(__file__).parents[1] / "integration"


def test_the_files_that_run_first_are_there() -> None:
    assert not [name for name in LONGEST if not (INTEGRATION / name).is_file()]
    assert len(set(LONGEST)) == len(LONGEST)
