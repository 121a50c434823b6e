"""`aggregator mirror-maker`: MirrorMaker 1's command line, run by this project."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.import_ import Aliases, ConsumerConfigs, ProducerConfig
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
    "whitelist": ("REGEX", 'A comma means "or".'),
    "include": ("REGEX", "The same as --whitelist."),
    "blacklist": ("REGEX", "Topics to leave out."),
    "exclude": ("REGEX", "The same as --blacklist."),
    "num.streams": ("N", "Tasks for each source."),
    "abort.on.send.failure": ("BOOL", "End when the hub fails; else continue."),
    "offset.commit.interval.ms": ("MS", "How often positions are stored."),
    "message.handler": ("CLASS", "Refused: it is Java's."),
    "message.handler.args": ("ARGS", NO_EFFECT),
    "rebalance.listener": ("CLASS", NO_EFFECT),
    "consumer.rebalance.listener": ("CLASS", NO_EFFECT),
    "rebalance.listener.args": ("ARGS", NO_EFFECT),
    "num.producers": ("N", NO_EFFECT),
    "queue.size": ("N", NO_EFFECT),
    "new.consumer": ("", "Has no effect: it is the only one."),
}
Options: Any = old_options(WORDS)


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The files of the old process, and what its sources are called."""

    consumers: ConsumerConfigs = None
    producer: ProducerConfig = None
    alias: Aliases = None


@command(
    "aggregator mirror-maker --consumer.config a.properties --consumer.config b.properties \\",
    "    --producer.config hub.properties --num.streams 4 --whitelist '.*'",
    name="mirror-maker",
    without=("config_file", "output"),
)
def mirror_maker(
    call: Call,
    clients: ClientOptions,
    options: Options,
    place: PlaceOptions,
    how: RunOptions,
    positions: Annotated[
        bool,
        typer.Option(
            "--positions/--no-positions", help="At the first start continue where the old tool was."
        ),
    ] = True,
) -> None:
    """Run with the files and options of MirrorMaker 1.

    Options without effect are listed at the start. Repeat --consumer.config for each source. The
    first start continues from the offsets of the consumer's group, later ones from its own.
    """
    request = ImportRequest(
        consumers=clients.consumers or (),
        producer=clients.producer,
        options=given_of(options, WORDS),
        mirror_maker=True,
        aliases=clients.alias or (),
    )
    run_stand_in(call, request, place, how, positions=positions)
