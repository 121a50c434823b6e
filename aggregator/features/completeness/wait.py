"""Waits until the hub is complete up to a moment: for commands, notebooks, schedulers.

The table is read, so that no instance has to answer, and no Spark is needed.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from aggregator.config.schema import Config
from aggregator.features.completeness.claim_table import CompletenessTable
from aggregator.model.errors import EXIT_NOT_YET, AggregatorError, CheckpointError
from aggregator.plan.topics.feeders import feeders_of, selects
from aggregator.status.completeness import CompleteTopic, complete_topic
from aggregator.store.state_store import StateStore

POLL_SECONDS = 1.0

Ask = Callable[[], CompleteTopic | None]


class NotCompleteError(AggregatorError):
    """The hub was not complete up to the moment in time; the text says what holds it up.

    `found` is how far it was, None when nothing is claimed.
    """

    exit_code = EXIT_NOT_YET

    def __init__(self, text: str, found: CompleteTopic | None) -> None:
        super().__init__(text)
        self.found = found


def complete_topic_of(config: Config, topic: str, source: str | None) -> CompleteTopic | None:
    """What was last claimed of a hub topic: of one source, or of all together.

    None when nothing is claimed of it. Raises CheckpointError, and RefusedError when there is no
    such source.
    """
    if source is not None:
        config.chosen(source)
    table = CompletenessTable(StateStore.of(config.checkpoint))
    found = {(it.source, it.topic): it for it in table.newest(topic)}
    if (own := found.get((source, topic))) is not None:
        return complete_topic(own)
    # Nothing of the source flows into it yet.
    listing = found.get((source, ""))
    if listing is None or source is None or (None, topic) not in found:
        return None
    if listing.topics != (selects(config, source),) or source not in feeders_of(config).of(topic):
        return None
    return complete_topic(replace(listing, topic=topic))


def complete_up_to(config: Config, topic: str, source: str | None = None) -> datetime | None:
    """Every record of the hub topic with a timestamp up to then is there; None: nothing is claimed.

    Of one source, or of all together. But for what was lost at a source, and for late records.
    Raises as `complete_topic_of` does.
    """
    found = complete_topic_of(config, topic, source)
    return None if found is None else found.up_to


def wait_until_complete(
    config: Config,
    topic: str,
    until: datetime,
    source: str | None = None,
    timeout: float | None = None,
) -> CompleteTopic:
    """Return when the hub topic is complete up to `until`, a moment with a UTC offset.

    Raises NotCompleteError after `timeout` seconds (None waits for ever), else as
    `complete_topic_of` does.
    """
    if until.tzinfo is None:
        raise ValueError("until has no UTC offset: use datetime(..., tzinfo=UTC)")
    return wait_for(lambda: complete_topic_of(config, topic, source), topic, until, timeout)


def wait_for(
    ask: Ask,
    topic: str,
    until: datetime,
    timeout: float | None,
    report: Callable[[str], None] = lambda _: None,
) -> CompleteTopic:
    """The same for any way to ask; `report` gets a text whenever something else holds it up."""
    end = None if timeout is None else time.monotonic() + timeout
    found: CompleteTopic | None = None
    last = error = ""
    while True:
        try:
            found, error = ask() or found, ""
        except CheckpointError as failure:
            # Its files are merged and deleted now and then, and storage may be away.
            error = str(failure)
        if found is not None and found.up_to is not None and found.up_to >= until:
            return found
        laggard = None if found is None else found.laggard
        why = error or ("" if laggard is None else laggard.words)
        if why != last:
            last = why
            report(f"{_words(topic, found)}: {why}" if why else _words(topic, found))
        if end is not None and time.monotonic() >= end:
            words = f"{_words(topic, found)}, not to {until.isoformat()}"
            raise NotCompleteError(f"{words}: {why}" if why else words, found)
        left = POLL_SECONDS if end is None else min(POLL_SECONDS, end - time.monotonic())
        time.sleep(max(0.0, left))


def _words(topic: str, found: CompleteTopic | None) -> str:
    if found is None:
        return f"nothing is claimed of hub topic {topic} yet"
    if found.up_to is None:
        return f"hub topic {topic} is not complete up to any moment yet"
    return f"hub topic {topic} is complete up to {found.up_to.isoformat(timespec='seconds')}"
