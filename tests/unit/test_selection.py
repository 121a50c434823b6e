"""Which topics are taken: full match, exclude wins, internal topics never."""

import pytest

from aggregator.config.topics import TopicSelection
from aggregator.errors import ConfigError
from aggregator.plan.selection import Selection, literal_names


@pytest.mark.parametrize(
    ("include", "exclude", "topic", "taken"),
    [
        (("orders",), (), "orders", True),
        (("orders",), (), "orders2", False),
        (("orders",), (), "my-orders", False),
        (("orders|payments[.].*",), (), "payments.eu", True),
        (("orders|payments[.].*",), (), "payments", False),
        (("a", "b"), (), "b", True),
        ((".*",), ("b.*",), "bb", False),
        ((".*",), ("b",), "bb", True),
        (("bb",), ("b.*",), "bb", False),
        ((), (), "a", False),
        ((".*",), (), "__consumer_offsets", False),
        ((".*",), (), "mm2-offsets.eu.internal", False),
        ((".*",), (), "mm2-offset-syncs.eu.internal", False),
        ((".*",), (), "eu.checkpoints.internal", False),
        ((".*",), (), "my.internal", True),
        ((".*",), (), "heartbeats", False),
        (("heart.*",), (), "heartbeats", False),
        (("heartbeats",), (), "heartbeats", True),
        (("orders|heartbeats",), (), "heartbeats", True),
        (("__consumer_offsets",), (), "__consumer_offsets", False),
    ],
)
def test_matches(
    include: tuple[str, ...], exclude: tuple[str, ...], topic: str, taken: bool
) -> None:
    assert Selection(include, exclude).matches(topic) is taken


def test_a_topic_its_cluster_calls_internal_is_never_taken() -> None:
    assert not Selection((".*",)).matches("orders", internal=True)
    assert "internal" in str(Selection((".*",)).reason_not("orders", internal=True))


def test_the_reason_names_the_pattern() -> None:
    assert Selection((".*",), ("x", "b+")).reason_not("bb") == "excluded by 'b+'"
    assert Selection(("a",)).reason_not("b") == "not included"


def test_commas_and_lists_of_the_config() -> None:
    assert Selection.of(TopicSelection(include="a, b", exclude="c")) == Selection(
        ("a", "b"), ("c",)
    )
    assert Selection.of(TopicSelection(include=["a", "b"])) == Selection(("a", "b"), ())


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("orders", ("orders",)),
        ("a.b", ("a.b",)),
        ("a[.]b", ("a.b",)),
        (r"a\.b", ("a.b",)),
        ("a|b", ("a", "b")),
        ("a|b.*", ("a",)),
        ("(a|b)", ()),
        (".*", ()),
    ],
)
def test_literal_names(pattern: str, names: tuple[str, ...]) -> None:
    assert literal_names(pattern) == names


def test_internal_topics_named_literally_are_told() -> None:
    selection = Selection(("orders|__transaction_state", "mm2-status.a.internal", ".*"))
    assert selection.internal_literals() == ("__transaction_state", "mm2-status.a.internal")


def test_a_bad_regex_is_a_config_error_with_every_problem() -> None:
    with pytest.raises(ConfigError) as caught:
        Selection(("a(",), ("[",))
    assert len(caught.value.problems) == 2
    assert "'a('" in str(caught.value)
