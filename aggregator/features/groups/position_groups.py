"""Publishes committed positions as a consumer group at each source, for lag exporters and UIs.

For display only: nothing is ever read back. Each source has a thread of its own, so
that one that hangs, or refuses it, delays no other.
"""

from collections.abc import Mapping

from aggregator.config.schema import Config
from aggregator.features.groups.group_admin import commit_group
from aggregator.features.service import Looped, Now, Service
from aggregator.kafka.admin import ClusterAdmin, open_admin
from aggregator.model.events import Event, EventSink
from aggregator.model.loop import Loop
from aggregator.model.values import TopicPartition
from aggregator.plan.reload import same_connection
from aggregator.store.checkpoint.start_state import CheckpointState

EVERY_SECONDS = 5.0


def group_of(config: Config) -> str:
    """The name of the group."""
    return f"aggregator-{config.name}"


class GroupPublisher(Looped):
    """Publishes committed positions to one source, and at its end what is left.

    `failure` says why it cannot, or is empty.
    """

    def __init__(self, config: Config, alias: str) -> None:
        self.config = config
        self.failure = ""
        self._alias = alias
        self._wanted: Mapping[TopicPartition, int] = {}
        self._committed: Mapping[TopicPartition, int] = {}
        self._failed = False
        self._admin: ClusterAdmin | None = None
        self._loop = Loop(
            f"group-{alias}",
            self._publish,
            every=lambda: EVERY_SECONDS,
            on_error=self._fail,
            finish=self._finish,
        )

    def publish(self, positions: Mapping[TopicPartition, int]) -> None:
        """Take the source's committed positions; they are published soon."""
        self._wanted = positions
        self._loop.start()

    def _publish(self) -> None:
        wanted = self._wanted
        news = {tp: at for tp, at in wanted.items() if self._committed.get(tp) != at}
        # Perhaps its settings are invalid. A file that they name may be fixed.
        self._admin = admin = self._admin or open_admin(self.config, self._alias)
        if news:
            timeout = self.config.supervision.connect_timeout
            commit_group(admin, group_of(self.config), news, timeout)
            self._committed, self.failure, self._failed = wanted, "", False

    def _fail(self, error: Exception) -> None:
        # Who coordinates a group is often not known at first; a right that is missing stays so.
        self.failure = str(error) if self._failed or self._admin is None else ""
        self._failed = True

    def _finish(self) -> None:
        try:
            self._publish()
        finally:
            if self._admin is not None:
                self._admin.close()


class Groups(Service):
    """A publisher for each source whose config asks for it.

    Why positions cannot be published to a source is shown with the source.
    """

    name = "groups"

    def __init__(self, emit: EventSink) -> None:
        self._failures: Mapping[str, str] = {}
        self._emit = emit
        self._publishers: dict[str, GroupPublisher] = {}
        self._state: CheckpointState | None = None
        self._positions: Mapping[str, Mapping[TopicPartition, int]] = {}
        """By source, as of that state."""

    def follow(self, now: Now) -> None:
        """Publish to the sources what is committed of them, by this config from now on."""
        config = now.config
        for alias, publisher in list(self._publishers.items()):
            source = config.sources.get(alias)
            same = source is not None and source.publish_group
            if not same or not same_connection(
                publisher.config.sources[alias], config.sources[alias]
            ):
                publisher.end()
                del self._publishers[alias]
        for alias, source in config.sources.items():
            if source.publish_group and alias not in self._publishers:
                self._publishers[alias] = GroupPublisher(config, alias)
        if self._publishers and now.committed is not self._state:
            self._state, self._positions = now.committed, _by_source(now.committed)
        for alias, publisher in self._publishers.items():
            publisher.publish(self._positions.get(alias, {}))
        failures = {alias: it.failure for alias, it in self._publishers.items() if it.failure}
        for alias in failures.keys() - self._failures.keys():
            words = f"source {alias}: committed positions are not published: {failures[alias]}"
            self._emit(Event("group_failed", words, {"source": alias}))
        self._failures = failures

    def source_errors(self) -> Mapping[str, str]:
        """Why positions cannot be published to a source."""
        return self._failures

    def stop(self) -> None:
        """Publish what was committed last, and end."""
        for publisher in self._publishers.values():
            publisher.end()
        for publisher in self._publishers.values():
            publisher.stop()


def _by_source(state: CheckpointState) -> dict[str, dict[TopicPartition, int]]:
    found: dict[str, dict[TopicPartition, int]] = {}
    for sp, entry in state.entries.items():
        found.setdefault(sp.cluster, {})[sp.topic_partition] = entry.position
    return found
