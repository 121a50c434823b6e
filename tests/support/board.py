"""The board of docker/grafana: its panels, and their queries as Grafana would send them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "docker" / "grafana"
SUBSTITUTES = {
    "$__rate_interval": "1m",
    "$source": ".*",
}
"""What Grafana puts in for a variable when all sources are shown."""
VARIABLE = re.compile(r"\$\{?\w+\}?")


def board() -> dict[str, Any]:
    """The whole of it."""
    found: dict[str, Any] = json.loads((FOLDER / "aggregator.json").read_text("utf-8"))
    return found


def panels() -> list[dict[str, Any]]:
    """Its panels, in their order."""
    found: list[dict[str, Any]] = board()["panels"]
    return found


def expressions(panel: dict[str, Any]) -> list[str]:
    """What a panel asks for, with its variables."""
    return [target["expr"] for target in panel["targets"]]


def queries_of(panel: dict[str, Any]) -> list[str]:
    """What it asks for, its variables replaced; AssertionError for one that nobody knows."""
    found = []
    for expression in expressions(panel):
        for name, text in SUBSTITUTES.items():
            expression = expression.replace(name, text)
        assert not VARIABLE.search(expression), expression
        found.append(expression)
    return found


def source_names() -> tuple[str, str]:
    """The metric and the label by which it finds the names of the sources."""
    (query,) = (
        it["query"]["query"] for it in board()["templating"]["list"] if it["name"] == "source"
    )
    found = re.fullmatch(r"label_values\((\w+), (\w+)\)", query)
    assert found is not None, query
    return found[1], found[2]
