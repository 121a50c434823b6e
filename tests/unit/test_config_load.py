"""YAML, `--set` and references become one config, or every problem at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aggregator.config import Config, load, load_text
from aggregator.config.checks import warnings
from aggregator.config.mask import mask_text
from aggregator.config.render import masked_yaml
from aggregator.model.errors import ConfigError

MINIMAL = """
hub: {bootstrap_servers: "hub:9092"}
sources:
  eu: {bootstrap_servers: "eu:9092", topics: {include: orders}}
"""


def config_of(more: str = "", *sets: str, env: dict[str, str] | None = None) -> Config:
    return load_text(MINIMAL + more, sets, env or {})


def problems_of(text: str, *sets: str, env: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_text(text, sets, env or {})
    return [str(problem) for problem in caught.value.problems]


def problems_with(more: str = "", *sets: str, env: dict[str, str] | None = None) -> list[str]:
    return problems_of(MINIMAL + more, *sets, env=env)


def test_the_minimum_takes_every_default() -> None:
    config = config_of()
    assert config.name == "central"
    assert config.hub.bootstrap_servers == "hub:9092"
    assert config.sources["eu"].topics.include == "orders"
    assert config.sources["eu"].start == "earliest"
    assert config.topics.rename == "${topic}"
    assert config.stream.checkpoint_interval == 5.0
    assert config.stream.lanes == "auto"


def test_every_problem_is_reported_at_once() -> None:
    text = """
name: my hub
hub:
  bootstrap.servers: hub:9092
  kafka:
    secrity.protocol: SSL
    group.id: x
    sasl.jaas.config: ${PASSWORD}
sources:
  eu:
    bootstrap_servers: localhost
    include: orders
    topics: {include: "*orders"}
    start: yesterday
topics: {partitions: many, overrides: {orders: {partition_by: keys}}}
stream: {lanes: sources, max_records_per_second: 0, checkpoint_interval: 0s, partitions: 3}
spark: {conf: {spark.speculation: true}}
checkpont: {path: x}
"""
    with pytest.raises(ConfigError) as caught:
        load_text(text, ["noequals"], {}, source="bad.yaml")
    assert str(caught.value) == (
        "19 problems in bad.yaml:\n"
        "  - name: 'my hub' is no name: only letters, digits, '_' and '-'\n"
        "  - hub.kafka.sasl.jaas.config: environment variable PASSWORD is not set"
        " (export PASSWORD=..., or write ${PASSWORD:-default})\n"
        "  - hub.bootstrap_servers: is required (write bootstrap_servers: host:9092)\n"
        "  - hub.bootstrap.servers: unknown key (did you mean bootstrap_servers?)\n"
        "  - hub.kafka.secrity.protocol: unknown Kafka setting (did you mean security.protocol?)\n"
        "  - hub.kafka.group.id: refused: no consumer group is used (we use none; remove it)\n"
        "  - sources.eu.bootstrap_servers: 'localhost' is not host:port\n"
        "  - sources.eu.start: 'yesterday' is no start position; use earliest, latest,"
        " 2026-01-31T00:00:00Z, or milliseconds since 1970\n"
        "  - sources.eu.include: unknown key (did you mean sources.eu.topics.include?)\n"
        "  - sources.eu.topics.include: '*orders' is not a regex: nothing to repeat at column 1"
        " (write .* for any text)\n"
        "  - topics.overrides.orders.partition_by: 'keys' is not one of key, source_partition,"
        " round_robin, cluster (did you mean key?)\n"
        "  - topics.partitions: 'many' is not source or a whole number from 1 to 100000\n"
        "  - stream.lanes: 'sources' is not one of auto, source (did you mean source?)\n"
        "  - stream.checkpoint_interval: '0s' is not a duration from 1s to 1h,"
        " such as 500ms, 10s or 5m\n"
        "  - stream.max_records_per_second: '0' is not a whole number of at least 1\n"
        "  - stream.partitions: unknown key (did you mean topics.partitions?)\n"
        "  - spark.conf.spark.speculation: refused: a second attempt of a task would write its"
        " records again (remove it)\n"
        "  - --set noequals: is not a.b=c\n"
        "  - checkpont: unknown key (did you mean checkpoint?)"
    )
    assert caught.value.exit_code == 2


def test_nothing_at_all_says_what_to_write() -> None:
    assert problems_of("") == [
        "hub: is required (write hub: {bootstrap_servers: host:9092})",
        "sources: is required (write sources: {eu: {bootstrap_servers: host:9092,"
        ' topics: {include: ".*"}}})',
    ]


def test_no_source_is_a_problem_where_none_can_be_added() -> None:
    text = 'hub: {bootstrap_servers: "h:1"}\nsources: {}\n'
    assert problems_of(text + "api: {listen: off}") == [
        "sources: is empty, and with api.listen: off it stays so (write one, or let api.listen be "
        "host:port, so that one can be added)"
    ]
    config = load_text(text)
    assert warnings(config) == ["sources: is empty; it waits until one is added over REST"]
    assert problems_of('hub: {bootstrap_servers: "h:1"}') == [
        "sources: is required (write sources: {eu: {bootstrap_servers: host:9092,"
        ' topics: {include: ".*"}}})'
    ]


def test_sources_that_were_added_lie_between_the_yaml_and_the_command_line() -> None:
    us = {"bootstrap_servers": "us:1", "topics": {"include": "a"}, "rename": "${topic}.x"}
    added = {"us": {**us, "kafka": {"ssl.key.password": "${env:KEY}"}}, "eu": None}
    sets = ["sources.us.weight=5", "api.references.env=[KEY]"]
    config = load_text(MINIMAL, sets, {"KEY": "k"}, added=added)
    assert list(config.sources) == ["us"]
    assert config.sources["us"].weight == 5
    assert config.sources["us"].kafka == {"ssl.key.password": "k"}


def test_a_key_of_a_properties_file(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("# a=0\na = 1\nb.c: x=y\na=2\n", "utf-8")
    setting = "hub.kafka.b=${file:%s:%s}"
    for key, value in (("a", "2"), ("b.c", "x=y")):
        config = config_of("", setting % (tmp_path / "secrets.properties", key))
        assert config.hub.kafka == {"b": value}
    (problem,) = problems_with("", setting % (tmp_path / "secrets.properties", "c"))
    assert "secrets.properties has no key c (check the key in ${file:PATH:KEY})" in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a\n- b\n", "is not a map of settings (begin with hub: and sources:)"),
        ("hub: {a: b", "line 1, column 11: not valid YAML: expected ',' or '}',"),
        (
            "hub:\n  a: b: c\n",
            "line 2, column 7: not valid YAML: mapping values are not allowed here"
            " (put the value in quotes, and check the indentation)",
        ),
        ("hub:\n\ta: b\n", "line 2, column 1: not valid YAML: found character '\\t'"),
        ("a: 1\n---\nb: 2\n", "line 2, column 1: not valid YAML: but found another document"),
        ("a: \x00", "not valid YAML: special characters are not allowed"),
    ],
)
def test_syntax_errors_name_line_and_column(text: str, expected: str) -> None:
    (problem,) = problems_of(text)
    assert problem.startswith(expected)


def test_a_tab_has_its_own_hint() -> None:
    assert problems_of("hub:\n\ta: b\n")[0].endswith("(indent with blanks, not with tabs)")


def test_a_key_given_twice_names_both_lines() -> None:
    text = MINIMAL + "name: a\ntopics:\n  grow: true\n  grow: false\nname: b\n"
    assert problems_of(text) == [
        "name: given twice, in line 5 and in line 9 (remove one of them)",
        "topics.grow: given twice, in line 7 and in line 8 (remove one of them)",
    ]


def test_a_recursive_anchor_and_an_unknown_tag_are_problems() -> None:
    assert problems_with("topics: &t {overrides: {a: *t}}\nname: !env NAME\n") == [
        "name: line 6: unknown tag !env (put the text in quotes)",
        "topics.overrides.a: line 5: an anchor refers to itself",
    ]


def test_merge_keys_are_overridden_by_own_keys() -> None:
    config = load_text(
        """
hub: {bootstrap_servers: "hub:1"}
sources:
  a: &a {bootstrap_servers: "a:1", topics: {include: x}, start: latest}
  b: {<<: *a, bootstrap_servers: "b:1"}
  c: {<<: [{start: earliest}, *a], bootstrap_servers: "c:1"}
""",
        env={},
    )
    assert config.sources["b"].bootstrap_servers == "b:1"
    assert config.sources["b"].start == "latest"
    assert config.sources["c"].start == "earliest"


def test_scalars_stay_the_text_that_was_written() -> None:
    config = load_text(
        """
name: 2026
hub: {bootstrap_servers: "hub:1", kafka: {ssl.key.password: 0123, enable.metrics.push: True}}
sources:
  no: {bootstrap_servers: "a:1", topics: {include: 42}, start: 2026-01-31T00:00:00Z}
  7: {bootstrap_servers: "b:1", topics: {include: [1, on]}}
topics: {partitions: 6, create: no, overrides: {orders: {partitions: 12, grow: true}}}
spark: {conf: {spark.sql.shuffle.partitions: 4, spark.ui.enabled: false}}
api: {listen: off}
""",
        env={},
    )
    assert config.name == "2026"
    assert config.hub.kafka == {"ssl.key.password": "0123", "enable.metrics.push": "true"}
    assert list(config.sources) == ["no", "7"]
    assert config.sources["no"].topics.include == "42"
    assert config.sources["no"].start == "1769817600000"
    assert config.sources["7"].topics.include == ["1", "on"]
    assert (config.topics.partitions, config.topics.create) == (6, False)
    assert config.topics.overrides == {"orders": {"partitions": 12, "grow": True}}
    assert config.spark.conf == {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false"}
    assert config.api.listen == "off"


def test_a_part_with_every_line_commented_out_takes_its_defaults() -> None:
    config = config_of("topics:\n  overrides:\n  partitions:\nspark:\n  conf:\n  jars: null\n")
    assert config == config_of()


def test_null_is_a_value_where_it_means_something() -> None:
    config = config_of(
        "topics: {replication_factor: 3, overrides: {a: {replication_factor: null}}}"
    )
    assert config.topics.rules_for("a").replication_factor is None
    assert config.topics.rules_for("b").replication_factor == 3


def test_the_form_of_the_origin_is_an_option_of_all_topics_and_of_one() -> None:
    assert config_of().topics.origin == "headers"
    config = config_of("topics: {origin: header, overrides: {a: {origin: headers}}}")
    assert config.topics.rules_for("a").origin == "headers"
    assert config.topics.rules_for("b").origin == "header"
    assert problems_with("topics: {origin: compact}\n") == [
        "topics.origin: 'compact' is not one of headers, header"
    ]


def test_a_setting_without_a_value_is_a_problem() -> None:
    assert problems_with("spark:\n  conf:\n    spark.ui.port:\n") == [
        'spark.conf.spark.ui.port: has no value (write "" for empty text)'
    ]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("nam: x", "nam: unknown key (did you mean name?)"),
        ("Name: x", "Name: unknown key (did you mean name?)"),
        (
            "zzz:",
            "zzz: unknown key (valid here: name, hub, sources, topics, stream, checkpoint,"
            " spark, supervision, api, metrics, timeline, completeness,"
            " tee, lineage, heartbeats)",
        ),
        (
            "stream: {checkpoint-interval: 1s}",
            "stream.checkpoint-interval: unknown key (did you mean checkpoint_interval?)",
        ),
        (
            "stream: {partition_by: key}",
            "stream.partition_by: unknown key (did you mean topics.partition_by?)",
        ),
        (
            "topics: {start: latest}",
            "topics.start: unknown key (did you mean sources.<alias>.start?)",
        ),
        (
            "topics: {overrides: {a.b: {rename: x y}}}",
            "topics.overrides.a.b.rename: must be the"
            " name of one hub topic: letters, digits, '.', '_' and '-'",
        ),
        (
            "topics: {overrides: {a: {rename: b}, b: {}}}",
            "topics: overrides.a.rename: b has an override of its own; write all keys under a",
        ),
        (
            "topics: {overrides: {a: {rename: c}, b: {rename: c}}}",
            "topics: overrides.a.rename: two"
            " overrides are called c; use a rule of topics.rename to bring topics together",
        ),
        (
            "topics: {overrides: {a: {config_exclude: ['(']}}}",
            "topics.overrides.a.config_exclude[0]: '(' is not a regex:"
            " missing ), unterminated subpattern at column 1",
        ),
        (
            "topics: {configs: {retention.ms: 5d}}",
            "topics.configs.retention.ms: '5d' is no number"
            " (write a number of milliseconds or bytes, -1 for no limit)",
        ),
        (
            "topics: {overrides: {a: {configs: {message.timestamp.type: x}}}}",
            "topics.overrides.a.configs.message.timestamp.type: refused: the timestamps of the "
            "sources are kept (the aggregator sets it itself; remove it)",
        ),
        (
            "topics: {rename: [{match: 'a(.)', to: 'b$2'}]}",
            "topics.rename[0]: to 'b$2': match has no group $2; there are $1, ${topic}, ${cluster}",
        ),
        (
            "topics: {rename: [{match: a, to: b}, {match: 'a(?<n>.)', to: '${m}'}]}",
            "topics.rename[1]: to '${m}': match has no group ${m}; there are $1, ${n}, ${topic},"
            " ${cluster}",
        ),
        (
            "topics: {rename: [{match: 'a(', to: b}]}",
            "topics.rename[0]: match 'a(' is not a regex:"
            " missing ), unterminated subpattern at column 2",
        ),
        (
            "topics: {rename: [{match: a, to: 'b c'}]}",
            "topics.rename[0]: to 'b c': only letters,"
            " digits, '.', '_' and '-' may be in a topic name",
        ),
        ("topics: {rename: [{match: a}]}", "topics.rename[0]: to is required"),
        (
            "topics: {rename: [{match: '(?<topic>.)', to: b}]}",
            "topics.rename[0]: match: ${topic} has a meaning already; call the group so not",
        ),
        (
            "topics: {overrides: {a: {partition: 1}}}",
            "topics.overrides.a.partition: unknown key (did you mean partitions?)",
        ),
        ("topics: {overrides: {a: 5}}", "topics.overrides.a: '5' is not a map of settings"),
        ("topics: {overrides: [a]}", "topics.overrides: a list is not a map of settings"),
        (
            "topics: {overrides: {'a.*': {grow: true}}}",
            "topics.overrides.a.*: is no topic name"
            " (an override is for one hub topic; a regex does not work here)",
        ),
        (
            "topics: {config_exclude: ['a{4294967296}']}",
            "topics.config_exclude[0]:"
            " 'a{4294967296}' is not a regex: the repetition number is too large",
        ),
        (
            "topics: {config_exclude: ['a', '(']}",
            "topics.config_exclude[1]: '(' is not a regex:"
            " missing ), unterminated subpattern at column 1",
        ),
        ("topics: {config_exclude: x}", "topics.config_exclude: 'x' is not a list of text"),
        ("topics: {create: maybe}", "topics.create: 'maybe' is not true or false"),
        (
            "topics: {replication_factor: 1.5}",
            "topics.replication_factor: '1.5' is not a whole number from 1 to 100",
        ),
        (
            "topics: {rename: a b}",
            "topics.rename: only letters, digits, '.', '_' and '-' may be in a topic name",
        ),
        (
            "topics: {rename: '${topc}'}",
            "topics.rename: environment variable topc is not set"
            " (${cluster} and ${topic} are filled in here; else export topc=...)",
        ),
        ("topics: {transform: x}", "topics.transform: 'x' is not module:function"),
        (
            "topics: {refresh_interval: 0}",
            "topics.refresh_interval: '0s' is not a duration above 0s, such as 500ms, 10s or 5m",
        ),
        (
            "topics: {refresh_interval: soon}",
            "topics.refresh_interval: 'soon' is not a duration; use 500ms, 10s, 5m, 2h or 7d",
        ),
        (
            "stream: {max_records_per_second: 0}",
            "stream.max_records_per_second: '0' is not a whole number of at least 1",
        ),
        (
            "stream: {trigger: realtime}",
            "stream.trigger: unknown key (valid here: lanes, path,"
            " checkpoint_interval, max_records_per_second, max_bytes_per_second)",
        ),
        ("stream: {lanes: 4}", "stream.lanes: '4' is not one of auto, source"),
        ("stream: fast", "stream: 'fast' is not a map of settings"),
        ("spark: {jars: [a]}", "spark.jars: a list is not text"),
        ("spark: {conf: x}", "spark.conf: 'x' is not a map of settings"),
        (
            "spark: {conf: {spark: {ui: {port: 1}}}}",
            "spark.conf.spark: a map is not text (write spark.NAME: VALUE in one line)",
        ),
        (
            "spark: {conf: {spark.task.maxFailures: 4}}",
            "spark.conf.spark.task.maxFailures: refused:"
            " a retried task would write its records again (remove it; it is 1)",
        ),
        ("checkpoint: {path: ''}", "checkpoint.path: must not be empty"),
        ("api: {read_token: short}", "api.read_token: must have at least 16 characters"),
        ("api: {listen: nowhere}", "api.listen: 'nowhere' is not host:port, nor 'off'"),
    ],
)
def test_one_wrong_thing_is_one_problem(more: str, expected: str) -> None:
    assert problems_with(more) == [expected]


def test_a_port_is_one_that_there_is() -> None:
    assert config_of("", "hub.bootstrap_servers=h:65535").hub.bootstrap_servers == "h:65535"
    assert problems_with("", "hub.bootstrap_servers=h:65536") == [
        "hub.bootstrap_servers: 'h:65536' is not host:port"
    ]


def test_a_kafka_setting_beside_the_map_is_shown_its_place() -> None:
    text = MINIMAL.replace("hub: {", "hub: {security.protocol: SSL, ")
    assert problems_of(text) == [
        "hub.security.protocol: unknown key (Kafka settings belong under hub.kafka)"
    ]


def test_every_wrong_alias_is_named() -> None:
    source = '{bootstrap_servers: "x:1", topics: {include: a}}'
    text = f'hub: {{bootstrap_servers: "h:1"}}\nsources:\n  e u: {source}\n  -x: {source}\n'
    assert problems_of(text) == [
        "sources.e u: 'e u' is no name: only letters, digits, '_' and '-'",
        "sources.-x: '-x' is no name: only letters, digits, '_' and '-'",
    ]


@pytest.mark.parametrize("include", ["''", "','", "[]", "['', ' ']"])
def test_an_empty_include_is_a_problem(include: str) -> None:
    text = MINIMAL.replace("include: orders", f"include: {include}")
    assert problems_of(text) == [
        'sources.eu.topics.include: must not be empty (write include: ".*" to take every topic)'
    ]


def test_sets_reach_every_place() -> None:
    config = config_of(
        "topics: {overrides: {old: {grow: true}}}",
        "name=other",
        "hub.kafka.security.protocol=SSL",
        "hub.producer.linger.ms=7",
        "sources.eu.consumer.fetch.min.bytes=9",
        "sources.eu.topics.include=[a, b]",
        "sources.us={bootstrap_servers: 'us:1', topics: {include: x}}",
        "sources.us.start=latest",
        "topics.overrides.a.b.partitions=3",
        "topics.overrides.c.d={partitions: 4}",
        "topics.rename=${cluster}.${topic}",
        "checkpoint.storage_options.AWS_REGION=eu",
        "spark.conf.spark.ui.enabled=true",
        "spark.jars='/x'",
        "topics.replication_factor=null",
    )
    assert config.name == "other"
    assert config.hub.kafka == {"security.protocol": "SSL"}
    assert config.hub.producer == {"linger.ms": "7"}
    assert config.sources["eu"].consumer == {"fetch.min.bytes": "9"}
    assert config.sources["eu"].topics.include == ["a", "b"]
    assert config.sources["us"].start == "latest"
    assert config.topics.overrides == {
        "old": {"grow": True},
        "a.b": {"partitions": 3},
        "c.d": {"partitions": 4},
    }
    assert config.topics.rename == "${cluster}.${topic}"
    assert config.checkpoint.storage_options == {"AWS_REGION": "eu"}
    assert config.spark.conf == {"spark.ui.enabled": "true"}
    assert config.spark.jars == "/x"


def test_a_set_keeps_text_that_yaml_would_cut_or_refuse() -> None:
    jaas = 'x.PlainLoginModule required username="a: b" password="c #d=e";'
    config = config_of("", f"sources.eu.kafka.sasl.jaas.config={jaas}")
    assert config.sources["eu"].kafka["sasl.jaas.config"] == jaas


def test_a_set_regex_that_is_no_yaml_list_is_text() -> None:
    config = config_of("", "sources.eu.topics.include=[a-z]+.*")
    assert config.sources["eu"].topics.include == "[a-z]+.*"


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("x", "--set x: is not a.b=c"),
        ("=x", "--set : is not a.b=c"),
        ("a..b=x", "--set a..b: is not a.b=c"),
        ("name.x=1", "--set name.x: name is a value and has nothing below it"),
        ("stream.lans=1", "stream.lans: unknown key (did you mean lanes?)"),
        ("streem.lanes=1", "streem: unknown key (did you mean stream?)"),
    ],
)
def test_bad_sets(item: str, expected: str) -> None:
    text = MINIMAL + "name: x\n"
    assert problems_of(text, item) == [expected]


def test_sets_alone_make_a_config() -> None:
    sets = [
        "hub.bootstrap_servers=h:1",
        "sources.a.bootstrap_servers=a:1",
        "sources.a.topics.include=x",
    ]
    assert load(None, sets, {}).sources["a"].bootstrap_servers == "a:1"


def test_references(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("p${NOT}w\n\n", encoding="utf-8")
    (tmp_path / "config.yaml").write_text(
        MINIMAL
        + """
name: ${NAME}
checkpoint: {path: "${ROOT:-/var}/${NAME}/$${x}${EMPTY:-}"}
spark: {conf: {a.password: "${file:secret}", b: "${file:%s}"}}
topics: {rename: "${PREFIX}.${cluster}.${topic}"}
"""
        % (tmp_path / "secret"),
        encoding="utf-8",
    )
    env = {"NAME": "n1", "PREFIX": "pre"}
    config = load(tmp_path / "config.yaml", ["spark.conf.c=${NAME}"], env)
    assert config.name == "n1"
    assert config.checkpoint.path == "/var/n1/${x}"
    assert config.spark.conf == {"a.password": "p${NOT}w\n", "b": "p${NOT}w\n", "c": "n1"}
    assert config.topics.rename == "pre.${cluster}.${topic}"


def test_the_rename_of_a_source_is_a_template_as_well() -> None:
    config = config_of("", "sources.eu.rename=${topic}.replica")
    assert config.rename_of("eu") == "${topic}.replica"
    (problem,) = problems_with("", "sources.eu.rename=${topc}")
    assert problem.startswith("sources.eu.rename: environment variable topc is not set")
    (problem,) = problems_with("", "sources.eu.rename=a b")
    assert problem.startswith("sources.eu.rename: only letters")


def test_references_give_numbers_and_lists_their_values() -> None:
    config = config_of(
        "topics: {partitions: '${N}', create: '${C}', config_exclude: ['${R}']}",
        env={"N": "8", "C": "false", "R": "a.*"},
    )
    assert (config.topics.partitions, config.topics.create) == (8, False)
    assert config.topics.config_exclude == ["a.*"]


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGGREGATOR_TEST_NAME", "from-env")
    assert load_text(MINIMAL + "name: ${AGGREGATOR_TEST_NAME}").name == "from-env"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${NO}", "environment variable NO is not set (export NO=..., or write ${NO:-default})"),
        (
            "${file:gone}",
            "cannot read gone: No such file or directory (check the path in ${file:PATH})",
        ),
        ("${file:/}", "cannot read /: Is a directory (check the path in ${file:PATH})"),
        (
            "${a b}",
            "'${a b}' is no reference (write ${NAME}, ${NAME:-default}, ${file:PATH}"
            " or ${dir:PATH:FILE}; $${ for a literal ${)",
        ),
        ("x${OPEN", "'${' is not closed by '}' (write $${ for a literal ${)"),
        (
            "${}",
            "'${}' is no reference (write ${NAME}, ${NAME:-default}, ${file:PATH}"
            " or ${dir:PATH:FILE}; $${ for a literal ${)",
        ),
    ],
)
def test_a_failed_reference_is_the_only_problem_of_its_setting(value: str, expected: str) -> None:
    assert problems_with(f"topics: {{partitions: '{value}'}}") == [f"topics.partitions: {expected}"]


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ({"bootstrap_servers": "${X}"}, "sources.us.bootstrap_servers"),
        ({"start": "${env:X}"}, "sources.us.start"),
        ({"topics": {"include": ["a", "(${X}"]}}, "sources.us.topics.include"),
        ({"on_gap": "${file:x}"}, "sources.us.on_gap"),
        ({"kafka": {"request.timeout.ms": "${X}"}}, "sources.us.kafka.request.timeout.ms"),
        (
            {"kafka": {"security.protocol": "SASL_SSL", "sasl.mechanism": "${X}"}},
            "sources.us.kafka.sasl.mechanism",
        ),
    ],
)
def test_what_an_added_source_refers_to_is_not_shown(
    tmp_path: Path, source: dict[str, Any], path: str
) -> None:
    """Anyone who adds or checks a source gives a reference, but may not be allowed its value."""
    (tmp_path / "x").write_text("unseen")
    good = {"bootstrap_servers": "us:1", "topics": {"include": "a"}}
    with pytest.raises(ConfigError) as caught:
        load_text(
            MINIMAL,
            ["api.references.env=[X]", f"api.references.files=[{tmp_path}]"],
            env={"X": "unseen"},
            folder=tmp_path,
            added={"us": {**good, "weight": 0, **source}},
        )
    found = {problem.path: problem for problem in caught.value.problems}
    assert found.keys() == {path, "sources.us.weight"}
    assert "its value is not shown" in str(found[path])
    assert "unseen" not in str(caught.value).lower()
    # What has nothing to do with it is shown as usual.
    assert "'0' is not a whole number" in str(found["sources.us.weight"])


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "x" * 300 + ":key"])
def test_a_file_that_cannot_be_named_is_a_problem(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        source = {"bootstrap_servers": f"${{file:{name}}}"}
        load_text(MINIMAL, ["api.references.files=[/]"], env={}, added={"us": source})


def test_a_file_that_is_not_text_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "jks").write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(ConfigError) as caught:
        load_text(MINIMAL + "name: ${file:jks}", env={}, folder=tmp_path)
    assert caught.value.problems[0].reason == f"cannot read {tmp_path}/jks: not UTF-8 text"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    gone = tmp_path / "gone.yaml"
    with pytest.raises(ConfigError) as caught:
        load(gone, env={})
    assert str(caught.value) == (
        f"1 problem in {gone}:\n"
        "  - cannot read it: No such file or directory (give the config with -c FILE)"
    )
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xff")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load(tmp_path / "binary.yaml", env={})


def test_no_error_holds_a_secret() -> None:
    more = """
checkpoint: {storage_options: {AWS_SECRET_ACCESS_KEY: [hunter2]}}
spark: {conf: {my.password: {hunter2: hunter2}}}
topics: {rename: "http://u:hunter2@x/"}
"""
    with pytest.raises(ConfigError) as caught:
        load_text(MINIMAL + more, env={})
    chain: Any = caught.value
    while chain is not None:
        assert "hunter2" not in str(chain)
        chain = chain.__cause__ or chain.__context__


def test_a_cluster_names_its_schema_registry_with_a_login() -> None:
    config = config_of(
        "",
        "hub.schemas.registry= https://registry:8081/ ",
        "hub.schemas.username=reader",
        "hub.schemas.password=${env:PASSWORD}",
        "sources.eu.schemas.registry=http://localhost:8080/apis/ccompat/v7",
        env={"PASSWORD": "swordfish"},
    )
    hub, eu = config.hub.schemas, config.sources["eu"].schemas
    assert (hub.registry, hub.password) == ("https://registry:8081", "swordfish")
    assert (eu.registry, eu.username) == ("http://localhost:8080/apis/ccompat/v7", None)
    assert warnings(config) == []
    assert "swordfish" not in masked_yaml(config)
    assert mask_text("Basic swordfish", config) == "Basic ********"


@pytest.mark.parametrize(
    ("schemas", "problem"),
    [
        ("{registry: 'registry:8081'}", "registry: is no URL; write http://host:port"),
        ("{registry: 'http://:8081'}", "registry: is no URL"),
        ("{registry: 'http://h:99999'}", "registry: is no URL"),
        ("{registry: 'http://me:sesame@h:1'}", "registry: holds a login; use username:"),
        ("{registry: 'http://h:1/?a=b'}", "registry: has something behind its path"),
        ("{registry: 'http://h:1', username: me}", "password: is missing beside username"),
        ("{registry: 'http://h:1', password: sesame}", "username: is missing beside password"),
        ("{registry: 'http://h:1', ca: ca.pem}", "ca: has no effect without https://"),
        ("{ca: ca.pem}", "registry: is missing beside ca"),
        ("{registri: 'http://h:1'}", "registri: unknown key"),
    ],
)
def test_a_registry_that_cannot_be_one_is_refused(schemas: str, problem: str) -> None:
    text = f"""
hub: {{bootstrap_servers: "hub:9092", schemas: {schemas}}}
sources: {{eu: {{bootstrap_servers: "eu:9092", topics: {{include: a}}}}}}
"""
    found = problems_of(text)
    assert any(f"hub.schemas.{problem}" in it for it in found), found
    assert "sesame" not in str(found)


def test_a_registrys_password_without_tls_is_warned_of() -> None:
    sets = ("registry=http://h:1", "username=me", "password=sesame")
    config = config_of("", *(f"hub.schemas.{it}" for it in sets))
    assert warnings(config) == [
        "hub.schemas.password: travels unencrypted; use an https:// registry"
    ]


@pytest.mark.parametrize(
    ("tls", "expected"),
    [
        (
            "{certificate: c, keyy: k}",
            ["api.tls.key: is required", "api.tls.keyy: unknown key (did you mean key?)"],
        ),
        ("{certificate: , key: k}", ["api.tls.certificate: is required"]),
        ("certificate.pem", ["api.tls: 'certificate.pem' is not a map of settings"]),
    ],
)
def test_what_is_wrong_in_a_group_that_may_be_left_out(tls: str, expected: list[str]) -> None:
    assert problems_with(f"api: {{tls: {tls}}}") == expected


def test_a_group_that_is_left_out() -> None:
    assert config_of("api:\n  tls:\n").api.tls is None
    sets = ("api.tls.certificate=c", "api.tls.key=k")
    tls = config_of("", *sets).api.tls
    assert tls is not None and (tls.certificate, tls.key, tls.client_ca) == ("c", "k", None)
