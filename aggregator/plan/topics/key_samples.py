"""Whether the keys of a topic are where Kafka's own partitioner puts them, by a sample. Pure."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from aggregator.plan.lanes.murmur2 import partition_for_key

CHANCE = 1e-4
"""How likely another partitioner may give a sample the same partitions."""


class SampledTopic(NamedTuple):
    """A source topic as it was sampled; one that was recreated or has grown is another one."""

    cluster: str
    topic: str
    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class KeySample:
    """Counts of a sample: records, different keys, and keys that are in another partition."""

    records: int
    keys: int
    elsewhere: int

    def doubt(self, partitions: int) -> str:
        """Why it does not show that Kafka's partitioner placed the keys; "" when it does."""
        if partitions == 1:
            return ""
        if self.elsewhere:
            return (
                f"{self.elsewhere} of {self.keys} sampled keys are not in the partition that "
                "Kafka's own partitioner gives them"
            )
        if self.keys * math.log(partitions) < -math.log(CHANCE):
            return (
                f"{self.records} sampled records have {self.keys} different keys, which are too "
                "few to know how keys are placed"
            )
        return ""


def sample_of(records: Iterable[tuple[int, bytes | None]], partitions: int) -> KeySample:
    """What a sample shows: (partition, key) of each record of a topic with `partitions`."""
    count, keys, elsewhere = 0, set[bytes](), set[bytes]()
    for partition, key in records:
        count += 1
        if key is not None:
            keys.add(key)
            if partition_for_key(key, partitions) != partition:
                elsewhere.add(key)
    return KeySample(count, len(keys), len(elsewhere))
