"""What programs for Kafka Connect ask, in their order, and what each of them reads of an answer.

Written down from the sources of kcctl 1.0.0.CR4 (`KafkaConnectApi` and its commands), of Kafbat UI
1.5.0 (`kafka-connect-api.yaml`, `KafkaConnectService`) and of AKHQ in 2025 (`ConnectRepository`). A
field that a program does not read may be there; an enum of Kafbat's has no other value.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from aggregator.features.connectors.config_keys import CLASSES
from support.played import ALIAS, CONNECTOR, WRITE, PlayedApi, played_api
from support.rest import ask

LOGIN = {"authorization": "Basic " + base64.b64encode(f"anybody:{WRITE}".encode()).decode()}


@dataclass(frozen=True)
class OneOf:
    """One of these values, or of these shapes."""

    shapes: tuple[Any, ...]


@dataclass(frozen=True)
class Each:
    """A map with any keys, whose values have this shape."""

    shape: Any


def one_of(*shapes: Any) -> OneOf:
    return OneOf(shapes)


def misfit(shape: Any, value: Any, path: str = "") -> str:
    """Where a value is not of a shape; "" when it is."""
    if isinstance(shape, OneOf):
        tried = [misfit(each, value, path) for each in shape.shapes]
        return "" if "" in tried else f"{path}: {value!r} is none of {shape.shapes}"
    if isinstance(shape, Each):
        shape = dict.fromkeys(value, shape.shape) if isinstance(value, Mapping) else {}
    if isinstance(shape, dict):
        if not isinstance(value, Mapping):
            return f"{path}: {value!r} is no map"
        found = (misfit(it, value.get(key), f"{path}.{key}") for key, it in shape.items())
    elif isinstance(shape, list):
        if not isinstance(value, list):
            return f"{path}: {value!r} is no list"
        found = (misfit(shape[0], it, f"{path}[{at}]") for at, it in enumerate(value))
    elif isinstance(shape, type):
        # True is an int only to Python.
        return "" if type(value) is shape else f"{path}: {value!r} is no {shape.__name__}"
    else:
        return "" if value == shape else f"{path}: {value!r} is not {shape!r}"
    return next((it for it in found if it), "")


WORKER = {"version": "4.0.0", "commit": str, "kafka_cluster_id": str}
STATE = one_of("RUNNING", "FAILED", "PAUSED", "RESTARTING", "UNASSIGNED")
TASK = {"id": int, "state": STATE, "worker_id": str, "trace": one_of(str, None)}
STATUS = {
    "name": str,
    "type": "source",
    "connector": {"state": one_of(STATE, "STOPPED"), "worker_id": str},
    "tasks": [TASK],
}
TASK_ID = {"connector": str, "task": int}
INFO = {"name": str, "type": "source", "config": Each(str), "tasks": [TASK_ID]}
DEFINITION = {
    "name": str,
    "type": one_of("BOOLEAN", "CLASS", "DOUBLE", "INT", "LIST", "LONG", "PASSWORD", "STRING"),
    "required": bool,
    "default_value": one_of(str, None),
    "importance": one_of("LOW", "MEDIUM", "HIGH"),
    "documentation": str,
    "group": str,
    "width": one_of("SHORT", "MEDIUM", "LONG", "NONE"),
    "display_name": str,
    "dependents": [str],
    "order": int,
}
CHECKED = {
    "name": str,
    "error_count": int,
    "groups": [str],
    "configs": [
        {
            "definition": DEFINITION,
            "value": {
                "name": str,
                "value": one_of(str, None),
                "recommended_values": [str],
                "errors": [str],
                "visible": bool,
            },
        }
    ],
}
PLUGINS = [{"class": str, "type": "source", "version": str}]
OFFSETS = {"offsets": [{"partition": dict, "offset": {"offset": int}}]}
ERROR = {"error_code": int, "message": str}
LEVEL = {"level": str, "last_modified": one_of(int, None)}

NEW = "new"
NEW_BODY = {"name": NEW, "config": {"connector.class": CLASSES[-1], **CONNECTOR}}
GETS_PLUGINS = {"connector.class": CLASSES[0], "topics": "getPlugins"}
PATCHED = {
    "offsets": [
        {
            "partition": {"cluster": ALIAS, "partition": 0, "topic": "t0"},
            "offset": {"offset": 7},
        }
    ]
}

Exchange = tuple[str, str, int, Any] | tuple[str, str, int, Any, Any]
"""Method, path, code and shape of the answer (None: empty), and what is sent."""

KCCTL: list[Exchange] = [
    ("GET", "/", 200, WORKER),
    ("GET", "/connectors?expand=info&expand=status", 200, Each({"status": STATUS, "info": INFO})),
    ("GET", "/connector-plugins?connectorsOnly=false", 200, PLUGINS),
    ("GET", f"/connector-plugins/{CLASSES[0]}/config", 200, [DEFINITION]),
    ("PUT", f"/connector-plugins/{CLASSES[0]}/config/validate", 200, CHECKED, CONNECTOR),
    # Its interface has this path with a slash, and it follows no redirect.
    ("GET", "/connectors/", 200, [str]),
    ("POST", "/connectors/", 201, INFO, NEW_BODY),
    ("PUT", f"/connectors/{NEW}/config", 200, INFO, NEW_BODY["config"]),
    ("GET", f"/connectors/{ALIAS}", 200, INFO),
    ("GET", f"/connectors/{ALIAS}/status", 200, STATUS),
    ("GET", f"/connectors/{ALIAS}/config", 200, Each(str)),
    ("GET", f"/connectors/{ALIAS}/tasks", 200, [{"id": TASK_ID, "config": Each(str)}]),
    ("GET", f"/connectors/{ALIAS}/topics", 200, {ALIAS: {"topics": [str]}}),
    ("POST", f"/connectors/{ALIAS}/restart", 204, None),
    (
        "POST",
        f"/connectors/{ALIAS}/restart?includeTasks=true&onlyFailed=false",
        202,
        # It counts these.
        {**STATUS, "tasks": [{**TASK, "state": "RESTARTING"}]},
    ),
    ("POST", f"/connectors/{ALIAS}/restart?includeTasks=true&onlyFailed=true", 202, STATUS),
    ("POST", f"/connectors/{ALIAS}/tasks/0/restart", 204, None),
    ("PUT", f"/connectors/{ALIAS}/pause", 202, None),
    ("PUT", f"/connectors/{ALIAS}/resume", 202, None),
    ("GET", f"/connectors/{ALIAS}/offsets", 200, OFFSETS),
    ("PATCH", f"/connectors/{ALIAS}/offsets", 400, ERROR, PATCHED),
    ("DELETE", f"/connectors/{ALIAS}/offsets", 400, ERROR),
    ("PUT", f"/connectors/{ALIAS}/stop", 204, None),
    ("GET", f"/connectors/{ALIAS}/status", 200, {**STATUS, "connector": {"state": "STOPPED"}}),
    ("GET", "/admin/loggers", 200, Each(LEVEL)),
    ("GET", "/admin/loggers/root", 200, LEVEL),
    ("PUT", "/admin/loggers/root", 200, [str], {"level": "INFO"}),
    ("PUT", "/admin/loggers/root?scope=cluster", 204, None, {"level": "INFO"}),
    ("DELETE", f"/connectors/{NEW}", 204, None),
    ("GET", f"/connectors/{NEW}", 404, ERROR),
]
KAFBAT: list[Exchange] = [
    ("GET", "/", 200, WORKER),
    ("GET", "/connectors?expand=info&expand=status", 200, Each({"status": STATUS, "info": INFO})),
    ("POST", "/connectors", 201, INFO, NEW_BODY),
    ("GET", f"/connectors/{NEW}", 200, INFO),
    ("GET", f"/connectors/{NEW}/topics", 200, {NEW: {"topics": [str]}}),
    ("GET", f"/connectors/{NEW}/status", 200, STATUS),
    ("GET", f"/connectors/{ALIAS}/config", 200, Each(str)),
    ("PUT", f"/connectors/{NEW}/config", 200, INFO, NEW_BODY["config"]),
    # To restart all tasks, or those that have failed, it asks for each.
    ("GET", f"/connectors/{ALIAS}/tasks", 200, [{"id": TASK_ID, "config": Each(str)}]),
    ("GET", f"/connectors/{ALIAS}/tasks/0/status", 200, TASK),
    ("POST", f"/connectors/{ALIAS}/tasks/0/restart", 204, None),
    ("POST", f"/connectors/{ALIAS}/restart?includeTasks=false&onlyFailed=false", 204, None),
    ("PUT", f"/connectors/{ALIAS}/pause", 202, None),
    ("PUT", f"/connectors/{ALIAS}/resume", 202, None),
    ("DELETE", f"/connectors/{ALIAS}/offsets", 400, ERROR),
    ("PUT", f"/connectors/{ALIAS}/stop", 204, None),
    ("GET", "/connector-plugins", 200, PLUGINS),
    ("PUT", f"/connector-plugins/{CLASSES[0]}/config/validate", 200, CHECKED, CONNECTOR),
    ("DELETE", f"/connectors/{NEW}", 204, None),
    ("GET", f"/connectors/{NEW}/status", 404, ERROR),
]
AKHQ: list[Exchange] = [
    ("GET", "/connectors?expand=info&expand=status", 200, Each({"status": STATUS, "info": INFO})),
    ("GET", "/connector-plugins", 200, PLUGINS),
    # For the form of each plugin it has a config checked that is none.
    *(
        (
            "PUT",
            f"/connector-plugins/{name}/config/validate",
            200,
            CHECKED,
            {**GETS_PLUGINS, "connector.class": name},
        )
        for name in CLASSES
    ),
    ("POST", "/connectors", 201, INFO, NEW_BODY),
    ("GET", f"/connectors/{NEW}", 200, INFO),
    ("GET", f"/connectors/{NEW}/status", 200, STATUS),
    ("PUT", f"/connectors/{NEW}/config", 200, INFO, NEW_BODY["config"]),
    ("PUT", f"/connectors/{ALIAS}/pause", 202, None),
    ("PUT", f"/connectors/{ALIAS}/resume", 202, None),
    ("POST", f"/connectors/{ALIAS}/restart", 204, None),
    ("POST", f"/connectors/{ALIAS}/tasks/0/restart", 204, None),
    ("DELETE", f"/connectors/{NEW}", 204, None),
]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayedApi]:
    with played_api(tmp_path_factory.mktemp("exchanges") / "state") as api:
        yield api


@pytest.mark.parametrize("program", [KCCTL, KAFBAT, AKHQ], ids=["kcctl", "kafbat", "akhq"])
def test_a_program_reads_every_answer_to_what_it_asks(
    api: PlayedApi, program: list[Exchange]
) -> None:
    api.as_it_began()
    for method, path, code, shape, *sent in program:
        found, answer = ask(method, api.url + path, sent[0] if sent else None, LOGIN)
        assert found == code, (method, path, answer)
        assert misfit(shape, answer) == "", (method, path)
        if isinstance(answer, dict) and ALIAS in answer and "info" in answer[ALIAS]:
            # A task that only one of the two has is none to AKHQ, and an error to Kafbat.
            one = answer[ALIAS]
            ids = [it["task"] for it in one["info"]["tasks"]]
            assert ids == [it["id"] for it in one["status"]["tasks"]] == [0]


def test_a_script_that_restarts_what_has_failed_ends_no_lane(api: PlayedApi) -> None:
    """As many run by cron: what waits for a person is looked at again, and the rest flows on."""
    api.as_it_began()
    _, reply = ask("GET", f"{api.url}/connectors?expand=status", headers=LOGIN)
    (task,) = reply[ALIAS]["status"]["tasks"]
    assert (task["state"], task["trace"]) == ("FAILED", "t0-0: QUARANTINED")
    one = f"{api.url}/connectors/{ALIAS}"
    assert ask("POST", f"{one}/tasks/0/restart", headers=LOGIN)[0] == 204
    code, reply = ask("POST", f"{one}/restart?includeTasks=true&onlyFailed=true", headers=LOGIN)
    assert (code, reply["tasks"][0]["state"]) == (202, "RESTARTING")
    assert api.engine.calls == ["request discovery", "publish"] * 2
