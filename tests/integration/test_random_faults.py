"""A short round of the fault campaign, as `make faults` runs it for longer."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from faults.campaign import random_script, run_round
from faults.world import Settings
from support.java_options import QUICK_START
from support.turns import turns

SEED = 15189
"""Draws: killed while it recovers, a hub leader killed; then a source killed, killed at a place."""
FAULTS = turns(2, 4)
LOG = logging.getLogger(__name__)


@pytest.mark.again
@pytest.mark.timeout(900)
def test_a_short_random_schedule(tmp_path: Path) -> None:
    done = run_round(
        "short",
        "a few faults",
        Settings(seed=SEED, rate=300.0, linger_ms=20.0, java_options=QUICK_START),
        random_script(minutes=15, count=FAULTS),
        LOG.warning,
        folder=tmp_path,
    )
    assert done.good, (done.verdict, done.failures)
    assert len(done.struck) == FAULTS
    assert done.verdict.acknowledged > 0
