"""What certificates say: until when ours are valid, who we are, why a broker's is not trusted."""

import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aggregator.config.files import read_file
from aggregator.config.jaas import parse_jaas
from aggregator.config.librdkafka import MSK_IAM
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
class CertificateExpiry:
    """Our certificate, or the trusted one that expires last: whose, until when."""

    name: str
    setting: str
    subject: str
    until_ms: int


def certificates(settings: Mapping[str, str]) -> list[CertificateExpiry]:
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
        found.append(CertificateExpiry(store_name, setting, content.subject, content.until_ms))
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


def principal(settings: Mapping[str, str], shown: Sequence[CertificateExpiry]) -> str:
    """`User:name`; empty where the broker makes the name, as of a token.

    `shown` are the certificates of the settings. Brokers may have rules that change a name.
    """
    if not settings.get("security.protocol", "").strip().upper().startswith("SASL"):
        own = [it.subject for it in shown if it.name == "keystore"]
        return f"User:{own[0]}" if own and uses_tls(settings) else "User:ANONYMOUS"
    mechanism = settings.get("sasl.mechanism", "GSSAPI").strip().upper()
    try:
        options = parse_jaas(settings.get("sasl.jaas.config", "")).options
    except ValueError:
        return ""
    if mechanism == "GSSAPI":
        name = options.get("principal", "").partition("@")[0].partition("/")[0]
    else:
        name = "" if mechanism in ("OAUTHBEARER", MSK_IAM) else options.get("username", "")
    return f"User:{name}" if name else ""


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
