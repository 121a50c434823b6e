"""Renders what librdkafka needs to log in at a cluster."""

from aggregator.kafka.credentials.certificates import (
    CertificateExpiry,
    certificates,
    principal,
    why_not_trusted,
)
from aggregator.kafka.credentials.key_stores import CredentialsError
from aggregator.kafka.credentials.rendered_settings import client_settings, prepare, reader_settings

__all__ = [
    "CertificateExpiry",
    "CredentialsError",
    "certificates",
    "client_settings",
    "prepare",
    "principal",
    "reader_settings",
    "why_not_trusted",
]
