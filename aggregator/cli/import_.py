"""`aggregator import`: files of MirrorMaker or a replicator become our config, with positions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from aggregator.cli.config import ConfigOutput
from aggregator.cli.options import ConfigFile, Sets, load_config
from aggregator.cli.render import Output, Report, show, to_json
from aggregator.cli.set_positions import moves_of, report_of_moves
from aggregator.config.schema import Config
from aggregator.connect.core_mirror import Version, version_of
from aggregator.errors import EXIT_CONFIG
from aggregator.imports.connect_cluster import is_address
from aggregator.imports.core_yaml import Finished, Secrets
from aggregator.imports.document import document_of
from aggregator.imports.request import ImportRequest, finished

EXAMPLES = (
    "aggregator import mm2.properties --out aggregator.yaml",
    "aggregator import connector.json worker.properties > aggregator.yaml",
    "aggregator import kafka-mirror-maker-2.yaml --out aggregator.yaml",
    "aggregator import http://connect:8083 --hub broker:9092 --out aggregator.yaml",
    "aggregator import --consumer.config eu.properties --consumer.config us.properties \\",
    "    --producer.config hub.properties --whitelist 'orders|payments.*'",
    "aggregator import mm2.properties --positions -c aggregator.yaml        (shows the plan)",
    "aggregator import mm2.properties --positions -c aggregator.yaml --yes  (does it)",
)
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
Include = Annotated[
    str | None, typer.Option("--whitelist", "--include", metavar="REGEX", help="Topics to take.")
]
Exclude = Annotated[
    str | None,
    typer.Option("--blacklist", "--exclude", metavar="REGEX", help="Topics to leave out."),
]
Aliases = Annotated[
    list[str] | None,
    typer.Option("--alias", metavar="NAME", help="What a source is to be called, in their order."),
]


def _version(text: str) -> Version:
    try:
        return version_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def import_(
    ctx: typer.Context,
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
    consumers: ConsumerConfigs = None,
    producer: ProducerConfig = None,
    replication: ReplicationConfig = None,
    whitelist: Include = None,
    blacklist: Exclude = None,
    cluster_id: Annotated[
        str | None, typer.Option("--cluster.id", metavar="NAME", help="Of the replicator.")
    ] = None,
    alias: Aliases = None,
    hub: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The hub, when no file tells it.")
    ] = "",
    target: Annotated[
        str | None, typer.Option(metavar="CLUSTER", help="Only the config of this target.")
    ] = None,
    secrets: Annotated[
        Secrets,
        typer.Option(
            help="What becomes of secrets: a reference to a variable, to the old file, or as "
            "they are."
        ),
    ] = Secrets.ENV,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Write it there; a folder when there are several targets."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also over a file that exists.")] = False,
    positions: Annotated[
        bool,
        typer.Option(
            "--positions", help="Take over how far the old tool has read, into the config of -c."
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes/--dry-run", help="Set the positions; else they are only shown.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also positions that there are already.")
    ] = False,
    store: Annotated[
        str,
        typer.Option(
            "--offsets-topic", metavar="NAME", help="Connect's topic of offsets: connect-offsets."
        ),
    ] = "",
    group: Annotated[
        str, typer.Option(metavar="NAME", help="The group by which a replicator has committed.")
    ] = "",
    version: Annotated[
        Version | None,
        typer.Option(
            parser=_version,
            metavar="X.Y",
            help="Of MirrorMaker 2, such as 3.9: it decides where versions differ.",
        ),
    ] = None,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: Annotated[
        ConfigOutput, typer.Option("-o", "--output", help="YAML, or JSON for programs.")
    ] = ConfigOutput.YAML,
) -> None:
    """Turn the files of MirrorMaker 1 or 2, or of a replicator, into a config of ours.

    What has no counterpart is named with the reason, on stderr and in the YAML; secrets become
    references. There is a config for each cluster that was written.

    With --positions the config is there already, and its positions are set to what the old tool
    has stored, once it is stopped. Without --yes it is only shown. A position that there is stays.
    """
    names, options = split_words(files or [])
    if whitelist is not None:
        options["whitelist"] = whitelist
    if blacklist is not None:
        options["blacklist"] = blacklist
    request = ImportRequest(
        files=[Path(it) for it in names if not is_address(it)],
        clusters=[it for it in names if is_address(it)],
        consumers=consumers or (),
        producer=producer,
        replication=replication,
        options=options,
        cluster_id=cluster_id,
        aliases=alias or (),
        known=_known_aliases(ctx, config_file, sets) if positions and out is None else (),
        hub=hub,
        store=store,
        group=group,
        version=version,
    )
    found = _of_target(finished(request, secrets), target)
    tell(found)
    if not positions or out is not None:
        written = _write(found, out, force, clear=secrets is Secrets.CLEAR)
        if output is ConfigOutput.JSON and not positions:
            data = [document_of(*it).model_dump(mode="json") for it in written]
            typer.echo(to_json({"configs": data}))
        elif out is None:
            typer.echo("---\n".join(it.text for it, _ in written), nl=False)
    if positions:
        config = load_config(ctx, config_file or _single(found, out), sets)
        form = Output.JSON if output is ConfigOutput.JSON else Output.TABLE
        _positions(ctx, config, _single_target(found), yes, overwrite, form)


def _known_aliases(
    ctx: typer.Context, config_file: Path | None, sets: Sequence[str] | None
) -> list[str]:
    """What a config that is there already calls its sources."""
    return [] if config_file is None else list(load_config(ctx, config_file, sets).sources)


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


def tell(found: Iterable[Finished]) -> None:
    """Say on stderr what was not taken over, and what is to be set."""
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


def _write(
    found: Sequence[Finished], out: Path | None, force: bool, *, clear: bool
) -> list[tuple[Finished, str]]:
    """Write each config where it belongs; returns it with the name of its file."""
    if out is None:
        return [(it, "") for it in found]
    folder = out.is_dir() or (len(found) > 1 and not out.suffix)
    if len(found) > 1 and not folder:
        known = ", ".join(it.target for it in found)
        raise typer.BadParameter(
            f"--out {out}: there are several targets ({known}): name a folder, or one by --target"
        )
    files = [out / f"{it.name}.yaml" if folder else out for it in found]
    if there := [file for file in files if file.exists() and not force]:
        raise typer.BadParameter(f"--out: {there[0]} exists; --force writes over it")
    for it, file in zip(found, files, strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_config(file, it.text, secret=clear)
        typer.echo(f"written: {file}", err=True)
    return [(it, str(file)) for it, file in zip(found, files, strict=True)]


def write_config(file: Path, text: str, *, secret: bool) -> None:
    """Write a config; one with a `secret` in it is for nobody else to read."""
    mode = 0o600 if secret else 0o666
    with open(
        os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8"
    ) as opened:
        if secret:
            os.fchmod(opened.fileno(), mode)
        opened.write(text)


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


def _positions(
    ctx: typer.Context,
    config: Config,
    found: Finished,
    yes: bool,
    overwrite: bool,
    output: Output,
) -> None:
    from aggregator.imports.take_over import take_over

    taken = take_over(
        config, found.stored, lambda it: moves_of(ctx, config, it, yes), overwrite=overwrite
    )
    data: Mapping[str, Any] = {
        "dry_run": not yes,
        "sources": [it.model_dump(mode="json") for it in taken],
    }
    parts: list[Any] = []
    for it in taken:
        if it.refused:
            parts.append(f"{it.source}: no positions to be had: {it.refused}")
        if it.moves is not None:
            parts += report_of_moves(it.moves, more=not yes).parts
        if it.how_far_off:
            parts.append(f"note: {it.how_far_off}")
        if it.compared:
            parts.append(f"note: {it.source}: {it.compared}")
    show(Report(data, tuple(parts)), output)
    if all(it.refused for it in taken):
        raise typer.Exit(EXIT_CONFIG)
