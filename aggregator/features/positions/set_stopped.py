"""Sets positions in a checkpoint on which no instance runs, as its writer for that moment."""

import threading

from aggregator.config.schema import Config
from aggregator.features.positions.change_report import MovesReport
from aggregator.features.positions.proposal import propose
from aggregator.features.positions.targets import MoveRequest
from aggregator.model.events import EventSink
from aggregator.store.gaps import GapTable
from aggregator.store.lease.writer import Writer
from aggregator.store.state_store import StateStore


def set_positions(config: Config, request: MoveRequest, emit: EventSink) -> MovesReport:
    """Do what `propose` says, in one commit under an epoch of its own.

    Raises as `propose` does, then nothing is changed; CheckpointConflictError when an instance runs
    on the checkpoint; CheckpointError when it cannot be written.
    """
    # Only asked: a refusal must leave no trace, not even an epoch.
    found = propose(config, request)
    if not found.checkpoints:
        # So one that runs is not in the way of what changes nothing.
        return found.report(config, dry_run=False, running=False)
    stop = threading.Event()
    with Writer.take(config, take_over=False, emit=emit, stop=stop) as writer:
        found = propose(config, request)
        if not found.checkpoints:
            return found.report(config, dry_run=False, running=False)
        table = writer.claim()
        gaps = GapTable(StateStore.of(config.checkpoint))
        # First what is skipped: a crash in between says too much, never too little.
        gaps.append(found.gaps)
        commit = table.append(*found.checkpoints).seq
        gaps.resolve(found.settled, "positions were set by hand", found.at)
        writer.release()
    return found.report(config, dry_run=False, running=False, commit=commit)
