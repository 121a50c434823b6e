"""The board of docker/grafana: its panels, and their queries as Grafana would send them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[2] / "docker" / "grafana"
SUBSTITUTES = {
    "$__rate_interval": "1m",
    "$name": ".*",
    "$instance": ".*",
    "$source": ".*",
    "$topic": ".*",
}
"""What Grafana puts in for a variable when all of it are shown."""
VARIABLE = re.compile(r"\$\{?\w+\}?")
SELECTOR = re.compile(r"\b(\w+)\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)(=~?)"([^"]*)"')
LABEL_VALUES = re.compile(r"label_values\((\w+(?:\{[^}]*\})?), (\w+)\)")


class Selector(NamedTuple):
    """A metric that a query asks for, with the matchers of its labels."""

    metric: str
    labels: dict[str, str]


def board() -> dict[str, Any]:
    """The whole of it."""
    found: dict[str, Any] = json.loads((FOLDER / "aggregator.json").read_text("utf-8"))
    return found


def rows() -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Its rows in their order, each with its panels, which a collapsed one has in itself."""
    found: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for panel in board()["panels"]:
        if panel["type"] == "row":
            found.append((panel, list(panel["panels"])))
        else:
            found[-1][1].append(panel)
    return found


def panels() -> list[dict[str, Any]]:
    """Its panels, in their order."""
    return [panel for _, own in rows() for panel in own]


def marks() -> list[dict[str, Any]]:
    """What it marks in its plots, but for what Grafana itself adds."""
    return [it for it in board()["annotations"]["list"] if not it.get("builtIn")]


def variables() -> dict[str, dict[str, Any]]:
    """Its variables, by their names."""
    return {it["name"]: it for it in board()["templating"]["list"]}


def expressions(panel: dict[str, Any]) -> list[str]:
    """What a panel asks for, with its variables."""
    return [target["expr"] for target in panel["targets"]]


def queries_of(panel: dict[str, Any]) -> list[str]:
    """What it asks for, its variables replaced."""
    return [replaced(it) for it in expressions(panel)]


def replaced(expression: str) -> str:
    """A query without its variables; AssertionError for an unknown one."""
    for name, text in SUBSTITUTES.items():
        expression = expression.replace(name, text)
    assert not VARIABLE.search(expression), expression
    return expression


def selectors(expression: str) -> list[Selector]:
    """The metrics that a query asks for."""
    return [
        Selector(metric, {label: value for label, _, value in MATCHER.findall(matchers)})
        for metric, matchers in SELECTOR.findall(expression)
    ]


def choices(name: str) -> tuple[str, str]:
    """The series, and their label, by which a variable finds what it offers."""
    found = LABEL_VALUES.fullmatch(variables()[name]["query"]["query"])
    assert found is not None, name
    return found[1], found[2]
