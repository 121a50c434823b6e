"""Hub topic names: the rename template filled in, and Kafka's rules for topic names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

MAX_TOPIC_NAME = 249
"""Kafka's bound: a topic name plus '-<partition>' must fit a file name."""


def hub_topic_name(template: str, cluster: str, topic: str) -> str:
    """The template with `${cluster}` and `${topic}` filled in; not validated."""
    values = {"cluster": cluster, "topic": topic}
    return re.sub(r"\$\{(cluster|topic)\}", lambda match: values[match.group(1)], template)


def source_topic(template: str, cluster: str, hub_topic: str) -> str | None:
    """The source topic that the template turns into `hub_topic`, None when there is none.

    The inverse of `hub_topic_name`; "" when the template does not hold `${topic}`, so that every
    topic becomes this one.
    """
    head, *rest = template.replace("${cluster}", cluster).split("${topic}")
    regex = re.escape(head)
    for index, part in enumerate(rest):
        regex += ("(?P<topic>.+)" if index == 0 else "(?P=topic)") + re.escape(part)
    match = re.fullmatch(regex, hub_topic)
    return None if match is None else match.groupdict().get("topic", "")


def topic_name_problem(name: str) -> str | None:
    """What Kafka has against this topic name, in words; None when it is a legal name."""
    if not name:
        return "the name is empty"
    if name in (".", ".."):
        return f"'{name}' is no topic name"
    if len(name) > MAX_TOPIC_NAME:
        return f"{len(name)} characters long, Kafka allows {MAX_TOPIC_NAME}"
    wrong = sorted(set(re.findall(r"[^A-Za-z0-9._-]", name)))
    if wrong:
        return f"characters {' '.join(repr(char) for char in wrong)} are not allowed"
    return None


def colliding_names(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups of names that differ only by '.' and '_', which Kafka's metrics cannot tell apart."""
    groups: dict[str, set[str]] = defaultdict(set)
    for name in names:
        groups[name.replace(".", "_")].add(name)
    return [tuple(sorted(group)) for _, group in sorted(groups.items()) if len(group) > 1]
