"""What is in docker/prometheus, judged by Prometheus' own checker."""

from __future__ import annotations

import pytest

from aggregator.api.metrics import metrics_text
from aggregator.config.schema import MetricsConfig
from support.prometheus import promtool
from support.statuses import whole_status


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "rules.yml"),
        # Plays to each rule what it is for, and what it is not for.
        ("test", "rules", "rules.test.yml"),
        ("check", "config", "prometheus.yml"),
        # The token that it names is there in the container only.
        ("check", "config", "--syntax-only", "compose.yml"),
    ],
    ids=" ".join,
)
def test_it_finds_nothing_wrong(arguments: tuple[str, ...]) -> None:
    done = promtool(*arguments)
    assert done.returncode == 0, done.stdout
    assert "FAILED" not in done.stdout


def test_metrics_are_named_and_described_as_they_should_be() -> None:
    text = metrics_text(whole_status(), MetricsConfig(partitions=True))
    done = promtool("check", "metrics", given=text)
    assert (done.returncode, done.stdout) == (0, "")
