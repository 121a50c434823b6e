"""`aggregator demo`: sources, a hub, live records, and a count of them, or a world to play with."""

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.demo_view import DemoView, LineView, LiveView
from aggregator.cli.options import duration
from aggregator.cli.render import Report, Table, show
from aggregator.cli.signals import handled_by, set_by_handlers
from aggregator.extras.demo.demo import Demo, DemoOutcome, Options, Progress
from aggregator.extras.demo.living import BREAKS, GROUP, GROUP_SOURCE, Living, LivingOptions
from aggregator.extras.demo.world import World
from aggregator.model.errors import EXIT_DATA, EXIT_DONE

SWITCH_SECONDS = 0.0005

TRY = {
    "check": "can every cluster be used?",
    "status": "what runs, and what does not",
    "lag": "how far behind each partition is",
    "top": "all of it in motion; Ctrl-C ends it",
    "peek shipments": "the newest records, Avro decoded",
    f"groups translate {GROUP} --source {GROUP_SOURCE}": "where a group continues at the hub",
    "pause us": "stop copying one source; then: resume us",
    "verify --last 2m": "is everything there, once and in order?",
}
"""What to try in a world that is kept, and what each of it shows."""

COUNTS = ("sent", "in the hub", "missing", "duplicated", "out of order")


@command(
    "aggregator demo",
    "aggregator demo --seconds 120 --rate 5000",
    "aggregator demo --keep              (and try the other commands on it)",
    without=("config_file", "sets"),
)
def demo(
    call: Call,
    seconds: Annotated[
        float, typer.Option("--seconds", min=1, help="How long to stream; not with --keep.")
    ] = 30.0,
    rate: Annotated[
        float, typer.Option("--rate", min=1, max=100_000, help="Records per second in all.")
    ] = 1000.0,
    seed: Annotated[int, typer.Option("--seed", help="Other events for another number.")] = 1,
    keep: Annotated[
        bool, typer.Option("--keep", help="A world to play with, until Ctrl-C or SIGTERM.")
    ] = False,
    outage_every: Annotated[
        str,
        typer.Option(metavar="3m", help="With --keep: how often a source breaks; 0s is never."),
    ] = "3m",
) -> None:
    """Show it all on this machine: two source clusters and a hub are started for it.

    Orders and payments are written to both sources and streamed into the hub. At the end (after
    --seconds, or with Ctrl-C) a plain consumer counts what the hub holds. The exit code is 0 only
    when nothing is missing, duplicated or out of order; nothing is left behind.

    With --keep there are three sources, a schema registry and a consumer group, and one source
    breaks and comes back every few minutes. It prints commands to try, and counts nothing.
    """
    # Load and reader are threads of this process: none may hold up the latency of the other.
    sys.setswitchinterval(SWITCH_SECONDS)
    stop = threading.Event()
    view: DemoView = LiveView() if sys.stderr.isatty() else LineView()
    every = duration("--outage-every", outage_every)
    with _until_signal(stop), closing(view):
        if keep:
            _live(LivingOptions(rate, seed, every), view, stop)
            return
        with Demo(Options(seconds, rate, seed), view.show, stop) as running:
            outcome = running.run()
            view.close()
            show(report_of(outcome, sys.stdout.isatty()), call.output)
    raise typer.Exit(EXIT_DONE if outcome.perfect else EXIT_DATA)


@contextmanager
def _until_signal(stop: threading.Event) -> Iterator[None]:
    """While the block runs, the first Ctrl-C or SIGTERM sets `stop`, the second breaks it off."""
    asked = False
    with set_by_handlers(stop) as ask:

        def handle(number: int, _frame: FrameType | None) -> None:
            nonlocal asked
            if asked or stop.is_set():
                raise KeyboardInterrupt
            asked = True
            ask(number)

        with handled_by(handle):
            yield


def report_of(outcome: DemoOutcome, tty: bool = False) -> Report:
    """The outcome as tables and as data."""
    columns = ("source", "topic", *COUNTS)
    rows: list[list[Any]] = [
        [flow.cluster, flow.topic, it.sent, it.found, it.missing, it.duplicated, it.out_of_order]
        for flow, it in outcome.flows.items()
    ]
    total = [sum(row[column] for row in rows) for column in range(2, len(columns))]
    latency = outcome.latency_ms
    unexpected = sum(it.unexpected for it in outcome.flows.values())
    parts: list[Table | str] = [
        Table("Counted in the hub", columns, [*rows, ["all", "", *total]], frozenset(COUNTS)),
        "",
    ]
    if unexpected:
        parts += [f"{unexpected} hub records that no source has acknowledged.", ""]
    if outcome.measured:
        shown = "   ".join(
            f"{name} {value:.0f} ms" for name, value in latency.items() if value is not None
        )
        parts += [
            f"Latency, from the record's timestamp to a consumer of the hub: {shown}",
            f"({outcome.measured:,} records, without the warm-up)",
            "",
        ]
    parts += [*_example_lines(outcome, tty)]
    parts.append(
        "Every record sent is in the hub, once and in order."
        if outcome.perfect
        else "The hub does not hold exactly what was sent."
    )
    data = {
        "perfect": outcome.perfect,
        "flows": [
            {
                "source": flow.cluster,
                "topic": flow.topic,
                "sent": it.sent,
                "in_hub": it.found,
                "missing": it.missing,
                "duplicated": it.duplicated,
                "out_of_order": it.out_of_order,
                "unexpected": it.unexpected,
            }
            for flow, it in outcome.flows.items()
        ],
        "latency_ms": {**latency, "records": outcome.measured},
        "first_record_seconds": round(outcome.first_record_seconds, 1),
    }
    return Report(data, tuple(parts))


def _example_lines(outcome: DemoOutcome, tty: bool) -> list[str]:
    record = outcome.example
    if record is None:
        return []
    value = record.value if not tty or len(record.value) <= 100 else f"{record.value[:97]}..."
    lines = [
        f"A record of the hub: {record.topic}, partition {record.partition}, "
        f"offset {record.offset}",
        f"  key        {record.key}",
        f"  value      {value}",
        f"  timestamp  {record.timestamp_ms}",
        "  headers",
    ]
    lines += [f"    {name:<17} {value}" for name, value in record.headers]
    return [*lines, ""]


def _live(options: LivingOptions, view: DemoView, stop: threading.Event) -> None:
    began = time.monotonic()

    def report(step: str) -> None:
        view.show(Progress(step, time.monotonic() - began))

    def say(words: str) -> None:
        typer.echo(f"{time.strftime('%H:%M:%S')}  {words}", err=True)

    def ready(world: World) -> None:
        view.close()
        typer.echo("\n".join(_instructions(world, options)), err=True)

    Living(options, report, say, ready).run(stop)


def _instructions(world: World, options: LivingOptions) -> Iterator[str]:
    """Where everything is, and what to try."""
    servers = {name: it.bootstrap_servers for name, it in world.clusters.items()}
    yield "\nThree sources flow into a hub until Ctrl-C:"
    yield f"  dashboard  {world.url}/ui/"
    yield f"  config     {world.config_file}"
    yield f"  brokers    {', '.join(f'{name} {address}' for name, address in servers.items())}"
    if options.outage_every:
        every, away = options.outage_every, options.outage_seconds
        yield f"Every {every:g} s the broker of {BREAKS} is stopped for {away:g} s."
    yield "Try, in another terminal:"
    program = _program()
    for words, shows in TRY.items():
        yield f"  {program} {words} -c {world.config_file}    # {shows}"


def _program() -> str:
    """How this program is called here: by name, else the one of this Python."""
    if shutil.which("aggregator"):
        return "aggregator"
    return os.path.relpath(Path(sys.executable).with_name("aggregator"))
