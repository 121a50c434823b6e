"""The API at random, by its own description: nothing breaks it, and all is as it is described."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from aggregator.api.app import CALLS
from aggregator.features.connectors.config_keys import CLASSES, CLIENTS, OWN
from aggregator.features.connectors.to_source import KNOWN, OWN_KEYS
from support.played import ALIAS, CONNECTOR, READ, WRITE, PlayedApi, bearer, played_api
from support.rest import ask

# Hundreds of calls for each path of the API.
pytestmark = pytest.mark.slow

CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 8
"""For each call, beside those that its description asks for; each is sent twice."""
CONFIG = schemathesis.Config.from_dict(
    {
        "seed": 1,
        "generation": {
            "deterministic": True,
            "database": "none",
            "max-examples": EXAMPLES,
            "no-shrink": True,
        },
    }
)
FIXED = settings(derandomize=True, database=None, suppress_health_check=[*HealthCheck])
NO_ANSWER = 502
"""Of what asks the hub, which is not there."""
OPEN = ("/health", "/alive")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayedApi]:
    with played_api(tmp_path_factory.mktemp("fuzz") / "state") as api:
        yield api


description = schemathesis.openapi.from_dict(CALLS.openapi(), config=CONFIG)


def aim(case: schemathesis.Case[Any]) -> bool:
    """Let a call be for what there is; False when it names nothing."""
    there: dict[str, Any] = {
        "name": ALIAS,
        "alias": ALIAS,
        "plugin": CLASSES[0],
        "logger": "root",
        "number": 0,
    }
    there["topic"] = "hub.t0"
    for name in case.path_parameters:
        case.path_parameters[name] = there[name]
    return bool(case.path_parameters)


@description.parametrize()
def test_every_answer_is_as_it_is_described(case: schemathesis.Case[Any], api: PlayedApi) -> None:
    for _ in range(2):
        api.as_it_began()
        response = case.call(api.url, headers=bearer(WRITE))
        assert response.status_code < 500 or response.status_code == NO_ANSWER, response.text
        case.validate_response(response, checks=CHECKS)
        if not aim(case):
            break


@pytest.mark.parametrize("token", ["", READ], ids=["no token", "the token to read"])
def test_without_the_token_to_write_nothing_changes(api: PlayedApi, token: str) -> None:
    api.as_it_began()
    before = sorted(api.state.rglob("*"))
    level = api.control.log_level
    asked = 0
    for result in description.get_all_operations():
        operation = result.ok()  # type: ignore[union-attr]

        @settings(FIXED, max_examples=4)
        @given(case=operation.as_strategy())
        def check(case: schemathesis.Case[Any]) -> None:
            nonlocal asked
            aim(case)
            code = case.call(api.url, headers=bearer(token) if token else {}).status_code
            if case.method == "GET":
                assert token or case.path in OPEN or code == 401
            else:
                asked += 1
                assert code in ((401,) if not token else (400, 403, 415)) or "validate" in case.path

        check()
    assert asked > 50
    assert api.engine.calls == []
    assert api.control.config is api.config and not api.control.paused
    assert level.changed is None
    assert sorted(api.state.rglob("*")) == before


KEYS = (*KNOWN, *(OWN + it for it in OWN_KEYS), *(it + "sasl.jaas.config" for it in CLIENTS))
VALUES = st.one_of(
    st.sampled_from(
        [
            *(
                "²",
                "0",
                "1" * 5000,
                "-1",
                "1.5",
                "*",
                "a{4294967296}",
                "(" * 500,
                "a:99999",
                "[::1",
            ),
            *(
                "${env:NOBODY}",
                "${file:/nowhere}",
                "${file:\0}",
                "${file:" + "x" * 300 + ":y}",
                "${",
            ),
            *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "9" * 30, "latest"),
            *("\0", "\ud800", "a\nb", "earliest", "${topic}", "true", "ByteArrayConverter"),
        ]
    ),
    st.text(max_size=20),
    st.integers(),
    st.booleans(),
    st.floats(allow_nan=False),
    st.none(),
    st.lists(st.text(max_size=3), max_size=2),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
)
CONFIGS = st.dictionaries(
    st.one_of(st.sampled_from(KEYS), st.text(max_size=20)), VALUES, max_size=3
)


@pytest.mark.filterwarnings("ignore:Possible (nested set|set):FutureWarning")
def test_a_config_is_taken_or_refused_whatever_it_says(api: PlayedApi) -> None:
    taken = 0

    @settings(FIXED, max_examples=50)
    @given(CONFIGS)
    def check(more: dict[str, Any]) -> None:
        nonlocal taken
        config = {**CONNECTOR, **more}
        plugin = f"/connector-plugins/{CLASSES[0]}/config/validate"
        for method, path, body, codes in (
            ("PUT", plugin, config, {200, 400}),
            ("PUT", "/connectors/us/config", config, {201, 400}),
            ("PATCH", f"/connectors/{ALIAS}/config", more, {200, 400}),
            ("POST", "/connectors", {"name": "asia", "config": config}, {201, 400}),
            ("PUT", "/api/sources/africa", {"config": config}, {200, 400}),
        ):
            code, answer = ask(method, api.url + path, body, bearer(WRITE))
            assert code in codes, (method, path, answer)
        for name in ask("GET", f"{api.url}/connectors", None, bearer(WRITE))[1]:
            assert ask("GET", f"{api.url}/connectors/{name}", None, bearer(WRITE))[0] == 200
            taken += name != ALIAS
        api.as_it_began()

    check()
    assert taken > 10


NUMBERS: st.SearchStrategy[Any] = st.one_of(
    st.integers(), st.sampled_from([0, 2**63, 10**30, "1", "x", None, True, 1.5, []])
)
ROWS = st.fixed_dictionaries(
    {
        "partition": st.fixed_dictionaries(
            {
                "cluster": st.just(ALIAS),
                "partition": NUMBERS,
                "topic": st.one_of(st.text(max_size=5), st.sampled_from(["t0", 5, None, "\ud800"])),
            }
        ),
        "offset": st.one_of(st.none(), NUMBERS, st.fixed_dictionaries({"offset": NUMBERS})),
    }
)


def test_offsets_are_taken_or_refused_whatever_they_are(api: PlayedApi) -> None:
    api.as_it_began()
    assert ask("PUT", f"{api.url}/connectors/{ALIAS}/stop", None, bearer(WRITE))[0] == 204

    @settings(FIXED, max_examples=80)
    @given(st.lists(ROWS, max_size=2))
    def check(rows: list[dict[str, Any]]) -> None:
        path = f"{api.url}/connectors/{ALIAS}/offsets"
        code, answer = ask("PATCH", path, {"offsets": rows}, bearer(WRITE))
        assert code in (400, NO_ANSWER), (rows, answer)

    check()


@pytest.mark.parametrize(
    "header",
    [{"origin": "http://["}, {"host": "["}, {"origin": "null"}, {"authorization": "Basic \xe9"}],
)
def test_headers_that_are_none_are_refused(api: PlayedApi, header: dict[str, str]) -> None:
    path = f"{api.url}/api/sources/{ALIAS}/pause"
    code, answer = ask("PUT", path, None, {**bearer(WRITE), **header})
    assert code in (200, 400, 401, 403), answer
