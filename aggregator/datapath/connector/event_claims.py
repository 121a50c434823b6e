"""Python's access to the events that dedup holds in the driver's JVM (`Dedup.java`).

Each hub topic has one rule (`by`) at a time; a call about another one raises ClusterError.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from aggregator.datapath.connector.connector import TAIL_SETTINGS, ask_java
from aggregator.datapath.connector.spec import origin_names


class DedupConnector:
    """The one way to `Dedup.java`. May be used from any thread."""

    def __init__(self, spark: SparkSession) -> None:
        # Any, because py4j finds Java classes by their names as attributes.
        jvm: Any = spark._jvm
        self._dedup = jvm.aggregator.connector.Dedup

    def stand(self) -> list[dict[str, Any]]:
        """Each hub topic that has its events once: its rule, and what is known of it."""
        found: list[dict[str, Any]] = json.loads(str(self._dedup.stand()))
        return found

    def read(
        self,
        topic: str,
        by: str,
        consumer: Mapping[str, str],
        ends: Sequence[int],
        timeout: float,
    ) -> Any:
        """Read a hub topic; `consumer` are the settings of a Java consumer that reads all of it.

        From these ends on, or at first without any for as long as the window is, or later from
        where everything is known. ClusterError when it cannot be read, also within `timeout`
        seconds by one of the leaders, when it does not show all that these hold, or when it was
        cancelled.
        """
        spec = {
            "topic": topic,
            "by": by,
            "consumer": {**consumer, **TAIL_SETTINGS},
            "origin": origin_names(),
            "ends": list(ends),
            "millis": round(timeout * 1000),
        }
        return ask_java(self._dedup.read, spec, f"hub: {topic} cannot be read")

    def forget(self, topic: str, by: str) -> None:
        """Know no events of a hub topic any more: its records wait until `begin`."""
        self._dedup.forget(topic, by)

    def load(self, topic: str, by: str, events: bytes) -> None:
        """Take events that the table holds."""
        self._dedup.load(topic, by, events)

    def begin(self, topic: str, by: str, ends: Sequence[int]) -> None:
        """All is known that the hub held below these ends: its records may flow."""
        self._dedup.begin(topic, by, json.dumps(list(ends)))

    def covered(self, topic: str, by: str) -> list[int]:
        """The hub ends below which all events are known by now."""
        found: list[int] = json.loads(str(self._dedup.covered(topic, by)))
        return found

    def fresh(self, topic: str, by: str) -> bytes:
        """Events that were not kept yet; some of them if they are many."""
        return bytes(self._dedup.fresh(topic, by))

    def more(self, topic: str, by: str) -> bool:
        """Whether there were more than `fresh` returned last."""
        return bool(self._dedup.more(topic, by))

    def kept(self, topic: str, by: str) -> None:
        """What `fresh` returned last is kept."""
        self._dedup.kept(topic, by)

    def cancel(self) -> None:
        """End a `read` that runs in another thread, and each one to come."""
        self._dedup.cancel()
