"""Whether batches may be copied as they are: `topics.copy_as`. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from aggregator.config.values import map_at
from aggregator.model.errors import Problem

BATCHES = "batches"
PLACED = ("source_partition", "cluster")
"""By these all records of a batch go to one hub partition."""


def copy_problems(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """What a config asks of batches that only records can do, as far as its plain data shows."""
    topics = map_at(tree, "topics")
    rules = {"topics": topics}
    for name, override in map_at(topics, "overrides").items():
        if isinstance(override, dict):
            rules[f"topics.overrides.{name}"] = {**topics, **override}
    wanted = {path: it for path, it in rules.items() if it.get("copy_as") == BATCHES}
    for path, rule in wanted.items():
        yield from _problems_of_rule(f"{path}.copy_as", rule)
    if wanted:
        yield from _problems_beside(f"{min(wanted)}.copy_as", tree)


def _problems_of_rule(path: str, rule: Mapping[str, Any]) -> Iterator[Problem]:
    if rule.get("partition_by") not in PLACED:
        hint = "set it to source_partition, or copy_as: records"
        yield Problem(path, "batches needs partition_by: source_partition (or cluster)", hint)
    if rule.get("transform"):
        yield Problem(path, "batches cannot be transformed", "remove transform")
    if rule.get("schemas") not in (None, "pass"):
        yield Problem(path, "in batches no schema id is looked at", "set schemas: pass")
    if map_at(rule, "dedup").get("by"):
        yield Problem(path, "in batches no event is looked for", "set dedup: off for this topic")


def _problems_beside(path: str, tree: Mapping[str, Any]) -> Iterator[Problem]:
    """What reads origins in headers, which records of whole batches have not."""
    if map_at(tree, "stream").get("path") == "objects":
        yield Problem(path, "batches needs stream.path: bytes", "remove stream.path")
    if map_at(tree, "hub").get("known_as"):
        yield Problem(path, "batches would let records of hub.known_as loop", "set it to records")
