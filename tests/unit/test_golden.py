"""Nothing that programs read has changed: JSON of commands and of the API, and exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.golden import ASKED, GOLDEN, RUNNING, STOPPED, gathered

NAMES = (
    "all calls",
    *(f"GET {path}" for path in ASKED),
    *(f"running: {words}" for words in RUNNING),
    *(f"stopped: {words}" for words in STOPPED),
)
EXPECTED: dict[str, Any] = json.loads(GOLDEN.read_text("utf-8"))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    yield gathered(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("name", NAMES)
def test_what_programs_read_is_as_it_was(found: dict[str, Any], name: str) -> None:
    assert found[name] == EXPECTED[name]


def test_nothing_more_is_expected() -> None:
    assert set(EXPECTED) == set(NAMES)
