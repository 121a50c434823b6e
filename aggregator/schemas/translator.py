"""Finds out what the sources' schema ids are at the hub; a thread for each source.

Nobody waits for it: records whose ids are unknown wait where they are read, all others flow.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from aggregator.config.in_force import InForce
from aggregator.config.schema import Config
from aggregator.connector.reports import LaneReport
from aggregator.errors import RegistryError
from aggregator.events import Event, EventSink
from aggregator.model import Route, SchemaIds
from aggregator.registry import open_registry
from aggregator.registry.copying import copy_schema, read_definition
from aggregator.schemas.core import Answers, Question, plan_subject, refusal

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
                self.ask(task.cluster, [Question(*it) for it in task.unknown])
        query.schemas(self.known)

    def stop(self) -> None:
        """End the threads soon; nobody waits for a registry that hangs."""
        for worker in self._workers.values():
            worker.stop()

    def answer(self, alias: str, question: Question) -> int | str:
        """What an id is at the hub, registered there if need be; or why there is none.

        RegistryError when one of the two registries does not say.
        """
        config: Config = self._in_force.config
        source = open_registry(config.sources[alias].schemas)
        if source is None:
            raise RegistryError(f"sources.{alias}.schemas.registry is not set any more")
        definition = read_definition(source, question.number)
        if definition is None:
            return refusal(question.number)
        route = self._routes.get((alias, question.topic))
        if route is None:
            raise RegistryError(f"topics.schemas is pass for {question.topic} by now")
        if route.schemas == "check":
            return question.number
        hub = open_registry(config.hub.schemas)
        if hub is None:
            raise RegistryError("hub.schemas.registry is not set any more")
        return copy_schema(
            source,
            hub,
            question.number,
            definition,
            lambda found: plan_subject(found, route.topic, route.hub_topic, question.side),
        )

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
                wanted = sorted(self._wanted)
            if time.monotonic() - refused_at >= REFUSED_SECONDS:
                refused_at = time.monotonic()
                wanted += self._answers.refused
            failed = [it for it in wanted if not self._over and not self._find(it)]
            wait = AGAIN_SECONDS if failed else REFUSED_SECONDS

    def _find(self, question: Question) -> bool:
        forgotten = self._forgotten
        try:
            answer = self._translator.answer(self._alias, question)
        except RegistryError as error:
            topic, side, number = question
            words = f"the records of {topic} with schema {number} in their {side} wait: {error}"
            self._say(question, words)
            return False
        with self._lock:
            self._wanted.discard(question)
            if forgotten != self._forgotten:
                # It may be an answer by a rule that holds no more; who still asks asks again.
                return True
            is_new = self._answers.of.get(question) != answer
            if is_new:
                self._answers = self._answers.with_answer(question, answer)
                self._translator.tell(self._alias, self._answers)
        if is_new:
            self._say(question, _words(question, answer))
        return True

    def _say(self, question: Question, words: str) -> None:
        if words != self._told.get(question):
            self._told[question] = words
            self._translator.note(self._alias, words)


def _words(question: Question, answer: int | str) -> str:
    topic, side, number = question
    if isinstance(answer, str):
        return f"no schema {number} is known to its registry: {side}s of {topic} are kept aside"
    return f"schema {number} of {side}s of {topic} is {answer} at the hub"
