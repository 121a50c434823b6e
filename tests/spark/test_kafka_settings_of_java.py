"""The lists of Kafka's settings are those of the Java clients that are used."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.java_gateway import get_field
from pyspark.sql import SparkSession

from aggregator.config.kafka_names import READERS, WHOLE_NUMBERS, Role

CLIENTS: dict[Role, str] = {
    "consumer": "consumer.ConsumerConfig",
    "producer": "producer.ProducerConfig",
    "admin": "admin.AdminClientConfig",
}
INTEGERS = ("INT", "LONG", "SHORT")


def types_of(spark: SparkSession, role: Role) -> dict[str, str]:
    """Setting -> its type, of one of the clients."""
    java: Any = spark._jvm
    config: Any = java.org.apache.kafka.clients
    for part in CLIENTS[role].split("."):
        config = getattr(config, part)
    keys = config.configDef().configKeys()
    return {
        str(name): str(get_field(keys[name], "type"))
        for name in keys
        if not get_field(keys[name], "internalConfig")
    }


@pytest.mark.parametrize("role", sorted(CLIENTS))
def test_each_setting_of_a_client_is_known_and_its_numbers_are(
    spark: SparkSession, role: Role
) -> None:
    found = types_of(spark, role)
    assert found.keys() == {name for name, readers in READERS.items() if role in readers}
    numbers = {name for name, kind in found.items() if kind in INTEGERS}
    assert numbers == WHOLE_NUMBERS & found.keys()
