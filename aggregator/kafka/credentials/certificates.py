"""The certificates that a cluster's settings name, and until when they are valid, for `check`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from aggregator.config.files import read_file
from aggregator.config.stores import NAMES, PEM, Kind, store_of, uses_tls
from aggregator.kafka.credentials.key_stores import (
    CredentialsError,
    Opened,
    ask,
    opened,
    pem_request,
)

_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_TEXTS = {"key": "ssl.keystore.certificate.chain", "trust": "ssl.truststore.certificates"}


@dataclass(frozen=True, slots=True)
class ShownCertificate:
    """Our certificate, or the trusted one that expires last: whose, until when."""

    name: str
    setting: str
    subject: str
    until_ms: int


def certificates(settings: Mapping[str, str]) -> list[ShownCertificate]:
    """The certificates of a cluster's settings, ours first; CredentialsError as for a client."""
    found = []
    for kind, store_name in NAMES.items() if uses_tls(settings) else ():
        store = store_of(settings, kind)
        setting = _TEXTS[kind] if store is None else store.setting("location")
        if store is not None and store.type != PEM:
            (content,) = opened([store])
        elif text := _pem(settings, setting):
            content = _read(kind, setting, text)
        else:
            continue
        found.append(ShownCertificate(store_name, setting, content.subject, content.until_ms))
    return found


def _pem(settings: Mapping[str, str], setting: str) -> str:
    value = settings.get(setting, "")
    if not value or not setting.endswith(".location"):
        return value
    try:
        return read_file(value).decode()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no PEM text"
        reason = f"cannot read {value}: {why}"
        raise CredentialsError(setting, reason, "check the path") from error


def _read(kind: Kind, setting: str, text: str) -> Opened:
    blocks = _BLOCK.findall(text)
    request = pem_request(kind, "\n".join(_lines(block) for block in blocks))
    answer = ask([request])[request]
    if not blocks or not isinstance(answer, Opened):
        raise CredentialsError(setting, "it holds no certificate in PEM that can be read")
    return answer


def _lines(block: str) -> str:
    """A block with the line breaks that it should have; Java's clients take it in one line too."""
    body = "".join(block.split("-----")[2].split())
    return f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----"
