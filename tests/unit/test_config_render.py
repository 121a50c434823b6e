"""A config written out and read again is the same; its schema and table hold every option."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from aggregator.config import Config, load_text
from aggregator.config.checks import problems
from aggregator.config.render import json_schema, options_table, to_yaml
from aggregator.config.schema import SupervisionConfig
from support.examples import ASCII, examples

ALIASES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,8}", fullmatch=True, alphabet=ASCII)
TOPICS = st.from_regex(r"[A-Za-z0-9._-]{1,12}", fullmatch=True, alphabet=ASCII)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PATTERNS = st.from_regex(r"[a-z.]{1,8}(\[[a-z]\])?", fullmatch=True, alphabet=ASCII)
SECONDS = st.floats(min_value=1, max_value=600, allow_nan=False)
SERVERS = st.sampled_from(["a:1", "b:2,c:3", "[::2]:9092"])
SETTINGS = st.dictionaries(
    st.sampled_from(["client.id", "ssl.keystore.key", "x.y", "${z}"]), TEXT, max_size=3
)


def rules() -> dict[str, st.SearchStrategy[Any]]:
    return {
        "partitions": st.just("source") | st.integers(1, 100_000),
        "replication_factor": st.none() | st.integers(1, 100),
        "create": st.booleans(),
        "grow": st.booleans(),
        "partition_by": st.sampled_from(["key", "source_partition", "round_robin", "cluster"]),
        "transform": st.sampled_from(["", "a.b:c"]),
        "origin": st.sampled_from(["headers", "header"]),
    }


SOURCES = st.fixed_dictionaries(
    {
        "bootstrap_servers": SERVERS,
        "topics": st.fixed_dictionaries(
            {"include": PATTERNS | st.lists(PATTERNS, min_size=1)},
            optional={"exclude": PATTERNS | st.lists(PATTERNS)},
        ),
    },
    optional={
        "kafka": SETTINGS,
        "consumer": SETTINGS,
        "start": st.sampled_from(["earliest", "latest", "2026-01-31T00:00:00.5+02:00"]),
        "rename": st.sampled_from(["${topic}.replica", "${cluster}.${topic}"]),
    },
)
OVERRIDE = st.fixed_dictionaries({}, optional=rules())
CONFIGS = st.fixed_dictionaries(
    {
        "hub": st.fixed_dictionaries(
            {"bootstrap_servers": st.just("hub:1")},
            optional={"kafka": SETTINGS, "known_as": st.lists(TEXT)},
        ),
        "sources": st.dictionaries(ALIASES, SOURCES, min_size=1, max_size=3),
    },
    optional={
        "name": ALIASES,
        "topics": st.fixed_dictionaries(
            {},
            optional={
                **rules(),
                "rename": st.sampled_from(["${topic}", "${cluster}.${topic}.x", "one"]),
                "config_exclude": st.lists(PATTERNS),
                "overrides": st.dictionaries(TOPICS, OVERRIDE, max_size=2),
            },
        ),
        "stream": st.fixed_dictionaries(
            {}, optional={"checkpoint_interval": SECONDS, "lanes": st.just("auto")}
        ),
        "checkpoint": st.fixed_dictionaries(
            {}, optional={"path": TEXT.filter(bool), "storage_options": SETTINGS}
        ),
        "spark": st.fixed_dictionaries({}, optional={"conf": SETTINGS, "jars": st.none() | TEXT}),
        "api": st.sampled_from(
            [
                {},
                {"listen": "off"},
                {"listen": "h:1", "read_token": "$" * 16},
                {"listen": "[::1]:1"},
            ]
        ),
    },
)


@examples(150)
@given(CONFIGS)
@example(
    {
        "hub": {"bootstrap_servers": "h:1", "known_as": ["\x85", "\u2028 ", " a\n\n b \n", "$${"]},
        "sources": {"a": {"bootstrap_servers": "a:1", "topics": {"include": "x"}}},
    }
)
def test_a_config_comes_back_from_its_yaml(data: dict[str, Any]) -> None:
    config = Config.model_validate(data)
    text = to_yaml(config)
    assert problems(config.model_dump()) == []
    assert load_text(text, env={}) == config


def test_the_whole_config_is_written() -> None:
    config = Config.model_validate(
        {
            "hub": {"bootstrap_servers": "h:1"},
            "sources": {"a": {"bootstrap_servers": "a:1", "topics": {"include": "x"}}},
        }
    )
    tree = yaml.safe_load(to_yaml(config))
    assert list(tree) == list(Config.model_fields)
    assert list(tree["supervision"]) == list(SupervisionConfig.model_fields)
    assert tree["topics"]["rename"] == "${topic}"


def test_the_schema_is_self_contained_and_knows_every_group() -> None:
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "Configuration of an aggregation"
    assert schema["required"] == ["hub", "sources"]
    assert list(schema["properties"]) == list(Config.model_fields)
    definitions = schema["$defs"]
    text = json.dumps(schema)
    for name in definitions:
        assert f'"#/$defs/{name}"' in text
    assert all(group["additionalProperties"] is False for group in definitions.values())
    overrides = definitions["TopicsConfig"]["properties"]["overrides"]
    assert overrides["additionalProperties"] == {"$ref": "#/$defs/TopicOverride"}
    interval = definitions["StreamConfig"]["properties"]["checkpoint_interval"]
    assert [branch["type"] for branch in interval["anyOf"]] == ["number", "string"]
    kafka = definitions["SourceConfig"]["properties"]["kafka"]
    assert kafka["additionalProperties"] == {"type": ["string", "number", "boolean"]}


def test_the_table_lists_every_option() -> None:
    rows = {row.path: row for row in options_table()}
    assert all(row.description and row.type and row.default for row in rows.values())
    assert rows["hub"].default == "required"
    assert rows["stream"].default == "its defaults"
    assert rows["sources.<alias>.topics.include"].type == "text or a list of text"
    assert rows["topics.replication_factor"].type == "a whole number from 1 to 100"
    assert rows["topics.overrides.<topic>.grow"].default == "as under topics"
    assert rows["checkpoint.history"].default == "7d"
    assert rows["supervision.connect_timeout"].type == (
        "a duration above 0s and of at most 10m, such as 500ms, 10s or 5m"
    )
    assert rows["api.listen"].default == "127.0.0.1:8083"
    # A group that may be left out as a whole.
    assert (rows["api.tls"].type, rows["api.tls"].default) == ("a group of options", "none")
    assert rows["api.tls.key"].default == "required"
    assert (rows["api.tls.client_ca"].type, rows["api.tls.client_ca"].default) == ("text", "none")
