"""What a source added at run time may refer to: files, environment variables, URLs.

Without this limit a user who may add a source could make this process read any file or variable and
send it to a cluster of their own. The operator's config file may refer to anything.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aggregator.config.files import LOCATIONS
from aggregator.config.jaas import parse_jaas
from aggregator.model.errors import Problem

SETTING = "api.references"
OR_FILE = "write the source into the config file"
OR_ELSE = "or write the source into the config file"
URLS = ("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.jwks.endpoint.url")
LOGIN = "sasl.jaas.config"
COMMANDS = re.compile(r"config\.providers(\..*)?|sasl\.kerberos\.kinit\.cmd|.*\.config\.providers")
"""Settings by which Java's clients read files by themselves, or start a program."""
CLASSES = re.compile(r".*\.(class|classes|reporters|providers)|partition\.assignment\.strategy")
KAFKAS_OWN = "org.apache.kafka."
"""A class may be named over REST where it is Kafka's own."""
MODULES = (
    "org.apache.kafka.common.security.plain.PlainLoginModule",
    "org.apache.kafka.common.security.scram.ScramLoginModule",
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    "com.sun.security.auth.module.Krb5LoginModule",
)
"""Logins with credentials from the line itself. Others use the identity of this process."""
KERBEROS = "Krb5LoginModule"
_PATH_OPTION = re.compile(r"(keytab|.*cache|.*location|.*file|.*path|.*dir)", re.IGNORECASE)
_URL_OPTION = re.compile(r".*(url|uri)", re.IGNORECASE)
_OWN_TICKETS = re.compile(r"use(ticketcache|default.*)", re.IGNORECASE)

_VALUE = r"[\w$.-]+|\"(?:[^\"\\\n\r]|\\[\"\\])*\"|'[^'\\\n\r]*'"
_LINE = re.compile(rf"\s*([\w.$]+)\s+\w+(?:\s+[\w.-]+\s*=\s*(?:{_VALUE}))*\s*;\s*", re.ASCII)
"""A login line that Java cannot take for another one: without comments, and with plain quotes."""
_URL = re.compile(
    r"(https?)://([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::(\d{1,5}))?((?:/[\w.~-]*)*)",
    re.IGNORECASE | re.ASCII,
)
_PORTS = {"http": "80", "https": "443"}
_JAVA_TRIMS = "".join(map(chr, range(33)))


@dataclass(frozen=True, slots=True)
class Allowed:
    """`files` are folders and files without links in their paths. `named` are paths and URLs that
    the config file itself names as such: they may be named again.
    """

    files: tuple[Path, ...] = ()
    env: frozenset[str] = frozenset()
    urls: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()

    def place(self, path: Path) -> Path | None:
        """Where a file really is, wherever links lead; None when it may not be looked at."""
        real = Path(os.path.realpath(path))
        return real if any(real == it or it in real.parents for it in self.files) else None

    def may_name(self, path: str) -> bool:
        """Whether a client may be given this path."""
        path = path.strip(_JAVA_TRIMS)
        return path in self.named or self.place(Path(path)) is not None

    def may_ask(self, url: str) -> bool:
        """Whether a client may be given this URL."""
        url = url.strip(_JAVA_TRIMS)
        if url in self.named:
            return True
        asked = _parts(url)
        return asked is not None and any(_covers(_parts(it), asked) for it in self.urls)


def allowed_of(references: Any, folder: Path, named: Iterable[str]) -> Allowed:
    """What the setting `api.references` allows, as plain data; relative paths begin at `folder`."""
    lists = references if isinstance(references, Mapping) else {}
    files, env, urls = (
        [it for it in found if isinstance(it, str)] if isinstance(found, list) else []
        for found in (lists.get("files"), lists.get("env"), lists.get("urls"))
    )
    real = tuple(Path(os.path.realpath(folder / it)) for it in files if "\0" not in it)
    return Allowed(real, frozenset(env), tuple(urls), frozenset(named))


def named_by(tree: Any) -> Iterator[str]:
    """The files and URLs that clusters of a config name, but by a `${...}`."""
    if not isinstance(tree, Mapping):
        return
    sources = tree.get("sources")
    for cluster in (tree.get("hub"), *(sources.values() if isinstance(sources, Mapping) else ())):
        for _, kind, value in _named(cluster):
            if kind in ("file", "url"):
                yield value.strip(_JAVA_TRIMS)


def not_allowed(source: Any, path: str, allowed: Allowed) -> Iterator[Problem]:
    """What a source names that it may not, when its references are resolved; never a value."""
    for key, kind, value in _named(source):
        at = f"{path}.{key}"
        if kind == "file" and not allowed.may_name(value):
            reason = "names a file, which a source that is added at run time may not"
            yield Problem(at, reason, f"add its folder to {SETTING}.files, {OR_ELSE}")
        elif kind == "url" and not allowed.may_ask(value):
            reason = "names a URL, which a source that is added at run time may not"
            yield Problem(at, reason, f"add it to {SETTING}.urls, {OR_ELSE}")
        elif kind == "never":
            yield Problem(at, f"{value}: refused for a source that is added at run time", OR_FILE)


def _named(cluster: Any) -> Iterator[tuple[str, str, str]]:
    """What a cluster's config leads to: key, kind (file, url, never), and path, URL or reason."""
    if not isinstance(cluster, Mapping):
        return
    for part in ("kafka", "consumer", "producer"):
        settings = cluster.get(part)
        for name, value in settings.items() if isinstance(settings, Mapping) else ():
            if isinstance(value, str) and value.strip(_JAVA_TRIMS):
                yield from (
                    (f"{part}.{key}", kind, what) for key, kind, what in _setting(name, value)
                )
    schemas = cluster.get("schemas")
    for name, kind in (("registry", "url"), ("ca", "file")):
        value = schemas.get(name) if isinstance(schemas, Mapping) else None
        if isinstance(value, str) and value:
            yield f"schemas.{name}", kind, value


def _setting(name: str, value: str) -> Iterator[tuple[str, str, str]]:
    if name in LOCATIONS:
        yield name, "file", value
    elif name in URLS:
        yield name, "url", value
    elif name == LOGIN:
        yield from _login(value)
    elif COMMANDS.fullmatch(name):
        yield name, "never", "starts a program, or reads files"
    elif CLASSES.fullmatch(name) and not all(
        it.strip(_JAVA_TRIMS).startswith(KAFKAS_OWN) for it in value.split(",") if it.strip()
    ):
        yield name, "never", "names a class that is not Kafka's own"


def _login(line: str) -> Iterator[tuple[str, str, str]]:
    found = _LINE.fullmatch(line)
    try:
        login = parse_jaas(line)
    except ValueError:
        found = None
    if found is None:
        yield LOGIN, "never", 'not plainly of the form Module required name="value" ...;'
        return
    if found[1] not in MODULES:
        yield LOGIN, "never", f"{login.module} may log in by what this process is"
    keytab = False
    for name, value in login.options.items():
        keytab = keytab or name == "keyTab"
        if _OWN_TICKETS.fullmatch(name) and value.lower() != "false":
            yield LOGIN, "never", f"{name} logs in as this process"
        elif name.startswith("extension_"):
            continue
        elif _PATH_OPTION.fullmatch(name):
            yield LOGIN, "file", value
        elif _URL_OPTION.fullmatch(name):
            yield LOGIN, "url", value
        else:
            yield from ((LOGIN, kind, what) for _, kind, what in _setting(name, value))
    if login.module == KERBEROS and not keytab:
        yield LOGIN, "never", "without a keyTab it logs in as this process"


def _parts(url: str) -> tuple[str, str, str, list[str]] | None:
    """Scheme, host, port and the parts of the path of a plain URL; None for any other."""
    found = _URL.fullmatch(url)
    if found is None:
        return None
    scheme = found[1].lower()
    parts = [it for it in found[4].split("/") if it]
    if {".", ".."} & set(parts):
        return None
    return scheme, found[2].lower(), found[3] or _PORTS[scheme], parts


def _covers(
    allowed: tuple[str, str, str, list[str]] | None, asked: tuple[str, str, str, list[str]]
) -> bool:
    return (
        allowed is not None
        and allowed[:3] == asked[:3]
        and asked[3][: len(allowed[3])] == allowed[3]
    )
