"""Finds out what the sources' schema ids are at the hub; a thread for each source.

Nobody waits for it: records whose ids are unknown wait where they are read, all others flow.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol
from uuid import UUID

from aggregator.config.in_force import InForce
from aggregator.config.schema import Config
from aggregator.connector.reports import LaneReport
from aggregator.errors import RegistryError
from aggregator.events import Event, EventSink
from aggregator.model import Route, SchemaIds
from aggregator.registry import open_registry
from aggregator.registry.copying import Subjects, copy_schema, read_definition
from aggregator.schemas.core import (
    Answers,
    Named,
    NoSchema,
    Question,
    plan_source_subject,
    plan_subject,
    question,
    refusal,
)

AGAIN_SECONDS = 5.0
"""After a registry did not answer, or refused a schema."""
REFUSED_SECONDS = 60.0
"""So often it is asked for ids again that it did not know."""


class Asking(Protocol):
    """A query of a lane, whose tasks may wait to be told of ids."""

    @property
    def report(self) -> LaneReport:
        """The newest that its tasks have told."""

    def schemas(self, known: Mapping[str, SchemaIds]) -> None:
        """Tell its tasks what is known, by cluster."""


class Translator:
    """The ids of all sources. `known` is replaced as a whole; the rest is the engine's thread's."""

    def __init__(self, in_force: InForce, emit: EventSink) -> None:
        self.known: Mapping[str, SchemaIds] = {}
        self._in_force = in_force
        self._emit = emit
        self._lock = threading.Lock()
        self._routes: dict[tuple[str, str], Route] = {}
        self._workers: dict[str, _Worker] = {}

    def follow(self, routes: Iterable[Route]) -> None:
        """Know where topics go, before anything of them is asked.

        What was told of one that goes elsewhere now, or by another rule, is asked anew.
        """
        for route in routes:
            place = (route.cluster, route.topic)
            before = self._routes.pop(place, None)
            if route.schemas != "pass":
                self._routes[place] = route
            is_same = before is not None and (before.hub_topic, before.schemas) == (
                route.hub_topic,
                route.schemas,
            )
            if not is_same and route.cluster in self._workers:
                self._workers[route.cluster].forget(route.topic)

    def ask(self, alias: str, questions: Collection[Question]) -> None:
        """Find these out, in a thread of its own. Returns at once."""
        if alias not in self._workers:
            self._workers[alias] = worker = _Worker(self, alias)
            worker.start()
        self._workers[alias].ask(questions)

    def serve(self, query: Asking) -> None:
        """Have found out what the tasks of a query ask for, and tell them what is known.

        Costs nothing where no topic asks for it.
        """
        if not self._routes:
            return
        for task in query.report.tasks:
            if task.unknown:
                self.ask(task.cluster, [question(*it) for it in task.unknown])
        query.schemas(self.known)

    def stop(self) -> None:
        """End the threads soon; nobody waits for a registry that hangs."""
        for worker in self._workers.values():
            worker.stop()

    def answer(self, alias: str, asked: Question) -> Named | NoSchema:
        """What an id is at the hub, registered there if need be; or that there is none.

        RegistryError when one of the two registries does not say, or the hub's refuses it.
        """
        config: Config = self._in_force.config
        source = open_registry(config.sources[alias].schemas)
        if source is None:
            raise RegistryError(f"sources.{alias}.schemas.registry is not set any more")
        definition = read_definition(source, asked.schema)
        if definition is None:
            return refusal(asked.schema)
        route = self._routes.get((alias, asked.topic))
        if route is None:
            raise RegistryError(f"topics.schemas is pass for {asked.topic} by now")
        if route.schemas == "check":
            return asked.schema
        hub = open_registry(config.hub.schemas)
        if hub is None:
            raise RegistryError("hub.schemas.registry is not set any more")
        copied = copy_schema(
            source,
            hub,
            asked.schema,
            definition,
            lambda found: Subjects(
                plan_source_subject(found, route.topic, asked.side),
                plan_subject(found, route.topic, route.hub_topic, asked.side),
            ),
        )
        # A registry without GUIDs has ids, and a header may hold one of these just as well.
        if isinstance(asked.schema, UUID) and copied.guid is not None:
            return copied.guid
        return copied.number

    def tell(self, alias: str, answers: Answers) -> None:
        """Make answers known to whoever reads `known`."""
        with self._lock:
            self.known = {**self.known, alias: answers.by_topic()}

    def note(self, alias: str, words: str) -> None:
        """Tell what happened to the schemas of a source."""
        self._emit(Event("schemas", f"{alias}: {words}", {"source": alias}))


class _Worker:
    """Answers the questions of one source, one after the other."""

    def __init__(self, translator: Translator, alias: str) -> None:
        self._translator = translator
        self._alias = alias
        self._lock = threading.Lock()
        self._wanted: set[Question] = set()
        self._answers = Answers()
        self._told: dict[Question, str] = {}
        self._forgotten = 0
        self._news = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._loop, name=f"schemas-{alias}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over = True
        self._news.set()

    def ask(self, questions: Collection[Question]) -> None:
        with self._lock:
            new = {it for it in questions if it not in self._answers.of} - self._wanted
            self._wanted |= new
        if new:
            self._news.set()

    def forget(self, topic: str) -> None:
        with self._lock:
            self._forgotten += 1
            self._wanted = {it for it in self._wanted if it.topic != topic}
            self._answers = self._answers.without(topic)
            self._translator.tell(self._alias, self._answers)

    def _loop(self) -> None:
        wait, refused_at = REFUSED_SECONDS, time.monotonic()
        while not self._over:
            self._news.wait(wait)
            self._news.clear()
            with self._lock:
                wanted = sorted(self._wanted, key=str)
            if time.monotonic() - refused_at >= REFUSED_SECONDS:
                refused_at = time.monotonic()
                wanted += self._answers.refused
            failed = [it for it in wanted if not self._over and not self._find(it)]
            wait = AGAIN_SECONDS if failed else REFUSED_SECONDS

    def _find(self, asked: Question) -> bool:
        forgotten = self._forgotten
        try:
            answer = self._translator.answer(self._alias, asked)
        except Exception as error:  # a thread has no caller to raise to: it is why records wait
            self._wait(asked, str(error) or type(error).__name__, forgotten)
            return False
        with self._lock:
            self._wanted.discard(asked)
            if forgotten != self._forgotten:
                # It may be an answer by a rule that holds no more; who still asks asks again.
                return True
            is_new = self._answers.of.get(asked) != answer
            if is_new:
                self._answers = self._answers.with_answer(asked, answer)
                self._translator.tell(self._alias, self._answers)
        if is_new:
            self._say(asked, _words(asked, answer))
        return True

    def _wait(self, asked: Question, why: str, forgotten: int) -> None:
        """Tell why records wait: once, as often as they may look at it."""
        with self._lock:
            is_new = self._answers.waits.get(asked) != why and asked not in self._answers.of
            if is_new and forgotten == self._forgotten:
                self._answers = self._answers.with_wait(asked, why)
                self._translator.tell(self._alias, self._answers)
        topic, side, schema = asked
        words = f"the records of {topic} with schema {schema} in their {side} wait: {why}"
        self._say(asked, words)

    def _say(self, asked: Question, words: str) -> None:
        if words != self._told.get(asked):
            self._told[asked] = words
            self._translator.note(self._alias, words)


def _words(asked: Question, answer: Named | NoSchema) -> str:
    topic, side, schema = asked
    if isinstance(answer, NoSchema):
        return f"no schema {schema} is known to its registry: {side}s of {topic} are kept aside"
    return f"schema {schema} of {side}s of {topic} is {answer} at the hub"
