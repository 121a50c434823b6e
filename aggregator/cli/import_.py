"""`aggregator import`: files of MirrorMaker or a replicator become our config, with positions."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.config import ConfigOutput, Form
from aggregator.cli.render import Output, Report, Table, to_json
from aggregator.cli.set_positions import report_of_moves
from aggregator.extras.importers.import_request import ImportRequest, finished, is_address
from aggregator.extras.importers.import_yaml import Finished, Secrets
from aggregator.features.connectors.mirror_maker_source import Version, version_of
from aggregator.model.alike import made_of
from aggregator.model.errors import EXIT_CONFIG, EXIT_DONE

FLAGS = frozenset({"new.consumer"})
"""Options of the old tools without a value."""

ConsumerConfigs = Annotated[
    list[Path] | None,
    typer.Option(
        "--consumer.config",
        metavar="FILE",
        help="Properties of a source's consumer; once for each source.",
    ),
]
ProducerConfig = Annotated[
    Path | None,
    typer.Option("--producer.config", metavar="FILE", help="Properties of the hub's producer."),
]
ReplicationConfig = Annotated[
    Path | None,
    typer.Option("--replication.config", metavar="FILE", help="Properties of the replication."),
]
Aliases = Annotated[
    list[str] | None,
    typer.Option("--alias", metavar="NAME", help="The name of a source, in their order."),
]


def _version(text: str) -> Version:
    try:
        return version_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


@dataclass(frozen=True, slots=True)
class OldToolOptions:
    """The options of an old tool's call, and what its files do not say."""

    consumers: ConsumerConfigs = None
    producer: ProducerConfig = None
    replication: ReplicationConfig = None
    whitelist: Annotated[
        str | None,
        typer.Option("--whitelist", "--include", metavar="REGEX", help="Topics to take."),
    ] = None
    blacklist: Annotated[
        str | None,
        typer.Option("--blacklist", "--exclude", metavar="REGEX", help="Topics to leave out."),
    ] = None
    cluster_id: Annotated[
        str | None, typer.Option("--cluster.id", metavar="NAME", help="Of the replicator.")
    ] = None
    alias: Aliases = None
    hub: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The hub, when no file names it.")
    ] = ""
    store: Annotated[
        str,
        typer.Option(
            "--offsets-topic", metavar="NAME", help="Connect's topic of offsets: connect-offsets."
        ),
    ] = ""
    group: Annotated[
        str, typer.Option(metavar="NAME", help="The group by which a replicator has committed.")
    ] = ""
    version: Annotated[
        Version | None,
        typer.Option(
            parser=_version,
            metavar="X.Y",
            help="Of MirrorMaker 2, such as 3.9: it decides where versions differ.",
        ),
    ] = None

    def request(self, words: Sequence[str], known: Sequence[str]) -> ImportRequest:
        """What to import; `known` are the aliases of an existing config."""
        names, options = split_words(words)
        given = {"whitelist": self.whitelist, "blacklist": self.blacklist}
        options |= {name: value for name, value in given.items() if value is not None}
        return made_of(
            ImportRequest,
            self,
            files=[Path(it) for it in names if not is_address(it)],
            clusters=[it for it in names if is_address(it)],
            consumers=self.consumers or (),
            options=options,
            aliases=self.alias or (),
            known=known,
        )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What is written, and where."""

    target: Annotated[
        str | None, typer.Option(metavar="CLUSTER", help="Only the config of this target.")
    ] = None
    secrets: Annotated[
        Secrets,
        typer.Option(
            help="What becomes of secrets: a reference to a variable, to the old file, or as "
            "they are."
        ),
    ] = Secrets.ENV
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Where to write it; a folder for several targets."
        ),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False


@dataclass(frozen=True, slots=True)
class TakeOverOptions:
    """Whether positions are taken over."""

    positions: Annotated[
        bool,
        typer.Option(
            "--positions", help="Set positions to those of the old tool, for the config of -c."
        ),
    ] = False
    yes: Annotated[
        bool, typer.Option("--yes/--dry-run", help="Set the positions; else they are only shown.")
    ] = False
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also where there is a position already.")
    ] = False


@command(
    "aggregator import mm2.properties --out aggregator.yaml",
    "aggregator import connector.json worker.properties > aggregator.yaml",
    "aggregator import kafka-mirror-maker-2.yaml --out aggregator.yaml",
    "aggregator import http://connect:8083 --hub broker:9092 --out aggregator.yaml",
    "aggregator import --consumer.config eu.properties --consumer.config us.properties \\",
    "    --producer.config hub.properties --whitelist 'orders|payments.*'",
    "aggregator import mm2.properties --positions -c aggregator.yaml        (shows the plan)",
    "aggregator import mm2.properties --positions -c aggregator.yaml --yes  (does it)",
    loose=True,
)
def import_(
    call: Call,
    tool: OldToolOptions,
    writing: WriteOptions,
    taking: TakeOverOptions,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE|URL]...",
            help="mm2.properties, a connector's JSON or properties, those of its worker, or of "
            "consumers and producers; resources of Strimzi; the URL of a Connect cluster. Any "
            "option of the old tools with a dot in it is taken.",
            show_default=False,
        ),
    ] = None,
    output: Form = ConfigOutput.YAML,
) -> Report | None:
    """Turn the files of MirrorMaker 1 or 2, or of a replicator, into a config of this tool.

    Settings without a counterpart are listed with the reason, on stderr and in the YAML; secrets
    become references. Each cluster that was written gets a config.

    With --positions, sets the positions of an existing config to those that the old tool has
    stored; stop it first. Without --yes they are only shown. Existing positions are kept.
    """
    as_json = output is ConfigOutput.JSON
    call.output = Output.JSON if as_json else Output.TABLE
    there = taking.positions and writing.out is None and call.config_file is not None
    request = tool.request(files or [], list(call.load().sources) if there else ())
    found = _of_target(finished(request, writing.secrets), writing.target)
    show_finished(found)
    if not taking.positions or writing.out is not None:
        written = _write(found, writing)
        if as_json and not taking.positions:
            typer.echo(to_json({"configs": [_as_data(*it) for it in written]}))
        elif writing.out is None:
            typer.echo("---\n".join(it.text for it, _ in written), nl=False)
    if not taking.positions:
        return None
    call.config_file = call.config_file or _single(found, writing.out)
    return _taken_over(call, _single_target(found), taking)


def split_words(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Files, and options of the old tools such as `--num.streams 4`; a usage error for others."""
    files: list[str] = []
    options: dict[str, str] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-") or word == "-":
            files.append(word)
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or "." not in name:
            raise typer.BadParameter(f"there is no option {word}")
        if not equals and name in FLAGS:
            value = "true"
        elif not equals:
            if not left:
                raise typer.BadParameter(f"option --{name} needs a value")
            value = left.pop(0)
        options[name] = value
    return files, options


def show_finished(found: Iterable[Finished]) -> None:
    """Say on stderr what was not taken over, and what must be set."""
    for it in found:
        for note in it.notes:
            word = "decide" if note.decide else "note" if note.taken else "not taken over"
            typer.echo(f"{word}: {note.where}: {note.reason}", err=True)
        for secret in it.secrets:
            typer.echo(f"set: export {secret.name}=...   # {secret.where}", err=True)


def _of_target(found: Sequence[Finished], target: str | None) -> list[Finished]:
    if target is None:
        return list(found)
    kept = [it for it in found if target in (it.target, it.name)]
    if not kept:
        known = ", ".join(it.target for it in found)
        raise typer.BadParameter(f"--target {target}: nothing is written to it; targets: {known}")
    return kept


def _write(found: Sequence[Finished], how: WriteOptions) -> list[tuple[Finished, str]]:
    """Write each config where it belongs; returns it with the name of its file."""
    out = how.out
    if out is None:
        return [(it, "") for it in found]
    folder = out.is_dir() or (len(found) > 1 and not out.suffix)
    if len(found) > 1 and not folder:
        known = ", ".join(it.target for it in found)
        raise typer.BadParameter(
            f"--out {out}: there are several targets ({known}): name a folder, or one by --target"
        )
    files = [out / f"{it.name}.yaml" if folder else out for it in found]
    if there := [file for file in files if file.exists() and not how.force]:
        raise typer.BadParameter(f"--out: {there[0]} exists; --force writes over it")
    for it, file in zip(found, files, strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_config(file, it.text, secret=how.secrets is Secrets.CLEAR)
        typer.echo(f"written: {file}", err=True)
    return [(it, str(file)) for it, file in zip(found, files, strict=True)]


def write_config(file: Path, text: str, *, secret: bool) -> None:
    """Write a config; one with a `secret` in it is readable by its owner alone."""
    mode = 0o600 if secret else 0o666
    with open(
        os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8"
    ) as opened:
        if secret:
            os.fchmod(opened.fileno(), mode)
        opened.write(text)


def _as_data(found: Finished, written: str) -> dict[str, Any]:
    """A config that was made as JSON-ready data; `written` is its file, "" if only shown."""
    return {
        "name": found.name,
        "target": found.target,
        "tool": found.tool,
        "written": written,
        "config": dict(found.tree),
        "notes": [
            {**it.where._asdict(), "reason": it.reason, "decide": it.decide} for it in found.notes
        ],
        "secrets": [{"variable": it.name, **it.where._asdict()} for it in found.secrets],
    }


def _single(found: Sequence[Finished], out: Path | None) -> Path | None:
    """The file that was just written, if there was one."""
    if out is None:
        return None
    return out / f"{_single_target(found).name}.yaml" if out.is_dir() else out


def _single_target(found: Sequence[Finished]) -> Finished:
    if len(found) > 1:
        known = ", ".join(it.target for it in found)
        raise typer.BadParameter(f"--positions: for which target? --target is one of {known}")
    return found[0]


def _taken_over(call: Call, found: Finished, how: TakeOverOptions) -> Report:
    from aggregator.extras.importers.take_over import take_over

    taken = take_over(
        call.config,
        found.stored,
        lambda request: call.aggregation.move(request, dry_run=not how.yes),
        overwrite=how.overwrite,
    )
    parts: list[Table | str] = []
    for it in taken:
        if it.refused:
            parts.append(f"{it.source}: no positions to be had: {it.refused}")
        if it.moves is not None:
            parts += report_of_moves(it.moves, more=not how.yes).parts
        if it.how_far_off:
            parts.append(f"note: {it.how_far_off}")
        if it.compared:
            parts.append(f"note: {it.source}: {it.compared}")
    data = {"dry_run": not how.yes, "sources": [it.model_dump(mode="json") for it in taken]}
    code = EXIT_CONFIG if all(it.refused for it in taken) else EXIT_DONE
    return Report(data, tuple(parts), code)
