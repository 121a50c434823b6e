"""The examples of instances that stand by: what they start is ours, and what they are is valid."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from aggregator.config import load_text
from aggregator.serve.app import health_of
from aggregator.status.document import status
from aggregator.status.view import first_view, waiting_view
from support.debian import program
from support.kubernetes import problems
from support.rest import SETS

DOCKER = Path(__file__).parents[2] / "docker"
UNIT = (DOCKER / "aggregator.service").read_text("utf-8")
OBJECTS: list[dict[str, Any]] = list(
    yaml.safe_load_all((DOCKER / "kubernetes.yaml").read_text("utf-8"))
)
POD: dict[str, Any] = OBJECTS[0]["spec"]["template"]["spec"]
CONFIG = load_text("", SETS)


@pytest.mark.parametrize("version", ["1.32", "1.37"])
@pytest.mark.parametrize("each", OBJECTS, ids=lambda it: str(it["kind"]))
def test_kubernetes_takes_it(each: dict[str, Any], version: str) -> None:
    assert problems(each, version) == []
    assert problems({**each, "nonsense": 1}, version) != []


def test_two_of_them_stand_by_and_are_ready_so_that_an_update_goes_through() -> None:
    (container,) = POD["containers"]
    assert OBJECTS[0]["spec"]["replicas"] == 2
    assert container["args"][-1] == "--standby"
    waits = status(waiting_view(CONFIG, "stands by: another one writes"))
    message = "Another instance writes: this one waits for it to end."
    assert health_of(waits) == (200, {"status": "standby", "message": message})
    # While it starts it is not, and that may take longer than a probe is patient.
    assert health_of(status(first_view(CONFIG)))[0] == 503
    assert container["startupProbe"]["failureThreshold"] > 60
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] == "/health"


def test_there_is_time_for_a_clean_stop() -> None:
    assert POD["terminationGracePeriodSeconds"] > CONFIG.supervision.stop_timeout
    assert f"TimeoutStopSec={POD['terminationGracePeriodSeconds']}" in UNIT


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    verify = program("systemd-analyze", package="systemd")
    # A command that is there, and no users of another machine.
    here = UNIT.replace("/opt/aggregator/bin/aggregator", "/bin/true")
    assert here != UNIT
    file = tmp_path / "aggregator.service"
    for text, good in ((here, True), (here.replace("Restart=always", "Restart=ever"), False)):
        file.write_text(text)
        told = subprocess.run(
            [verify, "verify", "--man=no", str(file)], capture_output=True, text=True, check=False
        )
        mine = [line for line in told.stderr.splitlines() if "aggregator.service" in line]
        assert (mine == []) is good, told.stderr
