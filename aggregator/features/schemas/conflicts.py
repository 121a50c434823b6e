"""Which schemas of several sources do not fit together under one subject of the hub. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from aggregator.features.schemas.subjects import RECORD, SIDES, plan_subject
from aggregator.kafka.registry.contexts import unqualified
from aggregator.kafka.registry.differences import Difference, differences, in_words

AT_HUB = "the hub"


class SubjectPair(NamedTuple):
    """A subject of a source whose schemas go to one of the hub."""

    subject: str
    hub_topic: str
    hub_subject: str


class SeenSchema(NamedTuple):
    """The newest version of a subject at a source or the hub, with its whole text."""

    place: str
    version: int
    wanted: SubjectPair
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}, version {self.version} of {self.wanted.subject}"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two schemas for one hub subject, and the fields in which they differ.

    `refused`: whether the hub's registry would refuse the second one; None where that is not known,
    as the subject is new there.
    """

    one: SeenSchema
    other: SeenSchema
    fields: tuple[Difference, ...]
    refused: bool | None = None

    def __str__(self) -> str:
        ends = {True: "; the hub's registry would refuse it", False: "", None: ""}[self.refused]
        where = self.one.wanted
        said = in_words(self.fields, f"at {self.one.place}", f"at {self.other.place}")
        return (
            f"{where.hub_subject} of {where.hub_topic}: {self.one} and {self.other} do not fit "
            f"together: {said}{ends}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON-ready data."""
        return {
            "hub_topic": self.one.wanted.hub_topic,
            "hub_subject": self.one.wanted.hub_subject,
            "between": [
                {"place": it.place, "subject": it.wanted.subject, "version": it.version}
                for it in (self.one, self.other)
            ],
            "fields": [
                {
                    "field": it.path,
                    self.one.place: str(it.one) if it.one else None,
                    self.other.place: str(it.other) if it.other else None,
                }
                for it in self.fields
            ],
            "refused": self.refused,
        }


def plan_wanted(subjects: Iterable[str], topic: str, hub_topic: str) -> tuple[SubjectPair, ...]:
    """Those of a source's subjects that are called by a topic.

    Subjects that are called by their record alone say nothing of topics.
    """
    found = []
    for subject in sorted(subjects):
        name = unqualified(subject)
        rest = name.removeprefix(f"{topic}-")
        if rest != name and RECORD.fullmatch(rest):
            side = rest if rest in SIDES else "value"
            at_hub = plan_subject((subject,), topic, hub_topic, side)
            found.append(SubjectPair(subject, hub_topic, at_hub))
    return tuple(found)


def plan_conflicts(
    at_hub: Mapping[str, SeenSchema],
    found: Collection[SeenSchema],
    fits: Mapping[SeenSchema, bool | None],
) -> tuple[Conflict, ...]:
    """The conflicts of what the sources have, by hub subject.

    Each is compared with what the hub has, else with that of the first source. One that has fields
    more, with defaults, is a later version and none; nor is one that the hub's registry would take
    (`fits`), as long as it has no field of another type.
    """
    conflicts = []
    first: dict[str, SeenSchema] = dict(at_hub)
    for each in sorted(found):
        one = first.setdefault(each.wanted.hub_subject, each)
        fields = differences((one.kind, each.kind), (one.text, each.text))
        fit = fits.get(each)
        if any(not it.is_growth for it in fields) or (fit is False and fields):
            refused = None if fit is None else not fit
            conflicts.append(Conflict(one, each, fields, refused))
    return tuple(conflicts)
