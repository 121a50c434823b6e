"""`aggregator size`: what machine a load needs; asks no cluster."""

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.options import duration
from aggregator.cli.render import Report, Table
from aggregator.config.values import parse_size
from aggregator.model.alike import made_of
from aggregator.plan.sizing import FREE_PART, Sizing, Workload, size_of
from aggregator.status.percentiles import size_text

TRUSTED_CORES = 8
"""Above this number of cores the model is an extrapolation by far."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The load, as options."""

    records: Annotated[
        float, typer.Option(metavar="N", min=1, help="Records per second of all sources.")
    ]
    size: Annotated[
        str, typer.Option("--bytes", metavar="SIZE", help="Of a record, without compression.")
    ] = "1kB"
    ratio: Annotated[
        float,
        typer.Option(
            metavar="R", min=0.001, max=1, help="Compressed size / size; 1 is no compression."
        ),
    ] = 1.0
    sources: Annotated[int, typer.Option(metavar="N", min=1, help="How many sources.")] = 2
    partitions: Annotated[
        int, typer.Option(metavar="N", min=1, help="Partitions of all sources.")
    ] = 48
    brokers: Annotated[int, typer.Option(metavar="N", min=1, help="Brokers of a source.")] = 3
    hub_brokers: Annotated[int, typer.Option(metavar="N", min=1, help="Brokers of the hub.")] = 3
    round_trip: Annotated[
        str, typer.Option(metavar="TIME", help="The network's, to a source and back.")
    ] = "1ms"
    outage: Annotated[
        str, typer.Option(metavar="TIME", help="Length of an outage to catch up with afterwards.")
    ] = "1h"
    within: Annotated[
        str, typer.Option(metavar="TIME", help="Time for catching up, beside new records.")
    ] = "1h"


@command(
    "aggregator size --records 20000 --bytes 1kB --sources 4 --partitions 200",
    "aggregator size --records 20000 --bytes 1kB --ratio 0.2 --outage 4h --within 1h",
    "aggregator size --records 5000 --round-trip 80ms -o json",
    without=("config_file", "sets"),
)
def size(_call: Call, load: LoadOptions) -> Report:
    """Show the cores, memory, tasks, connections and network that a load needs.

    By a model that is fitted to the benchmark (docs/sizing.md). Asks no cluster. Cores are for
    catching up after an outage while records keep coming, and half of them stay free.
    """
    within = duration("--within", load.within)
    if not within:
        raise typer.BadParameter("--within is 0s: nothing is copied in no time")
    workload = made_of(
        Workload,
        load,
        size=_bytes(load.size),
        partitions=max(load.partitions, load.sources),
        round_trip=duration("--round-trip", load.round_trip),
        catch_up=1 + duration("--outage", load.outage) / within,
    )
    return report_of_sizing(workload, size_of(workload))


def report_of_sizing(load: Workload, found: Sizing) -> Report:
    """The sizing of a load, with what to set."""
    rows = (
        ("cores for live records", f"{found.live_cores:g}"),
        (f"cores at {load.catch_up:g} times the rate", f"{found.catch_up_cores:g}"),
        (f"cores of the machine, {FREE_PART:.0%} of them free", f"{found.cores}"),
        # In whole GiB, rounded up.
        ("heap (spark.driver.memory)", f"{-(-found.heap // 2**30)}g"),
        ("memory of the machine", size_text(found.memory)),
        ("tasks of a source", f"{found.tasks}"),
        ("connections", f"{found.connections:,}"),
        ("from the sources", f"{size_text(found.in_per_second)}/s"),
        ("to the hub", f"{size_text(found.out_per_second)}/s"),
    )
    notes = []
    if found.cores > TRUSTED_CORES:
        notes.append(
            f"The model was fitted on 2 cores: above {TRUSTED_CORES} cores measure before you "
            "order. Several aggregations share such a load (docs/sizing.md)."
        )
    data = {"workload": asdict(load), "sizing": asdict(found)}
    return Report(data, (Table("What it needs", ("what", "is"), rows, frozenset({"is"})), *notes))


def _bytes(text: str) -> int:
    try:
        found = int(parse_size(text))
    except ValueError as error:
        raise typer.BadParameter(f"--bytes {error}") from error
    if found < 1:
        raise typer.BadParameter("--bytes is less than 1")
    return found
