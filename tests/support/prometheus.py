"""A real Prometheus for tests: its own process, asked over HTTP; and promtool, its checker."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.processes import GuardedProcess
from support.debian import program
from support.reading import wait_for

FOLDER = Path(__file__).parents[2] / "docker" / "prometheus"
PACKAGE = "prometheus"
CHECK_SECONDS = 60
INTERVAL = "1s"
POD = {
    "__meta_kubernetes_pod_label_app": "aggregator",
    "__meta_kubernetes_pod_container_port_name": "api",
    "__meta_kubernetes_namespace": "tests",
    "__meta_kubernetes_pod_name": "aggregator-0",
}
"""What Prometheus discovers of a pod in Kubernetes; here it is given."""
DURATION = re.compile(r"(?:(?<=\[)|(?<=offset ))(\d+)m\b")
"""A window of an expression, in minutes."""


def promtool(
    *arguments: str, given: bytes = b"", folder: Path = FOLDER
) -> subprocess.CompletedProcess[str]:
    """What `promtool` says to these arguments, run in a folder, with `given` on its stdin."""
    done = subprocess.run(
        [program("promtool", package=PACKAGE), *arguments],
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        timeout=CHECK_SECONDS,
    )
    text = done.stdout.decode(errors="replace")
    return subprocess.CompletedProcess(done.args, done.returncode, text, "")


def hurried(rules: Mapping[str, Any], seconds: int) -> dict[str, Any]:
    """The rules with `seconds` for each minute of a `for`, and of a window; no other change.

    AssertionError for a duration that is not in minutes.
    """
    text = json.dumps(rules)
    assert not re.search(r'"for": "(?!\d+m")|\[\d+[^\dm]|offset \d+[^\dm]', text)
    text = re.sub(r'("for": ")(\d+)m"', lambda it: f'{it[1]}{int(it[2]) * seconds}s"', text)
    found: dict[str, Any] = json.loads(DURATION.sub(lambda it: f"{int(it[1]) * seconds}s", text))
    return found


class Prometheus:
    """A running one; `url` is where it answers."""

    def __init__(self, url: str, process: GuardedProcess) -> None:
        self.url = url
        self.process = process

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The rows of an instant query; AssertionError with what it says when it is refused."""
        rows: list[dict[str, Any]] = self._ask("query", query=expression)["result"]
        return rows

    def value(self, expression: str) -> float | None:
        """The value of a query that has one row; None when it has none."""
        rows = self.query(expression)
        assert len(rows) <= 1, rows
        return float(rows[0]["value"][1]) if rows else None

    def firing(self, **labels: str) -> list[dict[str, Any]]:
        """The alerts that fire now and have these labels, with their annotations."""
        alerts: list[dict[str, Any]] = self._ask("alerts")["alerts"]
        return [
            it
            for it in alerts
            if it["state"] == "firing" and labels.items() <= it["labels"].items()
        ]

    def answers(self) -> bool:
        """Whether it is up; AssertionError with its log when it has ended."""
        assert self.process.alive, self.process.log_tail()
        try:
            with urlopen(f"{self.url}/-/ready", timeout=60) as response:
                return bool(response.status == 200)
        except (HTTPError, URLError, ConnectionError):
            return False

    def _ask(self, what: str, **parameters: str) -> dict[str, Any]:
        try:
            with urlopen(f"{self.url}/api/v1/{what}?{urlencode(parameters)}", timeout=30) as found:
                data: dict[str, Any] = json.load(found)["data"]
                return data
        except HTTPError as error:
            with error:
                text = error.read().decode(errors="replace")
            raise AssertionError(f"{what} {parameters}: {error.code} {text}") from error


@contextmanager
def prometheus(
    folder: Path, target: str, token: str, seconds_for_a_minute: int
) -> Iterator[Prometheus]:
    """One with the config for Kubernetes and the rules of docker/prometheus, gone with the block.

    It scrapes `target` as a pod every second, shows it a token, and its rules are `hurried`.
    """
    folder.mkdir(parents=True)
    config = yaml.safe_load((FOLDER / "kubernetes.yml").read_text("utf-8"))
    rules = yaml.safe_load((FOLDER / "rules.yml").read_text("utf-8"))
    (job,) = config["scrape_configs"]
    assert job.pop("kubernetes_sd_configs") == [{"role": "pod"}]
    other = {**POD, "__meta_kubernetes_pod_container_port_name": "ui"}
    job["static_configs"] = [{"targets": [target], "labels": it} for it in (POD, other)]
    assert job["authorization"].pop("credentials_file")
    job["authorization"]["credentials_file"] = "token"
    config["global"] = {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL}
    (folder / "token").write_text(token)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (folder / "rules.yml").write_text(yaml.safe_dump(hurried(rules, seconds_for_a_minute)))
    checked = promtool("check", "config", "prometheus.yml", folder=folder)
    assert checked.returncode == 0, checked.stdout
    (port,) = free_ports(1)
    process = GuardedProcess(
        [
            program("prometheus", package=PACKAGE),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        folder / "prometheus.log",
    )
    try:
        found = Prometheus(f"http://127.0.0.1:{port}", process)
        wait_for(found.answers, "Prometheus answers")
        yield found
    finally:
        process.kill()
