"""`aggregator replicator`: the replicator executable's command line, run by this project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.import_ import ProducerConfig, ReplicationConfig
from aggregator.cli.options import Sets
from aggregator.cli.run import Standby, TakeOver, UntilCaughtUp
from aggregator.cli.stand_in import (
    Name,
    StandIn,
    State,
    run_stand_in,
)
from aggregator.imports.request import ImportRequest

EXAMPLES = (
    "aggregator replicator --cluster.id replicator --consumer.config consumer.properties \\",
    "    --producer.config producer.properties --replication.config replication.properties \\",
    "    --whitelist test-topic",
)

Text = str | None


def replicator(
    ctx: typer.Context,
    cluster_id: Annotated[
        str, typer.Option("--cluster.id", metavar="NAME", help="Names the aggregation.")
    ],
    consumer: Annotated[
        Path | None,
        typer.Option("--consumer.config", metavar="FILE", help="Properties of the origin."),
    ] = None,
    producer: ProducerConfig = None,
    replication: ReplicationConfig = None,
    whitelist: Annotated[
        Text,
        typer.Option(
            "--whitelist", "--topic.whitelist", metavar="NAMES", help="Topics, comma separated."
        ),
    ] = None,
    blacklist: Annotated[
        Text,
        typer.Option(
            "--blacklist", "--topic.blacklist", metavar="NAMES", help="Topics to leave out."
        ),
    ] = None,
    regex: Annotated[
        Text, typer.Option("--topic.regex", metavar="REGEX", help="More topics to take.")
    ] = None,
    rename: Annotated[
        Text,
        typer.Option("--topic.rename.format", metavar="FORMAT", help="Such as ${topic}.replica."),
    ] = None,
    auto_create: Annotated[
        Text, typer.Option("--topic.auto.create", metavar="BOOL", help="Create missing topics.")
    ] = None,
    config_sync: Annotated[
        Text, typer.Option("--topic.config.sync", metavar="BOOL", help="Take configs over.")
    ] = None,
    sync_interval: Annotated[
        Text,
        typer.Option("--topic.config.sync.interval.ms", metavar="MS", help="Has no effect."),
    ] = None,
    backoff: Annotated[
        Text, typer.Option("--topic.create.backoff.ms", metavar="MS", help="Has no effect.")
    ] = None,
    poll: Annotated[
        Text,
        typer.Option(
            "--topic.poll.interval.ms", metavar="MS", help="How often topics are looked for."
        ),
    ] = None,
    preserve: Annotated[
        Text,
        typer.Option("--topic.preserve.partitions", metavar="BOOL", help="Keep the partition."),
    ] = None,
    timestamp: Annotated[
        Text, typer.Option("--topic.timestamp.type", metavar="TYPE", help="Has no effect.")
    ] = None,
    threads: Annotated[
        Text, typer.Option("--cluster.threads", metavar="N", help="Has no effect.")
    ] = None,
    licence: Annotated[
        Text, typer.Option("--confluent.license", metavar="KEY", help="Has no effect.")
    ] = None,
    consumer_monitoring: Annotated[
        Text, typer.Option("--consumer.monitoring.config", metavar="FILE", help="Has no effect.")
    ] = None,
    producer_monitoring: Annotated[
        Text, typer.Option("--producer.monitoring.config", metavar="FILE", help="Has no effect.")
    ] = None,
    alias: Annotated[
        str, typer.Option(metavar="NAME", help="What the origin is to be called.")
    ] = "",
    group: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The group in which the old one has committed: go on there at the first start.",
        ),
    ] = "",
    name: Name = None,
    state: State = None,
    sets: Sets = None,
    until_caught_up: UntilCaughtUp = False,
    take_over: TakeOver = False,
    standby: Standby = False,
) -> None:
    """Run with the files and options of the replicator executable.

    Options win over what the files say. What has no effect is said at the start.
    """
    given = {
        "whitelist": whitelist,
        "blacklist": blacklist,
        "topic.regex": regex,
        "topic.rename.format": rename,
        "topic.auto.create": auto_create,
        "topic.config.sync": config_sync,
        "topic.config.sync.interval.ms": sync_interval,
        "topic.create.backoff.ms": backoff,
        "topic.poll.interval.ms": poll,
        "topic.preserve.partitions": preserve,
        "topic.timestamp.type": timestamp,
        "cluster.threads": threads,
        "confluent.license": licence,
        "consumer.monitoring.config": consumer_monitoring,
        "producer.monitoring.config": producer_monitoring,
    }
    request = ImportRequest(
        consumers=[consumer] if consumer is not None else (),
        producer=producer,
        replication=replication,
        options={key: value for key, value in given.items() if value is not None},
        cluster_id=cluster_id,
        aliases=[alias] if alias else (),
        group=group,
    )
    call = StandIn(request, name, state, True, sets or ())
    run_stand_in(ctx, call, until_caught_up=until_caught_up, take_over=take_over, standby=standby)
