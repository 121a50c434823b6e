"""One round: a world, a script of faults, a drain with a deadline, and the verdict."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from faults.batch_origins import BatchOrigins
from faults.build import remove, world
from faults.judge import Judge, Verdict
from faults.nemeses import strike
from faults.schedule import LOCAL, faults
from faults.usage import Usage, metering, trends
from faults.world import TOPIC, Progress, Restart, Settings, Struck, World

DRAIN_SECONDS = 200.0
STILL_SECONDS = 0.5
READ_SECONDS = 120.0
"""A reader that gets nothing for this long has failed."""

Script = Callable[[World], None]


@dataclass
class Round:
    """What one round was, did and found."""

    name: str
    says: str
    settings: Settings
    began: str
    seconds: float = 0.0
    drained: float | None = None
    struck: Sequence[Struck] = ()
    restarts: Sequence[Restart] = ()
    failures: list[str] = field(default_factory=list)
    notes: Sequence[str] = ()
    usages: Sequence[Usage] = ()
    verdict: Verdict = field(default_factory=Verdict)
    folder: str = ""

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.failures and not self.verdict.problems


def random_script(minutes: float, kinds: Sequence[str] = LOCAL, count: int | None = None) -> Script:
    """Faults drawn from the world's seed, one after the other, for `minutes`; at most `count`."""

    def script(made: World) -> None:
        for fault in islice(faults(made.settings.seed, kinds), count):
            if made.seconds > 60 * minutes:
                return
            time.sleep(fault.calm)
            strike(made, fault)

    return script


def run_round(
    name: str,
    says: str,
    settings: Settings,
    script: Script,
    progress: Progress,
    *,
    evaluate: Script | None = None,
    folder: Path | None = None,
) -> Round:
    """Run a script under load, drain, judge. What goes wrong is in the round's `failures`.

    `evaluate` looks at the world once the hub was read, and may add notes and failures.
    The folder is removed when all is good, and kept when not.
    """
    done = Round(name, says, settings, time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()))
    with world(settings, progress, folder) as made:
        done.folder = str(made.folder)
        try:
            with metering(made) as done.usages:
                made.restart_app("the first start")
                script(made)
            done.drained = drain(made)
        except Exception as error:
            # What the hub holds is judged all the same, and no more is written meanwhile.
            made.note(f"the script ended early: {type(error).__name__}: {error}")
            for writer in (*made.writers, *made.aging):
                writer.stop()
        done.verdict = judge(made, progress)
        if evaluate is not None:
            try:
                evaluate(made)
            except Exception as error:
                # What was found by now is written all the same.
                made.note(f"the evaluation ended early: {type(error).__name__}: {error}")
        for it in trends(done.usages):
            if it.grows:
                made.note(f"{it.measure} of life {it.life} grow: {it.first:,.0f} to {it.last:,.0f}")
        writers = (*made.writers, *made.aging)
        done.failures = made.failures + [it for each in writers for it in each.failed]
        done.struck, done.restarts, done.notes = made.struck, made.restarts, made.notes
        done.seconds = made.seconds
    if done.good:
        remove(made)
        done.folder = ""
    return done


def drain(made: World) -> float:
    """End the load, wait until the hub holds it all, stop the application; seconds it took."""
    began, allowed = time.monotonic(), DRAIN_SECONDS * made.settings.patience
    for writer in (*made.writers, *made.aging):
        writer.stop()
    expected = made.expected()
    made.progress(f"no more load; {expected} records have to be in the hub")
    before = -1
    while (held := made.delivered()) < expected or held != before:
        # A record that is there twice must not stand in for a missing one: the count has to stop.
        before = held
        made.keep_alive()
        if time.monotonic() > began + allowed:
            made.note(f"{held} of {expected} records in the hub {allowed:.0f} s after the load")
            break
        time.sleep(STILL_SECONDS)
    seconds = time.monotonic() - began
    made.stop_app()
    return round(seconds, 1)


def judge(made: World, progress: Progress) -> Verdict:
    """Read every source and the hub as a stranger would, and compare."""
    made.source_arrivals = {alias: array("q") for alias in made.sources}
    made.hub_arrivals = {alias: array("q") for alias in made.sources}
    acks: Mapping[tuple[str, int], bytearray] = {
        place: acked for writer in made.writers for place, acked in writer.acks().items()
    }
    verdict = _judge_topic(made, TOPIC, made.aliases, acks)
    for topic, alias in made.topics_in_hub().items():
        verdict.join(_judge_topic(made, topic, (alias,), {}))
    progress(f"{verdict.in_hub} records in the hub; wrong: {verdict.problems or 'nothing'}")
    return verdict


def _judge_topic(
    made: World,
    topic: str,
    aliases: Sequence[str],
    acks: Mapping[tuple[str, int], bytearray],
) -> Verdict:
    """What is right and wrong of one topic, which has the same name at the sources and the hub."""
    noted = made.settings.log_append_time
    judging = Judge(topic, timestamps=not noted)
    for alias in aliases:
        for message in read(made.sources[alias].admin_servers, topic):
            if noted:
                made.source_arrivals[alias].append(message.timestamp()[1])
            judging.source(
                alias, number(message.partition()), number(message.offset()), *_parts(message)
            )
    passed = _batch_origins(made, topic, aliases)
    for message in read(made.hub.admin_servers, topic):
        place = number(message.partition()), number(message.offset())
        alias_found = judging.hub(place[0], *_parts(message), passed.origin(*place))
        if noted and alias_found in made.hub_arrivals:
            made.hub_arrivals[alias_found].append(message.timestamp()[1])
    verdict = judging.verdict(acks)
    if made.settings.batches and topic == TOPIC:
        words = (
            f"{passed.records} of {verdict.in_hub} hub records are of batches copied as they are"
        )
        (made.notes.append if passed.records else made.note)(words)
    return verdict


def _batch_origins(made: World, topic: str, aliases: Sequence[str]) -> BatchOrigins:
    if not made.settings.batches:
        return BatchOrigins({}, ())
    return BatchOrigins(
        made.logs_of(topic),
        [
            (alias, topic, each)
            for alias in aliases
            for each in range(made.settings.source_partitions)
        ],
    )


def read(servers: str, topic: str) -> Iterator[Message]:
    """Every record of a topic, in the order of each partition, up to the ends it has now.

    Of one that is not there: none.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "judge",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "queued.max.messages.kbytes": 16_384,
            "fetch.queue.backoff.ms": 10,
            "log_level": 0,
        }
    )
    try:
        waiting = set(consumer.list_topics(topic, timeout=READ_SECONDS).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, each, 0) for each in waiting])
        last = time.monotonic()
        while waiting:
            for message in consumer.consume(5_000, timeout=0.5):
                last = time.monotonic()
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard(number(message.partition()))
            if time.monotonic() > last + READ_SECONDS:
                raise TimeoutError(f"{servers}: nothing to read for {READ_SECONDS:.0f} s")
    finally:
        consumer.close()


def number(value: int | None) -> int:
    """A number that a record always has, though the types allow it not to."""
    assert value is not None
    return value


def _parts(message: Message) -> tuple[Any, Any, Any, int]:
    return message.key(), message.value(), message.headers() or [], message.timestamp()[1]
