"""Calls to one cluster: each has a deadline, and fails as `ClusterCallError` that says why.

librdkafka's log lines and error events are taken from it here, never written to stderr.
"""

import logging
import time
from collections import deque
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_all
from typing import Any, TypeGuard, TypeVar

from confluent_kafka import KafkaError, KafkaException, ThrottleEvent
from confluent_kafka.admin import AdminClient

from aggregator.config.schema import ClusterConfig
from aggregator.kafka.admin.client_errors import (
    AUTHENTICATION,
    ClusterCallError,
    error_within,
    explain,
    is_local,
    is_timeout_text,
    not_trusted,
    with_reason,
    without_credentials,
)
from aggregator.kafka.admin.held_client import ClientHandle
from aggregator.kafka.admin.offsets import CLIENT_SETTINGS
from aggregator.kafka.credentials import CredentialsError, client_settings, why_not_trusted

log = logging.getLogger("aggregator.kafka")


class ClientLog:
    """Where librdkafka's own log lines go: our debug log, whatever their level.

    The last failure of a connection is kept: some causes, such as a broker that closes it, are
    reported in a log line only.
    """

    def __init__(self) -> None:
        self.failure = ""

    def log(self, level: int, message: str, *args: object) -> None:
        """Called by the client for each line."""
        del level
        log.debug(message, *args)
        text = message % args if args else message
        if text.startswith("FAIL "):
            self.failure = text.rpartition("]: ")[2]


GRACE_SECONDS = 3.0
"""When all brokers are down for this long, a call ends early. One refusal proves nothing: a name
may have several addresses of which only one answers."""
GREETING_MS = "2000"
"""A new connection on which nothing comes for this long is closed, and another broker is tried: of
one that hangs the system accepts connections. Librdkafka's default is the time that a call has."""
RENEW_SECONDS = 30.0
"""A client whose calls fail for this long is replaced. After a minute without an answer librdkafka
closes its connection. We saw it open no other one for minutes after the cluster was back."""
POLL_SECONDS = 0.05
KEPT_EVENTS = 50

Result = TypeVar("Result")


class Calls:
    """The client of one cluster, and how its answers are waited for. For many threads."""

    def __init__(self, alias: str, config: ClusterConfig, path: str = "") -> None:
        self.alias = alias
        self.path = path or f"sources.{alias}"
        self._events: deque[KafkaError] = deque(maxlen=KEPT_EVENTS)
        self._reported: set[int] = set()
        self._lines = ClientLog()
        self._config = config
        self._settings: dict[str, Any] = {
            **CLIENT_SETTINGS,
            "error_cb": self._on_error,
            "throttle_cb": self._on_throttle,
            "logger": self._lines,
        }
        self._failing_since: float | None = None
        self._throttled_until = 0.0
        self.answered_at = 0.0
        """When the cluster last answered anything, by the monotonic clock."""
        self.client = ClientHandle(self._made, self._closed)

    def close(self) -> None:
        """Let the client go, without waiting for it: a hung broker must not delay anyone."""
        self.client.close()

    def _one(self, future: Future[Result], end: float, timeout: float) -> Result:
        result = self.wait({"": future}, timeout, end)[""]
        if isinstance(result, Exception):
            raise self._failed(result, timeout) from result
        return result

    def wait(
        self, futures: Mapping[Any, Future[Result]], timeout: float, until: float | None = None
    ) -> dict[Any, Result | Exception]:
        """Results by key, errors of single keys as values; `until` may end it before the timeout.

        Raises when the cluster is silent.
        """
        start = time.monotonic()
        end = start + timeout if until is None else until
        self._reported.clear()
        while not all(future.done() for future in futures.values()):
            # A poll of this length would end with the client's callbacks, not with an answer.
            wait_for_all(futures.values(), POLL_SECONDS)
            self.client.poll(0)
            now = time.monotonic()
            if now >= end:
                raise self._failed(None, timeout)
            if self._hopeless(now - start):
                raise self._failed(None, now - start)
        self.client.poll(0)
        results: dict[Any, Result | Exception] = {}
        for key, future in futures.items():
            error = future.exception()
            if error is not None and not isinstance(error, Exception):
                raise error
            result = future.result() if error is None else error
            results[key] = error_within(result) or result
        errors = [it for it in results.values() if is_silence(it)]
        if errors and len(errors) == len(results):
            raise self._failed(errors[0], timeout) from errors[0]
        self._answered()
        return results

    def answered_within(self, futures: Collection[Future[Any]], seconds: float) -> bool:
        """Whether all are answered so soon, or it shows so soon that waiting is useless."""
        self._reported.clear()
        start = time.monotonic()
        while not all(future.done() for future in futures):
            wait_for_all(futures, POLL_SECONDS)
            self.client.poll(0)
            waited = time.monotonic() - start
            if self._hopeless(waited):
                return True
            if waited >= seconds:
                return False
        return True

    def _hopeless(self, waited: float) -> bool:
        """Whether the errors reported during this call show that waiting longer is useless."""
        refused = not self._reported.isdisjoint(AUTHENTICATION)
        # One that accepts connections, and hangs, may answer in the time that is left.
        hangs = is_timeout_text(self._lines.failure)
        down = KafkaError._ALL_BROKERS_DOWN in self._reported and not hangs
        return refused or (down and waited >= GRACE_SECONDS)

    def throttled_seconds(self) -> float:
        """For how long the cluster will leave requests of this client unanswered: of its quotas."""
        return max(0.0, self._throttled_until - time.monotonic())

    def _on_throttle(self, event: ThrottleEvent) -> None:
        until = time.monotonic() + event.throttle_time
        self._throttled_until = max(self._throttled_until, until)

    def _on_error(self, error: KafkaError) -> None:
        self._events.append(error)
        self._reported.add(error.code())

    def _answered(self) -> None:
        self._events.clear()
        self._failing_since = None
        self.answered_at = time.monotonic()

    def _failed(self, error: Exception | None, seconds: float) -> ClusterCallError:
        now = time.monotonic()
        since = self._failing_since = self._failing_since or now
        if now - since >= RENEW_SECONDS:
            self.client.renew()
            self._failing_since = None
        seen = list(self._events)
        line = self._lines.failure if seen else ""
        failure = explain(self.alias, self.path, error, seen, seconds, line)
        if not_trusted(failure) and (why := why_not_trusted(client_settings(self._config))):
            failure = with_reason(failure, self.path, why)
        return ClusterCallError(failure)

    def _made(self) -> AdminClient:
        try:
            # Rendered for each client, because certificates may have been renewed.
            own = {
                "client.id": f"aggregator-admin-{self.alias.strip('()')}",
                "api.version.request.timeout.ms": GREETING_MS,
                **client_settings(self._config),
            }
            return AdminClient({**own, **self._settings})
        except CredentialsError as error:
            raise ClusterCallError(without_credentials(self.alias, self.path, error)) from error
        except (KafkaException, ValueError, TypeError) as error:
            raise ClusterCallError(explain(self.alias, self.path, error, (), 0)) from error

    def _closed(self) -> ClusterCallError:
        closed = KafkaError(KafkaError._DESTROY, "the client is closed")
        return ClusterCallError(explain(self.alias, self.path, closed, (), 0))


def is_silence(answer: object) -> TypeGuard[Exception]:
    """Whether an answer is an error that no broker has reported."""
    return isinstance(answer, Exception) and is_local(answer)
