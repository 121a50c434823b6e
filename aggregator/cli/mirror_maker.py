"""`aggregator mirror-maker`: MirrorMaker 1's command line, run by this project."""

from __future__ import annotations

from typing import Annotated

import typer

from aggregator.cli.import_ import Aliases, ConsumerConfigs, ProducerConfig
from aggregator.cli.options import Sets
from aggregator.cli.run import Standby, TakeOver, UntilCaughtUp
from aggregator.cli.stand_in import (
    Name,
    Positions,
    StandIn,
    State,
    run_stand_in,
)
from aggregator.imports.request import ImportRequest

EXAMPLES = (
    "aggregator mirror-maker --consumer.config a.properties --consumer.config b.properties \\",
    "    --producer.config hub.properties --num.streams 4 --whitelist '.*'",
)

Text = str | None


def mirror_maker(
    ctx: typer.Context,
    consumers: ConsumerConfigs = None,
    producer: ProducerConfig = None,
    whitelist: Annotated[
        Text, typer.Option("--whitelist", metavar="REGEX", help='A comma means "or".')
    ] = None,
    include: Annotated[
        Text, typer.Option("--include", metavar="REGEX", help="The same as --whitelist.")
    ] = None,
    blacklist: Annotated[
        Text, typer.Option("--blacklist", metavar="REGEX", help="Topics to leave out.")
    ] = None,
    exclude: Annotated[
        Text, typer.Option("--exclude", metavar="REGEX", help="The same as --blacklist.")
    ] = None,
    num_streams: Annotated[
        Text, typer.Option("--num.streams", metavar="N", help="Tasks for each source.")
    ] = None,
    abort: Annotated[
        Text,
        typer.Option(
            "--abort.on.send.failure", metavar="BOOL", help="End when the hub fails; else go on."
        ),
    ] = None,
    interval: Annotated[
        Text,
        typer.Option(
            "--offset.commit.interval.ms", metavar="MS", help="How often positions are stored."
        ),
    ] = None,
    handler: Annotated[
        Text, typer.Option("--message.handler", metavar="CLASS", help="Refused: it is Java's.")
    ] = None,
    handler_args: Annotated[
        Text, typer.Option("--message.handler.args", metavar="ARGS", help="Has no effect.")
    ] = None,
    listener: Annotated[
        Text,
        typer.Option(
            "--rebalance.listener",
            "--consumer.rebalance.listener",
            metavar="CLASS",
            help="Has no effect.",
        ),
    ] = None,
    listener_args: Annotated[
        Text, typer.Option("--rebalance.listener.args", metavar="ARGS", help="Has no effect.")
    ] = None,
    num_producers: Annotated[
        Text, typer.Option("--num.producers", metavar="N", help="Has no effect.")
    ] = None,
    queue_size: Annotated[
        Text, typer.Option("--queue.size", metavar="N", help="Has no effect.")
    ] = None,
    new_consumer: Annotated[
        bool, typer.Option("--new.consumer", help="Has no effect: it is the only one.")
    ] = False,
    alias: Aliases = None,
    name: Name = None,
    state: State = None,
    positions: Positions = True,
    sets: Sets = None,
    until_caught_up: UntilCaughtUp = False,
    take_over: TakeOver = False,
    standby: Standby = False,
) -> None:
    """Run with the files and options of MirrorMaker 1.

    What has no effect is said at the start. --consumer.config may be given for each source. At
    the first start it goes on where the group of the consumer was; later where it was itself.
    """
    given = {
        "whitelist": whitelist,
        "include": include,
        "blacklist": blacklist,
        "exclude": exclude,
        "num.streams": num_streams,
        "abort.on.send.failure": abort,
        "offset.commit.interval.ms": interval,
        "message.handler": handler,
        "message.handler.args": handler_args,
        "rebalance.listener": listener,
        "rebalance.listener.args": listener_args,
        "num.producers": num_producers,
        "queue.size": queue_size,
        "new.consumer": "true" if new_consumer else None,
    }
    request = ImportRequest(
        consumers=consumers or (),
        producer=producer,
        options={key: value for key, value in given.items() if value is not None},
        mirror_maker=True,
        aliases=alias or (),
    )
    call = StandIn(request, name, state, positions, sets or ())
    run_stand_in(ctx, call, until_caught_up=until_caught_up, take_over=take_over, standby=standby)
