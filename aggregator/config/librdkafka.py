"""Translates Java Kafka settings for librdkafka: names, units, certificates, logins."""

import re
from collections.abc import Mapping

from aggregator.config.jaas import Login, parse_jaas
from aggregator.config.stores import NAMES, PEM, Kind, store_of
from aggregator.model.errors import Problem

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
MSK_IAM = "AWS_MSK_IAM"
MECHANISMS = ("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", MSK_IAM)
STORE_TYPES = ("JKS", "PKCS12", PEM, "JCEKS")
"""Those that Java opens by itself."""

BACKOFFS = {
    ("reconnect.backoff.ms", "reconnect.backoff.max.ms"): (50, 1_000),
    ("retry.backoff.ms", "retry.backoff.max.ms"): (100, 1_000),
}
"""First and longest wait, with Java's defaults; librdkafka insists that they are in order."""

# Everything else is dropped: batching, fetching, groups and metrics of the Java clients, and the
# parts of Java's TLS and SASL that have no word in librdkafka (providers, ciphers by Java's names,
# callback classes, refresh windows). An unknown name would be refused by librdkafka.

_LOCATIONS: Mapping[Kind, tuple[str, ...]] = {
    "key": ("ssl.certificate.location", "ssl.key.location"),
    "trust": ("ssl.ca.location",),
}
_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


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
    _stores(settings, found, problems)
    if settings.get("security.protocol", "").upper().startswith("SASL"):
        _sasl(settings, found, problems)
    return found, problems


def _stores(settings: Mapping[str, str], found: dict[str, str], problems: list[Problem]) -> None:
    """PEM as it is. Whatever else Java reads has been opened, or is opened before it is used."""
    for name, theirs in (
        ("ssl.truststore.certificates", "ssl.ca.pem"),
        ("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
        ("ssl.keystore.key", "ssl.key.pem"),
    ):
        if pem := settings.get(name):
            found[theirs] = _reflow(pem)
    for kind in NAMES:
        store = store_of(settings, kind)
        if store is None:
            continue
        if store.type not in STORE_TYPES:
            hint = f"one of {', '.join(STORE_TYPES)}"
            problems.append(_at(store.setting("type"), "is no type of a store", hint))
        elif store.type == PEM:
            # Java keeps key and chain in one file; each reader skips what it has no use for.
            found |= dict.fromkeys(_LOCATIONS[kind], store.location)
        elif kind == "key" and store.password is None:
            reason = f"is required for a keystore of type {store.type}"
            problems.append(_at(store.setting("password"), reason))


def _sasl(settings: Mapping[str, str], found: dict[str, str], problems: list[Problem]) -> None:
    mechanism = settings.get("sasl.mechanism", "GSSAPI").strip().upper()
    if mechanism not in MECHANISMS:
        hint = f"one of {', '.join(MECHANISMS)}"
        problems.append(_at("sasl.mechanism", f"librdkafka has no mechanism {mechanism}", hint))
        return
    # Brokers of MSK take the same token by both names.
    found["sasl.mechanisms"] = "OAUTHBEARER" if mechanism == MSK_IAM else mechanism
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
    elif mechanism != MSK_IAM:
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
    _token_endpoint_tls(login, found, problems)
    extensions = {
        name.removeprefix("extension_"): value
        for name, value in login.options.items()
        if name.startswith("extension_")
    }
    if extensions:
        pairs = (f"{name}={value}" for name, value in extensions.items())
        found["sasl.oauthbearer.extensions"] = ",".join(pairs)


def _token_endpoint_tls(login: Login, found: dict[str, str], problems: list[Problem]) -> None:
    """Whom to trust at the token endpoint: Java takes it from the login line."""
    if pem := login.options.get("ssl.truststore.certificates"):
        found["https.ca.pem"] = _reflow(pem)
    if location := login.options.get("ssl.truststore.location"):
        if login.options.get("ssl.truststore.type", "").upper() == PEM:
            found["https.ca.location"] = location
        else:
            hint = 'write ssl.truststore.type="PEM" in it, and give a PEM file'
            reason = "the truststore of the token endpoint is not PEM"
            problems.append(_at("sasl.jaas.config", reason, hint))


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
