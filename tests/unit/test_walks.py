"""The pages of whole moves are walked: their commands are run, all of them, in their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.walks import commands_of

WALKED = Path(__file__).parents[1] / "integration" / "test_walks_of_moves.py"
MOVES = (
    "migrate.md",
    "onboard-cloud.md",
    "disaster-recovery.md",
    "coming-from-mirrormaker.md",
    "coming-from-mirrormaker-1.md",
    "coming-from-mirrormaker-2.md",
    "coming-from-replicator.md",
    "coming-from-strimzi.md",
)


@pytest.mark.parametrize("page", MOVES)
def test_a_page_of_a_move_has_commands_and_a_test_that_runs_them(page: str) -> None:
    assert commands_of(page)
    assert f'Walk("{page}"' in WALKED.read_text("utf-8")
