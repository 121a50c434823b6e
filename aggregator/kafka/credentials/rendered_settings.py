"""Settings of a cluster for librdkafka, with all that has to be fetched for them first.

At Amazon MSK that is a token for each login by IAM, made of the AWS credentials here.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from aggregator.config.jaas import parse_jaas
from aggregator.config.kafka_settings import ignore, isolation_of, librdkafka_settings
from aggregator.config.librdkafka import MSK_IAM
from aggregator.config.schema import ClusterConfig
from aggregator.config.stores import java_stores, with_pem
from aggregator.kafka.credentials.key_stores import CredentialsError, ask, opened, requests_of

SIGNER = "aws_msk_iam_sasl_signer"
_REGION = re.compile(
    r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?:", re.IGNORECASE
)

Token = tuple[str, float]
"""A token, and until when it is valid, in seconds since 1970."""


def msk_tokens(servers: str, options: Mapping[str, str]) -> Callable[[Any], Token]:
    """What librdkafka calls for a token, for a cluster at these addresses.

    `options` are those of the login line, which Java's IAMLoginModule reads as well. Raises
    CredentialsError when the library is missing, or the region is unknown.
    """
    signer = _signer().MSKAuthTokenProvider
    region = _region(servers, options)
    profile, role = options.get("awsProfileName"), options.get("awsRoleArn")
    session = options.get("awsRoleSessionName", "aggregator")

    def token(_config: object) -> Token:
        if role:
            made, until_ms = signer.generate_auth_token_from_role_arn(region, role, session)
        elif profile:
            made, until_ms = signer.generate_auth_token_from_profile(region, profile)
        else:
            made, until_ms = signer.generate_auth_token(region)
        return str(made), until_ms / 1000

    return token


def _signer() -> ModuleType:
    try:
        return import_module(SIGNER)
    except ImportError as error:
        hint = "pip install 'kafka-aggregator[msk]'"
        reason = "AWS_MSK_IAM needs a library that is not installed"
        raise CredentialsError("sasl.mechanism", reason, hint) from error


def _region(servers: str, options: Mapping[str, str]) -> str:
    named = _REGION.search(servers)
    found = named.group(1) if named else options.get("awsStsRegion", "")
    found = found or os.environ.get("AWS_REGION", "") or os.environ.get("AWS_DEFAULT_REGION", "")
    if not found:
        hint = "set AWS_REGION, where the name of the brokers is not that of Amazon"
        raise CredentialsError("sasl.mechanism", "the region of AWS_MSK_IAM is unknown", hint)
    return found


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
        # By default a partition of which enough is fetched ahead is left alone for a second, so
        # that one that is read to its end is read for a part of the time.
        "fetch.queue.backoff.ms": 10,
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
