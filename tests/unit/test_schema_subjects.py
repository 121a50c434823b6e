"""Which subject a schema has at the hub, and what is known of ids."""

from __future__ import annotations

import threading
from typing import Any
from uuid import UUID

import pytest

from aggregator.config import load_text
from aggregator.config.in_force import InForce
from aggregator.errors import ConfigError, RegistryError
from aggregator.events import Event
from aggregator.model import Route
from aggregator.schemas import translator
from aggregator.schemas.core import (
    Answers,
    Named,
    NoSchema,
    Question,
    plan_source_subject,
    plan_subject,
    question,
    refusal,
)
from aggregator.schemas.translator import Translator
from support.reading import wait_for

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")
BASE = """
hub: {bootstrap_servers: "127.0.0.1:9", schemas: {registry: "http://127.0.0.1:9/hub"}}
sources:
  eu:
    bootstrap_servers: 127.0.0.1:10
    topics: {include: orders}
    schemas: {registry: "http://127.0.0.1:9/eu"}
topics: {schemas: translate}
"""


@pytest.mark.parametrize(
    ("subjects", "side", "own", "wanted"),
    [
        (["orders-value"], "value", "orders-value", "all.orders-value"),
        (["orders-key", "orders-value"], "key", "orders-key", "all.orders-key"),
        # One schema for several topics: what belongs to this one counts.
        (
            ["basket-value", "orders-value", "shop.Order"],
            *("value", "orders-value", "all.orders-value"),
        ),
        (["orders-shop.Order"], "value", "orders-shop.Order", "all.orders-shop.Order"),
        (["shop.Order"], "value", "shop.Order", "shop.Order"),
        (["basket-value", "shop.Order"], "key", "shop.Order", "shop.Order"),
        # Only of others, or told by nobody.
        (["basket-value"], "value", None, "all.orders-value"),
        (["orders-key"], "value", None, "all.orders-value"),
        ([], "key", None, "all.orders-key"),
    ],
)
def test_a_subject_that_is_called_by_its_topic_is_called_by_the_hub_topic(
    subjects: list[str], side: str, own: str | None, wanted: str
) -> None:
    assert plan_source_subject(subjects, "orders", side) == own
    assert plan_subject(subjects, "orders", "all.orders", side) == wanted


def test_answers_are_kept_by_topic_side_and_id() -> None:
    key, value = Question("orders", "key", 1), Question("orders", "value", 1)
    answers = Answers().with_answer(key, 5).with_answer(value, refusal(1))
    assert answers.by_topic() == {
        "orders": {"key": {"1": {"id": 5}}, "value": {"1": {"refused": "schema 1"}}}
    }
    assert answers.refused == (value,)
    assert answers.with_answer(value, 6).refused == ()
    assert answers.with_wait(value, "it is away").by_topic() == answers.by_topic()
    waits = Answers().with_wait(key, "it is away")
    assert waits.by_topic() == {"orders": {"key": {"1": {"waits": "it is away"}}}}
    assert waits.with_answer(key, 5).waits == waits.without("orders").waits == {}


def test_a_question_is_of_an_id_or_of_a_guid() -> None:
    asked = question("orders", "value", str(GUID))
    assert asked == Question("orders", "value", GUID)
    assert question("orders", "key", "4294967295").schema == 4_294_967_295
    answers = Answers().with_answer(asked, GUID)
    assert answers.by_topic() == {"orders": {"value": {str(GUID): {"guid": str(GUID)}}}}
    assert refusal(GUID).reason == f"schema {GUID}"


def test_without_a_registry_at_the_hub_nothing_can_be_translated() -> None:
    with pytest.raises(ConfigError) as found:
        load_text(BASE.replace(', schemas: {registry: "http://127.0.0.1:9/hub"}', ""))
    assert [it.path for it in found.value.problems] == ["hub.schemas.registry"]
    load_text(
        BASE.replace(', schemas: {registry: "http://127.0.0.1:9/hub"}', "").replace(
            "translate", "check"
        )
    )


def test_without_a_registry_at_any_source_nothing_can_be_checked() -> None:
    text = BASE.replace('    schemas: {registry: "http://127.0.0.1:9/eu"}\n', "")
    with pytest.raises(ConfigError) as found:
        load_text(text.replace("schemas: translate", "overrides: {orders: {schemas: check}}"))
    assert [it.path for it in found.value.problems] == ["topics.overrides.orders.schemas"]


class Desk:
    """A translator whose registries answer as `answers` says; others it does not reach."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(translator, "AGAIN_SECONDS", 0.02)
        monkeypatch.setattr(translator, "REFUSED_SECONDS", 0.05)
        self.events: list[Event] = []
        self.answers: dict[int, Named | NoSchema] = {}
        self.asked = threading.Event()
        self.translator = Translator(InForce(load_text(BASE)), self.events.append)
        self.translator.follow([Route("eu", "orders", "orders", 1, 1, schemas="translate")])
        monkeypatch.setattr(self.translator, "answer", self.answer)

    def answer(self, alias: str, asked: Question) -> Named | NoSchema:
        self.asked.set()
        if asked.schema not in self.answers:
            raise RegistryError("it is away", away=True)
        return self.answers[int(asked.schema)]

    def known(self) -> Any:
        found = self.translator.known.get("eu", {}).get("orders", {}).get("value", {})
        return {int(it): next(iter(told.values())) for it, told in found.items()}


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = Desk(monkeypatch)
    yield found
    found.translator.stop()


def test_what_cannot_be_asked_for_is_asked_again_and_holds_up_nothing_else(desk: Desk) -> None:
    desk.answers[2] = 12
    desk.translator.ask("eu", [Question("orders", "value", number) for number in (1, 2)])
    wait_for(lambda: desk.known() == {1: "it is away", 2: 12}, "the other one is known")
    assert [it.message for it in desk.events if "wait" in it.message] == [
        "eu: the records of orders with schema 1 in their value wait: it is away"
    ]
    desk.answers[1] = 11
    wait_for(lambda: desk.known() == {1: 11, 2: 12}, "both are known")
    # What is known is not asked for again.
    desk.asked.clear()
    desk.translator.ask("eu", [Question("orders", "value", 1)])
    assert not desk.asked.wait(0.2)


def test_a_defect_is_why_records_wait_and_their_source_is_answered_later(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_alias: str, _asked: Question) -> Named | NoSchema:
        raise ValueError("a defect")

    monkeypatch.setattr(desk.translator, "answer", fails)
    desk.answers[1] = 11
    desk.translator.ask("eu", [Question("orders", "value", 1)])
    wait_for(lambda: desk.known() == {1: "a defect"}, "it is told")
    monkeypatch.setattr(desk.translator, "answer", desk.answer)
    wait_for(lambda: desk.known() == {1: 11}, "it is known")


def test_an_id_that_was_not_known_may_be_later(desk: Desk) -> None:
    desk.answers[1] = refusal(1)
    desk.translator.ask("eu", [Question("orders", "value", 1)])
    wait_for(lambda: desk.known() == {1: "schema 1"}, "it is refused")
    desk.answers[1] = 11
    wait_for(lambda: desk.known() == {1: 11}, "it is known")


def test_what_was_told_by_another_rule_is_asked_anew(desk: Desk) -> None:
    asked = Question("orders", "value", 1)
    desk.answers[1] = 1
    desk.translator.follow([Route("eu", "orders", "orders", 1, 1, schemas="check")])
    desk.translator.ask("eu", [asked])
    wait_for(lambda: desk.known() == {1: 1}, "it stays as it is")
    # The same rule again changes nothing; another one does, at once.
    desk.translator.follow([Route("eu", "orders", "orders", 1, 1, schemas="check")])
    assert desk.known() == {1: 1}
    desk.translator.follow([Route("eu", "orders", "orders", 1, 1, schemas="translate")])
    assert desk.known() == {}
    desk.answers[1] = 11
    desk.translator.ask("eu", [asked])
    wait_for(lambda: desk.known() == {1: 11}, "it is that of the hub")


def test_where_no_topic_asks_for_it_no_query_is_looked_at(desk: Desk) -> None:
    nobody: Any = None
    desk.translator.follow([Route("eu", "orders", "orders", 1, 1)])
    desk.translator.serve(nobody)
