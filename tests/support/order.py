"""In which order test files run: those that take longest first, so that no process has one left."""

from __future__ import annotations

import pytest

LONGEST = (
    "test_walks_of_moves.py",
    "test_tee.py",
    "test_gaps.py",
    "test_control.py",
    "test_random_faults.py",
    "test_notebook.py",
    "test_connector.py",
    "test_versions.py",
    "test_dashboard.py",
    "test_moving_in.py",
    "test_groups_at_the_hub.py",
    "test_jobs_submit.py",
    "test_secured.py",
    "test_executors.py",
    "test_run_submit.py",
    "test_backfill.py",
    "test_one_writer.py",
    "test_complete.py",
    "test_verify.py",
    "test_standby.py",
    "test_crash.py",
    "test_topics_taken.py",
    "test_alerts_fire.py",
    "test_refused_login.py",
    "test_origin_header.py",
    "test_no_secret_shown.py",
    "test_demo.py",
    "test_connect_rest.py",
    "test_isolation.py",
    "test_positions.py",
    "test_discover.py",
)
"""Of tests/integration, longest first; what `make test` prints in the end tells when to change it.
Those that are not here take less, in any order."""


def longest_first(items: list[pytest.Item]) -> None:
    """Sort the tests of tests/integration by how long their files take; others stay where they are.

    So whoever names tests/unit first has those first.
    """
    places = [at for at, item in enumerate(items) if item.path.parent.name == "integration"]
    for at, item in zip(places, sorted((items[at] for at in places), key=_rank), strict=True):
        items[at] = item


def _rank(item: pytest.Item) -> int:
    return LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST)
