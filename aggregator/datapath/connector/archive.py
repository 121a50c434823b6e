"""Builds a reproducible jar from class files and manifest attributes.

And a jar's attributes are read again. Knows nothing of what the class files are for.
"""

import io
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from aggregator.model.errors import JarsError

MANIFEST = "META-INF/MANIFEST.MF"
LINE_BYTES = 72
"""The most that a line of a manifest may have; a longer one continues in the next."""


def render_jar(classes: Path, attributes: Mapping[str, str]) -> bytes:
    """A jar of all class files below a folder, sorted, with these attributes in its manifest.

    The entries have no times, and are not compressed, as zlibs differ.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        # The manifest is first, where a reader of a stream looks for it.
        _add(archive, MANIFEST, _render_manifest({"Manifest-Version": "1.0", **attributes}))
        for path in sorted(classes.rglob("*.class")):
            _add(archive, path.relative_to(classes).as_posix(), path.read_bytes())
    return buffer.getvalue()


def write_jar(target: Path, content: bytes) -> None:
    """Put the file there as a whole, also while others write or read it.

    `JarsError` when the folder cannot be written.
    """
    fresh: Path | None = None
    try:
        number, name = tempfile.mkstemp(prefix=".", suffix=".jar", dir=target.parent)
        fresh = Path(name)
        with os.fdopen(number, "wb") as file:
            file.write(content)
        # A temporary file is for its owner only, and a service may run as another user.
        fresh.chmod(0o644)
        fresh.replace(target)
    except OSError as error:
        if fresh is not None:
            fresh.unlink(missing_ok=True)
        raise JarsError(f"cannot write {target}: {error.strerror}") from error


def read_attributes(jar: Path) -> dict[str, str]:
    """The attributes in the manifest of a jar; empty when there is no such jar."""
    try:
        with zipfile.ZipFile(jar) as archive:
            text = archive.read(MANIFEST).decode()
    except (OSError, KeyError, UnicodeDecodeError, zipfile.BadZipFile):
        return {}
    lines = text.replace("\r\n ", "").splitlines()
    pairs = (line.partition(": ") for line in lines if line)
    return {name: value for name, _, value in pairs}


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content)


def _render_manifest(attributes: Mapping[str, str]) -> bytes:
    lines = []
    for name, value in attributes.items():
        line = f"{name}: {value}"
        lines.append(line[:LINE_BYTES])
        # The space that marks a continued line counts.
        step = LINE_BYTES - 1
        lines += (f" {line[at : at + step]}" for at in range(LINE_BYTES, len(line), step))
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()
