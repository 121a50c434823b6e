"""Which records of each route its hub topic would refuse, and where they go. Pure.

A rule that cannot apply is left out, so that it costs nothing: the hub's limits, as they are once
the plan's actions are applied, are compared with what the source may hold. Where that cannot be
known (a compressed batch shrinks, clocks differ, configs were others once) nothing is looked for
until the hub has refused something; from then on `once_refused` limits hold.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from aggregator.config.schema import Config
from aggregator.model.values import Limits, PoisonRule, Route, TopicFacts
from aggregator.plan.lanes.producer import hub_producer, largest_request
from aggregator.plan.topics.source_configs import HEADER_SLACK_BYTES, Contribution, policies

FOREVER_MS = 10**15
"""A bound beyond this is none: thirty thousand years."""
AHEAD_SLACK_MS = 1_000
BEHIND_SLACK_MS = 5_000
"""A record is judged when it is handed over, and ages until the hub gets it."""
CLOCK_SLACK_MS = 600_000
"""So much the hub's clock may differ from ours, once it has refused a timestamp."""

REFUSALS = {
    "org.apache.kafka.common.errors.RecordTooLargeException",
    "org.apache.kafka.common.errors.InvalidTimestampException",
    "org.apache.kafka.common.InvalidRecordException",
}
"""What Kafka throws for a record that it does not take, and will not take the next time either."""
NO_ANSWER = "aggregator.connector.HubWriter$NoAnswer"
STUCK = "aggregator.connector.HubWriter$Stuck"
NOT_NEXT = "org.apache.kafka.common.errors.OutOfOrderSequenceException"
"""A batch that is copied as it is does not follow what the hub has: it has lost some of it."""
CUT_OFF = "aggregator.connector.HubWriter$CutOff"
STUCK_OF = "; they are of "
"""Behind it are the source partitions of which the hub takes nothing, with commas between
(HubWriter.Stuck)."""
REFUSED_WITH = "part of a batch which had one more more invalid records"
"""What a good record of the same batch gets has no class of its own, only these words
(Sender.failBatch, kafka-clients 3.9.2)."""


Topic = tuple[str, str]
"""A source's alias and one of its topics."""


@dataclass(frozen=True, slots=True)
class _Hub:
    """A hub topic as a producer meets it; `request` is the largest record that is sent at all."""

    topic: TopicFacts
    compression: str
    request: int

    @property
    def compressed(self) -> bool:
        """Whether what the broker weighs is compressed."""
        kind = self.topic.compression_type
        return (self.compression if kind == "producer" else kind) not in ("none", "uncompressed")

    @property
    def bytes_(self) -> int:
        """The largest batch of one record, uncompressed, that is taken whatever is in it."""
        limit = min(self.topic.max_message_bytes, self.request)
        # What does not compress grows: a frame's head, and a few bytes for each block of 32 kB.
        return limit - limit // 128 - 128 if self.compressed else limit


def plan_poison(
    config: Config,
    contributions: Mapping[str, Sequence[Contribution]],
    hub_topics: Mapping[str, TopicFacts],
    quarantine: str,
) -> dict[Topic, PoisonRule]:
    """The rule for every source topic.

    `hub_topics` are the hub's topics after the plan's actions, `quarantine` the name of the
    quarantine topic ("" for none). A hub topic that is not among them has no rules.
    """
    known = {name: found for name, found in contributions.items() if name in hub_topics}
    sources = [source.topic for found in known.values() for source in found]
    targets = [hub_topics[name] for name in {*known, quarantine} if name in hub_topics]
    producer = hub_producer(config, sources, targets)
    compression, request = producer["compression.type"], largest_request(producer)
    room = (
        _Hub(hub_topics[quarantine], compression, request).bytes_ if quarantine in hub_topics else 0
    )
    rules = {}
    for name, found in known.items():
        hub = _Hub(hub_topics[name], compression, request)
        asked = config.topics.rules_for(name)
        goes_to = quarantine if asked.on_poison == "quarantine" else ""
        later = _bounds(hub, CLOCK_SLACK_MS + AHEAD_SLACK_MS, CLOCK_SLACK_MS + BEHIND_SLACK_MS)
        bounds = _bounds(hub, AHEAD_SLACK_MS, BEHIND_SLACK_MS)
        for source in found:
            # A transform may make anything of a record, so what the source holds says nothing.
            likely = bounds if asked.transform else _as_source(bounds, hub, source.topic)
            limits = replace(likely, max_bytes=None) if hub.compressed else likely
            rules[source.cluster, source.topic.name] = PoisonRule(goes_to, limits, room, later)
    return rules


def room_in(
    topic: str,
    config: Config,
    contributions: Mapping[str, Sequence[Contribution]],
    hub_topics: Mapping[str, TopicFacts],
) -> int:
    """The largest batch of one record that a hub topic takes; 0 when there is none."""
    if topic not in hub_topics:
        return 0
    sources = [source.topic for found in contributions.values() for source in found]
    targets = [hub_topics[name] for name in {*contributions, topic} if name in hub_topics]
    producer = hub_producer(config, sources, targets)
    return _Hub(hub_topics[topic], producer["compression.type"], largest_request(producer)).bytes_


def is_refusal(failure: str) -> bool:
    """Whether a write failed because of a record: by the class that its failure begins with.

    Spark hands on what a task threw as text, so its class is there by its name alone.
    """
    kind, _, words = failure.partition(": ")
    return kind in REFUSALS or REFUSED_WITH in words


def is_of_the_hub(failure: str) -> bool:
    """Whether a lane ended to have the hub read: no source is to blame, and the next try is
    another one.
    """
    return failure.partition(": ")[0] in (NO_ANSWER, STUCK, NOT_NEXT, CUT_OFF)


def without_stuck(failure: str) -> tuple[str, frozenset[str]]:
    """Why a lane ended, and the source partitions, as text, of which a hub partition took nothing.

    Its task could not give them up alone. There are none where it ended for another reason.
    """
    why, _, names = failure.partition(STUCK_OF)
    if not failure.startswith(STUCK) or not names:
        return failure, frozenset()
    return why, frozenset(names.split(", "))


def after_refusal(routes: Iterable[Route], topics: frozenset[Topic]) -> tuple[Route, ...]:
    """The routes, those of `topics` with the limits that hold once something was refused."""
    return tuple(
        replace(route, poison=replace(route.poison, limits=route.poison.once_refused))
        if (route.cluster, route.topic) in topics
        else route
        for route in routes
    )


def _bounds(hub: _Hub, ahead_slack: int, behind_slack: int) -> Limits:
    """All that the hub topic may refuse."""
    own = hub.topic.timestamp_type == "CreateTime"
    ahead, behind = hub.topic.timestamp_after_max_ms, hub.topic.timestamp_before_max_ms
    return Limits(
        max_bytes=hub.bytes_,
        ahead_ms=_less(ahead, ahead_slack) if own and ahead < FOREVER_MS else None,
        behind_ms=_less(behind, behind_slack) if own and behind < FOREVER_MS else None,
        key_required="compact" in policies(hub.topic.cleanup_policy),
    )


def _as_source(bounds: Limits, hub: _Hub, source: TopicFacts) -> Limits:
    """The bounds that records of this source topic may go beyond, as it is set up now."""
    plain = source.compression_type == "uncompressed"
    if plain and source.max_message_bytes + HEADER_SLACK_BYTES <= hub.bytes_:
        bounds = replace(bounds, max_bytes=None)
    # What the source took is less far ahead when the hub gets it.
    if (
        source.timestamp_type != "CreateTime"
        or source.timestamp_after_max_ms <= hub.topic.timestamp_after_max_ms
    ):
        bounds = replace(bounds, ahead_ms=None)
    if "compact" in policies(source.cleanup_policy):
        bounds = replace(bounds, key_required=False)
    return bounds


def _less(bound: int, slack: int) -> int:
    return bound - min(slack, bound // 2)
