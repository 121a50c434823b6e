"""Holds an admin client: replaces one that gets no answers, closes it when no request is open.

librdkafka (2.16.0, rd_kafka_admin_response_parse) ends the whole process when topics are described
to a client that is just being closed. So a client is closed when all it was asked is answered or
given up, which each request is at its own timeout.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any

from confluent_kafka.admin import AdminClient, ClusterMetadata

from aggregator.kafka.admin.client_errors import is_local
from aggregator.kafka.admin.offsets import KNOWN_SECONDS, Leaders, leaders_of

RETRY_SECONDS = 0.1
FIRST_TRY = 0.3
"""The part of its time for which a question for metadata waits for the broker that it chose."""


class _Held:
    """A client and what it was asked and has not answered."""

    def __init__(self, client: AdminClient) -> None:
        self.client = client
        self.open: set[Future[Any]] = set()
        self.leaders: Leaders | None = None
        self.read_at = 0.0

    def learn(self, timeout: float) -> ClusterMetadata:
        """Read the cluster's metadata, which the client then knows, too."""
        began = time.monotonic()
        found = self.client.list_topics(timeout=timeout)
        self.leaders, self.read_at = leaders_of(found), began
        return found

    def add(self, future: Future[Any]) -> None:
        self.open.add(future)
        future.add_done_callback(self.open.discard)

    def release(self) -> None:
        """Close the client when no call uses it, in a thread: a hung broker must not delay it."""
        threading.Thread(target=self._end, daemon=True, name="kafka-admin-close").start()

    def _end(self) -> None:
        while left := list(self.open):
            wait(left)
        del self.client


class ClientHandle:
    """The present client; safe to use from many threads. Its requests are methods of this, too.

    `make` makes a client without connecting, `closed` the error for a call on a closed one.
    `replaced` counts the clients before the present one.
    """

    def __init__(self, make: Callable[[], AdminClient], closed: Callable[[], Exception]) -> None:
        self._make, self._closed = make, closed
        self._lock = threading.Lock()
        self._held: _Held | None = _Held(make())
        self.replaced = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A request of the client, by its own name, that answers by a future or by some."""

        def ask(*args: Any, **options: Any) -> Any:
            with self._lock:
                held = self._present()
                asked = getattr(held.client, name)(*args, **options)
                for future in asked.values() if isinstance(asked, Mapping) else [asked]:
                    held.add(future)
                return asked

        return ask

    def poll(self, seconds: float) -> None:
        """Run the client's callbacks for this many seconds."""
        with self._using() as held:
            held.client.poll(seconds)

    def metadata(self, timeout: float) -> Future[ClusterMetadata]:
        """The cluster's metadata, or the KafkaException that came instead until the timeout."""
        answer: Future[ClusterMetadata] = Future()
        end = time.monotonic() + timeout

        def ask() -> None:
            # A broker that hangs may be asked first; another try may choose another one.
            seconds = timeout * FIRST_TRY
            while not answer.done():
                try:
                    with self._using() as held:
                        answer.set_result(held.learn(seconds))
                except Exception as error:
                    # A connection that failed is made again, as for every other request.
                    if not is_local(error) or time.monotonic() >= end:
                        answer.set_exception(error)
                    else:
                        time.sleep(RETRY_SECONDS)
                        seconds = max(RETRY_SECONDS, end - time.monotonic())

        threading.Thread(target=ask, daemon=True, name="kafka-admin-metadata").start()
        return answer

    def leaders(self) -> Leaders | None:
        """The leaders that the present client knows; None when it has to read them (again)."""
        with self._lock:
            held = self._present()
            return held.leaders if time.monotonic() - held.read_at < KNOWN_SECONDS else None

    def forget_leaders(self) -> None:
        """What the client knows of leaders is no longer so."""
        with self._lock:
            self._present().leaders = None

    def renew(self) -> None:
        """Replace the client with a new one, unless it is closed."""
        fresh = _Held(self._make())
        with self._lock:
            old = self._held or fresh
            if self._held is not None:
                self._held = fresh
                self.replaced += 1
        old.release()

    def close(self) -> None:
        """Let the client go, without waiting for it."""
        with self._lock:
            old, self._held = self._held, None
        if old is not None:
            old.release()

    @contextmanager
    def _using(self) -> Iterator[_Held]:
        used: Future[None] = Future()
        with self._lock:
            held = self._present()
            held.add(used)
        try:
            yield held
        finally:
            used.set_result(None)

    def _present(self) -> _Held:
        if self._held is None:
            raise self._closed()
        return self._held
