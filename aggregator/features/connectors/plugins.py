"""The connectors that are understood as Connect's plugins: their keys, and the check of a config.

Pure. The shapes are those of `/connector-plugins` of Kafka Connect 4.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from aggregator import __version__
from aggregator.features.connectors import config_keys as words
from aggregator.features.connectors.connector_json import TYPE
from aggregator.features.connectors.to_source import KNOWN
from aggregator.model.errors import Problem

REQUIRED = (words.ADDRESS[0],)
MEANINGS: Mapping[str, str] = {
    "connector.class": "which connector's words are used",
    words.TASKS: "the number of tasks with connections of their own that read the source",
    words.RENAME: "hub topic name from ${topic} and ${cluster}",
    words.POLICY: "DefaultReplicationPolicy or IdentityReplicationPolicy of MirrorMaker 2",
    words.SEPARATOR: "between the alias and the topic, with DefaultReplicationPolicy",
    words.ALIAS: "what DefaultReplicationPolicy puts before the topic",
    **dict.fromkeys(words.ADDRESS, "host:port of the source, or several with commas"),
    **dict.fromkeys(words.INCLUDE_NAMES, "names of topics to take, comma separated"),
    **dict.fromkeys(words.INCLUDE_PATTERNS, "regexes of topics to take, comma separated"),
    **dict.fromkeys(words.EXCLUDE_NAMES, "names of topics to leave out, comma separated"),
    **dict.fromkeys(words.EXCLUDE_PATTERNS, "regexes of topics to leave out, comma separated"),
    **dict.fromkeys(words.CONVERTERS, "ByteArrayConverter: records are copied as bytes"),
}


def plugins() -> list[dict[str, str]]:
    """As `GET /connector-plugins` answers."""
    return [{"class": name, "type": TYPE, "version": __version__} for name in words.CLASSES]


def definitions() -> list[dict[str, Any]]:
    """As `GET /connector-plugins/{plugin}/config` answers."""
    return [_definition(key, order) for order, key in enumerate(KNOWN)]


def validated(name: str, config: Mapping[str, str], problems: Iterable[Problem]) -> dict[str, Any]:
    """As `PUT /connector-plugins/{plugin}/config/validate` answers.

    `name` is that of the class; `problems` are reported at the keys that they name.
    """
    errors: dict[str, list[str]] = {}
    for problem in problems:
        errors.setdefault(problem.path, []).append(str(replace(problem, path="")))
    keys = dict.fromkeys([*KNOWN, *config, *errors])
    return {
        "name": name,
        "error_count": len(errors),
        "groups": ["source"],
        "configs": [
            {
                "definition": _definition(key, order),
                "value": {
                    "name": key,
                    "value": config.get(key),
                    "recommended_values": [],
                    "errors": errors.get(key, []),
                    "visible": True,
                },
            }
            for order, key in enumerate(keys)
        ],
    }


def _definition(key: str, order: int) -> dict[str, Any]:
    required = key in REQUIRED
    return {
        "name": key,
        "type": "INT" if key == words.TASKS else "STRING",
        "required": required,
        "default_value": None,
        "importance": "HIGH" if required else "MEDIUM",
        "documentation": MEANINGS.get(key, words.NO_EFFECT.get(key, "")),
        "group": "source",
        "width": "MEDIUM",
        "display_name": key,
        "dependents": [],
        "order": order,
    }
