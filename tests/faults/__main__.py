"""`python -m faults`: a random campaign of some minutes, or single scenarios; writes a report."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from aggregator.datapath.jars import cache_folder, jars, spark_java_home
from aggregator.datapath.spark.class_archive import class_archive
from aggregator.datapath.spark.jvm import spark_jars
from faults.campaign import Round, random_script, run_round
from faults.nemeses import NEMESES
from faults.report import RAW, Report, machine, write
from faults.scenarios import SCENARIOS
from faults.schedule import WEIGHTS, kinds_of, needs
from faults.soak_verdict import evaluate
from faults.world import WORKERS, Progress, Settings
from support import object_store, wall_clock
from support.object_store import NoStoreError
from support.wall_clock import NoWallClockError

HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(add_completion=False, context_settings=HELP)
DEFAULT = Settings()
LINGER_OF_BATCHES = 1_000.0
"""Batches of some kB go record by record: so writers wait until theirs are larger."""


@app.command()
def campaign(
    seed: Annotated[int | None, typer.Option(help="Draws the faults; none: by the clock.")] = None,
    minutes: Annotated[float, typer.Option(help="How long faults are drawn.")] = 5.0,
    rate: Annotated[
        float | None,
        typer.Option(
            help=f"Records a second, in all; not given: {DEFAULT.rate:g}, or the scenario's own."
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="A scenario, instead of random faults; may be given again. Or `all`."),
    ] = None,
    kinds: Annotated[
        str, typer.Option(help="Kinds of faults to draw, with commas; none: all.")
    ] = "",
    executors: Annotated[
        bool, typer.Option(help="Tasks run on a standalone master with two workers.")
    ] = False,
    store: Annotated[
        bool, typer.Option(help="The checkpoint is on an object store, which has faults as well.")
    ] = False,
    batches: Annotated[
        bool, typer.Option(help="Batches are copied as they are, by topics.copy_as.")
    ] = False,
    soak: Annotated[
        bool,
        typer.Option(help="All features are on, the load has a daily shape, and topics age."),
    ] = False,
    patience: Annotated[
        float, typer.Option(help="Multiplies all deadlines, for a busy machine.")
    ] = 1.0,
    out: Annotated[Path, typer.Option(help="Folder of the page.")] = Path("docs/results"),
    raw: Annotated[Path, typer.Option(help="Folder of the raw figures, as JSON.")] = RAW,
    show: Annotated[bool, typer.Option("--list", help="Name faults and scenarios.")] = False,
) -> None:
    """Do faults to real clusters and the application under load, then count what is wrong.

    Exits with 1 when anything is: a record lost, twice, altered, out of order or foreign, the
    application ended by itself, or records did not flow again in time. Then the clusters' data,
    the state and the logs are kept, and the seed to repeat it is printed.
    """
    if show:
        _list()
        return
    given: dict[str, Any] = {"patience": patience} | ({} if rate is None else {"rate": rate})
    if executors:
        given["master"] = WORKERS
    if store:
        given["store"] = True
    if batches:
        given |= {"batches": True, "linger_ms": LINGER_OF_BATCHES}
    if soak:
        given |= {"soak": True, "commanded": True}
    settings = Settings(seed=seed if seed is not None else int(time.time()) % 100_000, **given)
    names = list(SCENARIOS) if only and "all" in only else list(only or ())
    chosen = [kind.strip() for kind in kinds.split(",") if kind.strip()]
    chosen = chosen or list(kinds_of(executors=executors, store=store))
    _refuse_unknown(names, SCENARIOS, "--only")
    _refuse_unknown(chosen, WEIGHTS, "--kinds")
    whole = replace(settings, **needs(chosen))
    with_store = any(SCENARIOS[name].settings.get("store") for name in names)
    _refuse_without(store=with_store or whole.store, clock=whole.clock)
    # SIGTERM unwinds as Ctrl-C does, so that everything is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _prepare()
    where, rounds = machine(), []
    try:
        for name in names:
            rounds.append(_scenario(name, settings, given))
        if not names:
            says = f"faults drawn for {minutes:g} minutes with seed {settings.seed}"
            script = random_script(minutes, chosen)
            judged = evaluate if soak else None
            rounds.append(run_round("random", says, whole, script, _progress(), evaluate=judged))
    except KeyboardInterrupt:
        typer.echo("interrupted: what had not ended is not written", err=True)
        raise typer.Exit(130) from None
    finally:
        # Also when a cluster fails to start: what came before took long.
        if rounds:
            _write(rounds, where, out, raw)
    raise typer.Exit(0 if all(each.good for each in rounds) else 1)


def _prepare() -> None:
    """What is made once is there before anything has to be in time."""
    progress = _progress()
    jars("broker", progress=progress)
    class_archive(cache_folder(), spark_java_home(), spark_jars(None, progress), progress)


def _write(rounds: list[Round], where: Mapping[str, object], out: Path, raw: Path) -> None:
    words = f'make faults FAULTS_ARGS="{shlex.join(sys.argv[1:])}"'
    report = Report(datetime.now(UTC).date().isoformat(), where, words, rounds)
    for path in write(report, out, raw):
        typer.echo(f"written: {path}", err=True)
    for each in rounds:
        _echo_end(each)


def _scenario(name: str, settings: Settings, given: Mapping[str, Any]) -> Round:
    scenario = SCENARIOS[name]
    own = replace(settings, **{**scenario.settings, **given})
    return run_round(
        name, scenario.says, own, scenario.script, _progress(), evaluate=scenario.evaluate
    )


def _echo_end(each: Round) -> None:
    if each.good:
        typer.echo(f"{each.name}: good", err=True)
        return
    typer.echo(
        f"{each.name}: NOT GOOD with --seed {each.settings.seed}: {each.verdict.problems}, "
        f"{len(each.failures)} other failures; everything is kept in {each.folder}",
        err=True,
    )


def _refuse_unknown(names: Iterable[str], known: Collection[str], option: str) -> None:
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"{name}: valid are {', '.join(known)}", param_hint=option)


def _refuse_without(*, store: bool, clock: bool) -> None:
    """Before any cluster is started."""
    try:
        if store:
            object_store.program()
        if clock:
            wall_clock.library()
    except (NoStoreError, NoWallClockError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


def _list() -> None:
    typer.echo("faults that are drawn (--kinds):")
    for kind, nemesis in NEMESES.items():
        typer.echo(f"  {kind:22} {nemesis.says}")
    typer.echo("scenarios (--only):")
    for name, scenario in SCENARIOS.items():
        typer.echo(f"  {name:22} {scenario.says}")


def _progress() -> Progress:
    began = time.monotonic()

    def progress(line: str) -> None:
        typer.echo(f"[{time.monotonic() - began:5.0f} s] {line}", err=True)

    return progress


if __name__ == "__main__":
    app()
