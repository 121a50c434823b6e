"""The shared part of `mirror-maker` and `replicator`: makes a config in memory and runs it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from aggregator.cli.command import Call
from aggregator.cli.failures import Invocation
from aggregator.cli.import_ import write_config
from aggregator.cli.run import RunOptions, run_config
from aggregator.config.load import Added
from aggregator.config.node import check_alias
from aggregator.config.overlay import overlay
from aggregator.config.render import dump
from aggregator.config.schema import Config
from aggregator.extras.importers.import_request import ImportRequest, finished
from aggregator.extras.importers.import_yaml import Finished, Secrets
from aggregator.features.connectors.connector_table import effective_text
from aggregator.features.positions.change_report import MovesReport
from aggregator.features.positions.targets import MoveRequest
from aggregator.model.errors import ConfigError, Problem
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable

CONFIG = "aggregator.yaml"

Words = dict[str, tuple[str, str]]
"""Name of an old tool's option -> what its value is called, and what it does here."""
NO_EFFECT = "Has no effect."


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """What an aggregation is called, and where it keeps its state."""

    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Names the aggregation; else group.id or --cluster.id does."
        ),
    ] = None
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="DIR",
            help="Folder of its state; else aggregator/NAME in ~/.local/state.",
        ),
    ] = None


def old_options(words: Words) -> type:
    """A dataclass of an old tool's options; one without a name for its value is a flag."""
    fields = []
    for name, (metavar, help_) in words.items():
        option: Any = typer.Option(f"--{name}", metavar=metavar or None, help=help_)
        kind: Any = Annotated[str | None, option] if metavar else Annotated[bool, option]
        fields.append((name.replace(".", "_"), kind, None if metavar else False))
    return make_dataclass("OldOptions", fields, frozen=True)


def given_of(options: Any, words: Words) -> dict[str, str]:
    """Those of an old tool's options that were given, by their names."""
    found = {name: getattr(options, name.replace(".", "_")) for name in words}
    return {
        name: value if isinstance(value, str) else "true"
        for name, value in found.items()
        if value not in (None, False)
    }


def state_folder(name: str, env: Mapping[str, str] = os.environ) -> Path:
    """Where an aggregation of this name keeps its state by default."""
    base = env.get("XDG_STATE_HOME", "")
    home = Path(base) if base else Path.home() / ".local" / "state"
    return home / "aggregator" / name


def run_stand_in(
    call: Call,
    request: ImportRequest,
    place: PlaceOptions,
    how: RunOptions,
    *,
    positions: bool = True,
) -> None:
    """Make the config, say what has no effect, take positions over at first, and run it."""
    found = _made(request, Secrets.CLEAR)
    for note in found.notes:
        word = "note" if note.taken else "no effect"
        typer.echo(f"{word}: {note.where}: {note.reason}", err=True)
    name = place.name or found.name
    try:
        check_alias(name)
    except ValueError as error:
        raise typer.BadParameter(f"--name {error}") from error
    folder = Path(place.state) if place.state is not None else state_folder(name)
    request = replace(request, known=_known_aliases(folder))
    found = _made(request, Secrets.CLEAR)
    laid_over = {"name": name, "checkpoint": {"path": str(folder / "checkpoint")}}

    def load(added: Added) -> Config:
        made = _made(request, Secrets.CLEAR)
        text = dump({**made.tree, **laid_over})
        config = effective_text(text, call.sets or (), added, source=made.tool)
        invocation = call.ctx.find_object(Invocation)
        if invocation is not None:
            invocation.loaded(config)
        return config

    config = load({})
    folder.mkdir(parents=True, exist_ok=True)
    _leave_config(call, _made(request, Secrets.FILE), folder, laid_over)
    if positions:
        _continue(call, config, found)
    run_config(call, load, how)


def _made(request: ImportRequest, secrets: Secrets) -> Finished:
    (made,) = finished(request, secrets)
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


def _leave_config(
    call: Call, made: Finished, folder: Path, laid_over: Mapping[str, object]
) -> None:
    """The same config as a file, for the other commands."""
    file = folder / CONFIG
    tree = {**made.tree, **laid_over}
    overlay(tree, call.sets or ())
    head = "".join(f"{line}\n" for line in made.text.splitlines() if line.startswith("#"))
    write_config(file, head + dump(tree), secret=True)
    typer.echo(f"state: {folder}", err=True)
    typer.echo(f"for other commands: aggregator status -c {file}", err=True)
    for secret in made.secrets:
        typer.echo(f"  they need: export {secret.name}=...   # {secret.where}", err=True)


def _continue(call: Call, config: Config, found: Finished) -> None:
    """At the first start, begin where the old tool was."""
    place, log = config.checkpoint, call.log
    if CheckpointTable.open(place.path, place.storage_options) is not None:
        return
    from aggregator.extras.importers.take_over import take_over
    from aggregator.features.positions.set_stopped import set_positions

    def do(request: MoveRequest) -> MovesReport:
        return set_positions(config, request, call.emit)

    for it in take_over(config, found.stored, do):
        if it.refused:
            log("positions", f"{it.source}: begins by `start`: {it.refused}")
            continue
        assert it.moves is not None
        for note in it.moves.notes:
            log("positions", note)
        log("positions", f"{it.source}: {it.moves.changes} partitions continue where it was")
        if it.how_far_off:
            log("positions", it.how_far_off)
        if it.compared:
            log("positions", f"{it.source}: {it.compared}")
