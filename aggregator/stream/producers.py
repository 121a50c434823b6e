"""Tells whether a producer of this JVM is still at work: it outlives the query that used it.

Spark caches one producer per configuration and closes it some time after its last use. Until then
its sender thread goes on delivering what a stopped or failed query left in its buffer. That thread
carries the client id in its name and ends when the producer is closed: without it nothing more can
come (KafkaProducer.NETWORK_THREAD_PREFIX and close(); kafka-clients 3.9.2).
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

THREAD_PREFIX = "kafka-producer-network-thread | "

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
    # As one text: a call into the JVM for each of some thousand threads would take seconds.
    threads = jvm.java.lang.Thread.getAllStackTraces().keySet().toString()
    return f"{THREAD_PREFIX}{client_id}," in threads
