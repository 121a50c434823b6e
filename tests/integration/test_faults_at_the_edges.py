"""Faults where the promise has its edges, each once, in one world; `make faults` draws them too."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from faults.campaign import run_round
from faults.scenarios import SCENARIOS, TOGETHER
from faults.world import Settings
from support.java_options import QUICK_START

LOG = logging.getLogger(__name__)
PATIENCE = 3.0
"""Other tests run beside it."""


@pytest.mark.timeout(900)
def test_each_fault_at_the_edges_loses_and_doubles_nothing(tmp_path: Path) -> None:
    scenario = SCENARIOS["edges"]
    settings = Settings(java_options=QUICK_START, patience=PATIENCE, **scenario.settings)
    done = run_round(
        "edges", scenario.says, settings, scenario.script, LOG.warning, folder=tmp_path
    )
    assert done.good, (done.verdict, done.failures)
    assert len(done.struck) == len(TOGETHER)
    assert done.verdict.acknowledged > 0
