"""Applies a plan's changes at the hub: a few at once, thousands of topics while others flow."""

import queue
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from aggregator.config.schema import Config
from aggregator.kafka.admin import HUB, apply, open_admin
from aggregator.kafka.admin.apply import MOST_TOPICS
from aggregator.model.events import Event, EventSink
from aggregator.model.loop import FOREVER, Loop
from aggregator.plan.actions import Action, Applied, CreateTopic

AT_ONCE = 2 * MOST_TOPICS
"""Up to this many topics are waited for. More are made in the background."""
FACTOR = 3
"""Those that wait join when they are this many times as many as flow; or the last ones."""
AGAIN_SECONDS = 5.0
"""Before what the hub did not answer is asked for again."""
SHOWN_SECONDS = 3.0
"""Between two events that say how far it is."""


@dataclass(slots=True)
class _Wanted:
    """Topics to be created, by one config."""

    config: Config
    todo: list[CreateTopic]

    def take(self) -> list[CreateTopic]:
        """The next ones, which are no longer to do."""
        group, self.todo = self.todo[:MOST_TOPICS], self.todo[MOST_TOPICS:]
        return group


def not_there(answers: Sequence[Applied]) -> tuple[list[CreateTopic], list[Applied]]:
    """Of topics those to be tried again, and those that are refused. Pure.

    What is created and not shown yet by a slow broker is not refused.
    """
    failed = [it for it in answers if not it.ok]
    late = [it.action for it in failed if it.changed and isinstance(it.action, CreateTopic)]
    return late, [it for it in failed if not it.changed]


class HubChanges:
    """Changes the hub, in the caller's thread or in one of its own; used by one thread.

    What is made in the background is found by discovery: `wake` requests one when there are
    several times as many as at the last one, or all. With `all_now` nothing is.
    """

    def __init__(self, emit: EventSink, wake: Callable[[], None]) -> None:
        self.all_now = False
        self._emit = emit
        self._wake = wake
        self._wanted: _Wanted | None = None
        self._lock = threading.Lock()
        self._refused: queue.SimpleQueue[Applied] = queue.SimpleQueue()
        self._rest = FOREVER
        self._loop = Loop("hub-changes", self._turn, every=lambda: self._rest, on_error=self._waits)
        self._is_busy = False
        self._since: set[str] = set()
        self._held = frozenset[str]()
        self._in_force = AT_ONCE
        self._made = 0
        self._found = AT_ONCE
        self._shown = 0.0
        self._error = ""

    def stop(self) -> None:
        """End the thread soon; what is not made by then is planned again by the next start."""
        self._loop.end()

    def refused(self) -> list[Applied]:
        """What the hub has refused in the background since the last call."""
        found = []
        while not self._refused.empty():
            found.append(self._refused.get())
        return found

    def make(
        self, actions: Sequence[Action], config: Config, *, first: Collection[str] = ()
    ) -> tuple[list[Applied], frozenset[str]]:
        """Make these changes; what came of those that are made, and the topics that come later.

        When more than a few topics must be created, those whose name is in `first` and some
        others are made now, with all other changes; while others are being made, only those in
        `first`. It replaces what is still to be made by an older plan. Raises ClusterCallError when
        the hub does not answer.
        """
        creates = [it for it in actions if isinstance(it, CreateTopic)]
        others = [it for it in creates if it.name not in first]
        with self._lock:
            # A snapshot begins when the one before is used: it may miss what came since.
            since, self._since = self._since, set()
            later: list[CreateTopic] = []
            is_busy = self._is_busy
            if is_busy:
                later = others
            elif not self.all_now and len(creates) > AT_ONCE:
                later = others[MOST_TOPICS:]
            todo = [it for it in later if it.name not in since]
            self._wanted = _Wanted(config, todo)
        names = frozenset(it.name for it in later)
        now = [it for it in actions if not (isinstance(it, CreateTopic) and it.name in names)]
        answers = self._apply(now, config) if now else []
        if todo and not is_busy:
            self._loop.start()
            self._loop.wake()
        return answers, self._held_back(names)

    def _held_back(self, names: frozenset[str]) -> frozenset[str]:
        """Those that are still to come, and those that came but are too few yet.

        A lane restarts for what joins it: so that is done a few times, not at each discovery.
        """
        new = self._held - names
        if names and len(new) < FACTOR * self._in_force:
            names |= new
        else:
            self._in_force += len(new)
        self._held = names
        return names

    def _turn(self) -> None:
        self._rest = FOREVER
        with self._lock:
            wanted = self._wanted
            group = wanted.take() if wanted is not None else []
            self._is_busy = bool(group)
        if not group or wanted is None:
            return
        left = self._try(group, wanted)
        self._rest = AGAIN_SECONDS if left else 0.0
        made = {it.name for it in group} - {it.name for it in left}
        if left:
            with self._lock:
                wanted.todo += left
        if not made:
            return
        with self._lock:
            self._since |= made
        self._made += len(made)
        if not wanted.todo or self._made >= (FACTOR + 1) * self._found:
            self._found = self._made
            self._wake()
        self._report(len(wanted.todo))

    def _try(self, group: list[CreateTopic], wanted: _Wanted) -> list[CreateTopic]:
        """Create them; returns those to be tried again, as the hub did not answer or show them."""
        try:
            answers = self._apply(group, wanted.config)
        except Exception as error:  # a thread has no caller to raise to: it is tried again
            self._waits(error)
            return group
        self._error = ""
        late, refused = not_there(answers)
        for it in refused:
            self._refused.put(it)
        return late

    def _waits(self, error: Exception) -> None:
        if str(error) != self._error:
            self._emit(Event("hub_changes", f"topics wait to be created: {error}"))
        self._error = str(error)

    def _apply(self, actions: Sequence[Action], config: Config) -> list[Applied]:
        timeout = config.supervision.connect_timeout
        # By a client of its own: a hub that throttles leaves unanswered what it is asked next.
        with open_admin(config, HUB) as hub:
            answers = apply(actions, hub, timeout, progress=self._show, sleep=self._loop.over.wait)
        for it in answers:
            if it.ok and it.changed:
                self._emit(Event("hub_changed", str(it.action)))
        return list(answers)

    def _show(self, done: int, of: int) -> None:
        if of > AT_ONCE and self._is_due(last=done == of):
            self._emit(Event("hub_changes", f"{done:,} of {of:,} changes at the hub are made"))

    def _report(self, left: int) -> None:
        if self._is_due(last=not left):
            words = f"{left:,} topics are still to be created at the hub"
            self._emit(Event("hub_changes", words if left else "all topics are created at the hub"))

    def _is_due(self, *, last: bool) -> bool:
        now = time.monotonic()
        if not last and now - self._shown < SHOWN_SECONDS:
            return False
        self._shown = now
        return True
