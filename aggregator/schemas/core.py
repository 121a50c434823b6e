"""Which subject a schema has at the hub, and what is known of ids. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregator.model import SchemaIds

SIDES = ("key", "value")


class Question(NamedTuple):
    """What is this id, found in keys or values of a source topic, at the hub?"""

    topic: str
    side: str
    number: int


@dataclass(frozen=True, slots=True)
class Answers:
    """What is known of one source's ids: that of the hub, or in words why there is none."""

    of: Mapping[Question, int | str] = field(default_factory=dict)

    def with_answer(self, question: Question, answer: int | str) -> Answers:
        """The same and one more."""
        return Answers({**self.of, question: answer})

    def without(self, topic: str) -> Answers:
        """The same without those of a topic."""
        return Answers({it: answer for it, answer in self.of.items() if it.topic != topic})

    @property
    def refused(self) -> tuple[Question, ...]:
        """Those for which there is no id; one may come."""
        return tuple(it for it, answer in self.of.items() if isinstance(answer, str))

    def by_topic(self) -> SchemaIds:
        """The same by topic, side and id."""
        found: dict[str, dict[str, dict[int, int | str]]] = {}
        for (topic, side, number), answer in self.of.items():
            found.setdefault(topic, {}).setdefault(side, {})[number] = answer
        return found


def refusal(number: int) -> str:
    """The reason with which a record is kept aside whose id its registry does not know."""
    return f"schema {number}"


def plan_subject(subjects: Collection[str], topic: str, hub_topic: str, side: str) -> str:
    """The subject at the hub's registry of a schema that has these at its source's.

    The strategies of Confluent's serializers are told apart by the names: by topic
    (`orders-value`), by topic and record (`orders-com.acme.Order`), by record (`com.acme.Order`). A
    topic's name becomes that of the hub topic. One schema may be that of several topics and sides;
    what belongs to this one counts. A registry that does not tell subjects: by topic.
    """
    by_topic = f"{topic}-{side}"
    if by_topic in subjects or not subjects:
        return f"{hub_topic}-{side}"
    for subject in sorted(subjects):
        record = subject.removeprefix(f"{topic}-")
        if record != subject and record not in SIDES:
            return f"{hub_topic}-{record}"
    ends = tuple(f"-{it}" for it in SIDES)
    by_record = sorted(it for it in subjects if not it.endswith(ends))
    return by_record[0] if by_record else f"{hub_topic}-{side}"
