"""One call of `aggregator maintain`: all tables beside the checkpoint, and the landing tables.

The writer of a table maintains it as well, so what is in use is left to its writer.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from py4j.protocol import Py4JJavaError
from pydantic import Field
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from aggregator.config.schema import Config
from aggregator.datapath.spark.lane import innermost
from aggregator.features.backfill.backfill_table import KEY as BACKFILL
from aggregator.features.backfill.backfill_table import TABLE as BACKFILLS
from aggregator.features.completeness.claim_table import TABLE as CLAIMS
from aggregator.features.connectors.connector_table import TABLE as CONNECTORS
from aggregator.features.dedup.event_table import TABLE as DEDUP
from aggregator.features.delta_sink.sink import on_folder
from aggregator.features.delta_sink.table_maintenance import care, tables_in
from aggregator.features.timeline.past_queries import EVENTS, HISTORY
from aggregator.features.verify.audit_table import TABLE as AUDITS
from aggregator.features.verify.audit_table import trim_audits
from aggregator.model.alike import made_of
from aggregator.model.errors import EXIT_DONE, EXIT_OTHER, CheckpointError, HeldError
from aggregator.status.schema import Document
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.checkpoint.maintenance import maintain as maintain_checkpoint
from aggregator.store.controls import TABLE as CONTROLS
from aggregator.store.delta import local_path
from aggregator.store.failovers import TABLE as FAILOVERS
from aggregator.store.gaps import TABLE as GAPS
from aggregator.store.gaps import GapTable
from aggregator.store.lease.lock import WriterLock, has_lock
from aggregator.store.seen_topics import TABLE as SEEN
from aggregator.store.state_store import StateStore

CHECKPOINTS = "checkpoints"
NONE_YET = "there is none yet"
NOTES = {CONTROLS: "", CONNECTORS: "", FAILOVERS: "", SEEN: "", BACKFILLS: BACKFILL, CLAIMS: ""}
"""Tables of decisions and of what was seen, with the key of which only the newest counts.

Claims of completeness stay, however old: the newest has to, and only an instance makes a new one.
"""
MAY_BE_ABSENT = {*NOTES, GAPS, AUDITS}
"""Tables of which one that is not there is no news."""


class TableUpkeep(Document):
    """What became of one table."""

    table: str
    done: bool = Field(description="whether it was maintained now")
    files_before: int | None = None
    files_after: int | None = None
    rows_deleted: int | None = Field(default=None, description="rows that were too old")
    seconds: float = 0.0
    left: str = Field(default="", description="why it was left to another writer")
    failed: str = ""


class Upkeep(Document):
    """What became of all of them."""

    tables: tuple[TableUpkeep, ...]

    @property
    def exit_code(self) -> int:
        """How a command ends that has shown this."""
        return EXIT_OTHER if any(it.failed for it in self.tables) else EXIT_DONE


def maintain_all(config: Config) -> Upkeep:
    """Merge small files, delete old rows and unused files, in all tables.

    Raises JarsError. A failure with one table is in the report, and the others continue.
    """
    return Upkeep(tables=(*_beside_the_checkpoint(config), *_landed(config)))


def _beside_the_checkpoint(config: Config) -> list[TableUpkeep]:
    place, store = config.checkpoint, StateStore.of(config.checkpoint)
    now = datetime.now(UTC)
    before = now - timedelta(seconds=config.timeline.keep)
    works: dict[str, Callable[[], TableUpkeep]] = {
        CHECKPOINTS: partial(_checkpoint, config),
        HISTORY: partial(_trimmed, store, HISTORY, before),
        EVENTS: partial(_trimmed, store, EVENTS, before),
        GAPS: lambda: _if_there(GAPS, GapTable(store).tidy()),
        AUDITS: lambda: _if_there(AUDITS, trim_audits(store, before)),
        **{name: partial(_notes, store, name, key) for name, key in NOTES.items()},
    }
    if config.topics.has_dedup:
        window = timedelta(seconds=config.topics.dedup_window)
        works[DEDUP] = partial(_trimmed, store, DEDUP, now - window)
    if not has_lock(place.path):
        why = "on an object store its instance maintains it while it runs"
        return [TableUpkeep(table=name, done=False, left=why) for name in works]
    try:
        with WriterLock.acquire(place.path):
            done = [_timed(name, work) for name, work in works.items()]
            return [it for it in done if it.table not in MAY_BE_ABSENT or it.left != NONE_YET]
    except HeldError:
        why = "an instance runs, and maintains it itself"
        return [TableUpkeep(table=name, done=False, left=why) for name in works]


def _checkpoint(config: Config) -> TableUpkeep:
    place = config.checkpoint
    table = CheckpointTable.open(place.path, place.storage_options)
    if table is None:
        return TableUpkeep(table=CHECKPOINTS, done=False, left=NONE_YET)
    did = maintain_checkpoint(table, place.history, time.time_ns() // 1_000_000)
    return made_of(TableUpkeep, did, table=CHECKPOINTS, done=True)


def _trimmed(store: StateStore, name: str, before: datetime) -> TableUpkeep:
    return TableUpkeep(table=name, done=True, rows_deleted=store.table(name).trim(before))


def _notes(store: StateStore, name: str, key: str) -> TableUpkeep:
    return _if_there(name, store.table(name).tidy(key))


def _if_there(name: str, dropped: int | None) -> TableUpkeep:
    left = NONE_YET if dropped is None else ""
    return TableUpkeep(table=name, done=dropped is not None, rows_deleted=dropped, left=left)


def _landed(config: Config) -> list[TableUpkeep]:
    folder = local_path(config.tee.path)
    if folder is not None and not folder.is_dir():
        return []
    try:
        with on_folder(config) as spark:
            topics = tables_in(spark, config.tee.path)
            return [
                _timed(f"tee/{topic}", partial(_tee_table, spark, config, topic))
                for topic in topics
            ]
    except HeldError:
        why = "a tee runs, and maintains its tables itself"
        return [TableUpkeep(table="tee", done=False, left=why)]


def _tee_table(spark: SparkSession, config: Config, topic: str) -> TableUpkeep:
    name = f"tee/{topic}"
    # On an object store no lock keeps a tee away.
    alone = local_path(config.tee.path) is not None
    did = care(spark, config.tee, topic, alone=alone)
    if did is None:
        return TableUpkeep(table=name, done=False, left="there is no table")
    return TableUpkeep(
        table=name, done=True, files_before=did.files_before, files_after=did.files_after
    )


def _timed(name: str, work: Callable[[], TableUpkeep]) -> TableUpkeep:
    began = time.monotonic()
    try:
        done = work()
    except CheckpointError as error:
        return TableUpkeep(table=name, done=False, failed=str(error))
    except (PySparkException, Py4JJavaError) as error:
        return TableUpkeep(table=name, done=False, failed=innermost(error))
    return done.model_copy(update={"seconds": round(time.monotonic() - began, 3)})
