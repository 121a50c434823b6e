"""Which subject a schema has at the hub, and what is known of ids."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from aggregator.config import load_text
from aggregator.config.in_force import InForce
from aggregator.features.schemas import translator
from aggregator.features.schemas.registries import CopiedSchema, SchemaAnswer
from aggregator.features.schemas.subjects import (
    MOST_REFUSED,
    Answers,
    Named,
    NoSchema,
    Question,
    plan_source_subject,
    plan_subject,
    question,
    refusal,
)
from aggregator.features.schemas.translator import MOST_NOTES, Translator
from aggregator.kafka.registry.copying import Definition
from aggregator.model.errors import ConfigError, RegistryError
from aggregator.model.events import Event
from aggregator.model.values import Route
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
        # Of another topic whose name begins with that of this one.
        (["orders-eu-value", "shop.Order"], "value", "shop.Order", "shop.Order"),
        (["orders-eu-shop.Order", "shop.Order"], "value", "shop.Order", "shop.Order"),
        (["orders-eu-value"], "value", None, "all.orders-value"),
        # A title of JSON Schema may hold a hyphen.
        (["basket-value", "orders-order-v1"], "key", "orders-order-v1", "all.orders-order-v1"),
        # Only of others, or of no one.
        (["basket-value"], "value", None, "all.orders-value"),
        (["orders-key"], "value", None, "all.orders-value"),
        ([], "key", None, "all.orders-key"),
        # In a context of Confluent's registry; the hub's URL says which one its ids are of.
        ([":.eu:orders-value"], "value", ":.eu:orders-value", "all.orders-value"),
        ([":.eu:orders-shop.Order"], *("value", ":.eu:orders-shop.Order", "all.orders-shop.Order")),
        ([":.eu:shop.Order"], "value", ":.eu:shop.Order", "shop.Order"),
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
    """A translator whose registries answer as `answers` says; others it does not reach.

    An answer holds as long as it is the one that is there.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(translator, "AGAIN_SECONDS", 0.02)
        monkeypatch.setattr(translator, "LOOK_SECONDS", 0.05)
        monkeypatch.setattr(translator, "PACE_SECONDS", 0.001)
        self.events: list[Event] = []
        self.answers: dict[int, Named | NoSchema] = {}
        self.asked = threading.Event()
        self.orders: list[Any] = []
        self.in_force = InForce(load_text(BASE))
        self.translator = Translator(self.in_force, self.events.append)
        self.translator.follow([Route("eu", "orders", "orders", 1, 1, schemas="translate")])
        monkeypatch.setattr(self.translator, "answer", self.answer)
        monkeypatch.setattr(self.translator, "holds", self.holds)

    def answer(self, alias: str, asked: Question) -> SchemaAnswer:
        self.asked.set()
        return self.found(asked)

    def holds(self, alias: str, asked: Question, copied: CopiedSchema) -> bool:
        return self.found(asked).copied == copied

    def found(self, asked: Question) -> SchemaAnswer:
        if asked.schema not in self.answers:
            raise RegistryError("it is away", away=True)
        answer = self.answers[int(asked.schema)]
        if not isinstance(answer, int):
            return SchemaAnswer(answer)
        definition = Definition("AVRO", str(answer), ())
        return SchemaAnswer(answer, CopiedSchema(definition, answer, definition))

    def serve(self) -> None:
        """As the engine does now and then, for a lane that asks for nothing new."""
        query: Any = SimpleNamespace(
            report=SimpleNamespace(tasks=()), schemas=lambda known: self.orders.append(known)
        )
        self.translator.serve(query)

    def known(self) -> Any:
        found = self.translator.known.get("eu", {}).get("orders", {}).get("value", {})
        return {int(it): next(iter(answers.values())) for it, answers in found.items()}


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
    def fails(_alias: str, _asked: Question) -> SchemaAnswer:
        raise ValueError("a defect")

    monkeypatch.setattr(desk.translator, "answer", fails)
    desk.answers[1] = 11
    desk.translator.ask("eu", [Question("orders", "value", 1)])
    wait_for(lambda: desk.known() == {1: "a defect"}, "the defect is known")
    monkeypatch.setattr(desk.translator, "answer", desk.answer)
    wait_for(lambda: desk.known() == {1: 11}, "it is known")


def test_an_id_that_was_not_known_may_be_later(desk: Desk) -> None:
    desk.answers[1] = refusal(1)
    desk.translator.ask("eu", [Question("orders", "value", 1)])
    wait_for(lambda: desk.known() == {1: "schema 1"}, "it is refused")
    desk.answers[1] = 11
    wait_for(lambda: desk.known() == {1: 11}, "it is known")


def test_what_was_answered_by_another_rule_is_asked_again(desk: Desk) -> None:
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


def test_a_question_is_answered_that_comes_just_when_a_wait_has_ended(desk: Desk) -> None:
    def interrupted(event: threading.Event, seconds: float) -> bool:
        """Asks a question between the end of a wait and what follows it, once."""
        is_set = event.wait(seconds)
        if not is_set and questions:
            desk.translator.ask("eu", [questions.pop()])
        return is_set

    desk.answers |= {1: 11, 2: 12}
    desk.translator.ask("eu", [Question("orders", "value", 1)])
    wait_for(lambda: desk.known() == {1: 11}, "the worker runs")
    questions = [Question("orders", "value", 2)]
    desk.translator._workers["eu"]._loop._wait = interrupted
    wait_for(lambda: desk.known() == {1: 11, 2: 12}, "it is answered", 10)


def test_where_no_topic_asks_for_it_no_query_is_looked_at(desk: Desk) -> None:
    unused: Any = None
    desk.translator.follow([Route("eu", "orders", "orders", 1, 1)])
    desk.translator.serve(unused)


@pytest.mark.parametrize("changed", ["eu", "left and came back"])
def test_what_another_registry_answered_is_forgotten_also_for_lanes_that_run(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    one, slow = Question("orders", "value", 1), Question("orders", "value", 2)
    desk.answers[1] = 100
    desk.translator.ask("eu", [one])
    wait_for(lambda: desk.known() == {1: 100}, "it is known")
    desk.serve()
    # An answer of the old one is under way meanwhile.
    begun, released = threading.Event(), threading.Event()

    def late(alias: str, asked: Question) -> SchemaAnswer:
        begun.set()
        assert released.wait(60)
        return SchemaAnswer(150)

    monkeypatch.setattr(desk.translator, "answer", late)
    desk.translator.ask("eu", [slow])
    assert begun.wait(60)
    monkeypatch.setattr(desk.translator, "answer", desk.answer)
    other = BASE.replace("http://127.0.0.1:9/eu", "http://127.0.0.1:9/new")
    if changed != "eu":
        desk.in_force.config = load_text(other.replace("  eu:", "  us:"))
        desk.serve()
    desk.in_force.config = load_text(other)
    desk.serve()
    assert desk.known() == {}
    assert desk.orders[-1].get("eu", {}) == {}
    released.set()
    desk.answers |= {1: 200, 2: 250}
    desk.translator.ask("eu", [one, slow])
    wait_for(lambda: desk.known() == {1: 200, 2: 250}, "both are those of the new one")
    # What does not concern registries forgets nothing.
    desk.in_force.config = load_text(f"{other}\nstream: {{checkpoint_interval: 9s}}")
    desk.serve()
    assert desk.orders[-1] == desk.translator.known
    assert desk.known() == {1: 200, 2: 250}


def test_what_a_registry_has_lost_is_asked_for_again_and_one_that_is_away_changes_nothing(
    desk: Desk,
) -> None:
    desk.answers |= {1: 11, 2: 12}
    desk.translator.ask("eu", [Question("orders", "value", number) for number in (1, 2)])
    wait_for(lambda: desk.known() == {1: 11, 2: 12}, "both are known")
    logged = len(desk.events)
    away = desk.answers.pop(2)
    wait_for(lambda: len(desk.events) > logged, "the log says that a registry is away")
    assert "are what they were is not known: it is away" in desk.events[-1].message
    assert desk.known() == {1: 11, 2: 12}
    desk.answers |= {1: 21, 2: away}
    wait_for(lambda: desk.known() == {1: 21, 2: 12}, "what it has now is known")
    words = [it.message for it in desk.events if "schema 1 of" in it.message]
    assert words == [
        "eu: schema 1 of values of orders is 11 at the hub",
        "eu: schema 1 of values of orders is not what it was at a registry: it is asked for again",
        "eu: schema 1 of values of orders is 21 at the hub",
    ]


def test_ids_by_chance_are_bounded_in_memory_and_in_the_log(desk: Desk) -> None:
    numbers = range(1, MOST_REFUSED + 51)
    desk.answers |= {number: refusal(number) for number in numbers} | {0: 7}
    desk.translator.ask("eu", [Question("orders", "value", number) for number in (0, *numbers)])
    last = Question("orders", "value", numbers[-1])
    wait_for(lambda: not desk.translator._workers["eu"]._wanted, "all are answered")
    assert len(desk.known()) == MOST_REFUSED + 1
    assert desk.known()[0] == 7
    assert len(desk.events) == MOST_NOTES + 2
    assert "topics.schemas: pass copies them" in desk.events[-1].message
    # One that was left out is asked for when it comes again.
    left_out = next(number for number in numbers if number not in desk.known())
    desk.translator.ask("eu", [last._replace(schema=left_out)])
    wait_for(lambda: left_out in desk.known(), "it is known again")
