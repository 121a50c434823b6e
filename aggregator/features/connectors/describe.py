"""A source of the YAML as the config of a connector: the reverse of `to_source`. Pure."""

import json
from collections.abc import Mapping

from aggregator.config.node import settings_to_text
from aggregator.config.schema import SourceConfig
from aggregator.features.connectors import config_keys as words
from aggregator.features.connectors.to_source import OWN_KEYS

IN_WORDS = ("bootstrap_servers", "rename", "start", "tasks")
"""Keys that connectors have names for; the others have our own names."""


def connector_config(alias: str, source: SourceConfig, rename: str) -> dict[str, str]:
    """What `to_source.translate` would make this source of; `rename` is its template, if any.

    With the values of secrets as they are: the caller masks it before showing it.
    """
    topics = source.topics
    config = {
        "name": alias,
        "connector.class": words.OWN_CLASS,
        "tasks.max": str(source.tasks or 1),
        words.ADDRESS[0]: source.bootstrap_servers,
        "topics": _joined(topics.include),
        f"src.consumer.{words.OFFSET_RESET}": source.start,
    }
    if isinstance(source.rename, list):
        rules = [rule.model_dump() for rule in source.rename]
        config[f"{words.OWN}rename"] = json.dumps(rules)
    elif rename:
        config[words.RENAME] = rename
    if exclude := _joined(topics.exclude):
        config["topics.exclude"] = exclude
    config |= _prefixed("src.kafka.", source.kafka) | _prefixed("src.consumer.", source.consumer)
    own = source.model_dump(include=set(OWN_KEYS) - set(IN_WORDS), exclude_defaults=True)
    groups = {
        f"groups.{name}": _joined(value) if isinstance(value, list) else value
        for name, value in source.groups.model_dump(exclude_defaults=True).items()
    }
    parts = {
        f"{part}.{name}": value
        for part, node in (("acls", source.acls), ("schemas", source.schemas))
        for name, value in node.model_dump(exclude_defaults=True).items()
    }
    return config | _prefixed(words.OWN, settings_to_text({**own, **groups, **parts}))


def _joined(patterns: str | list[str]) -> str:
    return patterns if isinstance(patterns, str) else ",".join(patterns)


def _prefixed(prefix: str, settings: Mapping[str, str]) -> dict[str, str]:
    return {f"{prefix}{name}": value for name, value in settings.items()}
