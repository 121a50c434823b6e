"""The board of docker/grafana, as far as it can be judged without Grafana.

`tests/integration/test_alerts_fire.py` sends each of its queries to a real Prometheus.
"""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from aggregator.api.metrics import metrics_text
from aggregator.config.schema import MetricsConfig
from aggregator.status.schema import AuditStatus
from support.board import FOLDER, board, expressions, panels, queries_of, source_names
from support.statuses import whole_status

COLUMNS = 24
BOARD = board()
TOLD = {
    *re.findall(
        r"^(\w+)[{ ]", metrics_text(whole_status(), MetricsConfig()).decode(), re.MULTILINE
    ),
    *("up", "ALERTS"),
}
each_panel = pytest.mark.parametrize("panel", panels(), ids=lambda it: str(it["title"]))


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER.parent / "compose.yaml").read_text("utf-8"))
    return found


def provisioned(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text("utf-8"))
    return found


def test_panels_have_an_id_of_their_own_and_no_two_of_a_kind_the_same_title() -> None:
    ids = [panel["id"] for panel in panels()]
    titles = [(panel["type"], panel["title"]) for panel in panels()]
    assert len(set(ids)) == len(ids)
    assert len(set(titles)) == len(titles), titles


def test_no_panel_lies_over_another_or_beyond_the_edge() -> None:
    places = [
        (panel["title"], *(panel["gridPos"][side] for side in ("x", "y", "w", "h")))
        for panel in panels()
    ]
    for title, x, y, width, height in places:
        assert x >= 0 and y >= 0 and width > 0 and height > 0, title
        assert x + width <= COLUMNS, title
    for (one, x, y, w, h), (other, x2, y2, w2, h2) in combinations(places, 2):
        apart = x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y
        assert apart, f"{one} lies over {other}"


@each_panel
def test_a_panel_asks_the_prometheus_that_is_chosen_for_what_is_told(panel: dict[str, Any]) -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    assert [panel["datasource"], *(it["datasource"] for it in panel["targets"])] == [chosen] * (
        1 + len(panel["targets"])
    )
    references = [it["refId"] for it in panel["targets"]]
    assert len(set(references)) == len(references)
    for expression in queries_of(panel):
        bare = re.sub(r"\{[^}]*\}|\"[^\"]*\"", "", expression)
        named = set(re.findall(r"\b(?:aggregator_\w+|up|ALERTS)\b", bare))
        assert named and named <= TOLD, expression


@each_panel
def test_what_is_of_a_source_is_of_those_that_are_chosen(panel: dict[str, Any]) -> None:
    per_source = re.compile(
        r"aggregator_(?:source|lag|seconds|records|written|lost|record|replication)_?\w*(\{[^}]*\})?"
    )
    for expression in expressions(panel):
        for found in per_source.finditer(expression):
            assert 'source=~"$source"' in (found[1] or ""), expression


def test_its_variables_are_the_prometheus_and_the_sources() -> None:
    variables = {it["name"]: it for it in BOARD["templating"]["list"]}
    assert variables.keys() == {"datasource", "source"}
    assert variables["datasource"]["query"] == "prometheus"
    source = variables["source"]
    assert (source["multi"], source["includeAll"], source["allValue"]) == (True, True, ".*")
    assert source["datasource"]["uid"] == "${datasource}"
    assert source_names()[0] in TOLD


def test_the_findings_of_an_audit_that_it_shows_are_those_that_there_are() -> None:
    (shown,) = (
        found
        for panel in panels()
        for expression in expressions(panel)
        for found in re.findall(r'finding=~"([^"]*)"', expression)
    )
    assert set(shown.split("|")) <= AuditStatus.model_fields.keys()


def test_compose_gives_grafana_the_board_and_the_prometheus_beside_it() -> None:
    services = compose()["services"]
    mounted = {
        Path(volume.split(":")[1]): (FOLDER.parent / volume.split(":")[0]).resolve()
        for volume in services["grafana"]["volumes"]
    }
    provisioning = Path("/etc/grafana/provisioning")
    assert mounted[provisioning / "datasources" / "aggregator.yaml"] == FOLDER / "datasource.yaml"
    assert mounted[provisioning / "dashboards" / "aggregator.yaml"] == FOLDER / "dashboards.yaml"
    (provider,) = provisioned("dashboards.yaml")["providers"]
    board_there = Path(provider["options"]["path"]) / "aggregator.json"
    assert mounted[board_there] == FOLDER / "aggregator.json"
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert Path(home) == board_there
    (source,) = provisioned("datasource.yaml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert "127.0.0.1:9090:9090" in services["prometheus"]["ports"]
