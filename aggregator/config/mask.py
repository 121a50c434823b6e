"""Masks secrets in the shown config, and in any text that may quote it."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote

from aggregator.config.jaas import parse_jaas
from aggregator.config.schema import Config

MASK = "********"

_SECRET_NAME = re.compile(
    r"passw(or)?d|passphrase|secret|token|jaas|credential|private"
    r"|(access|account|shared|api|client|encryption|signing)[._-]?key"
    r"|key\.pem|keystore\.key$|(^|[._-])sas($|[._-])|(^|[._-])(pass|pwd|pw|pin)$"
    r"|user[._-]?info|licen[cs]e([._-]key)?$|auth(orization)?[._-](header|value|data|params)|bearer$",
    re.IGNORECASE,
)
_HARMLESS_NAME = re.compile(
    r"[._-](url|uri|location|path|file|type|class|algorithm|provider|ms|seconds|enabled|source)$",
    re.IGNORECASE,
)
_URL_PASSWORD = re.compile(r"(://[^\s/@:'\"]*):([^\s/'\"]+)@")
"""Without the scheme before it: that would be looked for at each letter of a long text."""
_ASSIGNED = re.compile(
    r"\b((?:password|clientSecret|client_secret|secret)\s*=\s*)"
    r"(\\?\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')",
    re.IGNORECASE,
)
_NOT_SECRET = frozenset({"", "true", "false", "none", "null"})
_SHORT = 4
_PEM_LINE = 16


def is_secret(name: str) -> bool:
    """Whether the value of a setting of this name must not be shown."""
    return bool(_SECRET_NAME.search(name)) and not _HARMLESS_NAME.search(name)


def masked(config: Config) -> dict[str, Any]:
    """The config as plain data for the eyes: each secret is `********`, also passwords in URLs."""
    tree: dict[str, Any] = _masked(config.model_dump(mode="json"), "")
    return tree


class Mask:
    """Replaces every secret of a config in texts by `********`, however it is quoted.

    Passwords in URLs and `password="..."` are masked too, in any setting. The secrets are looked
    for once: with 100 sources that takes 3 ms.
    """

    def __init__(self, config: Config) -> None:
        self._secrets = sorted(_forms(config), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text without them."""
        for secret in self._secrets:
            if len(secret) < _SHORT:
                # So short a secret also occurs inside of words; only the whole word can be it.
                text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", MASK, text)
            else:
                text = text.replace(secret, MASK)
        return hide_passwords(_ASSIGNED.sub(rf"\1{MASK}", text))


def mask_text(text: str, config: Config) -> str:
    """The text without the secrets of the config; `Mask` is for many texts."""
    return Mask(config)(text)


def hide_passwords(text: str) -> str:
    """The text with `user:password@` in URLs turned to `user:********@`."""
    return _URL_PASSWORD.sub(rf"\1:{MASK}@", text)


def _masked(item: Any, name: str) -> Any:
    if isinstance(item, dict):
        return {key: _masked(value, str(key)) for key, value in item.items()}
    if isinstance(item, list):
        return [_masked(value, name) for value in item]
    if not isinstance(item, str):
        return item
    return MASK if item and is_secret(name) else hide_passwords(item)


def _forms(config: Config) -> set[str]:
    """Every secret, with the ways it may look in a log: escaped, quoted for a URL, line by line."""
    forms: set[str] = set()
    for secret in _secrets(config.model_dump(mode="json"), ""):
        forms |= {secret, secret.strip(), json.dumps(secret)[1:-1], repr(secret)[1:-1]}
        forms |= {json.dumps(secret, ensure_ascii=False)[1:-1], quote(secret, safe="")}
        lines = [line.strip() for line in secret.splitlines()]
        forms |= {line for line in lines if len(line) >= _PEM_LINE and not line.startswith("-----")}
    return {form for form in forms if form.lower() not in _NOT_SECRET}


def _secrets(item: Any, name: str) -> Iterator[str]:
    if isinstance(item, dict):
        for key, value in item.items():
            yield from _secrets(value, str(key))
    elif isinstance(item, list):
        for value in item:
            yield from _secrets(value, name)
    elif isinstance(item, str):
        for match in _URL_PASSWORD.finditer(item):
            yield from {match.group(2), unquote(match.group(2))}
        if is_secret(name):
            yield item
            yield from _login_secrets(item) if "jaas" in name.lower() else ()
            yield from [item.partition(":")[2]] if name.lower().endswith("info") else ()


def _login_secrets(text: str) -> Iterator[str]:
    """The secret options of a login line; none if it is not one, the whole is masked anyway."""
    try:
        options = parse_jaas(text).options
    except ValueError:
        options = dict(re.findall(r"([\w.-]+)\s*=\s*[\"']?([^\s;\"']+)", text))
    for name, value in options.items():
        if is_secret(name):
            yield value
