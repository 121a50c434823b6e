"""Our principal at a cluster, as an ACL names it, where the settings alone determine it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aggregator.config.jaas import parse_jaas
from aggregator.config.librdkafka import MSK_IAM
from aggregator.config.stores import uses_tls
from aggregator.kafka.credentials.certificates import ShownCertificate


def principal(settings: Mapping[str, str], shown: Sequence[ShownCertificate]) -> str:
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
