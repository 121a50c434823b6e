"""The resources of a run: driver, session, and the threads that pass values to the engine.

Each is started where nothing has to be waited for, and ended with the block that it is used in.
"""

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from aggregator.config.in_force import InForce
from aggregator.config.schema import Config
from aggregator.datapath.connector.connector import Connector
from aggregator.datapath.connector.driver_origins import DriverOrigins
from aggregator.datapath.connector.event_claims import DedupConnector
from aggregator.datapath.hub_ledger import Ends
from aggregator.datapath.spark.jvm import Driver, prepare_driver, start_jvm
from aggregator.datapath.spark.scratch import remove_left
from aggregator.datapath.spark.session import build_session, session_conf
from aggregator.engine.commits.observer import Observer
from aggregator.engine.control.commands import Control
from aggregator.features.schemas.translator import Translator
from aggregator.features.service import Resources
from aggregator.features.services import Services
from aggregator.kafka.admin import HUB, ClusterAdmin, open_admin
from aggregator.kafka.discovery.creation import HubChanges
from aggregator.kafka.discovery.hub_logs import StoodAt, read_ends
from aggregator.kafka.discovery.poller import DiscoveryPoller
from aggregator.kafka.discovery.probes import SourcesWatch
from aggregator.model.events import Event, EventSink
from aggregator.plan.lanes.slots import plan_slots
from aggregator.plan.plan import Plan
from aggregator.plan.snapshot import ClusterSnapshot
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.checkpoint.identity import identity_of


@dataclass(frozen=True, slots=True)
class Threads:
    """What an engine works with: the session, clients, and threads that hand it values.

    All of it is started and ended by the caller. `stood` is where the hub's ends stood before the
    session was there.
    """

    spark: SparkSession
    connector: Connector
    poller: DiscoveryPoller
    sources: SourcesWatch
    hub: ClusterAdmin
    changes: HubChanges
    stood: StoodAt
    observer: Observer
    services: Services
    translator: Translator


def start_driver(config: Config, emit: EventSink) -> Future[Driver]:
    """The driver, prepared in the background, and its JVM started where no plan is needed for it.

    On a thread that is not waited for at the end: a run that is refused ends at once.
    """
    future: Future[Driver] = Future()

    def work() -> None:
        try:
            remove_left()
            driver = prepare_driver(config, lambda line: emit(Event("jars", line)))
            if config.spark.master == "auto":
                conf = session_conf(config, plan_slots("auto", 1).master, driver)
                start_jvm(conf, driver)
            future.set_result(driver)
        except BaseException as error:  # raised in the thread that asks
            future.set_exception(error)

    threading.Thread(target=work, name="driver", daemon=True).start()
    return future


@contextmanager
def session_of(
    config: Config, plan: Plan, driver: Future[Driver]
) -> Iterator[Future[SparkSession]]:
    """The Spark session, built in the background; ended with the block, also after an error."""

    def build() -> SparkSession:
        ready = driver.result()
        conf = session_conf(config, plan.slots.master, ready)
        return build_session(conf, ready)

    with ThreadPoolExecutor(1, thread_name_prefix="session") as pool:
        future = pool.submit(build)
        try:
            yield future
        finally:
            future.result().stop()


@contextmanager
def threads_of(
    snapshot: ClusterSnapshot,
    session: Future[SparkSession],
    hub: ClusterAdmin,
    table: CheckpointTable,
    stood: StoodAt,
    control: Control,
    emit: EventSink,
) -> Iterator[Threads]:
    """What an engine works with; all of it is ended with the block, the last made first."""
    control.load()
    in_force = control.in_force

    def end() -> None:
        control.gate.close()
        services.end()

    with ExitStack() as stack:
        poller = DiscoveryPoller(in_force, snapshot.plan.sources, snapshot.plan.routes)
        changes = HubChanges(emit, poller.wake)
        sources, translator = SourcesWatch(), Translator(in_force, emit)
        for each in (translator, sources, changes, poller):
            stack.callback(each.stop)
        admin = stack.enter_context(open_admin(control.config, HUB))
        spark = session.result()
        connector = Connector(spark)
        origins = partial(DriverOrigins, spark)
        services = Services(Resources(in_force, emit, admin, DedupConnector(spark), origins))
        for service in services:
            stack.callback(service.stop)
            service.start()
        # All of them, before any is waited for.
        stack.callback(end)
        observer = _observer(in_force, snapshot, hub, table, connector, emit)
        stack.callback(observer.stop)
        yield Threads(
            spark=spark,
            connector=connector,
            poller=poller,
            sources=sources,
            hub=admin,
            changes=changes,
            stood=stood,
            observer=observer,
            services=services,
            translator=translator,
        )


def _observer(
    in_force: InForce,
    snapshot: ClusterSnapshot,
    hub: ClusterAdmin,
    table: CheckpointTable,
    connector: Connector,
    emit: EventSink,
) -> Observer:
    def read_hub(topics: Mapping[str, int]) -> Ends:
        return read_ends(hub, topics, in_force.config.supervision.connect_timeout)

    return Observer(
        table,
        read_hub,
        connector,
        identity_of(snapshot.plan),
        in_force,
        in_force.config.checkpoint.history,
        emit,
    )
