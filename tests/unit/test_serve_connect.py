"""Connect's REST over the real API; the engine is played (tests/support/rest.py)."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from aggregator.api.connector_settings import MOST_KEYS
from aggregator.api.connectors import MOST_NOTES, MOST_PATTERN, _notes_of
from aggregator.config import load_text
from aggregator.config.in_force import InForce
from aggregator.config.schema import Config
from aggregator.engine.control.commands import Control
from aggregator.features.connectors.config_keys import CLASSES
from aggregator.features.connectors.to_source import translate
from aggregator.status.command_answers import ReloadReport
from support.played import CONNECTOR, READ, WRITE, bearer, played_api
from support.rest import SETS, PlayedEngine, ask
from support.serving import app_over, served


@pytest.fixture
def control(tmp_path: Path) -> Control:
    sets = [
        *SETS,
        "sources.eu.rename=${topic}.replica",
        'sources.eu.kafka.sasl.jaas.config=a.b required username="u" password="geheim";',
        f"checkpoint.path={tmp_path / 'state'}",
    ]

    return Control(load_text("", sets), lambda added: load_text("", sets, added=added))


@pytest.fixture
def engine(control: Control) -> Iterator[PlayedEngine]:
    engine = PlayedEngine(control)
    yield engine
    engine.stop()


@pytest.fixture
def url(control: Control, engine: PlayedEngine) -> Iterator[str]:
    with served(app_over(control)) as server:
        yield server.url


def test_a_source_of_the_yaml_is_a_connector_without_its_secrets(url: str) -> None:
    assert ask("GET", f"{url}/connectors") == (200, ["eu"])
    code, reply = ask("GET", f"{url}/connectors/eu")
    assert (code, reply["name"], reply["type"], reply["tasks"]) == (200, "eu", "source", [])
    assert reply["config"] == {
        "name": "eu",
        "connector.class": "aggregator.SourceConnector",
        "tasks.max": "1",
        "src.kafka.bootstrap.servers": "127.0.0.1:10",
        "topics": "orders",
        "topic.rename.format": "${topic}.replica",
        "src.consumer.auto.offset.reset": "earliest",
        "src.kafka.sasl.jaas.config": "********",
    }
    assert ask("GET", f"{url}/connectors/eu/config") == (200, reply["config"])
    code, both = ask("GET", f"{url}/connectors?expand=status&expand=info&expand=other")
    assert code == 200
    assert both["eu"]["info"] == reply
    assert both["eu"]["status"]["connector"]["state"] == "UNASSIGNED"


class Removing(InForce):
    """A config in force of which a source is removed after it was read a number of times."""

    def __init__(self, before: Config, after: Config, reads: int) -> None:
        self._before, self._after, self._reads = before, after, reads

    @property
    def config(self) -> Config:  # type: ignore[override]
        self._reads -= 1
        return self._before if self._reads >= 0 else self._after


def test_one_that_is_removed_while_all_are_listed_is_no_error(tmp_path: Path) -> None:
    sets = [*SETS, f"checkpoint.path={tmp_path}", "sources.us.bootstrap_servers=127.0.0.1:11"]
    both = load_text("", [*sets, "sources.us.topics.include=a"])
    one = both.model_copy(update={"sources": {"eu": both.sources["eu"]}})
    control = Control(both)
    with served(app_over(control)) as server:
        for reads in range(8):
            control.in_force = Removing(both, one, reads)
            code, reply = ask("GET", f"{server.url}/connectors?expand=status&expand=info")
            assert code == 200 and [*reply] in (["eu", "us"], ["eu"]), reply


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/config",
        "/status",
        "/tasks",
        "/tasks/0/status",
        "/topics",
        "/offsets",
    ],
)
def test_an_unknown_connector_is_reported_as_connect_reports_it(url: str, path: str) -> None:
    answer = {"error_code": 404, "message": "Connector us not found"}
    assert ask("GET", f"{url}/connectors/us{path}") == (404, answer)


def test_an_unknown_connector_cannot_be_commanded(url: str, engine: PlayedEngine) -> None:
    asked = [
        ("PUT", "pause"),
        ("PUT", "resume"),
        ("PUT", "stop"),
        ("POST", "restart"),
        ("PUT", "topics/reset"),
    ]
    for method, path in asked:
        assert ask(method, f"{url}/connectors/us/{path}")[0] == 404
    assert ask("DELETE", f"{url}/connectors/us")[0] == 404
    assert engine.calls == []


def test_pause_stop_and_resume_are_kept_and_may_be_said_twice(
    url: str, engine: PlayedEngine, control: Control
) -> None:
    for _ in range(2):
        with urlopen(Request(f"{url}/connectors/eu/pause", method="PUT"), timeout=60) as answer:
            # No body at all: a null would be one.
            assert (answer.status, answer.read()) == (202, b"")
        assert "eu" in control.paused and not control.stopped
    for _ in range(2):
        assert ask("PUT", f"{url}/connectors/eu/stop") == (204, None)
        assert control.stopped == {"eu"}
    code, reply = ask("GET", f"{url}/connectors/eu/status")
    assert (code, reply["connector"]["state"], reply["tasks"]) == (200, "STOPPED", [])
    again = Control(control.config)
    again.load()
    assert again.stopped == {"eu"}
    assert again.paused == control.paused
    assert control.paused["eu"].by == "REST from 127.0.0.1"
    for _ in range(2):
        assert ask("PUT", f"{url}/connectors/eu/resume") == (202, None)
        assert not control.paused and not control.stopped


def test_offsets_are_set_of_a_stopped_connector_alone(url: str, engine: PlayedEngine) -> None:
    for method, body in (("PATCH", {"offsets": []}), ("DELETE", None)):
        code, reply = ask(method, f"{url}/connectors/eu/offsets", body)
        assert code == 400
        assert reply["message"].startswith("Connectors must be in the STOPPED state before")
    assert ask("PUT", f"{url}/connectors/eu/stop")[0] == 204
    code, reply = ask("PATCH", f"{url}/connectors/eu/offsets", {"offsets": []})
    assert (code, reply["message"]) == (400, "offsets is empty")


def test_topics_that_are_forgotten_are_listed_as_before(url: str) -> None:
    before = ask("GET", f"{url}/connectors/eu/topics")
    assert ask("PUT", f"{url}/connectors/eu/topics/reset") == (202, None)
    assert ask("GET", f"{url}/connectors/eu/topics") == before


def test_restart_lets_the_lanes_end_and_start_again(url: str, engine: PlayedEngine) -> None:
    assert ask("POST", f"{url}/connectors/eu/restart") == (204, None)
    assert engine.calls == ["leave ['eu']", "request discovery", "publish"]
    engine.calls.clear()
    code, reply = ask("POST", f"{url}/connectors/eu/restart?includeTasks=true&onlyFailed=true")
    assert (code, reply["name"]) == (202, "eu")
    assert engine.calls == []
    assert ask("POST", f"{url}/connectors/eu/tasks/0/restart")[0] == 404


def test_a_config_that_is_not_right_is_reported_whole_and_changes_nothing(
    url: str, engine: PlayedEngine, control: Control
) -> None:
    config = {"transforms": "x", "src.kafka.bootstrap.servers": "a", "topics": "("}
    code, reply = ask("POST", f"{url}/connectors", {"name": "us", "config": config})
    assert code == 400
    assert "contains the following 1 error(s):\ntransforms: " in reply["message"]
    del config["transforms"]
    code, reply = ask("PUT", f"{url}/connectors/us/config", config)
    assert code == 400
    # By the keys of the connector, not by ours.
    assert "\nsrc.kafka.bootstrap.servers: 'a' is not host:port" in reply["message"]
    assert "\ntopics: '(' " in reply["message"]
    assert engine.calls == [] and list(control.config.sources) == ["eu"]


def test_a_secret_is_not_kept_as_it_is_given(url: str, engine: PlayedEngine) -> None:
    code, reply = ask("PATCH", f"{url}/connectors/eu/config", {"tasks.max": 2})
    assert code == 400
    # The one in the YAML, too: it came back masked.
    assert "src.kafka.sasl.jaas.config: holds a secret" in reply["message"]
    assert "geheim" not in reply["message"]


def test_what_exists_is_a_conflict(url: str) -> None:
    code, reply = ask("POST", f"{url}/connectors", {"name": "eu", "config": {}})
    assert (code, reply["message"]) == (409, "Connector eu already exists")
    body = {"name": "us", "config": {}, "initial_state": "ASLEEP"}
    code, reply = ask("POST", f"{url}/connectors", body)
    assert (code, "RUNNING, PAUSED, STOPPED" in reply["message"]) == (400, True)


def test_a_hub_that_does_not_answer_is_reported_and_nothing_is_kept(
    url: str, control: Control
) -> None:
    config = {"src.kafka.bootstrap.servers": "127.0.0.1:11", "topics": "a"}
    code, reply = ask("POST", f"{url}/connectors", {"name": "us", "config": config})
    assert code == 502 and "hub" in reply["message"]
    assert list(control.config.sources) == ["eu"]


def test_what_does_not_exist_is_reported_in_the_same_form(url: str) -> None:
    answer = {"error_code": 404, "message": "Not Found"}
    assert ask("GET", f"{url}/connectors/eu/tasks-config") == (404, answer)
    assert ask("DELETE", f"{url}/connectors") == (
        405,
        {"error_code": 405, "message": "Method Not Allowed"},
    )
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(f"{url}/connectors", method="DELETE"))
    with refused.value:
        assert refused.value.headers["allow"] == "GET"


@pytest.mark.parametrize(
    "config", [{"topics": ["a"]}, {"topics": {"a": "b"}}, {"topics": "\ud800"}, {"\ud800": "a"}]
)
def test_a_value_that_is_no_text_is_refused(
    url: str, engine: PlayedEngine, config: dict[str, Any]
) -> None:
    for method, path, body in (
        ("PUT", "/connectors/us/config", config),
        ("PATCH", "/connectors/eu/config", config),
        ("POST", "/connectors", {"name": "us", "config": config}),
        ("PUT", f"/connector-plugins/{CLASSES[0]}/config/validate", config),
    ):
        code, reply = ask(method, url + path, body)
        assert code == 400, reply
        assert re.search("valid string|half of a character", reply["message"]), reply
    assert engine.calls == []


def test_a_secret_that_has_to_be_checked_is_not_shown_again(url: str) -> None:
    path = f"{url}/connector-plugins/{CLASSES[0]}/config/validate"
    code, reply = ask("PUT", path, {"src.kafka.ssl.key.password": "geheim"})
    assert code == 200 and "holds a secret" in str(reply)
    assert "geheim" not in str(reply)


def test_a_config_of_too_many_keys_is_refused(url: str) -> None:
    path = f"{url}/connector-plugins/{CLASSES[0]}/config/validate"
    code, reply = ask("PUT", path, {f"key{it}": "x" for it in range(MOST_KEYS + 1)})
    assert (code, "1,000 are the most" in reply["message"]) == (400, True)


def test_of_two_who_change_other_keys_at_once_neither_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with played_api(tmp_path / "state") as api, ThreadPoolExecutor(2) as pool:
        path, token = f"{api.url}/connectors/us/config", bearer(WRITE)
        assert ask("PUT", path, CONNECTOR, token)[0] == 201
        begun, proceed = threading.Event(), threading.Event()
        change = api.control.change_source

        def slowly(*given: Any, **named: Any) -> ReloadReport:
            begun.set()
            assert proceed.wait(60)
            return change(*given, **named)

        monkeypatch.setattr(api.control, "change_source", slowly)
        one = pool.submit(ask, "PATCH", path, {"aggregator.title": "US"}, token)
        try:
            assert begun.wait(60)
            other = pool.submit(ask, "PATCH", path, {"aggregator.weight": 2}, token)
            # Long enough to read what is there, if it did not wait.
            with suppress(TimeoutError):
                other.result(0.5)
        finally:
            proceed.set()
        assert (one.result()[0], other.result()[0]) == (200, 200)
        config = ask("GET", path, None, token)[1]
        assert (config["aggregator.title"], config["aggregator.weight"]) == ("US", "2")


def test_a_pattern_of_a_request_has_a_limit_and_a_list_of_them_has_none(url: str) -> None:
    path = f"{url}/connector-plugins/{CLASSES[0]}/config/validate"
    config = {"src.kafka.bootstrap.servers": "us:1", "topics": "a" * MOST_PATTERN}
    assert ask("PUT", path, config)[1]["error_count"] == 0
    many = ",".join(f"topic-{it}" for it in range(2_000))
    assert ask("PUT", path, {**config, "topics": many})[1]["error_count"] == 0
    for key in ("topics", "aggregator.groups.sync"):
        code, reply = ask("PUT", path, {**config, key: f"b,{'a' * (MOST_PATTERN + 1)}"})
        assert code == 200
        (wrong,) = [it["value"] for it in reply["configs"] if it["value"]["errors"]]
        assert wrong["name"] == key and "more than 10,000 characters" in str(wrong["errors"])
    config["topics"] = many.replace(",", "|")
    code, reply = ask("PUT", f"{url}/connectors/us/config", config)
    assert (code, "topics: has a pattern of more than" in reply["message"]) == (400, True)


def test_what_has_no_effect_is_an_event_of_each_change_that_is_taken(tmp_path: Path) -> None:
    config = {**CONNECTOR, "dest.zookeeper.connect": "dest:2181", "topic.rename.fromat": "x"}
    with played_api(tmp_path / "state") as api:
        path, token = f"{api.url}/connectors/us/config", bearer(WRITE)
        assert ask("PUT", path, {**config, "transforms": "x"}, token)[0] == 400
        assert ask("PUT", path, config, token)[0] == 201
        assert ask("PUT", f"{api.url}/api/sources/us", {"config": config}, token)[0] == 200
        events = ask("GET", f"{api.url}/api/events?source=us", None, bearer(READ))[1]["events"]
    typo = "source us: topic.rename.fromat: is not known; did you mean topic.rename.format?"
    hub = "source us: dest.zookeeper.connect: the hub is that of the aggregation's config"
    shown = [(it["level"], it["kind"], it["message"]) for it in events]
    assert shown == 2 * [("WARN", "connector_warning", typo), ("INFO", "connector_note", hub)]


def test_of_many_notes_those_about_unknown_keys_come_first() -> None:
    some = {"dest.zookeeper.connect": "dest:2181", "src.zookeeper.connect": "source:2181"}
    unknown = {f"vendor.{it}": "x" for it in range(MOST_NOTES - 1)}
    noted = _notes_of("us", translate("us", {**CONNECTOR, **some, **unknown}))
    assert len(noted) == MOST_NOTES + 1
    assert {it.kind for it in noted[:-2]} == {"connector_warning"}
    assert [it.kind for it in noted[-2:]] == 2 * ["connector_note"]
    assert noted[-1].message == "source us: without effect: 1 more"


def test_plugins_and_the_check_of_a_config(url: str) -> None:
    code, reply = ask("GET", f"{url}/connector-plugins?connectorsOnly=true")
    assert code == 200 and [it["class"] for it in reply] == list(CLASSES)
    name = "MirrorSourceConnector"
    code, keys = ask("GET", f"{url}/connector-plugins/{name}/config")
    assert code == 200 and "topics.exclude" in [it["name"] for it in keys]
    path = f"{url}/connector-plugins/{name}/config/validate"
    code, reply = ask("PUT", path, {"connector.class": name, "topics": "a", "tasks.max": 0})
    assert code == 200
    assert reply["name"] == "org.apache.kafka.connect.mirror.MirrorSourceConnector"
    errors = {it["value"]["name"]: it["value"]["errors"] for it in reply["configs"]}
    wrong = {key: found for key, found in errors.items() if found}
    assert reply["error_count"] == 2 == len(wrong)
    assert wrong["tasks.max"] == ["'0' is no number above 0"]
    assert "src.kafka.bootstrap.servers" in wrong
    right = {"topics": "a", "source.cluster.bootstrap.servers": "us:1"}
    assert ask("PUT", path, right)[1]["error_count"] == 0
    code, reply = ask("PUT", path, {**right, "source.cluster.bootstrap.servers": "us"})
    (wrong_at,) = [it["value"] for it in reply["configs"] if it["value"]["errors"]]
    assert wrong_at["name"] == "source.cluster.bootstrap.servers"
    assert ask("PUT", f"{url}/connector-plugins/Jdbc/config/validate", {})[0] == 404


def test_the_level_of_the_log(url: str, control: Control) -> None:
    assert ask("GET", f"{url}/admin/loggers") == (
        200,
        {"root": {"level": "INFO", "last_modified": None}},
    )
    assert ask("PUT", f"{url}/admin/loggers/root", {"level": "warn"}) == (200, ["root"])
    code, reply = ask("GET", f"{url}/admin/loggers/root")
    assert (code, reply["level"], reply["last_modified"] > 0) == (200, "WARN", True)
    assert control.log_level.hides("INFO")
    assert not control.log_level.hides("WARN")
    assert ask("PUT", f"{url}/admin/loggers/root?scope=cluster", {"level": "ERROR"}) == (204, None)
    assert control.log_level.hides("WARN")
    assert ask("PUT", f"{url}/admin/loggers/root", {"level": "LOUD"})[0] == 404
    assert ask("PUT", f"{url}/admin/loggers/other", {"level": "INFO"})[0] == 404
