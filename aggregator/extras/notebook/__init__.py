"""For notebooks: decoded hub records with their origin, their sources, and history.

`hub = open_hub("aggregator.yaml")`, and one line for each question. Reads only: needs no running
aggregation, and disturbs none.
"""

from aggregator.extras.notebook.at_source import AtSource
from aggregator.extras.notebook.hub import Hub, open_hub
from aggregator.extras.notebook.record_frames import (
    checkpoints,
    hub_records,
    hub_topics,
    open_session,
    with_origin_columns,
)
from aggregator.features.completeness.wait import complete_up_to, wait_until_complete

__all__ = [
    "AtSource",
    "Hub",
    "checkpoints",
    "complete_up_to",
    "hub_records",
    "hub_topics",
    "open_hub",
    "open_session",
    "wait_until_complete",
    "with_origin_columns",
]
