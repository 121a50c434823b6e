"""Translates login lines for our config, with a DECIDE where that is impossible. Pure."""

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

from aggregator.config.jaas import parse_jaas
from aggregator.extras.importers.configs import Imported, Path, SettingPlace, UnsupportedSetting

JAAS, HANDLER = "sasl.jaas.config", "sasl.login.callback.handler.class"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
STRIMZI: dict[str, str] = {
    "oauth.client.id": "clientId",
    "oauth.client.secret": "clientSecret",
    "oauth.scope": "scope",
}
"""Options of Strimzi's OAuth in a login line, and what Kafka calls them."""
STRIMZI_URL = "oauth.token.endpoint.uri"


def with_logins(found: Imported) -> Imported:
    """The same with logins of Strimzi's OAuth in Kafka's words, and what is wrong with others."""
    tree = deepcopy(dict(found.tree))
    came, notes = dict(found.came), list(found.notes)
    for at, settings in _clusters(tree):
        path = (*at, "kafka", JAAS)
        line, where = settings.get(JAAS, ""), came.get(path, SettingPlace("", JAAS))
        if not isinstance(line, str) or not line.strip() or re.fullmatch(r"\$\{[^}]*\}", line):
            continue
        try:
            options = parse_jaas(line.strip()).options
        except ValueError as error:
            reason = f"{error}; set the whole line, in the form that it should have"
            notes.append(UnsupportedSetting(where, reason, decide=True))
            continue
        if STRIMZI_URL not in options or TOKEN_URL in settings:
            continue
        settings[TOKEN_URL] = options[STRIMZI_URL]
        came[(*at, "kafka", TOKEN_URL)] = where
        settings[JAAS] = _line({STRIMZI[it]: options[it] for it in STRIMZI if it in options})
        settings.pop(HANDLER, None)
        if left := sorted(options.keys() - STRIMZI.keys() - {STRIMZI_URL}):
            reason = f"{', '.join(left)}: Kafka's own login by OAuth has no such option"
            notes.append(UnsupportedSetting(where, reason, decide=True))
    return replace(found, tree=tree, came=came, notes=tuple(notes))


def _line(options: dict[str, str]) -> str:
    quoted = {
        name: re.sub(r'(["\\])', r"\\\1", value).replace("\n", r"\n")
        for name, value in options.items()
    }
    return f"{MODULE} required " + " ".join(f'{k}="{v}"' for k, v in quoted.items()) + ";"


def _clusters(tree: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    if "kafka" in tree.get("hub", {}):
        yield ("hub",), tree["hub"]["kafka"]
    for alias, source in tree.get("sources", {}).items():
        if "kafka" in source:
            yield ("sources", alias), source["kafka"]
