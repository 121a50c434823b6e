"""Reads files that the config names, with a size limit; digests of stores and keytabs."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from aggregator.config.jaas import parse_jaas
from aggregator.config.schema import Config

LOCATIONS = ("ssl.keystore.location", "ssl.truststore.location")
IN_THE_LOGIN = ("keyTab", *LOCATIONS)
"""Options of a login line that are paths."""
MOST_BYTES = 16 * 1024 * 1024
"""A store, a keytab or a secret is far smaller."""


def read_file(path: str | Path) -> bytes:
    """The content of a regular file of at most 16 MiB; OSError for whatever else it is.

    A pipe is not waited for, and of a device nothing is read.
    """
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        return _bounded(file.read(MOST_BYTES + 1), path)


def read_any(path: str | Path) -> bytes:
    """The same of what may be a pipe as well: for a path that the operator himself gives."""
    with open(path, "rb") as file:
        return _bounded(file.read(MOST_BYTES + 1), path)


def note_files(config: Config) -> None:
    """Note with each cluster what the files hold that its settings name; none is an error here.

    For a config that comes into force. What is only checked has no file read.
    """
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
        return hashlib.sha256(read_file(path)).hexdigest()
    except (OSError, ValueError):
        return ""


def _bounded(content: bytes, path: str | Path) -> bytes:
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it holds more than {MOST_BYTES >> 20} MiB", str(path))
    return content
