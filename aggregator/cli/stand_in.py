"""What `mirror-maker` and `replicator` share: the config is made in memory, and then run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from aggregator.checkpoint.table import CheckpointTable
from aggregator.cli.failures import Invocation
from aggregator.cli.import_ import write_config
from aggregator.cli.logs import event_log
from aggregator.cli.options import masked
from aggregator.cli.run import run_config
from aggregator.config.load import Added
from aggregator.config.node import check_alias
from aggregator.config.overlay import overlay
from aggregator.config.render import dump
from aggregator.config.schema import Config
from aggregator.connect.effective import effective_text
from aggregator.errors import ConfigError, Problem
from aggregator.imports.core_yaml import Finished, Secrets
from aggregator.imports.request import ImportRequest, finished
from aggregator.moves.core import MoveRequest
from aggregator.moves.document import MovesReport

CONFIG = "aggregator.yaml"

Name = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Names the aggregation; else what groups the old processes."),
]
State = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="DIR",
        help="Where it keeps how far it is; else aggregator/NAME in ~/.local/state.",
    ),
]
Positions = Annotated[
    bool,
    typer.Option(
        "--positions/--no-positions",
        help="At the first start go on where the old tool was.",
    ),
]


@dataclass(frozen=True, slots=True)
class StandIn:
    """A call of an old tool's stand-in. `words` say where the notes are about options of it."""

    request: ImportRequest
    name: str | None
    state: str | None
    positions: bool
    sets: Sequence[str]


def state_folder(name: str, env: Mapping[str, str] = os.environ) -> Path:
    """Where an aggregation of this name keeps its state, when nobody says where."""
    base = env.get("XDG_STATE_HOME", "")
    home = Path(base) if base else Path.home() / ".local" / "state"
    return home / "aggregator" / name


def run_stand_in(
    ctx: typer.Context, call: StandIn, *, until_caught_up: bool, take_over: bool, standby: bool
) -> None:
    """Make the config, say what has no effect, take positions over at first, and run it."""
    found = _made(call, Secrets.CLEAR)
    for note in found.notes:
        typer.echo(f"no effect: {note.where}: {note.reason}", err=True)
    name = call.name or found.name
    try:
        check_alias(name)
    except ValueError as error:
        raise typer.BadParameter(f"--name {error}") from error
    folder = Path(call.state) if call.state is not None else state_folder(name)
    call = replace(call, request=replace(call.request, known=_known_aliases(folder)))
    found = _made(call, Secrets.CLEAR)
    laid_over = {"name": name, "checkpoint": {"path": str(folder / "checkpoint")}}

    def load(added: Added) -> Config:
        made = _made(call, Secrets.CLEAR)
        text = dump(_laid(made, laid_over))
        config = effective_text(text, call.sets, added=added, source=made.tool)
        invocation = ctx.find_object(Invocation)
        if invocation is not None:
            invocation.loaded(config)
        return config

    config = load({})
    folder.mkdir(parents=True, exist_ok=True)
    _leave_config(call, folder, laid_over)
    if call.positions:
        _go_on(ctx, config, found)
    run_config(ctx, load, until_caught_up=until_caught_up, take_over=take_over, standby=standby)


def _made(call: StandIn, secrets: Secrets) -> Finished:
    (made,) = finished(call.request, secrets)
    if refused := [note for note in made.notes if note.decide]:
        hint = f"leave it out, or write the config: aggregator import, with {made.tool}'s options"
        raise ConfigError([Problem(str(it.where), it.reason, hint) for it in refused])
    return made


def _known_aliases(folder: Path) -> list[str]:
    """What the sources were called at an earlier start: their positions are by these names."""
    file = folder / CONFIG
    try:
        tree = yaml.safe_load(file.read_text("utf-8"))
        return [str(alias) for alias in tree["sources"]]
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError) as error:
        hint = "mend it: it says what the sources are called in the checkpoint beside it"
        raise ConfigError([Problem("", f"cannot be read: {error}", hint)], str(file)) from error


def _laid(made: Finished, laid_over: Mapping[str, object]) -> dict[str, Any]:
    """The config as plain data, with name and place of this aggregation."""
    return {**made.tree, **laid_over}


def _leave_config(call: StandIn, folder: Path, laid_over: Mapping[str, object]) -> None:
    """The same config as a file, for the other commands."""
    made = _made(call, Secrets.FILE)
    file = folder / CONFIG
    tree = _laid(made, laid_over)
    overlay(tree, call.sets)
    head = "".join(f"{line}\n" for line in made.text.splitlines() if line.startswith("#"))
    write_config(file, head + dump(tree), secret=True)
    typer.echo(f"state: {folder}", err=True)
    typer.echo(f"for other commands: aggregator status -c {file}", err=True)
    for secret in made.secrets:
        typer.echo(f"  they need: export {secret.name}=...   # {secret.where}", err=True)


def _go_on(ctx: typer.Context, config: Config, found: Finished) -> None:
    """At the first start, begin where the old tool was."""
    place = config.checkpoint
    if CheckpointTable.open(place.path, place.storage_options) is not None:
        return
    from aggregator.imports.take_over import take_over
    from aggregator.moves.stopped import set_positions

    log = event_log(lambda text: masked(ctx, text))

    def do(request: MoveRequest) -> MovesReport:
        return set_positions(
            config, request, lambda event: log(event.kind, event.message, **event.fields)
        )

    for it in take_over(config, found.stored, do):
        if it.refused:
            log("positions", f"{it.source}: begins by `start`: {it.refused}")
            continue
        assert it.moves is not None
        for note in it.moves.notes:
            log("positions", note)
        log("positions", f"{it.source}: {it.moves.changes} partitions go on where it was")
        if it.how_far_off:
            log("positions", it.how_far_off)
        if it.compared:
            log("positions", f"{it.source}: {it.compared}")
