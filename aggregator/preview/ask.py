"""What `aggregator plan` shows of a first start: asked of the clusters and of the checkpoint."""

from __future__ import annotations

from datetime import UTC, datetime

from aggregator.checkpoint.controls import Controls
from aggregator.checkpoint.seen import SeenTable
from aggregator.checkpoint.state import CheckpointState
from aggregator.checkpoint.table import CheckpointTable
from aggregator.clusters.hub import read_topics
from aggregator.clusters.look import first_look
from aggregator.clusters.prepare import Prepared
from aggregator.commits.known import known_of
from aggregator.config.schema import Config
from aggregator.discover import HUB, open_admin
from aggregator.flow.news import FoundGaps, HubLogs
from aggregator.gaps.table import GapTable
from aggregator.preview.first import Preview, preview
from aggregator.steering.pauses import out_of, out_of_parts


def preview_of(config: Config, prepared: Prepared) -> Preview:
    """The first steps of a run that would start now; changes nothing.

    Raises CheckpointError when the checkpoint cannot be read, ClusterError when the hub does not
    answer.
    """
    place = config.checkpoint
    table = CheckpointTable.open(place.path, place.storage_options)
    state = CheckpointState() if table is None else table.load()

    paused = Controls(place.path, place.storage_options).read()

    def ask_hub(topics: frozenset[str]) -> HubLogs:
        with open_admin(config, HUB) as hub:
            found = read_topics(hub, topics, config.supervision.connect_timeout)
        return HubLogs(found.logs, frozenset(found.waits))

    return preview(
        config,
        first_look(config, prepared),
        known_of(state),
        FoundGaps(GapTable(place.path, place.storage_options).load()),
        out_of(paused.sources),
        datetime.now(UTC),
        ask_hub,
        out_of_parts(paused.parts),
        SeenTable(place.path, place.storage_options).load(),
    )
