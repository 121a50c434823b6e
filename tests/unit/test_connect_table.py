"""What was changed over REST, in a real table, and the config that comes of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aggregator.config.load import AS_WRITTEN
from aggregator.features.connectors.connector_table import ConnectorTable, load_effective
from aggregator.model.errors import CheckpointError
from aggregator.store.state_store import StateStore
from support.object_store import options_at

CONFIG = {"src.kafka.bootstrap.servers": "us:1", "topic.whitelist": "orders"}
SETS = (
    "hub.bootstrap_servers=h:1",
    "sources.eu.bootstrap_servers=eu:1",
    "sources.eu.topics.include=a",
)


@pytest.fixture
def table(tmp_path: Path) -> ConnectorTable:
    return ConnectorTable(StateStore(str(tmp_path / "state")))


def test_the_newest_word_about_a_connector_counts(table: ConnectorTable) -> None:
    assert table.changes() == {}
    first = table.put("us", CONFIG, "REST from here")
    table.put("eu", None, "somebody")
    assert table.changes() == {"us": first, "eu": table.changes()["eu"]}
    assert first.config == CONFIG and first.by == "REST from here"
    assert datetime.now(UTC) - first.at < timedelta(minutes=1)
    assert table.changes()["eu"].config is None
    table.put("us", None, "me")
    table.put("us", {**CONFIG, "tasks.max": "2"}, "me")
    assert (table.changes()["us"].config or {})["tasks.max"] == "2"


def test_what_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a folder should be")
    with pytest.raises(CheckpointError, match="the table of connectors cannot be written"):
        ConnectorTable(StateStore(str(tmp_path / "state"))).put("us", CONFIG, "me")


def test_the_effective_config_is_the_yaml_with_what_was_changed(
    table: ConnectorTable, tmp_path: Path
) -> None:
    file, state = tmp_path / "aggregator.yaml", tmp_path / "state"
    file.write_text(
        "hub: {bootstrap_servers: 'h:1'}\n"
        "sources: {eu: {bootstrap_servers: 'eu:1', topics: {include: a}}}\n"
        f"checkpoint: {{path: {state}}}\n",
        "utf-8",
    )
    assert list(load_effective(file).sources) == ["eu"]
    table.put("us", CONFIG, "me")
    assert list(load_effective(file).sources) == ["eu", "us"]
    assert load_effective(file, ["sources.us.weight=4"]).sources["us"].weight == 4
    table.put("eu", {**CONFIG, "aggregator.on_gap": "skip"}, "me")
    changed = load_effective(file).sources["eu"]
    assert (changed.bootstrap_servers, changed.on_gap) == ("us:1", "skip")
    table.put("eu", None, "me")
    assert list(load_effective(file).sources) == ["us"]
    assert list(load_effective(file, added={"us": None}).sources) == []
    # Taken back: as the file has them.
    table.take_back("eu", "me")
    assert load_effective(file).sources["eu"].bootstrap_servers == "eu:1"
    assert list(load_effective(file, added={"us": AS_WRITTEN}).sources) == ["eu"]
    table.take_back("us", "me")
    assert table.changes() == {}
    table.put("us", CONFIG, "me")
    assert list(load_effective(file).sources) == ["eu", "us"]


def test_a_command_waits_for_a_store_that_is_away_no_longer_than_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stores: list[StateStore] = []
    monkeypatch.setattr(ConnectorTable, "__init__", lambda _, store: stores.append(store))
    monkeypatch.setattr(ConnectorTable, "changes", lambda _: {})
    own = "checkpoint.storage_options.retry_timeout=5s"
    cases: list[tuple[str, list[str]]] = [("s3://b/a", []), ("s3://b/a", [own]), ("/state", [])]
    for path, more in cases:
        load_effective(None, [*SETS, f"checkpoint.path={path}", *more], {}, briefly=True)
    load_effective(None, [*SETS, "checkpoint.path=s3://b/a"], {})
    waits = [it.options.get("retry_timeout") for it in stores]
    assert waits == ["30s", "5s", None, None]


def test_a_store_that_is_away_is_reported() -> None:
    """Also that its client takes what bounds the wait."""
    options = options_at(1, "user", "confidential") | {"max_retries": "0"}
    sets = [f"checkpoint.storage_options.{name}={value}" for name, value in options.items()]
    with pytest.raises(CheckpointError, match="Connection refused"):
        load_effective(None, [*SETS, "checkpoint.path=s3://b/a", *sets], {}, briefly=True)
