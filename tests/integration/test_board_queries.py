"""Each query of the board of docker/grafana against a real Prometheus.

It scrapes the application's own exposition of a status with all features on, whose counters grow.
`test_alerts_fire.py` sends the same queries to one that watches a running application.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

import pytest

from aggregator.api.metrics import metrics_text
from aggregator.config.schema import MetricsConfig
from aggregator.status.schema import SourceStatus, Status
from support.board import choices, marks, panels, queries_of, replaced
from support.prometheus import Prometheus, prometheus
from support.reading import wait_for
from support.statuses import whole_status

SOURCES = 2
TOPICS = 2


def grown(turn: int) -> Status:
    """A status with everything on, with `turn` times the records of the first one."""

    def more(source: SourceStatus) -> SourceStatus:
        counts = {"age_counts": source.age_counts, "flight_counts": source.flight_counts}
        copied = (
            it.model_copy(update={"records": it.records * turn, "bytes": it.bytes * turn})
            for it in source.copied
        )
        return source.model_copy(
            update={
                "copied": tuple(copied),
                **{name: tuple(it * turn for it in own) for name, own in counts.items()},
            }
        )

    status = whole_status(SOURCES, TOPICS)
    return status.model_copy(update={"sources": tuple(map(more, status.sources))})


@pytest.fixture(scope="module")
def watching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    turns = count(1)

    class Handler(BaseHTTPRequestHandler):
        """Each scrape sees more records than the one before it."""

        def do_GET(self) -> None:
            text = metrics_text(grown(next(turns)), MetricsConfig(partitions=True))
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: a scrape a second is no news."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    folder = tmp_path_factory.mktemp("board") / "prometheus"
    try:
        with prometheus(folder, f"127.0.0.1:{server.server_port}", "none", 60) as found:
            yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def numbers(watching: Prometheus, query: str) -> list[dict[str, Any]]:
    """The rows of a query, as soon as each has a number."""

    def found() -> list[dict[str, Any]]:
        rows = watching.query(query)
        return rows if all(not math.isnan(float(it["value"][1])) for it in rows) else []

    return wait_for(found, f"{query} has numbers")


@pytest.mark.parametrize("panel", panels(), ids=lambda it: str(it["title"]))
def test_each_query_of_a_panel_has_numbers_and_the_labels_of_its_legend(
    watching: Prometheus, panel: dict[str, Any]
) -> None:
    for query, target in zip(queries_of(panel), panel["targets"], strict=True):
        named = re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))
        for row in numbers(watching, query):
            assert set(named) <= row["metric"].keys(), query


@pytest.mark.parametrize("annotation", marks(), ids=lambda it: str(it["name"]))
def test_an_annotation_was_there_at_some_moment(
    watching: Prometheus, annotation: dict[str, Any]
) -> None:
    numbers(watching, f"max_over_time(({replaced(annotation['expr'])})[1h:1s])")


@pytest.mark.parametrize("name", ["name", "instance", "source", "topic"])
def test_a_variable_offers_what_there_is(watching: Prometheus, name: str) -> None:
    series, label = choices(name)
    offered = {it["metric"][label] for it in numbers(watching, replaced(series))}
    expected = {"name": {"central"}, "source": {"s0", "s1"}, "topic": {"t0", "t1"}}
    assert offered == expected.get(name, offered)
    assert offered


def test_sources_of_which_nothing_matches_are_counted(watching: Prometheus) -> None:
    (panel,) = (it for it in panels() if it["title"] == "Sources without a topic")
    (query,) = queries_of(panel)
    (row,) = numbers(watching, query)
    assert float(row["value"][1]) == 0
