"""How often a test does the same thing: a few times, or as often as `make test-long` wants."""

from __future__ import annotations

import os

MANY = "AGGREGATOR_MANY_TURNS"
"""Set by `make test-long`, which runs what is marked `again`."""


def turns(few: int, many: int) -> int:
    """`few`, so that each kind of turn is there once; `many` to find what comes rarely."""
    return many if os.environ.get(MANY) else few
