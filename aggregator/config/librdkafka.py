"""Java Kafka settings in librdkafka's words: names, units, certificates, logins."""

from __future__ import annotations

import re
from collections.abc import Mapping

from aggregator.config.jaas import Login, parse_jaas
from aggregator.errors import Problem

SAME = (
    "client.id",
    "client.rack",
    "client.dns.lookup",
    "metadata.recovery.strategy",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.service.name",
    "ssl.key.password",
    "sasl.oauthbearer.token.endpoint.url",
)
"""Settings that mean the same under the same name."""

NUMBERS = {
    "connections.max.idle.ms": ("connections.max.idle.ms", 0, 2_147_483_647),
    "metadata.max.age.ms": ("metadata.max.age.ms", 1, 86_400_000),
    "receive.buffer.bytes": ("socket.receive.buffer.bytes", 0, 100_000_000),
    "reconnect.backoff.max.ms": ("reconnect.backoff.max.ms", 0, 3_600_000),
    "reconnect.backoff.ms": ("reconnect.backoff.ms", 0, 3_600_000),
    "request.timeout.ms": ("socket.timeout.ms", 10, 300_000),
    "retry.backoff.max.ms": ("retry.backoff.max.ms", 1, 300_000),
    "retry.backoff.ms": ("retry.backoff.ms", 1, 300_000),
    "sasl.kerberos.min.time.before.relogin": (
        "sasl.kerberos.min.time.before.relogin",
        0,
        86_400_000,
    ),
    "send.buffer.bytes": ("socket.send.buffer.bytes", 0, 100_000_000),
    "socket.connection.setup.timeout.ms": (
        "socket.connection.setup.timeout.ms",
        1_000,
        2_147_483_647,
    ),
}
"""Numbers: librdkafka's name and the range that it takes; a value outside is moved into it."""

PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")

BACKOFFS = {
    ("reconnect.backoff.ms", "reconnect.backoff.max.ms"): (50, 1_000),
    ("retry.backoff.ms", "retry.backoff.max.ms"): (100, 1_000),
}
"""First and longest wait, with Java's defaults; librdkafka insists that they are in order."""

# Everything else is dropped: batching, fetching, groups and metrics of the Java clients, and the
# parts of Java's TLS and SASL that have no word in librdkafka (providers, ciphers by Java's names,
# callback classes, refresh windows). An unknown name would be refused by librdkafka.

_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_PEM_HINT = "convert it to PEM with keytool and openssl, and set ssl.{store}.type: PEM"


def to_librdkafka(settings: Mapping[str, str]) -> tuple[dict[str, str], list[Problem]]:
    """The settings in librdkafka's names, and what it cannot do; paths begin with `kafka.`."""
    found: dict[str, str] = {name: settings[name] for name in SAME if name in settings}
    problems: list[Problem] = []
    for name, (theirs, low, high) in NUMBERS.items():
        value = settings.get(name, "").strip()
        if re.fullmatch(r"\d+", value):
            found[theirs] = str(min(max(int(value), low), high))
        elif value and value != "-1":
            problems.append(_at(name, f"'{value}' is not a whole number"))
    for (first, longest), (first_default, longest_default) in BACKOFFS.items():
        if first in found or longest in found:
            low = int(found.get(first, first_default))
            high = int(found.get(longest, max(low, longest_default)))
            found[first], found[longest] = str(min(low, high)), str(high)
    if "security.protocol" in settings:
        found["security.protocol"] = settings["security.protocol"].lower()
        if found["security.protocol"] not in PROTOCOLS:
            hint = f"one of {', '.join(PROTOCOLS).upper()}"
            problems.append(_at("security.protocol", "is no protocol of Kafka", hint))
    if "ssl.endpoint.identification.algorithm" in settings:
        check = settings["ssl.endpoint.identification.algorithm"].strip().lower()
        found["ssl.endpoint.identification.algorithm"] = check or "none"
    _truststore(settings, found, problems)
    _keystore(settings, found, problems)
    if settings.get("security.protocol", "").upper().startswith("SASL"):
        _sasl(settings, found, problems)
    return found, problems


def _truststore(
    settings: Mapping[str, str], found: dict[str, str], problems: list[Problem]
) -> None:
    if pem := settings.get("ssl.truststore.certificates"):
        found["ssl.ca.pem"] = _reflow(pem)
    location = settings.get("ssl.truststore.location")
    if not location:
        return
    kind = _store_type("truststore", location, settings)
    if kind == "PEM":
        found["ssl.ca.location"] = location
    else:
        reason = f"a {kind} truststore cannot be read by librdkafka"
        problems.append(
            _at("ssl.truststore.location", reason, _PEM_HINT.format(store="truststore"))
        )


def _keystore(settings: Mapping[str, str], found: dict[str, str], problems: list[Problem]) -> None:
    if chain := settings.get("ssl.keystore.certificate.chain"):
        found["ssl.certificate.pem"] = _reflow(chain)
    if key := settings.get("ssl.keystore.key"):
        found["ssl.key.pem"] = _reflow(key)
    location = settings.get("ssl.keystore.location")
    if not location:
        return
    kind = _store_type("keystore", location, settings)
    if kind == "PEM":
        # Java keeps key and chain in one file; each reader skips what it has no use for.
        found["ssl.certificate.location"] = found["ssl.key.location"] = location
    elif kind == "PKCS12":
        found["ssl.keystore.location"] = location
        if "ssl.keystore.password" in settings:
            found["ssl.keystore.password"] = settings["ssl.keystore.password"]
        else:
            problems.append(_at("ssl.keystore.password", "is required for a PKCS12 keystore"))
    else:
        reason = f"a {kind} keystore cannot be read by librdkafka"
        problems.append(_at("ssl.keystore.location", reason, _PEM_HINT.format(store="keystore")))


def _store_type(store: str, location: str, settings: Mapping[str, str]) -> str:
    """The type of a store; without one Java reads JKS, and PKCS12 in its place."""
    given = settings.get(f"ssl.{store}.type", "").strip().upper()
    if given:
        return given
    return "PKCS12" if location.lower().endswith((".p12", ".pfx")) else "JKS"


def _sasl(settings: Mapping[str, str], found: dict[str, str], problems: list[Problem]) -> None:
    mechanism = settings.get("sasl.mechanism", "GSSAPI").strip().upper()
    known = ("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
    if mechanism not in known:
        hint = f"one of {', '.join(known)}"
        problems.append(_at("sasl.mechanism", f"librdkafka has no mechanism {mechanism}", hint))
        return
    found["sasl.mechanisms"] = mechanism
    text = settings.get("sasl.jaas.config")
    if text is None:
        hint = "write sasl.jaas.config: ...LoginModule required ...;"
        problems.append(_at("sasl.jaas.config", f"is required for SASL {mechanism}", hint))
        return
    try:
        login = parse_jaas(text)
    except ValueError as error:
        hint = 'write MODULE required username="..." password="...";'
        problems.append(_at("sasl.jaas.config", str(error), hint))
        return
    if mechanism == "OAUTHBEARER":
        _oauth(login, settings, found, problems)
    elif mechanism == "GSSAPI":
        _options(login, {"principal": "sasl.kerberos.principal"}, found, problems)
        if "keyTab" in login.options:
            found["sasl.kerberos.keytab"] = login.options["keyTab"]
    else:
        names = {"username": "sasl.username", "password": "sasl.password"}
        _options(login, names, found, problems)


def _oauth(
    login: Login, settings: Mapping[str, str], found: dict[str, str], problems: list[Problem]
) -> None:
    if "sasl.oauthbearer.token.endpoint.url" not in settings:
        hint = "librdkafka takes tokens from an OpenID Connect endpoint only"
        problems.append(_at("sasl.oauthbearer.token.endpoint.url", "is required", hint))
    found["sasl.oauthbearer.method"] = "oidc"
    names = {
        "clientId": "sasl.oauthbearer.client.id",
        "clientSecret": "sasl.oauthbearer.client.secret",
    }
    _options(login, names, found, problems)
    if "scope" in login.options:
        found["sasl.oauthbearer.scope"] = login.options["scope"]
    extensions = {
        name.removeprefix("extension_"): value
        for name, value in login.options.items()
        if name.startswith("extension_")
    }
    if extensions:
        pairs = (f"{name}={value}" for name, value in extensions.items())
        found["sasl.oauthbearer.extensions"] = ",".join(pairs)


def _options(
    login: Login, names: Mapping[str, str], found: dict[str, str], problems: list[Problem]
) -> None:
    """Take options of the login over under librdkafka's names; each of them is required."""
    for name, theirs in names.items():
        if name in login.options:
            found[theirs] = login.options[name]
        else:
            problems.append(_at("sasl.jaas.config", f'has no {name}="..."'))


def _reflow(pem: str) -> str:
    """PEM text with the line breaks that OpenSSL needs; Java also takes it in one line."""
    blocks = []
    for label, body in _PEM.findall(pem):
        lines = body.strip("\n") if ":" in body else "\n".join(body.split())
        blocks.append(f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n")
    return "".join(blocks) or pem


def _at(name: str, reason: str, hint: str = "") -> Problem:
    return Problem(f"kafka.{name}", reason, hint)
