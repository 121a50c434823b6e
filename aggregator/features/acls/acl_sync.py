"""Adds ACLs at the hub while it runs, for the sources with `acls.sync`, at every refresh.

A thread of its own with clients of its own: a cluster that hangs, or a right that is missing, is a
state and an event, and delays nothing else.
"""

from datetime import UTC, datetime

from aggregator.features.acls.acl_admin import add_acls, look_at_acls, principal_of, synced_sources
from aggregator.features.service import LoopService, Now
from aggregator.kafka.admin import HUB, open_admin
from aggregator.model.events import Event, EventSink
from aggregator.model.loop import Loop
from aggregator.status.schema import AclSyncStatus


class AclSync(LoopService):
    """Keeps the hub's ACLs up, for the sources whose config asks for it, until it is stopped."""

    name = "acl_sync"

    def __init__(self, emit: EventSink) -> None:
        self._emit = emit
        self._now: Now | None = None
        self._status = AclSyncStatus()
        self._loop = Loop("sync-acls", self._turn, every=self._every, on_error=self._fail)

    def follow(self, now: Now) -> None:
        """Add what this plan needs."""
        if now.plan is not None:
            self._now = now
            if synced_sources(now.config):
                self._loop.start()

    def status(self) -> AclSyncStatus | None:
        """Its status; None where no source asks for it."""
        now = self._now
        return self._status if now is not None and synced_sources(now.config) else None

    def _every(self) -> float:
        return self._now.config.topics.refresh_interval if self._now is not None else 0.0

    def _turn(self) -> None:
        now = self._now
        if now is None or now.plan is None or not synced_sources(now.config):
            return
        config, plan = now.config, now.plan
        found, failed = look_at_acls(config, plan)
        # A topic that is not there yet has its ACLs before its first record.
        if found.add and not self._loop.over.is_set():
            with open_admin(config, HUB) as hub:
                timeout = config.supervision.connect_timeout
                add_acls(hub, found.add, timeout, principal_of(config, HUB))
            words = f"{len(found.add)} ACLs were added at the hub, the first: {found.add[0]}"
            self._emit(Event("acls_added", words, {"added": len(found.add)}))
        self._emit_changes(
            AclSyncStatus(
                added=self._status.added + len(found.add),
                superfluous=tuple(str(it) for it in found.superfluous),
                notes=found.notes,
                at=datetime.now(UTC),
                error=next(iter(failed.values()), ""),
            )
        )

    def _fail(self, error: Exception) -> None:
        failed = {"error": str(error), "at": datetime.now(UTC)}
        self._emit_changes(self._status.model_copy(update=failed))

    def _emit_changes(self, status: AclSyncStatus) -> None:
        if self._loop.over.is_set():
            return
        if status.error and not self._status.error:
            self._emit(Event("acl_sync_failed", f"not all ACLs are at the hub: {status.error}"))
        self._status = status
