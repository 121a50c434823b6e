"""Detects which tool a file belongs to, by its content. Pure."""

import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import PurePath
from typing import Any

from aggregator.config.kafka_names import READERS
from aggregator.config.properties import parse_properties
from aggregator.extras.importers.configs import Posted, Settings
from aggregator.extras.importers.mirror_maker_1_keys import OLD_CONSUMER, OLD_PRODUCER
from aggregator.extras.importers.strimzi import is_resource, resources
from aggregator.model.errors import ConfigError, Problem


class Kind(StrEnum):
    """What a file is."""

    MM2 = "the properties of MirrorMaker 2"
    CONNECTOR = "a connector"
    WORKER = "the properties of a Connect worker"
    CONSUMER = "the properties of a consumer"
    PRODUCER = "the properties of a producer"
    REPLICATION = "the properties of a replication"


WORKER_KEYS = ("offset.storage.topic", "offset.storage.file.filename", "config.storage.topic")
REPLICATION_KEYS = ("topic.whitelist", "topic.regex", "topic.rename.format", "topic.config.sync")
OLD_ONLY_CONSUMER = ("zookeeper.connect", *OLD_CONSUMER)
OLD_ONLY_PRODUCER = ("metadata.broker.list", "producer.type", *OLD_PRODUCER)


def sorted_file(file: str, text: str) -> list[tuple[Kind, Posted]]:
    """What is in a file: the kind of each part, and its settings, with the name of a connector.

    ConfigError when it is none that is known.
    """
    if is_resource(text):
        return [(Kind.CONNECTOR, it) for it in resources(file, text)]
    if text.lstrip()[:1] in ("{", "["):
        return [(Kind.CONNECTOR, Posted(name, it)) for name, it in _connectors(file, text)]
    settings = Settings(file, parse_properties(text))
    kind = kind_of(settings)
    if kind is None:
        hint = "name it with --consumer.config, --producer.config or --replication.config"
        reason = "of an unknown kind: is it of a consumer, of a producer, or of what?"
        raise ConfigError([Problem("", reason, hint)], file)
    return [(kind, Posted(settings.values.get("name", PurePath(file).stem), settings))]


def kind_of(settings: Settings) -> Kind | None:
    """What a properties file is; None when nothing in it shows it."""
    keys = settings.values.keys()
    if "clusters" in keys:
        return Kind.MM2
    if "connector.class" in keys:
        return Kind.CONNECTOR
    if any(key in keys for key in WORKER_KEYS):
        return Kind.WORKER
    if any(key in keys for key in REPLICATION_KEYS):
        return Kind.REPLICATION
    name = PurePath(settings.file).name.lower()
    for word, kind in (("consumer", Kind.CONSUMER), ("producer", Kind.PRODUCER)):
        if word in name:
            return kind
    read = {kind: sum(_is_for(key, kind) for key in keys) for kind in (_READ, _WRITTEN)}
    if read[_READ] == read[_WRITTEN]:
        return None
    return _READ if read[_READ] > read[_WRITTEN] else _WRITTEN


_READ, _WRITTEN = Kind.CONSUMER, Kind.PRODUCER


def _is_for(key: str, kind: Kind) -> bool:
    """Whether a setting is for this kind of client, and not for the other."""
    readers = READERS.get(key, frozenset())
    if kind is Kind.CONSUMER:
        return key in OLD_ONLY_CONSUMER or ("consumer" in readers and "producer" not in readers)
    return key in OLD_ONLY_PRODUCER or ("producer" in readers and "consumer" not in readers)


def _connectors(file: str, text: str) -> Iterator[tuple[str, Settings]]:
    """The connectors of a JSON file: as posted, as a config alone, or several of them."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ConfigError([Problem("", f"is not JSON: {error}")], file) from error
    for item in data if isinstance(data, list) else [data]:
        config: Any = item.get("config", item) if isinstance(item, dict) else None
        if not isinstance(config, dict) or "connector.class" not in config:
            hint = 'as posted to Connect: {"name": "...", "config": {"connector.class": "..."}}'
            raise ConfigError([Problem("", "holds no config of a connector", hint)], file)
        name = str(item.get("name") or config.get("name") or PurePath(file).stem)
        values = {str(key): _text(value) for key, value in config.items() if value is not None}
        yield name, Settings(file, values)


def _text(value: Any) -> str:
    """A value of JSON as Connect takes it: all of them are text."""
    return str(value).lower() if isinstance(value, bool) else str(value)
