"""The image and the compose file, as far as they can be judged without a container engine."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from aggregator.api.latest_status import StatusHolder
from aggregator.config import load
from aggregator.config.api import TlsConfig
from aggregator.config.values import parse_listen
from support.certificates import Authority
from support.serving import app_over, served

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
INSTRUCTIONS = {
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "RUN",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
}
"""All of a Dockerfile's instructions but ADD, ONBUILD and MAINTAINER, which are not wanted."""


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile and their arguments, with continued lines joined."""
    lines = [line for line in text.splitlines() if not re.match(r"\s*(#|$)", line)]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    pairs = [line.split(None, 1) for line in joined.splitlines()]
    return [(word, rest) for word, rest in pairs]


DOCKERFILE = instructions((DOCKER / "Dockerfile").read_text("utf-8"))
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]


def arguments(name: str) -> list[str]:
    return [rest for word, rest in DOCKERFILE if word == name]


def test_every_instruction_is_known_and_the_first_is_from() -> None:
    assert {word for word, _ in DOCKERFILE} <= INSTRUCTIONS
    assert DOCKERFILE[0][0] == "FROM"
    assert {"ENTRYPOINT", "CMD", "HEALTHCHECK"} <= {word for word, _ in DOCKERFILE}


def test_the_base_image_is_pinned_to_a_version_that_the_package_takes() -> None:
    (base,) = arguments("FROM")
    assert re.fullmatch(r"python:3\.11-slim-[a-z]+", base)


def test_what_is_copied_exists_and_is_not_left_out_of_the_context() -> None:
    ignore = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert ignore[0] == "*"
    for copied in arguments("COPY"):
        *sources, _target = shlex.split(copied)
        for source in sources:
            assert (ROOT / source).exists(), source
            assert f"!{source.removeprefix('./')}" in ignore, source


def test_packages_are_installed_as_locked_and_by_no_other_way() -> None:
    installs = [run for run in arguments("RUN") if "pip install" in run]
    assert installs
    assert all("--require-hashes" in run or "--no-deps" in run for run in installs)


def test_what_runs_is_locked_as_what_was_tested_and_brings_no_tools_of_developers() -> None:
    run, dev = (
        dict(re.findall(r"^(\S+?)==([^ ;]+)", (ROOT / name).read_text("utf-8"), re.M))
        for name in ("requirements-run.lock", "requirements.lock")
    )
    assert run.items() <= dev.items()
    assert not {"pytest", "mypy", "ruff", "playwright"} & run.keys()


def test_it_does_not_run_as_root_and_nothing_needs_root_after_that() -> None:
    words = [word for word, _ in DOCKERFILE]
    (user,) = arguments("USER")
    assert re.fullmatch(r"[1-9]\d*", user), "a number, so that an orchestrator can check it"
    assert "RUN" not in words[words.index("USER") :]


def test_exec_forms_are_json_lists() -> None:
    for name in ("ENTRYPOINT", "CMD"):
        assert all(isinstance(yaml.safe_load(rest), list) for rest in arguments(name))


def health_check(to: str) -> int:
    """The exit code of the image's health check, with this address of the API."""
    (check,) = arguments("HEALTHCHECK")
    program, *words = json.loads(check.partition("CMD ")[2])
    assert program == "python"
    env = {**os.environ, "AGGREGATOR_ALIVE": to, "http_proxy": "http://127.0.0.1:9"}
    done = subprocess.run([sys.executable, *words], env=env, capture_output=True, timeout=60)
    return done.returncode


@pytest.mark.slow
def test_the_health_check_asks_whether_it_is_alive(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("aggregator", "broker")
    tls = TlsConfig(certificate=str(own.chain), key=str(own.key))
    holder = StatusHolder()
    for certificates in (None, tls):
        with served(app_over(holder=holder), certificates) as server:
            assert health_check(f"{server.url}/alive") == 0
            # What is not there.
            assert health_check(f"{server.url}/dead") != 0
        assert health_check(f"{server.url}/alive") != 0
    # Without an address there is no API to ask.
    assert health_check("") == 0
    (port,) = re.findall(r":(\d+)/alive", str(arguments("ENV")))
    assert port == arguments("EXPOSE")[0]


def test_process_1_passes_signals_on_and_leaves_no_zombies() -> None:
    (entry,) = arguments("ENTRYPOINT")
    assert json.loads(entry)[:2] == ["tini", "--"]
    assert any("apt-get install" in it and " tini" in it for it in arguments("RUN"))


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_complete(name: str) -> None:
    service = SERVICES[name]
    assert ("image" in service) != ("build" in service)
    if "image" in service:
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", service["image"]), "a pinned version"
    else:
        assert (DOCKER / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    check = service["healthcheck"]
    # Only what ends by itself has nothing to check.
    ends = any(
        other.get("depends_on", {}).get(name, {}).get("condition")
        == "service_completed_successfully"
        for other in SERVICES.values()
    )
    assert check == {"disable": True} if ends else check["test"][0] in ("CMD", "CMD-SHELL")
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert set(service.get("depends_on", {})) <= set(SERVICES)


def test_volumes_are_declared_or_files_of_this_folder() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (DOCKER / source).is_file(), volume


def test_the_clusters_are_three_different_ones() -> None:
    ids = [SERVICES[name]["environment"]["CLUSTER_ID"] for name in ("eu", "us", "hub")]
    assert len({base64.urlsafe_b64decode(f"{each}==") for each in ids}) == 3
    assert all(len(base64.urlsafe_b64decode(f"{each}==")) == 16 for each in ids)
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len({port.split(":")[1] for port in ports}) == len(ports)


def test_prometheus_scrapes_the_aggregator_with_the_token_that_may_look() -> None:
    config = yaml.safe_load((DOCKER / "prometheus" / "compose.yml").read_text("utf-8"))
    (job,) = config["scrape_configs"]
    port = SERVICES["aggregator"]["ports"][0].rsplit(":", 1)[1]
    assert job["static_configs"] == [{"targets": [f"aggregator:{port}"]}]
    (given,) = SERVICES["prometheus"]["configs"]
    assert job["authorization"] == {"credentials_file": given["target"]}
    token = COMPOSE["configs"][given["source"]]["content"]
    assert token == SERVICES["aggregator"]["environment"]["AGGREGATOR_READ_TOKEN"]
    # The rules lie beside it, in the container as here.
    folder = Path("/etc/prometheus")
    mounted = dict(it.split(":")[:2] for it in SERVICES["prometheus"]["volumes"])
    assert config["rule_files"] == ["rules.yml"]
    assert Path(mounted["./prometheus/rules.yml"]) == folder / "rules.yml"
    assert Path(mounted["./prometheus/compose.yml"]) == folder / "prometheus.yml"


TOKENS = {"AGGREGATOR_READ_TOKEN": "r" * 16, "AGGREGATOR_WRITE_TOKEN": "w" * 16}


def test_the_config_reaches_the_services_by_their_names() -> None:
    config = load(DOCKER / "aggregator.yaml", env=TOKENS)
    clusters = {"hub": config.hub, **config.sources}
    for name, cluster in clusters.items():
        host, port = cluster.bootstrap_servers.split(":")
        assert host == name
        listener = SERVICES[name]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
        assert f"INSIDE://{host}:{port}" in listener.split(",")
    # What the config names, the container is given.
    assert TOKENS.keys() == SERVICES["aggregator"]["environment"].keys()
    address = parse_listen(config.api.listen)
    assert address is not None
    assert SERVICES["aggregator"]["ports"] == [f"127.0.0.1:{address[1]}:{address[1]}"]
    assert f"state:{config.checkpoint.path}" in SERVICES["aggregator"]["volumes"]
