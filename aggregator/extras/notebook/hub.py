"""The hub in a notebook: one line for each question."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from aggregator.config.schema import Config
from aggregator.extras.notebook import record_frames as frames
from aggregator.extras.notebook.at_source import AtSource, source_of
from aggregator.extras.notebook.decode_columns import Format, decoded
from aggregator.extras.notebook.delta_frames import read_table
from aggregator.extras.notebook.record_frames import Offsets, Span, open_session
from aggregator.features.completeness.claim_table import CompletenessTable
from aggregator.features.connectors.connector_table import load_effective
from aggregator.features.timeline.minutes import moment_of
from aggregator.features.timeline.past_queries import Joining, Of, read_history
from aggregator.features.timeline.timeline_report import HistoryRow
from aggregator.model.errors import AggregatorError
from aggregator.store.state_store import StateStore

if TYPE_CHECKING:
    from aggregator.extras.notebook.plots import Plot

CONFIG_VARIABLE = "AGGREGATOR_CONFIG"
When = datetime | str
"""A moment with its UTC offset, as a datetime or as text; or a duration ago: `1h`, `7d`."""


def open_hub(config: Path | str | None = None, master: str = "local[2]") -> Hub:
    """The hub of a config file, else of the file in $AGGREGATOR_CONFIG, else of aggregator.yaml.

    Raises ConfigError for a config that is wrong, JarsError when Spark cannot be had.
    """
    path = config or os.environ.get(CONFIG_VARIABLE) or "aggregator.yaml"
    loaded = load_effective(Path(path))
    return Hub(loaded, open_session(loaded, master))


class Hub:
    """Records, tables and plots of one aggregation. A context manager: it ends its session.

    `config` and `spark` are there for all that has no line of its own.
    """

    def __init__(self, config: Config, spark: SparkSession) -> None:
        self.config = config
        self.spark = spark

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the Spark session."""
        self.spark.stop()

    @property
    def topics(self) -> tuple[str, ...]:
        """The hub topics of this aggregation; the clusters are asked."""
        return frames.hub_topics(self.config)

    def records(
        self,
        *topics: str,
        since: When | None = None,
        until: When | None = None,
        offsets: Offsets | None = None,
        sources: Collection[str] | str = (),
    ) -> DataFrame:
        """What the hub holds of these topics, or of all of them, with origin columns.

        `since` and `until` are compared with the records' timestamps, which are those of the
        sources. `offsets` are of one topic: {partition: (first, behind the last)}. `sources`: only
        what came from these.
        """
        return frames.hub_records(
            self.spark,
            self.config,
            *topics,
            span=Span(_moment(since), _moment(until), offsets),
            sources=self._sources(sources),
        )

    def live(self, *topics: str) -> DataFrame:
        """What comes from now on, as a streaming frame with the columns of `records`."""
        return frames.live_records(self.spark, self.config, *topics)

    def source_records(
        self,
        source: str,
        topic: str,
        *,
        since: When | None = None,
        until: When | None = None,
        offsets: Offsets | None = None,
    ) -> DataFrame:
        """What a source holds of one of its topics, as `records` returns it; without an origin."""
        span = Span(_moment(since), _moment(until), offsets)
        return frames.source_records(self.spark, self.config, source, topic, span)

    def decoded(
        self,
        frame: DataFrame,
        format: Format = "json",
        *,
        column: str = "value",
        schema: Any = None,
        reader: Any = None,
        source: str | None = None,
    ) -> DataFrame:
        """The frame with `value_decoded`, and `value_problem` for what could not be decoded.

        json, avro, protobuf, json_schema or text; as
        `aggregator.extras.notebook.decode_columns.decoded` says.
        """
        return decoded(
            frame, self.config, format, column=column, schema=schema, reader=reader, source=source
        )

    def source_of(self, row: Mapping[str, Any] | Any) -> AtSource:
        """The record at its source that a hub row came from, and what of it differs."""
        return source_of(self.config, row)

    def table(
        self, name: str, *, version: int | None = None, as_of: When | None = None
    ) -> DataFrame:
        """A table beside the checkpoint: checkpoints, gaps, history, events, audits, completeness.

        With time travel: as it was at a version, or at a moment.
        """
        moment = _moment(as_of)
        return read_table(self.spark, self.config, name, version=version, as_of=moment)

    def checkpoints(self, *, version: int | None = None, as_of: When | None = None) -> DataFrame:
        """One row per position, hub end and epoch of each commit."""
        return self.table("checkpoints", version=version, as_of=as_of)

    def gaps(self, *, version: int | None = None, as_of: When | None = None) -> DataFrame:
        """What sources had lost before it was copied, and what was decided about it."""
        return self.table("gaps", version=version, as_of=as_of)

    def history(self, *, version: int | None = None, as_of: When | None = None) -> DataFrame:
        """Records, lag and latency of sources and topics, by the minute."""
        return self.table("history", version=version, as_of=as_of)

    def events(self, *, version: int | None = None, as_of: When | None = None) -> DataFrame:
        """What happened."""
        return self.table("events", version=version, as_of=as_of)

    def audits(self, *, version: int | None = None, as_of: When | None = None) -> DataFrame:
        """What `aggregator verify` found."""
        return self.table("audits", version=version, as_of=as_of)

    def completeness(self, *, version: int | None = None, as_of: When | None = None) -> DataFrame:
        """Up to when the hub was complete, by hub topic and source, whenever that changed."""
        return self.table("completeness", version=version, as_of=as_of)

    def plot_lag(self, since: When = "24h", until: When | None = None, **only: Any) -> Plot:
        """Lag of each source over time."""
        from aggregator.extras.notebook.plots import plot_lag

        return plot_lag(self._past(since, until, **only))

    def plot_throughput(self, since: When = "24h", until: When | None = None, **only: Any) -> Plot:
        """Records per second of each source over time."""
        from aggregator.extras.notebook.plots import plot_throughput

        return plot_throughput(self._past(since, until, **only))

    def plot_latency(self, since: When = "24h", until: When | None = None, **only: Any) -> Plot:
        """How old records were when the hub had them: of half, and of 99 in a hundred."""
        from aggregator.extras.notebook.plots import plot_latency

        return plot_latency(self._past(since, until, **only))

    def plot_completeness(
        self, since: When = "24h", until: When | None = None, *, topic: str | None = None
    ) -> Plot:
        """How far back the moment lay up to which the hub had all of each source, over time.

        Of the hub topic that was furthest behind, or of `topic`.
        """
        from aggregator.extras.notebook.plots import plot_completeness

        begin, end = _span(since, until)
        claims = CompletenessTable(StateStore.of(self.config.checkpoint)).claims(begin, end)
        return plot_completeness([it for it in claims if topic in (None, it[1].topic)])

    def plot_flow(self, since: When = "24h", until: When | None = None) -> Plot:
        """How much each source gave to the hub."""
        from aggregator.extras.notebook.plots import plot_flow

        return plot_flow(self._past(since, until))

    def plot_cost(self, per_gb: float, since: When = "24h", until: When | None = None) -> Plot:
        """What the bytes of each source cost, at a price per gigabyte of keys and values."""
        from aggregator.extras.notebook.plots import plot_cost

        return plot_cost(self._past(since, until), per_gb)

    def _past(
        self,
        since: When,
        until: When | None,
        *,
        source: str | None = None,
        topic: str | None = None,
        step_seconds: float = 0.0,
    ) -> tuple[HistoryRow, ...]:
        begin, end = _span(since, until)
        found = read_history(
            self.config, begin, end, of=Of(source, topic), joining=Joining(step_seconds)
        )
        return found.rows

    def _sources(self, sources: Collection[str] | str) -> tuple[str, ...]:
        names = (sources,) if isinstance(sources, str) else tuple(sources)
        return tuple(alias for name in names for alias in self.config.chosen(name))


def _span(since: When, until: When | None) -> tuple[datetime, datetime]:
    begin, end = _moment(since), _moment(until) or datetime.now(UTC)
    if begin is None:
        raise AggregatorError("since when? '24h', or a moment with its UTC offset")
    return begin, end


def _moment(when: When | None) -> datetime | None:
    if isinstance(when, str):
        try:
            return moment_of(when, datetime.now(UTC))
        except ValueError as error:
            raise AggregatorError(str(error)) from error
    return when
