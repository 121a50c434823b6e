"""In which order test files run: long ones first, and busy ones between those that wait.

And each test has an id of its own, by which it is given to a process.
"""

from __future__ import annotations

import pytest

ORDER = (
    "test_failpoints.py",
    "test_notebook.py",
    "test_walks_of_moves.py",
    "test_tee.py",
    "test_hub_brokers.py",
    "test_faults_at_the_edges.py",
    "test_origin_header.py",
    "test_run_submit.py",
    "test_alerts_fire.py",
    "test_demo.py",
    "test_lost_checkpoint.py",
    "test_dedup.py",
    "test_backfill.py",
    "test_gaps.py",
    "test_whole_batches.py",
    "test_batches_fail_over.py",
    "test_verify.py",
    "test_dashboard.py",
    "test_connector.py",
    "test_one_writer.py",
    "test_poison_records.py",
    "test_crash.py",
    "test_random_faults.py",
    "test_positions.py",
    "test_connect_clients.py",
    "test_discover.py",
    "test_control.py",
    "test_complete.py",
    "test_executors.py",
    "test_cli_clusters.py",
    "test_schema_ids.py",
    "test_moving_in.py",
    "test_versions.py",
    "test_connect_rest.py",
    "test_standby.py",
    "test_groups_at_the_hub.py",
    "test_source_edges.py",
    "test_refused_login.py",
    "test_no_secret_shown.py",
    "test_isolation.py",
    "test_embedded.py",
    "test_pace.py",
    "test_topics_taken.py",
    "test_secured.py",
    "test_run_starts.py",
    "test_replace.py",
    "test_heartbeats_at_the_hub.py",
    "test_run.py",
    "test_lanes_under_way.py",
    "test_dashboard_reach.py",
    "test_run_lanes.py",
    "test_restart.py",
    "test_records.py",
    "test_groups.py",
    "test_growth.py",
    "test_partitioning.py",
    "test_hub_tail.py",
    "test_jars.py",
    "test_promtool.py",
)
"""The files of tests/integration: of those that keep a core busy the longest first, and between
them those that wait for most of their time, again the longest first. So cores are neither idle nor
wanted by all processes at once. One that is not here runs before all others: no process has to
wait for it in the end."""


def name_apart(items: list[pytest.Item]) -> None:
    """Give tests of one id, as a fuzzer makes for each call of an API, the ids of their names.

    Of tests with one id xdist runs one, and says nothing of the others.
    """
    for item in items:
        params = item.name.partition("[")[2]
        if params and item.id.params is None:
            item._id = item.id.with_params(params.removesuffix("]"))
    assert len({it.nodeid for it in items}) == len(items), "two tests have one id"


def put_in_order(items: list[pytest.Item]) -> None:
    """Sort the tests of tests/integration by `ORDER`; others stay where they are.

    So a run that names tests/unit first has those first.
    """
    places = [at for at, item in enumerate(items) if item.path.parent.name == "integration"]
    for at, item in zip(places, sorted((items[at] for at in places), key=_rank), strict=True):
        items[at] = item


def _rank(item: pytest.Item) -> int:
    return ORDER.index(item.path.name) if item.path.name in ORDER else -1
