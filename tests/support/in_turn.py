"""`spark-submit in_turn.py JOBS`: runs jobs one after the other, in one Python and one Java.

JOBS is a JSON list of `[file, argument, ...]`. Ends with the exit code of the first that fails.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from typing import NoReturn
from unittest import mock


def main() -> int:
    """Run each file as a program of its own."""
    for words in json.loads(sys.argv[1]):
        sys.argv = words
        try:
            # `aggregator` leaves at once when all is done. Here another one follows.
            with mock.patch("os._exit", _leave):
                runpy.run_path(words[0], run_name="__main__")
        except SystemExit as end:
            if end.code:
                return int(end.code)
    return 0


def _leave(code: int) -> NoReturn:
    raise SystemExit(code)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
