"""Which sources may feed a hub topic, also those that do not have its topics yet. Pure."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from aggregator.config.schema import Config
from aggregator.model.same_object import once_for_each
from aggregator.plan.topics.naming import Naming, naming_of
from aggregator.plan.topics.selection import Selection, selection_of

MOST_TOPICS = 50_000
"""Of up to that many hub topics the answers are kept, then of none: names come and go at a hub."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Sources that take the same topics under the same names: an answer about one is for all."""

    selection: Selection
    naming: Naming
    aliases: tuple[str, ...]

    def may_feed(self, hub_topic: str) -> bool:
        """Whether a topic of such a source may flow into the hub topic."""
        return any(not it or self.selection.matches(it) for it in self.naming.may_be(hub_topic))


class Feeders:
    """The sources of a config. There may be hundreds, and thousands of hub topics."""

    def __init__(self, groups: Sequence[Alike]) -> None:
        self._groups = groups
        self._known: dict[str, frozenset[str]] = {}
        self._sets: dict[tuple[int, ...], frozenset[str]] = {}

    def of(self, hub_topic: str) -> frozenset[str]:
        """The sources of which a topic may flow into it; hub topics with the same share one set."""
        if (found := self._known.get(hub_topic)) is None:
            if len(self._known) >= MOST_TOPICS:
                self._known.clear()
                self._sets.clear()
            may = tuple(at for at, it in enumerate(self._groups) if it.may_feed(hub_topic))
            if (found := self._sets.get(may)) is None:
                found = frozenset(alias for at in may for alias in self._groups[at].aliases)
                self._sets[may] = found
            self._known[hub_topic] = found
        return found


@once_for_each
def feeders_of(config: Config) -> Feeders:
    """The feeders by this config."""
    alike: dict[str, list[str]] = {}
    for alias in config.sources:
        alike.setdefault(selects(config, alias), []).append(alias)
    return Feeders(
        [
            Alike(selection_of(config, own[0]), naming_of(config, own[0]), tuple(own))
            for own in alike.values()
        ]
    )


@once_for_each
def selects(config: Config, alias: str) -> str:
    """The same for sources whose topics, if they have the same names, flow into the same."""
    naming = naming_of(config, alias)
    steps = [step if isinstance(step, str) else step.model_dump() for _, step in naming.steps]
    rules = json.dumps(
        [asdict(selection_of(config, alias)), steps, dict(naming.renamed)], sort_keys=True
    )
    own = alias if "${cluster}" in rules else ""
    return hashlib.sha256(f"{own}:{rules}".encode()).hexdigest()[:16]
