"""The board of docker/grafana, as far as it can be judged without Grafana.

`tests/integration/test_board_queries.py` and `test_alerts_fire.py` send its queries to a real
Prometheus.
"""

from __future__ import annotations

import re
from enum import StrEnum
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from aggregator.api.metrics import metrics_text
from aggregator.config.schema import MetricsConfig
from aggregator.model.values import SourceState
from aggregator.status.schema import LaneState, PartitionState, Phase
from aggregator.status.sink import TeeState
from support.board import (
    FOLDER,
    Selector,
    board,
    choices,
    expressions,
    marks,
    panels,
    queries_of,
    replaced,
    rows,
    selectors,
    variables,
)
from support.statuses import whole_status

UI = Path(__file__).parents[2] / "aggregator" / "api" / "ui"
COLUMNS = 24
TYPES = {"stat", "table", "timeseries", "state-timeline", "bargauge"}
"""Of the panels that Grafana 10 and later bring along."""
FINAL_SCHEMA = 42
"""The last schema of dashboards of this kind, whose panels Grafana 10 reads as well."""
NOT_SHOWN = {"process_start_time_seconds"}
"""`aggregator_start_time_seconds` is shown."""
SAMPLES = [
    sample
    for family in text_string_to_metric_families(
        metrics_text(whole_status(), MetricsConfig(partitions=True)).decode()
    )
    for sample in family.samples
]
LABELS = {it.name: it.labels.keys() | {"instance"} for it in SAMPLES}
CHOSEN = {"instance": "$instance", "source": "$source", "topic": "$topic"}
each_panel = pytest.mark.parametrize("panel", panels(), ids=lambda it: str(it["title"]))


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER.parent / "compose.yaml").read_text("utf-8"))
    return found


def provisioned(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text("utf-8"))
    return found


def test_panels_have_an_id_of_their_own_and_no_two_of_a_kind_the_same_title() -> None:
    ids = [it["id"] for row, own in rows() for it in (row, *own)]
    titles = [(it["type"], it["title"]) for row, own in rows() for it in (row, *own)]
    assert len(set(ids)) == len(ids)
    assert len(set(titles)) == len(titles), titles


def test_no_panel_lies_over_another_or_beyond_the_edge() -> None:
    # A collapsed row that is opened moves those below it: only its own panels can be in the way.
    groups = [list(board()["panels"]), *(own for row, own in rows() if row["collapsed"])]
    for group in groups:
        places = [
            (it["title"], *(it["gridPos"][side] for side in ("x", "y", "w", "h"))) for it in group
        ]
        for title, x, y, width, height in places:
            assert x >= 0 and y >= 0 and width > 0 and height > 0, title
            assert x + width <= COLUMNS, title
        for (one, x, y, w, h), (other, x2, y2, w2, h2) in combinations(places, 2):
            apart = x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y
            assert apart, f"{one} lies over {other}"


def test_its_rows_are_in_the_order_of_the_dashboard_and_what_is_optional_is_collapsed() -> None:
    shown = [row["title"] for row, _ in rows() if not row["collapsed"]]
    hidden = [row["title"] for row, _ in rows() if row["collapsed"]]
    assert [row["title"] for row, _ in rows()] == [*shown, *hidden]
    assert shown[:3] == ["Needs a person", "All sources", "Sources"]
    overview = (UI / "overview.js").read_text("utf-8")
    table = overview[overview.index("function sources(now)") :].partition("now.sources,")[0]
    theirs = re.findall(r'\[\s*"([\w/ ]+)",', table)
    (now,) = (it for it in panels() if it["title"] == "Sources now")
    names = list(now["transformations"][-1]["options"]["renameByName"].values())
    ours = ["source", *dict.fromkeys(re.sub(r" p\d\d$", "", it) for it in names)]
    assert [it for it in theirs if it in ours] == [it for it in ours if it in theirs]
    assert set(theirs) - set(ours) == {"topics", "issues"}


@each_panel
def test_a_panel_says_what_it_measures_and_in_which_unit(panel: dict[str, Any]) -> None:
    assert panel["type"] in TYPES
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]


@each_panel
def test_a_panel_asks_the_chosen_prometheus_for_metrics_that_exist(panel: dict[str, Any]) -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    assert [panel["datasource"], *(it["datasource"] for it in panel["targets"])] == [chosen] * (
        1 + len(panel["targets"])
    )
    references = [it["refId"] for it in panel["targets"]]
    assert len(set(references)) == len(references)
    for expression in expressions(panel):
        judge(expression)


def judge(expression: str) -> None:
    """It asks for metrics, labels and values that there are, of what is chosen."""
    found = selectors(expression)
    bare = re.sub(r"\{[^}]*\}|\"[^\"]*\"", "", expression)
    assert re.findall(r"\b(?:(?:aggregator|process)_\w+|ALERTS)\b", bare) == [
        it.metric for it in found
    ]
    for metric, labels in found:
        if metric == "ALERTS":
            continue
        assert labels.keys() <= LABELS[metric], expression
        chosen = {label: it for label, it in CHOSEN.items() if label in LABELS[metric]}
        # A time that is of a whole source has no topic, and so on.
        assert chosen.items() <= labels.items(), expression
        for label in labels.keys() - chosen.keys():
            values = {it.labels[label] for it in SAMPLES if it.name == metric}
            assert set(labels[label].split("|")) <= values, expression


def test_each_metric_is_shown() -> None:
    shown = {
        it.metric for panel in panels() for query in expressions(panel) for it in selectors(query)
    }
    # Of a histogram, its buckets are shown.
    exported = {re.sub(r"_(?:count|sum)$", "_bucket", it.name) for it in SAMPLES}
    assert exported - shown == NOT_SHOWN


def test_what_is_of_now_is_no_percentile_since_the_start() -> None:
    quantiles = [it for panel in panels() for it in expressions(panel) if "_quantile" in it]
    assert len(quantiles) > 10
    for it in quantiles:
        assert re.search(
            r"sum by \(le[^)]*\) \(rate\(\w+_bucket\{[^}]*\}\[\$__rate_interval\]\)\)", it
        )


def test_its_variables_depend_on_those_before_them() -> None:
    found = variables()
    assert list(found) == ["datasource", "name", "instance", "source", "topic"]
    assert found["datasource"]["query"] == "prometheus"
    for name in ("name", "instance", "source", "topic"):
        it = found[name]
        assert (it["multi"], it["includeAll"], it["current"]["value"]) == (True, True, ["$__all"])
        assert it["datasource"]["uid"] == "${datasource}"
        assert it["query"]["query"] == it["definition"]
        series, label = choices(name)
        metric, matchers = next(iter(selectors(series)), Selector(series, {}))
        assert label == name
        assert {label, *matchers} <= LABELS[metric]
        replaced(series)
    # All instances are those of the chosen names; a source may be gone, and its past is shown.
    assert [name for name in found if found[name].get("allValue")] == ["name", "source", "topic"]


@pytest.mark.parametrize("annotation", marks(), ids=lambda it: str(it["name"]))
def test_an_annotation_asks_for_metrics_that_exist(annotation: dict[str, Any]) -> None:
    assert annotation["datasource"]["uid"] == "${datasource}"
    # Grafana 10 reads the one, later ones the other.
    assert annotation["expr"] == annotation["target"]["expr"]
    judge(annotation["expr"])
    marks_a_time = "seconds{" in annotation["expr"]
    assert annotation.get("useValueForTime", False) == marks_a_time


def colors() -> dict[str, str]:
    """What the style sheet of the dashboard calls good, a warning and bad, in light mode."""
    style = (UI / "style.css").read_text("utf-8")
    return dict(re.findall(r"--(\w+): light-dark\((#\w{6}), #\w{6}\);", style))


def color_of(state: str) -> str:
    """The color of a state on the dashboard."""
    script = (UI / "dom.js").read_text("utf-8")
    for name, kind in (("GOOD", "good"), ("WARN", "warn")):
        (states,) = re.findall(rf"^const {name} = \[([^\]]*)\]", script, re.M)
        if f'"{state}"' in states:
            return colors()[kind]
    return colors()["bad"]


@pytest.mark.parametrize(
    ("metric", "states", "shown"),
    [("phase", Phase, 1), ("source_state", SourceState, 2), ("tee_state", TeeState, 1)],
)
def test_a_state_has_the_words_and_the_color_of_the_dashboard(
    metric: str, states: type[StrEnum], shown: int
) -> None:
    asked = re.compile(rf'aggregator_{metric}\{{[^}}]*(?:state|phase)="(\w+)"\}} \* (\d+)')
    found = [
        (dict(asked.findall(target["expr"])), mappings_of(panel))
        for panel in panels()
        for target in panel["targets"]
        if asked.search(target["expr"])
    ]
    assert len(found) == shown
    for numbers, mappings in found:
        assert numbers.keys() == set(states)
        assert len(set(numbers.values())) == len(numbers)
        for state, number in numbers.items():
            word = state.lower().replace("_", " ")
            assert mappings[number]["text"] == word
            assert mappings[number]["color"] == color_of(state)


def mappings_of(panel: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Words and colors of the values of a panel, or of a column that is called state."""
    defaults = panel["fieldConfig"]["defaults"].get("mappings", [])
    columns = [
        own["value"]
        for it in panel["fieldConfig"]["overrides"]
        for own in it["properties"]
        if own["id"] == "mappings" and it["matcher"]["options"] == "state"
    ]
    (found,) = (defaults, *columns)[-1]
    options: dict[str, dict[str, Any]] = found["options"]
    return options


@pytest.mark.parametrize(
    ("title", "states"), [("Partitions by state", PartitionState), ("Lanes by state", LaneState)]
)
def test_a_plot_by_state_has_these_words_and_colors_as_well(
    title: str, states: type[StrEnum]
) -> None:
    (panel,) = (it for it in panels() if it["title"] == title)
    found = {
        it["matcher"]["options"]: {own["id"]: own["value"] for own in it["properties"]}
        for it in panel["fieldConfig"]["overrides"]
    }
    assert found.keys() == set(states)
    for state, own in found.items():
        assert own["displayName"] == state.lower().replace("_", " ")
        # A lane that is done is a run's end, which a page never shows.
        known = colors()["link"] if state == LaneState.DONE else color_of(state)
        assert own["color"] == {"mode": "fixed", "fixedColor": known}


def test_no_other_color_is_written_as_a_number() -> None:
    text = (FOLDER / "aggregator.json").read_text("utf-8")
    meant = {colors()[it] for it in ("good", "warn", "bad", "link")}
    assert set(re.findall(r'"(#\w{6})"', text)) == meant


def test_its_schema_is_the_final_one() -> None:
    assert board()["schemaVersion"] == FINAL_SCHEMA


def test_the_findings_of_an_audit_that_it_shows_are_all_that_are_wrong() -> None:
    shown = {
        it
        for panel in panels()
        for expression in queries_of(panel)
        for found in re.findall(r'finding=~?"([^"]*)"', expression)
        for it in found.split("|")
    }
    assert shown == {it.labels["finding"] for it in SAMPLES if "finding" in it.labels}


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
