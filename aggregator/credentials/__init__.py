"""Settings of a cluster go in; what librdkafka needs to log in there comes out."""

from aggregator.credentials.certificates import ShownCertificate, certificates
from aggregator.credentials.client import client_settings, prepare, reader_settings
from aggregator.credentials.handshake import why_not_trusted
from aggregator.credentials.principal import principal
from aggregator.credentials.stores import CredentialsError

__all__ = [
    "CredentialsError",
    "ShownCertificate",
    "certificates",
    "client_settings",
    "prepare",
    "principal",
    "reader_settings",
    "why_not_trusted",
]
