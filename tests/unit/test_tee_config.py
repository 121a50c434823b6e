"""What of the config is about the tee: its defaults, its words, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.config import load_text
from aggregator.config.render import to_yaml
from aggregator.features.delta_sink.hub_topics_now import takes
from aggregator.features.delta_sink.landing_table import shared_folders
from aggregator.features.delta_sink.sink_lock import alone
from aggregator.model.errors import ConfigError, HeldError
from aggregator.plan.topics.selection import Selection

MINIMAL = """
hub: {bootstrap_servers: "hub:9092"}
sources:
  eu: {bootstrap_servers: "eu:9092", topics: {include: orders}}
"""


def problems_with(*sets: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_text(MINIMAL, sets, {})
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "decode"), [("true", "auto"), ("json", "json"), ("off", "off"), ("false", "off")]
)
def test_true_decodes_whatever_can_be(text: str, decode: str) -> None:
    assert load_text(f"{MINIMAL}\ntee: {{decode: {text}}}").tee.decode == decode
    assert load_text(MINIMAL, [f"tee.decode={text}"], {}).tee.decode == decode


def test_without_a_word_users_topics_land_undecoded() -> None:
    config = load_text(MINIMAL)
    assert (config.tee.path, config.tee.decode, config.tee.keep) == ("./tee", "off", None)
    selection = Selection.of(config.tee.topics)
    names = ("orders", "central.quarantine", "__consumer_offsets", "heartbeats")
    assert [name for name in names if takes(config, selection, name)] == ["orders"]


def test_a_config_that_names_a_tee_has_it_run_beside() -> None:
    assert load_text(MINIMAL).tee.run == "alone"
    assert load_text(f"{MINIMAL}\ntee: {{decode: true}}").tee.run == "beside"
    assert load_text(MINIMAL, ["tee.path=/lake"], {}).tee.run == "beside"
    assert load_text(MINIMAL, ["tee.run=alone"], {}).tee.run == "alone"
    # What is shown of it, and read again, says the same.
    for text in (MINIMAL, f"{MINIMAL}\ntee: {{path: /lake}}"):
        config = load_text(text)
        assert load_text(to_yaml(config)).tee == config.tee


def test_the_quarantine_lands_where_it_is_named() -> None:
    config = load_text(MINIMAL, ["tee.topics.include=central.quarantine"], {})
    assert takes(config, Selection.of(config.tee.topics), "central.quarantine")


def test_what_cannot_be_is_refused_with_the_setting_and_the_fix() -> None:
    found = problems_with(
        "tee.topics.include=*", "tee.path=state", "tee.decode=avro", "tee.keep=1h"
    )
    assert sorted(found) == [
        "tee.decode: 'avro' is not one of off, json, auto",
        "tee.keep: '1h' is not a duration of at least 1d, such as 500ms, 10s or 5m",
        "tee.path: is checkpoint.path, where other tables are"
        " (choose another folder; its tables are called as the hub topics)",
        "tee.topics.include: '*' is not a regex: nothing to repeat at column 1"
        " (write .* for any text)",
    ]


def test_one_tee_at_a_time_has_the_folder(tmp_path: Path) -> None:
    path = str(tmp_path / "tee")
    with alone(path), pytest.raises(HeldError, match="another tee writes there"), alone(path):
        pass
    with alone(path):
        pass


def test_two_topics_of_one_folder_are_one_too_many(tmp_path: Path) -> None:
    assert shared_folders(str(tmp_path / "none"), {"Orders", "orders"}) == {}
    topics = {"orders", "Orders", "payments"}
    assert shared_folders(str(tmp_path), topics) == {}
    # A disk for which they are the same says so as a link does.
    (tmp_path / "orders").rmdir()
    (tmp_path / "orders").symlink_to("Orders")
    assert shared_folders(str(tmp_path), topics) == {"orders": "Orders"}
    assert shared_folders(str(tmp_path), {"orders"}) == {"orders": "Orders"}
    assert shared_folders("s3a://lake/hub", topics) == {}
