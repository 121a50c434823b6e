"""One folder for the temporary files of a test run: what killed processes leave goes with it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

FOR_ALL = "PYTEST_DEBUG_TEMPROOT"
"""Where pytest keeps the folders of tests, of its last runs as well; and what runs share."""


class Scratch:
    """Made before anybody asks for a temporary file; children inherit it by TMPDIR."""

    def __init__(self) -> None:
        os.environ.setdefault(FOR_ALL, tempfile.gettempdir())
        self._folder = Path(tempfile.mkdtemp(prefix="aggregator-tests-"))
        os.environ["TMPDIR"] = str(self._folder)
        # It is asked for once.
        tempfile.tempdir = None

    def remove(self) -> None:
        """All tests are over: remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)
