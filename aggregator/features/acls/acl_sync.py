"""Adds ACLs at the hub while it runs, for the sources with `acls.sync`, at every refresh.

A thread of its own with clients of its own: a cluster that hangs, or a right that is missing, is a
state and an event, and delays nobody.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime

from aggregator.config.schema import Config
from aggregator.features.acls.acl_admin import add_acls, look_at_acls, synced_sources, who_is
from aggregator.kafka.admin import HUB, open_admin
from aggregator.model.events import Event, EventSink
from aggregator.plan.plan import Plan
from aggregator.status.schema import AclSyncStatus

LAST_SECONDS = 2.0


class AclSync:
    """Keeps the hub's ACLs up, for the sources whose config asks for it, until it is stopped.

    `follow` and `end` are called by the engine's thread; the work is done by one of its own.
    """

    def __init__(self, emit: EventSink) -> None:
        self._emit = emit
        self._told: tuple[Config, Plan] | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._status = AclSyncStatus()

    def follow(self, config: Config, plan: Plan | None) -> None:
        """This is planned now."""
        if plan is None or self._over.is_set():
            return
        self._told = config, plan
        if self._thread is None and synced_sources(config):
            self._thread = threading.Thread(target=self._loop, name="sync-acls", daemon=True)
            self._thread.start()

    @property
    def status(self) -> AclSyncStatus | None:
        """How it stands; None where no source asks for it."""
        told = self._told
        return self._status if told is not None and synced_sources(told[0]) else None

    def end(self) -> None:
        """Add nothing more; returns at once."""
        self._over.set()

    def stop(self) -> None:
        """End it, and wait a moment for that."""
        self.end()
        if self._thread is not None:
            self._thread.join(LAST_SECONDS)

    def _loop(self) -> None:
        while not self._over.is_set() and self._told is not None:
            config, plan = self._told
            if synced_sources(config):
                try:
                    self._pass(config, plan)
                except Exception as error:  # a thread has no caller to raise to: it is the state
                    failed = {"error": str(error), "at": datetime.now(UTC)}
                    self._tell(self._status.model_copy(update=failed))
            self._over.wait(config.topics.refresh_interval)

    def _pass(self, config: Config, plan: Plan) -> None:
        found, failed = look_at_acls(config, plan)
        # A topic that is not there yet has its ACLs before its first record.
        if found.add and not self._over.is_set():
            with open_admin(config, HUB) as hub:
                timeout = config.supervision.connect_timeout
                add_acls(hub, found.add, timeout, who_is(config, HUB))
            words = f"{len(found.add)} ACLs were added at the hub, the first: {found.add[0]}"
            self._emit(Event("acls_added", words, {"added": len(found.add)}))
        self._tell(
            AclSyncStatus(
                added=self._status.added + len(found.add),
                superfluous=tuple(str(it) for it in found.superfluous),
                notes=found.notes,
                at=datetime.now(UTC),
                error=next(iter(failed.values()), ""),
            )
        )

    def _tell(self, status: AclSyncStatus) -> None:
        if self._over.is_set():
            return
        if status.error and not self._status.error:
            self._emit(Event("acl_sync_failed", f"not all ACLs are at the hub: {status.error}"))
        self._status = status
