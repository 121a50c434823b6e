"""What an engine is made of: threads and clients that `run` starts and ends."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from aggregator.connector.driver import Connector
from aggregator.discover import ClusterAdmin
from aggregator.engine.board import Board
from aggregator.engine.control import Control
from aggregator.engine.look import Lookout
from aggregator.engine.observer import Observer
from aggregator.engine.sources import SourcesWatch
from aggregator.engine.writer import Writer


@dataclass(frozen=True, slots=True)
class Parts:
    """All of it is started and ended by the caller."""

    spark: SparkSession
    connector: Connector
    observer: Observer
    lookout: Lookout
    sources: SourcesWatch
    hub: ClusterAdmin
    board: Board
    writer: Writer
    control: Control
