"""Which subject a schema has at the hub, and what is known of ids. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

from aggregator.kafka.registry.contexts import unqualified
from aggregator.model.values import SchemaIds

SIDES = ("key", "value")
BY_TOPIC = ("-key", "-value")
"""How subjects end that are called by their topic alone."""
RECORD = re.compile(r"[A-Za-z_][\w.]*")
"""The full name of a record of Avro or a message of Protobuf: no hyphen is in it."""
MOST_REFUSED = 200
"""Of one source. With more than that, content is hardly in the wire format: see `with_answer`."""
Named = int | UUID
"""What a record calls its schema by."""


class Question(NamedTuple):
    """What is this id or GUID, found in keys or values of a source topic, at the hub?"""

    topic: str
    side: str
    schema: Named


def question(topic: str, side: str, schema: str) -> Question:
    """The question from a task's message."""
    return Question(topic, side, int(schema) if schema.isdecimal() else UUID(schema))


class NoSchema(NamedTuple):
    """Its registry does not know it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Answers:
    """What is known of one source's ids, and why others are not known yet, in words."""

    of: Mapping[Question, Named | NoSchema] = field(default_factory=dict)
    waits: Mapping[Question, str] = field(default_factory=dict)

    def with_answer(self, asked: Question, answer: Named | NoSchema) -> Answers:
        """The same and one more.

        Of ids that no registry knows the newest are kept: content that begins with a zero byte by
        chance names another one in each record. One that comes again is asked for again.
        """
        waits = {it: why for it, why in self.waits.items() if it != asked}
        found = {**self.of, asked: answer}
        refused = Answers(found).refused
        for oldest in refused[: max(0, len(refused) - MOST_REFUSED)]:
            del found[oldest]
        return Answers(found, waits)

    def with_wait(self, asked: Question, why: str) -> Answers:
        """The same, and why one has no answer yet."""
        return replace(self, waits={**self.waits, asked: why})

    def without_answer(self, asked: Question) -> Answers:
        """The same without the answer of one."""
        return replace(self, of={it: answer for it, answer in self.of.items() if it != asked})

    def without(self, topic: str) -> Answers:
        """The same without those of a topic."""
        return Answers(
            {it: answer for it, answer in self.of.items() if it.topic != topic},
            {it: why for it, why in self.waits.items() if it.topic != topic},
        )

    @property
    def refused(self) -> tuple[Question, ...]:
        """Those that its registry does not know; one may come."""
        return tuple(it for it, answer in self.of.items() if isinstance(answer, NoSchema))

    def by_topic(self) -> SchemaIds:
        """The same in the form sent to tasks."""
        found: dict[str, dict[str, dict[str, dict[str, int | str]]]] = {}
        # One that was refused may be asked for again: what is known of it counts meanwhile.
        for (topic, side, schema), why in self.waits.items():
            found.setdefault(topic, {}).setdefault(side, {})[str(schema)] = {"waits": why}
        for (topic, side, schema), answer in self.of.items():
            found.setdefault(topic, {}).setdefault(side, {})[str(schema)] = _as_data(answer)
        return found


def _as_data(answer: Named | NoSchema) -> dict[str, int | str]:
    if isinstance(answer, NoSchema):
        return {"refused": answer.reason}
    return {"guid": str(answer)} if isinstance(answer, UUID) else {"id": answer}


def refusal(schema: Named) -> NoSchema:
    """The reason with which a record is kept aside whose id its registry does not know."""
    return NoSchema(f"schema {schema}")


def plan_source_subject(subjects: Collection[str], topic: str, side: str) -> str | None:
    """Which of the subjects that a schema has at its source's registry is that of a topic.

    The strategies of Confluent's serializers are recognised by the names: by topic
    (`orders-value`), by topic and record (`orders-com.acme.Order`), by record (`com.acme.Order`).
    One schema may be that of several topics and sides; None when it is only that of others. A
    subject with a context (`:.eu:orders-value`) is recognised by what follows that.
    """
    names = {unqualified(it): it for it in sorted(subjects)}
    found = _own_subject(names, topic, side)
    return None if found is None else names[found]


def _own_subject(names: Collection[str], topic: str, side: str) -> str | None:
    by_topic = f"{topic}-{side}"
    if by_topic in names:
        return by_topic
    # Titles of JSON Schema may hold a hyphen, and so may topics: what has none is sure.
    others = [it for it in sorted(names) if not it.endswith(BY_TOPIC)]
    of_topic = [it for it in others if it.startswith(f"{topic}-")]
    sure = [it for it in of_topic if RECORD.fullmatch(it.removeprefix(f"{topic}-"))]
    by_record = [it for it in others if RECORD.fullmatch(it)]
    return next(iter((*sure, *by_record, *of_topic, *others)), None)


def plan_subject(subjects: Collection[str], topic: str, hub_topic: str, side: str) -> str:
    """The subject at the hub's registry of a schema that has these at its source's.

    A topic's name in it becomes that of the hub topic. It has no context: ids are those of the
    context that the hub's URL names. A registry that does not list subjects: by topic.
    """
    found = unqualified(plan_source_subject(subjects, topic, side) or f"{topic}-{side}")
    record = found.removeprefix(f"{topic}-")
    return found if record == found else f"{hub_topic}-{record}"
