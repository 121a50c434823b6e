"""A short round of the fault campaign, as `make faults` runs it for longer."""

from __future__ import annotations

import logging
from itertools import islice
from pathlib import Path

import pytest

from faults.campaign import random_script, run_round
from faults.schedule import faults, needs
from faults.world import Settings
from support.java_options import QUICK_START
from support.turns import turns

SEED = 57307
"""Draws: killed while a hub broker is frozen, killed while it recovers; then killed at a place,
killed while a source is frozen."""
FAULTS = turns(2, 4)
LOG = logging.getLogger(__name__)


@pytest.mark.again
@pytest.mark.timeout(900)
def test_a_short_random_schedule(tmp_path: Path) -> None:
    drawn = islice(faults(SEED), FAULTS)
    world = needs(kind for fault in drawn for kind in (fault.kind, fault.during))
    settings = Settings(seed=SEED, rate=300.0, linger_ms=20.0, java_options=QUICK_START, **world)
    done = run_round(
        "short",
        "a few faults",
        settings,
        random_script(minutes=15, count=FAULTS),
        LOG.warning,
        folder=tmp_path,
    )
    assert done.good, (done.verdict, done.failures)
    assert len(done.struck) == FAULTS
    assert done.verdict.acknowledged > 0
