"""From where Java's clients may take tokens: what the config in force names, and no file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.datapath.connector.connector import OWN_URLS, TOKEN_URLS, Connector


class Java:
    """The properties of a JVM, and nothing else of it."""

    def __init__(self, **properties: str) -> None:
        self.properties = dict(properties)
        self.getProperty = self.properties.get
        self.setProperty = self.properties.__setitem__


def connector(java: Java) -> Connector:
    lanes = SimpleNamespace(answerFor=lambda ms: None)
    classes = SimpleNamespace(Lanes=lanes, HubTail=None, SourceSamples=None, HubEnds=None)
    own = SimpleNamespace(connector=classes)
    jvm = SimpleNamespace(aggregator=own, java=SimpleNamespace(lang=SimpleNamespace(System=java)))
    spark: Any = SimpleNamespace(_jvm=jvm)
    return Connector(spark)


def test_urls_come_together_and_another_run_in_the_same_java_has_its_own() -> None:
    java = Java()
    first = connector(java)
    for urls in ({"https://b/t"}, {" https://a/t "}, set[str]()):
        first.allow_tokens_of(urls)
    assert java.properties[TOKEN_URLS] == "https://a/t,https://b/t"
    connector(java).allow_tokens_of({"https://c/t"})
    assert java.properties[TOKEN_URLS] == "https://c/t"


def test_where_no_one_names_one_none_is_taken() -> None:
    java = Java()
    connector(java).allow_tokens_of(set())
    assert java.properties[TOKEN_URLS] == ""


@pytest.mark.parametrize("urls", [{"https://a/t"}, set[str]()])
def test_what_the_user_has_set_stays(urls: set[str]) -> None:
    java = Java(**{TOKEN_URLS: "https://mine/t"})
    connector(java).allow_tokens_of(urls)
    assert java.properties == {TOKEN_URLS: "https://mine/t"}


def test_a_url_that_cannot_be_said_leaves_it_open() -> None:
    java = Java()
    connector(java).allow_tokens_of({"https://a/t,x"})
    assert OWN_URLS not in java.properties
