"""The tables beside a checkpoint as version 0.1.0 wrote them: a small record of each kind.

A new version reads them, so the archive is never written again: a change of the tables adds another
archive, of the version that writes them so.
"""

from __future__ import annotations

import tarfile
from datetime import UTC, datetime
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"
ARCHIVE = DATA / "state-0.1.0.tar.gz"
AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
"""When the record begins."""


def recorded_state(folder: Path) -> Path:
    """The tables, unpacked in `folder`: a value for checkpoint.path."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "state"
