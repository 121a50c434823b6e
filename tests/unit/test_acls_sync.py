"""ACLs that are kept up at the hub, with clusters that give no answer; those that do are real
(tests/integration/test_secured.py)."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from aggregator.config.load import load_text
from aggregator.config.schema import Config
from aggregator.features.acls.acl_admin import planned
from aggregator.features.acls.acl_sync import AclSync
from aggregator.features.acls.required_acls import Acl
from aggregator.features.service import Now
from aggregator.kafka.admin import HUB
from aggregator.model.events import Event
from aggregator.model.values import ClusterFacts, Discovery, TopicFacts
from aggregator.plan.plan import Plan, make_plan
from aggregator.status.schema import AclSyncStatus
from aggregator.store.checkpoint.start_state import CheckpointState
from support.reading import wait_for


def config_of(*sets: str) -> Config:
    return load_text(
        "",
        [
            "hub.bootstrap_servers=127.0.0.1:9",
            "sources.eu.bootstrap_servers=127.0.0.1:10",
            "sources.eu.topics.include=orders",
            "supervision.connect_timeout=0.2s",
            "topics.refresh_interval=1s",
            *sets,
        ],
    )


def plan_of(config: Config) -> Plan:
    facts = ClusterFacts("eu", "c", 1, {"orders": TopicFacts("orders", "t", 2, 1)})
    hub = ClusterFacts(HUB, "h", 1, {"orders": TopicFacts("orders", "u", 2, 1)})
    return make_plan(config, Discovery({"eu": facts, HUB: hub}), hub, cores=2)


def shown(sync: AclSync) -> AclSyncStatus:
    status = sync.status()
    assert status is not None
    return status


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def sync(events: list[Event]) -> Iterator[AclSync]:
    sync = AclSync(events.append)
    yield sync
    sync.stop()
    wait_for(lambda: not threads(), "its thread has ended")


def threads() -> list[str]:
    return [it.name for it in threading.enumerate() if it.name == "sync-acls"]


def test_nothing_is_asked_where_no_source_has_it(sync: AclSync) -> None:
    config = config_of()
    sync.follow(Now(config, plan_of(config), CheckpointState()))
    assert (sync.status(), threads()) == (None, [])


def test_a_cluster_that_gives_no_answer_is_a_state_and_one_event(
    sync: AclSync, events: list[Event]
) -> None:
    config = config_of("sources.eu.acls.sync=true")
    sync.follow(Now(config, plan_of(config), CheckpointState()))
    wait_for(lambda: shown(sync).error, "it has failed")
    first = shown(sync).at
    assert "127.0.0.1:9" in shown(sync).error
    wait_for(lambda: shown(sync).at != first, "it is tried again")
    assert [it.kind for it in events] == ["acl_sync_failed"]


@pytest.mark.parametrize(
    ("sets", "granted"),
    [
        # It may have a topic of that name, and who may read that one is not known.
        (["sources.us.topics.include=.*"], 0),
        (["sources.us.topics.include=payments"], 1),
        (["sources.us.topics.include=.*", "sources.us.rename=us.${topic}"], 1),
        (["sources.us.topics.include=.*", "sources.us.rename=orders"], 0),
    ],
)
def test_a_source_that_was_never_seen_and_may_flow_in_holds_back_all_grants(
    sets: list[str], granted: int
) -> None:
    us = ["sources.us.bootstrap_servers=127.0.0.1:11", "sources.us.acls.sync=true"]
    config = config_of("sources.eu.acls.sync=true", *us, *sets)
    acl = Acl("LITERAL", "orders", "User:anna", "*", "READ", "ALLOW")
    assert len(planned(config, plan_of(config), {"eu": [acl], HUB: []}).add) == granted
