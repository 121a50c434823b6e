"""Logins at Amazon MSK by IAM, for librdkafka: tokens that are made of the AWS credentials here."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from aggregator.kafka.credentials.key_stores import CredentialsError

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
