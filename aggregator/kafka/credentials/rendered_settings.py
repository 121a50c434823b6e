"""Settings of a cluster for librdkafka, with all that has to be fetched for them first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aggregator.config.jaas import parse_jaas
from aggregator.config.kafka_settings import ignore, isolation_of, librdkafka_settings
from aggregator.config.librdkafka import MSK_IAM
from aggregator.config.schema import ClusterConfig
from aggregator.config.stores import java_stores, with_pem
from aggregator.kafka.credentials.key_stores import ask, opened, requests_of
from aggregator.kafka.credentials.msk import msk_tokens


def client_settings(cluster: ClusterConfig) -> dict[str, Any]:
    """Settings of a librdkafka client for a cluster; files are read, so they are as now.

    Raises CredentialsError for what cannot be had, ConfigError for what librdkafka cannot do.
    """
    settings: dict[str, Any] = {**librdkafka_settings(_with_pem(cluster))}
    if _mechanism(cluster) == MSK_IAM:
        login = parse_jaas(cluster.kafka["sasl.jaas.config"])
        settings["oauth_cb"] = msk_tokens(cluster.bootstrap_servers, login.options)
    return settings


def reader_settings(cluster: ClusterConfig, group: str) -> dict[str, Any]:
    """Settings of a librdkafka consumer that reads by assignment, reports where partitions end,
    and commits nothing. A connection that fails shows as records that do not arrive.

    Raises as `client_settings` does.
    """
    return {
        **client_settings(cluster),
        # librdkafka wants a group.id; by assignment and without commits it is never used.
        "group.id": group,
        "isolation.level": isolation_of(cluster),
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "log_level": 0,
        "error_cb": ignore,
    }


def prepare(clusters: Iterable[ClusterConfig]) -> None:
    """Open the stores of all these clusters at once, which is cheaper than one by one.

    A store that cannot be opened is reported to the client that needs it.
    """
    stores = [store for cluster in clusters for store in java_stores(cluster.kafka)]
    if requests := requests_of(stores):
        ask(requests)


def _with_pem(cluster: ClusterConfig) -> ClusterConfig:
    stores = java_stores(cluster.kafka)
    if not stores:
        return cluster
    settings = cluster.kafka
    for store, content in zip(stores, opened(stores), strict=True):
        settings = with_pem(settings, store, content.certificates, content.key)
    return cluster.model_copy(update={"kafka": settings})


def _mechanism(cluster: ClusterConfig) -> str:
    if not cluster.kafka.get("security.protocol", "").strip().upper().startswith("SASL"):
        return ""
    return cluster.kafka.get("sasl.mechanism", "").strip().upper()
