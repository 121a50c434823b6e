"""Why a broker's certificate is not trusted: librdkafka says only that it is not."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping

SECONDS = 2.0


def why_not_trusted(settings: Mapping[str, object]) -> str:
    """The reason in OpenSSL's words, such as `certificate has expired`; empty when none is found.

    `settings` are those of the librdkafka client. Asks the first of its servers.
    """
    host, _, port = str(settings.get("bootstrap.servers", "")).partition(",")[0].rpartition(":")
    try:
        context = ssl.create_default_context(
            cafile=_text(settings, "ssl.ca.location"), cadata=_text(settings, "ssl.ca.pem")
        )
        if settings.get("ssl.endpoint.identification.algorithm") == "none":
            context.check_hostname = False
        name = host.strip("[]")
        with (
            socket.create_connection((name, int(port)), SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=name),
        ):
            return ""
    except ssl.SSLCertVerificationError as error:
        return str(error.verify_message)
    except (OSError, ValueError):
        return ""


def _text(settings: Mapping[str, object], name: str) -> str | None:
    value = settings.get(name)
    return None if value is None else str(value)
