"""`aggregator replicator`: the replicator executable's command line, run by this project."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.import_ import ProducerConfig, ReplicationConfig
from aggregator.cli.run import RunOptions
from aggregator.cli.stand_in import (
    NO_EFFECT,
    PlaceOptions,
    Words,
    given_of,
    old_options,
    run_stand_in,
)
from aggregator.extras.importers.import_request import ImportRequest

WORDS: Words = {
    "whitelist": ("NAMES", "Topics, comma separated."),
    "topic.whitelist": ("NAMES", "The same as --whitelist."),
    "blacklist": ("NAMES", "Topics to leave out."),
    "topic.blacklist": ("NAMES", "The same as --blacklist."),
    "topic.regex": ("REGEX", "More topics to take."),
    "topic.rename.format": ("FORMAT", "Such as ${topic}.replica."),
    "topic.auto.create": ("BOOL", "Create missing topics."),
    "topic.config.sync": ("BOOL", "Take configs over."),
    "topic.config.sync.interval.ms": ("MS", NO_EFFECT),
    "topic.create.backoff.ms": ("MS", NO_EFFECT),
    "topic.poll.interval.ms": ("MS", "How often topics are looked for."),
    "topic.preserve.partitions": ("BOOL", "Keep the partition."),
    "topic.timestamp.type": ("TYPE", NO_EFFECT),
    "cluster.threads": ("N", NO_EFFECT),
    "confluent.license": ("KEY", NO_EFFECT),
    "consumer.monitoring.config": ("FILE", NO_EFFECT),
    "producer.monitoring.config": ("FILE", NO_EFFECT),
}
Options: Any = old_options(WORDS)


@dataclass(frozen=True, slots=True)
class FileOptions:
    """What the executable was called with."""

    cluster_id: Annotated[
        str, typer.Option("--cluster.id", metavar="NAME", help="Names the aggregation.")
    ]
    consumer: Annotated[
        Path | None,
        typer.Option("--consumer.config", metavar="FILE", help="Properties of the source."),
    ] = None
    producer: ProducerConfig = None
    replication: ReplicationConfig = None


@command(
    "aggregator replicator --cluster.id replicator --consumer.config consumer.properties \\",
    "    --producer.config producer.properties --replication.config replication.properties \\",
    "    --whitelist test-topic",
    without=("config_file", "output"),
)
def replicator(
    call: Call,
    files: FileOptions,
    options: Options,
    place: PlaceOptions,
    how: RunOptions,
    alias: Annotated[str, typer.Option(metavar="NAME", help="The name of the source.")] = "",
    group: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The group in which the old one has committed: continue there at the first start.",
        ),
    ] = "",
) -> None:
    """Run with the files and options of the replicator executable.

    Options override the files. Options without effect are listed at the start.
    """
    request = ImportRequest(
        consumers=[files.consumer] if files.consumer is not None else (),
        producer=files.producer,
        replication=files.replication,
        options=given_of(options, WORDS),
        cluster_id=files.cluster_id,
        aliases=[alias] if alias else (),
        group=group,
    )
    run_stand_in(call, request, place, how)
