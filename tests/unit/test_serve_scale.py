"""The API of an instance with 50 sources and 5,000 partitions, through its real server.

The state is made up: fifty clusters would not fit on a machine that tests run on. It is what an
engine hands out once a second, so each question here makes a new status document, as it would of
an instance that runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from aggregator.api.latest_status import StatusHolder
from aggregator.config import load_text
from aggregator.engine.control.commands import Control
from aggregator.status.assemble import status
from aggregator.status.view import View
from support.rest import ask, quickest
from support.serving import app_over, served
from support.statuses import whole_view

# The large instance takes a second to make.
pytestmark = pytest.mark.slow

SOURCES, TOPICS, PARTITIONS = 50, 10, 10
MOST_SECONDS = 1.0
MOST_METRICS = 5_000_000


@dataclass
class Large:
    """A server, and the moments of the instance that it answers for."""

    url: str
    holder: StatusHolder
    view: View

    def advance(self) -> None:
        """A second goes by in that instance."""
        view = self.view = replace(self.view, at=self.view.at + timedelta(seconds=1))
        self.holder.put(view.at, view.phase, lambda: status(view))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Large]:
    sets = [
        "hub.bootstrap_servers=127.0.0.1:9",
        f"checkpoint.path={tmp_path_factory.mktemp('state')}",
        # As much as there is to report.
        "metrics={partitions: true, names: [native, mm2]}",
    ]
    for number in range(SOURCES):
        sets.append(f"sources.s{number}.bootstrap_servers=127.0.0.1:{10 + number}")
        sets.append(f"sources.s{number}.topics.include=.*")
    config = load_text("", sets)
    holder = StatusHolder()
    with served(app_over(Control(config), holder)) as server:
        large = Large(server.url, holder, whole_view(config, TOPICS, PARTITIONS))
        large.advance()
        yield large


def test_there_are_as_many_as_it_says(large: Large) -> None:
    code, shown = ask("GET", f"{large.url}/api/status")
    assert (code, len(shown["sources"]), len(shown["partitions"])) == (200, 50, 5_000)
    assert len(ask("GET", f"{large.url}/api/lag")[1]["rows"]) == 5_000
    page = ask("GET", f"{large.url}/api/sources/s7")[1]
    assert (len(page["topics"]), page["source"]["partitions"]) == (TOPICS, TOPICS * PARTITIONS)


@pytest.mark.parametrize(
    "path",
    [
        *("api/overview", "api/sources/s7", "api/status", "api/lag", "api/hub/topics"),
        *("api/incidents", "metrics"),
    ],
)
def test_each_question_is_answered_within_a_second(large: Large, path: str) -> None:
    found = quickest(f"{large.url}/{path}", MOST_SECONDS, before=large.advance)
    assert found.seconds < MOST_SECONDS


def test_its_metrics_are_less_than_five_megabytes_with_every_partition(large: Large) -> None:
    assert (
        1_000_000 < quickest(f"{large.url}/metrics", MOST_SECONDS, seconds=0).bytes < MOST_METRICS
    )
