"""What a config that was read again changes, and what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.config import load_text
from aggregator.config.files import note_files
from aggregator.config.schema import Config
from aggregator.model.values import Route, SchemaMode
from aggregator.plan.reload import Reload, id_notes, plan_reload, until_restart

BASE = (
    "hub.bootstrap_servers=hub:9092",
    "sources.eu.bootstrap_servers=eu:9092",
    "sources.eu.topics.include=orders",
    "sources.us.bootstrap_servers=us:9092",
    "sources.us.topics.include=orders",
)


def config(*sets: str, without: str = "sources.none") -> Config:
    """One in force: the files that it names were looked at."""
    made = load_text("", [*(each for each in BASE if not each.startswith(without)), *sets])
    note_files(made)
    return made


def test_the_same_changes_nothing() -> None:
    assert plan_reload(config(), config()) == Reload()


@pytest.mark.parametrize(
    "change",
    [
        "hub.bootstrap_servers=other:9092",
        "hub.producer.linger.ms=7",
        "hub.kafka.ssl.key.password=geheim",
        "checkpoint.history=9d",
        "checkpoint.storage_options.secret=geheim",
        "spark.conf.spark.ui.enabled=true",
        "spark.jars=./jars",
        "api.listen=off",
        "topics.quarantine=poison",
    ],
)
def test_what_a_run_is_built_on_waits_for_a_restart_and_holds_up_nothing_else(change: str) -> None:
    before = config("spark.conf.a=b")
    after = config(change, "spark.conf.a=c", "stream.lanes=source", "topics.origin=header")
    taken, waiting = until_restart(before, after)
    assert set(waiting) == {change.partition("=")[0], "spark.conf.a"}
    found = plan_reload(before, taken)
    assert (found.refused, set(found.keys)) == ((), {"stream.lanes", "topics.origin"})
    assert plan_reload(before, until_restart(taken, before)[0]) == Reload()
    assert until_restart(taken, after) == (taken, waiting)
    assert "geheim" not in str((waiting, found))


@pytest.mark.parametrize("change", ["name=other", "checkpoint.path=./elsewhere"])
def test_the_config_of_another_aggregation_is_refused(change: str) -> None:
    taken, waiting = until_restart(config(), config(change, "stream.lanes=source"))
    assert waiting == ()
    assert plan_reload(config(), taken).refused == (change.partition("=")[0],)


def test_sources_come_and_go_and_the_others_stay() -> None:
    more = config("sources.ap.bootstrap_servers=ap:9092", "sources.ap.topics.include=x")
    found = plan_reload(config(), more)
    assert (found.keys, found.added, found.leaving(config())) == (
        ("sources.ap",),
        ("ap",),
        frozenset(),
    )
    back = plan_reload(more, config())
    assert (back.added, back.removed, back.leaving(more)) == ((), ("ap",), frozenset({"ap"}))


def test_only_a_new_connection_ends_the_lanes_of_a_source() -> None:
    topics = plan_reload(
        config(), config("sources.us.topics.include=orders|x", "sources.us.start=latest")
    )
    assert (topics.changed, topics.leaving(config())) == ((), frozenset())
    assert set(topics.keys) == {"sources.us.topics.include", "sources.us.start"}
    for change in (
        "bootstrap_servers=b:1",
        "kafka.client.id=c",
        "consumer.fetch.min.bytes=2",
        "tasks=6",
        # Ids in flight are those of the registry before.
        "schemas.registry=http://other:8081",
    ):
        found = plan_reload(config(), config(f"sources.us.{change}"))
        assert (found.changed, found.leaving(config())) == (("us",), frozenset({"us"}))


def test_a_lane_is_compared_with_its_new_pace_and_need_not_leave() -> None:
    for change in ("max_records_per_second=5", "weight=2", "catch_up_records_per_second=5"):
        found = plan_reload(config(), config(f"sources.us.{change}"))
        assert (found.changed, found.refused) == ((), ())


def test_a_lane_is_not_restarted_for_how_often_positions_are_committed() -> None:
    for change in ("checkpoint_interval=20s", "max_records_per_second=5", "max_bytes_per_second=5"):
        found = plan_reload(config(), config(f"stream.{change}"))
        assert (found.keys, found.refused) == ((f"stream.{change.partition('=')[0]}",), ())
        assert found.leaving(config()) == frozenset()


def test_the_form_of_the_origin_changes_routes_and_ends_no_source() -> None:
    found = plan_reload(config(), config("topics.origin=header"))
    assert (found.keys, found.refused, found.every_lane) == (("topics.origin",), (), False)
    assert found.leaving(config()) == frozenset()


def test_what_decides_which_lanes_there_are_ends_all_of_them() -> None:
    found = plan_reload(config(), config("stream.lanes=source"))
    assert found.refused == ()
    assert found.leaving(config()) == {"eu", "us"}


def test_no_value_is_shown_as_it_may_be_a_secret() -> None:
    found = plan_reload(config(), config("sources.us.kafka.ssl.key.password=geheim"))
    assert "geheim" not in str(found)


PASSWORD = "sources.us.kafka.ssl.keystore.password=p"


def with_file(tmp_path: Path, content: str, setting: str) -> Config:
    """The config with a file that a setting names, and that holds this now."""
    (tmp_path / "store").write_text(content)
    return config(f"{setting}={tmp_path / 'store'}", PASSWORD)


@pytest.mark.parametrize("name", ["keystore", "truststore"])
def test_a_file_that_holds_something_else_is_another_connection(name: str, tmp_path: Path) -> None:
    setting = f"sources.us.kafka.ssl.{name}.location"
    before = with_file(tmp_path, "a", setting)
    assert plan_reload(before, with_file(tmp_path, "a", setting)) == Reload()
    found = plan_reload(before, with_file(tmp_path, "b", setting))
    assert (found.keys, found.refused, found.changed) == ((setting,), (), ("us",))
    assert found.leaving(before) == {"us"}
    (tmp_path / "store").unlink()
    gone = config(f"{setting}={tmp_path / 'store'}", PASSWORD)
    assert plan_reload(before, gone).changed == ("us",)


def test_a_keytab_is_a_file_as_well(tmp_path: Path) -> None:
    def at(content: str) -> Config:
        (tmp_path / "k").write_text(content)
        login = f'a.B required keyTab="{tmp_path / "k"}" principal="me";'
        return config(f"sources.us.kafka.sasl.jaas.config={login}")

    assert plan_reload(at("a"), at("b")).changed == ("us",)


def test_a_store_of_the_hub_with_another_password_waits_as_the_password_does(
    tmp_path: Path,
) -> None:
    setting, password = "hub.kafka.ssl.keystore.location", "hub.kafka.ssl.keystore.password"

    def at(content: str, *sets: str) -> Config:
        (tmp_path / "store").write_text(content)
        return config(f"{setting}={tmp_path / 'store'}", *sets)

    before, after = at("a", f"{password}=1"), at("b", f"{password}=2", "sources.us.tasks=2")
    taken, waiting = until_restart(before, after)
    assert waiting == (password,)
    assert plan_reload(before, taken).leaving(before) == {"us"}
    taken, waiting = until_restart(before, at("b", f"{password}=1", "hub.producer.linger.ms=7"))
    assert waiting == ("hub.producer.linger.ms",)
    assert plan_reload(before, taken).leaving(before) == {"eu", "us"}


def test_files_of_the_hub_restart_every_lane_and_are_not_refused(tmp_path: Path) -> None:
    setting = "hub.kafka.ssl.truststore.location"
    before = with_file(tmp_path, "a", setting)
    found = plan_reload(before, with_file(tmp_path, "b", setting))
    assert (found.keys, found.refused, found.changed) == ((setting,), (), ())
    assert found.leaving(before) == {"eu", "us"}


REGISTRIES = (
    "hub.schemas.registry=http://hub:8081",
    "sources.eu.schemas.registry=http://eu:8081",
)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("pass", "translate", "ids of the registry of the hub, and what is there of eu"),
        ("check", "translate", "ids of the registry of the hub, and what is there of eu"),
        ("translate", "check", "ids of the registry of eu, and what is there of the hub"),
        ("pass", "check", ""),
        ("translate", "translate", ""),
    ],
)
def test_ids_of_another_registry_behind_those_of_before_are_noted(
    before: SchemaMode, after: SchemaMode, words: str
) -> None:
    old = config(*REGISTRIES, f"topics.overrides.all.schemas={before}")
    # us has no registry, and ap is new.
    routes = [
        Route("eu", "orders", "all", 1, 1, schemas=after),
        Route("us", "orders", "all", 1, 1),
        Route("ap", "orders", "all", 1, 1, schemas=after),
    ]
    notes = id_notes(old, routes, {"all"})
    assert (len(notes), all(words in it for it in notes)) == (int(bool(words)), True)
    # Where the hub has no topic, nothing is there of before.
    assert id_notes(old, routes, {"other"}) == ()


def test_a_registry_that_a_source_gets_makes_its_records_translated_as_well() -> None:
    us = "sources.us.schemas.registry=http://us:8081"
    old = config(REGISTRIES[0], us, "topics.schemas=translate")
    routes = [Route("eu", "orders", "all", 1, 1, schemas="translate")]
    assert len(id_notes(old, routes, {"all"})) == 1
