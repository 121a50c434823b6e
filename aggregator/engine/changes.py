"""Makes what a plan needs before its lanes start: transforms that fit, hub topics as planned."""

from __future__ import annotations

from pyspark.sql import SparkSession

from aggregator.config.schema import Config
from aggregator.discover import ClusterAdmin, apply
from aggregator.engine.events import Event, EventSink
from aggregator.errors import ClusterError
from aggregator.failpoint import failpoint
from aggregator.plan.plan import Plan
from aggregator.stream.transform import check_transform


class Changes:
    """Used by the engine's thread, with each look's plan."""

    def __init__(
        self, config: Config, spark: SparkSession, hub: ClusterAdmin, emit: EventSink
    ) -> None:
        self._config = config
        self._spark = spark
        self._hub = hub
        self._emit = emit
        self._checked: set[str] = set()

    def reconfigure(self, config: Config) -> None:
        """Go by another config from now on."""
        self._config = config

    def make(self, plan: Plan) -> None:
        """Check the transforms, then change the hub's topics.

        Raises ConfigError for a transform that does not fit, before anything is changed, and
        ClusterError when the hub refuses a change.
        """
        self.check(plan)
        failpoint("before-apply")
        self._apply(plan)
        failpoint("after-apply")

    def check(self, plan: Plan) -> None:
        """Raise ConfigError for a transform that does not fit."""
        names = {route.transform for route in plan.routes if route.transform}
        for name in sorted(names - self._checked):
            check_transform(self._spark, name)
            self._checked.add(name)

    def _apply(self, plan: Plan) -> None:
        for done in apply(plan.actions, self._hub, self._config.supervision.connect_timeout):
            if not done.ok:
                raise ClusterError(f"hub: {done.action}: {done.reason}")
            if done.changed:
                self._emit(Event("hub_changed", str(done.action)))
