"""Finds the hub's schema ids for those of the sources; a thread for each source.

Nothing waits for it: records whose ids are unknown wait where they are read, all others flow.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from aggregator.config.in_force import InForce
from aggregator.config.schema import Config
from aggregator.features.schemas.registries import CopiedSchema, Registries, SchemaAnswer
from aggregator.features.schemas.subjects import Answers, Named, NoSchema, Question, question
from aggregator.kafka.registry.copying import Owed
from aggregator.model.errors import RegistryError
from aggregator.model.events import Event, EventSink
from aggregator.model.loop import Loop
from aggregator.model.values import Route, SchemaIds

if TYPE_CHECKING:
    from aggregator.datapath.spark.lane import LaneQuery

AGAIN_SECONDS = 5.0
"""After a registry did not answer, or refused a schema."""
LOOK_SECONDS = 60.0
"""Between two rounds that ask the registries again for ids in use, and for those they lacked."""
PACE_SECONDS = 0.1
"""Between two of these questions: they are no load for a registry, and give way to new ones."""
MOST_NOTES = 20
"""The most unknown ids of a topic in the log: there may be one in each record."""
MAX_REPORTED = 1_000
UNSURE = "whether the ids of its registry and the hub's are what they were is not known"


class Translator:
    """The ids of all sources. `known` is replaced as a whole; the rest is the engine's thread's."""

    def __init__(self, in_force: InForce, emit: EventSink) -> None:
        self.known: Mapping[str, SchemaIds] = {}
        self._in_force = in_force
        self._emit = emit
        self._lock = threading.Lock()
        self._routes: dict[tuple[str, str], Route] = {}
        self._workers: dict[str, _Worker] = {}
        self._config: Config | None = None

    def follow(self, routes: Iterable[Route]) -> None:
        """Know where topics go, before anything of them is asked.

        Answers for one that goes elsewhere now, or by another rule, are asked for again.
        """
        self._follow_config()
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
            worker = _Worker(self, alias, self.registries(alias))
            with self._lock:
                self._workers[alias] = worker
            worker.start()
        self._workers[alias].ask(questions)

    def serve(self, query: LaneQuery) -> None:
        """Search for the ids that the tasks of a query ask for, and send them the known ones.

        Costs nothing where no topic asks for it.
        """
        if not self._routes:
            return
        self._follow_config()
        for task in query.report.tasks:
            if task.unknown:
                self.ask(task.cluster, [question(*it) for it in task.unknown])
        query.schemas(self.known)

    def stop(self) -> None:
        """End the threads soon; a registry that hangs is not waited for."""
        for worker in self._workers.values():
            worker.stop()

    def registries(self, alias: str) -> Registries | None:
        """Those of a source and the hub by the config in force; None for a source that left."""
        config = self._in_force.config
        source = config.sources.get(alias)
        if source is None:
            return None
        return Registries(alias, source.schemas, config.hub.schemas)

    def answer(self, alias: str, asked: Question) -> SchemaAnswer:
        """What an id is at the hub, registered there if need be; or that there is none.

        RegistryError when one of the two registries does not say, or the hub's refuses it.
        """
        return self._asked(alias).answer(self._routes.get((alias, asked.topic)), asked)

    def holds(self, alias: str, asked: Question, copied: CopiedSchema) -> bool:
        """Whether both registries still give the basis of an answer; RegistryError as above."""
        return self._asked(alias).holds(asked, copied)

    def settle(self, alias: str, owed: Owed) -> Owed | None:
        """Set what a subject of the hub is owed; returns what still is. RegistryError as above."""
        return self._asked(alias).settle(owed)

    def _asked(self, alias: str) -> Registries:
        found = self.registries(alias)
        if found is None:
            raise RegistryError(f"sources.{alias} is not there any more")
        return found

    def publish(self, worker: _Worker, answers: Answers) -> None:
        """Put answers into `known`, if they are of the registries of now."""
        with self._lock:
            if self._workers.get(worker.alias) is worker:
                self.known = {**self.known, worker.alias: answers.by_topic()}

    def note(self, alias: str, words: str) -> None:
        """Emit an event about the schemas of a source."""
        self._emit(Event("schemas", f"{alias}: {words}", {"source": alias}))

    def _follow_config(self) -> None:
        """Forget the answers of registries that are not those of the config in force."""
        if not self._workers or self._in_force.config is self._config:
            return
        self._config = self._in_force.config
        for alias, worker in list(self._workers.items()):
            if worker.registries != self.registries(alias):
                worker.stop()
                with self._lock:
                    del self._workers[alias]
                    self.known = {it: answers for it, answers in self.known.items() if it != alias}


class _Worker:
    """Answers the questions of one source, one after the other, by the same two registries."""

    def __init__(self, translator: Translator, alias: str, registries: Registries | None) -> None:
        self.alias = alias
        self.registries = registries
        self._translator = translator
        self._lock = threading.Lock()
        self._wanted: set[Question] = set()
        self._answers = Answers()
        self._copied: dict[Question, CopiedSchema] = {}
        self._owed: dict[str, Owed] = {}
        self._reported: dict[Question | str, str] = {}
        self._forgotten = 0
        self._queue: list[Question] = []
        self._round_at = self._look_at = time.monotonic() + LOOK_SECONDS
        self._again_at: float | None = None
        self._hurries = self._is_asked = False
        self._loop = Loop(
            f"schemas-{alias}", self._turn, every=self._seconds_left, on_error=self._fail
        )

    @property
    def _is_over(self) -> bool:
        return self._loop.over.is_set()

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        self._loop.end()

    def ask(self, questions: Collection[Question]) -> None:
        with self._lock:
            new = {it for it in questions if it not in self._answers.of} - self._wanted
            self._wanted |= new
        if new:
            self._wake()

    def forget(self, topic: str) -> None:
        with self._lock:
            self._forgotten += 1
            self._wanted = {it for it in self._wanted if it.topic != topic}
            self._copied = {it: copied for it, copied in self._copied.items() if it.topic != topic}
            self._answers = self._answers.without(topic)
            self._translator.publish(self, self._answers)

    def _wake(self) -> None:
        self._is_asked = True
        self._loop.wake()

    def _seconds_left(self) -> float:
        due = self._look_at if self._again_at is None else min(self._look_at, self._again_at)
        return max(0.0, due - time.monotonic())

    def _turn(self) -> None:
        # Taken back before it looks at what is wanted: what is asked from here on is not forgotten.
        is_asked, self._is_asked = self._is_asked, False
        if is_asked or (self._again_at is not None and time.monotonic() >= self._again_at):
            with self._lock:
                wanted = sorted(self._wanted, key=str)
            failed = [it for it in wanted if not self._is_over and not self._find(it)]
            self._again_at = time.monotonic() + AGAIN_SECONDS if failed else None
        if time.monotonic() >= self._look_at and not self._is_over:
            self._look_at = self._look_on()

    def _fail(self, error: Exception) -> None:
        self._again_at = self._look_at = time.monotonic() + AGAIN_SECONDS
        self._report("look", f"{UNSURE}: {error}")

    def _look_on(self) -> float:
        """Ask again for one of those that have answers; returns when the next one is due."""
        if not self._queue:
            self._round_at = time.monotonic() + LOOK_SECONDS
            self._queue, self._hurries = [*self._copied, *self._answers.refused], False
            self._settle()
        if self._queue and not self._look(self._queue.pop()):
            self._queue.clear()
        if not self._queue:
            return self._round_at
        # Where one is wrong others are as well, as a rule.
        return time.monotonic() + (0.0 if self._hurries else PACE_SECONDS)

    def _find(self, asked: Question) -> bool:
        forgotten = self._forgotten
        try:
            found = self._translator.answer(self.alias, asked)
        except Exception as error:  # a thread has no caller to raise to: it is why records wait
            self._wait(asked, str(error) or type(error).__name__, forgotten)
            return False
        with self._lock:
            self._wanted.discard(asked)
            if forgotten != self._forgotten:
                # It may be an answer by a rule that no longer holds; tasks that still need it ask
                # again.
                return True
            is_new = self._answers.of.get(asked) != found.answer
            if found.copied is not None:
                self._copied[asked] = found.copied
            if is_new:
                self._answers = self._answers.with_answer(asked, found.answer)
                self._translator.publish(self, self._answers)
        if is_new:
            self._report_answer(asked, found.answer)
        self._owe(found.owed)
        return True

    def _wait(self, asked: Question, why: str, forgotten: int) -> None:
        """Report why records wait: once for each reason."""
        with self._lock:
            is_answered = asked in self._answers.of
            is_new = self._answers.waits.get(asked) != why and not is_answered
            if is_new and forgotten == self._forgotten:
                self._answers = self._answers.with_wait(asked, why)
                self._translator.publish(self, self._answers)
        topic, side, schema = asked
        if is_answered:
            self._report("look", f"{UNSURE}: {why}")
        else:
            words = f"the records of {topic} with schema {schema} in their {side} wait: {why}"
            self._report(asked, words)

    def _look(self, asked: Question) -> bool:
        """Check an answer; False when a registry does not say anything just now."""
        copied = self._copied.get(asked)
        if copied is None:
            return asked not in self._answers.refused or self._find(asked)
        try:
            holds = self._translator.holds(self.alias, asked, copied)
        except Exception as error:  # a thread has no caller to raise to
            # Known ids are written as before; records whose ids are not known say why they wait.
            self._report("look", f"{UNSURE}: {error}")
            return False
        self._reported.pop("look", None)
        if not holds:
            self._invalidate(asked)
        return True

    def _invalidate(self, asked: Question) -> None:
        """An answer is wrong by now: its records wait for the next one."""
        with self._lock:
            if self._copied.pop(asked, None) is None:
                return
            self._answers = self._answers.without_answer(asked)
            self._wanted.add(asked)
            self._translator.publish(self, self._answers)
        self._hurries = True
        self._wake()
        topic, side, schema = asked
        words = f"schema {schema} of {side}s of {topic} is not what it was at a registry"
        self._report(asked, f"{words}: it is asked for again")

    def _settle(self) -> None:
        owed, self._owed = self._owed.values(), {}
        for each in owed:
            try:
                still = self._translator.settle(self.alias, each)
            except Exception as error:  # a thread has no caller to raise to: it becomes a note
                still = each._replace(why=str(error))
            self._owe(() if still is None else (still,))

    def _owe(self, owed: Collection[Owed]) -> None:
        for each in owed:
            self._owed[each.subject] = each
            words = f"new subject {each.subject} of the hub has not got the compatibility setting"
            self._report(each.subject, f"{words} {each.level} of its source: {each.why}")

    def _report(self, about: Question | str, words: str) -> None:
        if words != self._reported.get(about) and not self._is_over:
            if len(self._reported) >= MAX_REPORTED:
                self._reported.clear()
            self._reported[about] = words
            self._translator.note(self.alias, words)

    def _report_answer(self, asked: Question, answer: Named | NoSchema) -> None:
        topic, side, schema = asked
        if not isinstance(answer, NoSchema):
            self._report(asked, f"schema {schema} of {side}s of {topic} is {answer} at the hub")
            return
        others = [it for it in self._answers.refused if it[:2] == asked[:2]]
        if len(others) <= MOST_NOTES:
            words = (
                f"no schema {schema} is known to its registry: {side}s of {topic} are kept aside"
            )
            self._report(asked, words)
        else:
            words = f"more than {MOST_NOTES} schemas that {side}s of {topic} name are not known to"
            fix = "where these are no schema ids, topics.schemas: pass copies them as they are"
            self._report(f"{topic} {side}", f"{words} its registry ({fix})")
