"""The examples of instances that stand by: what they start is ours, and what they are is valid."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from aggregator.api.app import HUNG_SECONDS, alive_of, health_of
from aggregator.cli.main import FILES
from aggregator.config import load_text
from aggregator.model.errors import EXIT_CONFIG
from aggregator.status.schema import Phase
from support.debian import program
from support.kubernetes import problems
from support.probes import Kubelet, manifest_container, manifest_pods
from support.rest import SETS

DOCKER = Path(__file__).parents[2] / "docker"
UNIT = (DOCKER / "aggregator.service").read_text("utf-8")
OBJECTS: list[dict[str, Any]] = list(
    yaml.safe_load_all((DOCKER / "kubernetes.yaml").read_text("utf-8"))
)
DEPLOYMENT = next(it for it in OBJECTS if it["kind"] == "Deployment")
POD: dict[str, Any] = manifest_pods()["spec"]
CONFIG = load_text("", SETS)


@pytest.mark.parametrize("version", ["1.32", "1.37"])
@pytest.mark.parametrize("each", OBJECTS, ids=lambda it: str(it["kind"]))
def test_kubernetes_takes_it(each: dict[str, Any], version: str) -> None:
    assert problems(each, version) == []
    assert problems({**each, "nonsense": 1}, version) != []


def test_a_namespace_of_restricted_pods_takes_its_pods() -> None:
    # https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
    (container,) = POD["containers"]
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    kinds = {kind for volume in POD["volumes"] for kind in volume if kind != "name"}
    assert kinds == {"configMap", "persistentVolumeClaim"}


def test_two_of_them_stand_by_and_are_ready_so_that_an_update_goes_through() -> None:
    (container,) = POD["containers"]
    assert DEPLOYMENT["spec"]["replicas"] == 2
    assert container["args"][-1] == "--standby"
    message = "Another instance writes: this one waits for it to end."
    assert health_of(Phase.STANDBY) == (200, {"status": "standby", "message": message})


SILENT = "SILENT"
"""In the place of a phase: the process does not answer."""
HUNG = "HUNG"
"""It runs, and its engine takes no turns."""
HOUR = 3600


def probed(*life: tuple[Phase | str | None, int]) -> Kubelet:
    """What the probes of the manifest do to a container with this life: phases, and how long."""
    kubelet, now = Kubelet(manifest_container()), 0
    for phase, seconds in life:
        for second in range(seconds):
            codes: dict[str, int | None] = {"/health": None, "/alive": None}
            if phase != SILENT:
                shown = Phase.RUNNING if phase == HUNG else phase
                assert shown is None or isinstance(shown, Phase)
                still = float(second) if phase == HUNG else 0.0
                codes = {"/health": health_of(shown)[0], "/alive": alive_of(shown, still)[0]}
            kubelet.look(now, codes.__getitem__)
            now += 1
    return kubelet


@pytest.mark.parametrize("waits", [300, 6 * HOUR])
def test_one_that_takes_over_is_left_alone_until_it_is_through(waits: int) -> None:
    # The lease of an object store, delivery.timeout.ms, Java; and a tail of the hub of two hours.
    for starts in (158, 2 * HOUR):
        found = probed((None, 5), (Phase.STANDBY, waits), (Phase.STARTING, starts))
        assert (found.killed, found.ready) == ("", [True, False])


def test_a_first_start_that_reads_the_hub_for_hours_is_left_alone_and_then_ready() -> None:
    found = probed((None, 5), (Phase.STARTING, 3 * HOUR), (Phase.RUNNING, 60), (Phase.STOPPING, 90))
    assert (found.killed, found.ready) == ("", [False, True])


@pytest.mark.parametrize(
    ("last", "within"), [(SILENT, 90), (HUNG, int(HUNG_SECONDS) + 90)], ids=["silent", "hung"]
)
def test_one_that_hangs_is_started_again(last: str, within: int) -> None:
    life: list[tuple[Phase | str | None, int]] = [(Phase.STANDBY, 60), (Phase.RUNNING, 60)]
    assert probed(*life, (last, within)).killed.startswith("liveness")
    assert not probed(*life, (last, 30)).killed
    # For less long than that it is a machine that is busy.
    assert not probed(*life, (last, 30), (Phase.RUNNING, HOUR)).killed


def test_one_that_never_answers_is_started_again() -> None:
    assert probed((SILENT, 180)).killed.startswith("startup")
    assert not probed((SILENT, 60), (None, 10)).killed


def test_there_is_time_for_a_clean_stop() -> None:
    assert POD["terminationGracePeriodSeconds"] > CONFIG.supervision.stop_timeout
    assert f"TimeoutStopSec={POD['terminationGracePeriodSeconds']}" in UNIT


def test_systemd_starts_it_again_but_for_what_only_a_person_can_mend() -> None:
    lines = UNIT.splitlines()
    assert {"Restart=always", f"RestartPreventExitStatus={EXIT_CONFIG}"} <= set(lines)
    assert f"LimitNOFILE={FILES}" in lines


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    verify = program("systemd-analyze", package="systemd")
    # A command that is there, and no users of another machine.
    here = UNIT.replace("/opt/aggregator/bin/aggregator", "/bin/true")
    assert here != UNIT
    file = tmp_path / "aggregator.service"
    for text, good in ((here, True), (here.replace("Restart=always", "Restart=ever"), False)):
        file.write_text(text)
        result = subprocess.run(
            [verify, "verify", "--man=no", str(file)], capture_output=True, text=True, check=False
        )
        mine = [line for line in result.stderr.splitlines() if "aggregator.service" in line]
        assert (mine == []) is good, result.stderr
