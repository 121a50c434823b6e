"""Collects the inputs of a dry run from the clusters and the checkpoint."""

from datetime import UTC, datetime

from aggregator.config.schema import Config
from aggregator.engine.commits.observer import known_of
from aggregator.engine.control.pauses import out_of, out_of_parts
from aggregator.engine.dry_run.first_step import Preview, preview
from aggregator.kafka.admin import HUB, open_admin
from aggregator.kafka.discovery.hub_logs import read_topics
from aggregator.kafka.discovery.poller import first_snapshot
from aggregator.kafka.discovery.prepare import Prepared
from aggregator.plan.lifecycle.inputs import FoundGaps, HubLogs
from aggregator.store.checkpoint.checkpoint_table import stored_state
from aggregator.store.controls import Controls
from aggregator.store.gaps import GapTable
from aggregator.store.seen_topics import SeenTable
from aggregator.store.state_store import StateStore


def preview_of(config: Config, prepared: Prepared) -> Preview:
    """The first steps of a run that would start now; changes nothing.

    Raises CheckpointError when the checkpoint cannot be read, ClusterError when the hub does not
    answer.
    """
    place = config.checkpoint
    state = stored_state(place)

    paused = Controls(StateStore.of(place)).read()

    def ask_hub(topics: frozenset[str]) -> HubLogs:
        with open_admin(config, HUB) as hub:
            found = read_topics(hub, topics, config.supervision.connect_timeout)
        return HubLogs(found.logs, frozenset(found.waits))

    return preview(
        config,
        first_snapshot(config, prepared),
        known_of(state),
        FoundGaps(GapTable(StateStore.of(place)).load()),
        out_of(paused.sources),
        datetime.now(UTC),
        ask_hub,
        out_of_parts(paused.parts),
        SeenTable(StateStore.of(place)).load(),
    )
