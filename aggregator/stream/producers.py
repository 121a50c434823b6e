"""Tells whether a producer of this JVM is still open: it outlives the query that used it.

Spark caches one producer per configuration and closes it some time after its last use. Until then
its sender thread goes on delivering what a stopped or failed query left in its buffer. A producer
takes its metrics out of the JVM's register as the last thing when it closes, so no metrics of a
client id means that nothing more can come from it (KafkaProducer.close; kafka-clients 3.9.2).
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

CACHE_SETTINGS = {
    # How soon after its last use a producer is closed; Spark's default is ten minutes.
    "spark.kafka.producer.cache.timeout": "5s",
    "spark.kafka.producer.cache.evictorThreadRunInterval": "1s",
}


def producer_is_open(spark: SparkSession, client_id: str) -> bool:
    """Whether this JVM has a producer with this client id that is not yet closed.

    Says nothing about producers on executors that are other JVMs.
    """
    jvm: Any = spark._jvm
    name = jvm.javax.management.ObjectName(f"kafka.producer:client-id={client_id},*")
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    return not server.queryNames(name, None).isEmpty()
