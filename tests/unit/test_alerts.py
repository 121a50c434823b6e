"""The alert rules: they ask for metrics that there are, each is tested, and each is documented.

What they fire at is played to them by `promtool test rules`, from docker/prometheus/rules.test.yml.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from aggregator.api.metrics import metrics_text
from aggregator.config.schema import MetricsConfig
from support.probes import manifest_pods
from support.statuses import whole_status

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docker" / "prometheus"


def load(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text("utf-8"))


RULES = {rule["alert"]: rule for group in load("rules.yml")["groups"] for rule in group["rules"]}


@pytest.mark.parametrize("alert", RULES)
def test_a_rule_asks_only_for_exposed_metrics(alert: str) -> None:
    text = metrics_text(whole_status(), MetricsConfig()).decode()
    exposed = {*re.findall(r"^(\w+)[{ ]", text, re.M), "up"}
    expression = re.sub(r"\{[^}]*\}", "", RULES[alert]["expr"])
    named = re.findall(r"\b(?:(?:aggregator|process)_\w+|up)\b", expression)
    assert named and set(named) <= exposed


def test_each_rule_is_tested_and_documented() -> None:
    tests = [it for part in load("rules.test.yml")["tests"] for it in part["alert_rule_test"]]
    fires = {it["alertname"] for it in tests if it["exp_alerts"]}
    assert fires == RULES.keys()
    page = (ROOT / "docs" / "alerts.md").read_text("utf-8")
    assert re.findall(r"^\| (Aggregator\w+) \|", page, re.M) == list(RULES)


def test_in_kubernetes_it_finds_the_pods_and_shows_the_token_to_read() -> None:
    config = load("kubernetes.yml")
    (job,) = config["scrape_configs"]
    template = manifest_pods()
    (container,) = template["spec"]["containers"]
    labels, regex = job["relabel_configs"][0]["source_labels"], job["relabel_configs"][0]["regex"]
    assert [it.removeprefix("__meta_kubernetes_pod_") for it in labels] == [
        "label_app",
        "container_port_name",
    ]
    assert regex == f"{template['metadata']['labels']['app']};{container['ports'][0]['name']}"
    secret = container["env"][0]["valueFrom"]["secretKeyRef"]
    token = job["authorization"]["credentials_file"]
    assert token == f"/etc/{secret['name']}/{secret['key']}"
    assert (config["rule_files"], job["job_name"]) == (["rules.yml"], "aggregator")


def test_the_config_reads_the_rules_and_scrapes_where_the_api_listens() -> None:
    config = load("prometheus.yml")
    assert config["rule_files"] == ["rules.yml"]
    (job,) = config["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["127.0.0.1:8083"]}]
