"""Files that Kafka settings name (stores, keytabs): what they hold, told by a digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from aggregator.config.jaas import parse_jaas
from aggregator.config.schema import Config

LOCATIONS = ("ssl.keystore.location", "ssl.truststore.location")
IN_THE_LOGIN = ("keyTab", *LOCATIONS)
"""Options of a login line that are paths."""


def note_files(config: Config) -> None:
    """Note with each cluster what the files hold that its settings name; none is an error here."""
    for cluster in (config.hub, *config.sources.values()):
        found = {name: digest(path) for name, path in paths_of(cluster.kafka)}
        cluster.files.update({name: it for name, it in found.items() if it})


def paths_of(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each setting that names a file, and the path."""
    for name in LOCATIONS:
        if settings.get(name):
            yield name, settings[name]
    try:
        options = parse_jaas(settings.get("sasl.jaas.config", "")).options
    except ValueError:
        return
    for name in IN_THE_LOGIN:
        if name in options:
            yield f"sasl.jaas.config.{name}", options[name]


def digest(path: str) -> str:
    """A digest of a file's content; empty for one that cannot be read."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except (OSError, ValueError):
        return ""
