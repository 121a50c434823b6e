"""Asks the sources whether records that were found at the hub are theirs."""

from collections.abc import Collection, Sequence

from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.datapath.connector.connector import Cancellation, Connector, TailFound
from aggregator.model.values import Positions, Route, SourcePartition
from aggregator.plan.positions.origins import Judged, judge_origins, plan_samples


def compare_origins(
    connector: Connector,
    config: Config,
    found: TailFound,
    starts: Positions,
    routes: Sequence[Route],
    partitions: Collection[SourcePartition],
    cancellation: Cancellation,
) -> Judged:
    """Of these partitions, which ones the hub holds records of that are not theirs.

    Nothing is asked where nothing was found. That a source does not answer is a value. Raises
    ClusterError when it was cancelled.
    """
    samples = {sp: own for sp, own in found.samples.items() if sp in partitions}
    if not samples:
        return Judged()
    wanted, enough = plan_samples(samples)
    consumers = {
        alias: jvm_settings(config.sources[alias], "consumer")
        for alias in {sp.cluster for sp in wanted}
    }
    within = config.supervision
    sampled = connector.read_samples(
        wanted=wanted,
        enough=enough,
        consumers=consumers,
        silence=within.deadline,
        opening=within.connect_timeout,
        cancellation=cancellation,
    )
    return judge_origins(samples, sampled, starts, routes)
