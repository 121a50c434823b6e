"""Reads the files and options of an import, asks a Connect cluster, and makes the hubs' configs."""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from aggregator.config.mask import hide_passwords
from aggregator.config.properties import parse_properties
from aggregator.config.references import resolve
from aggregator.extras.importers.configs import Imported, Posted, SettingPlace, Settings
from aggregator.extras.importers.connectors_and_workers import PostedConnectors, import_connectors
from aggregator.extras.importers.import_yaml import Finished, Secrets, finish
from aggregator.extras.importers.kind_of_file import Kind, sorted_file
from aggregator.extras.importers.login_lines import with_logins
from aggregator.extras.importers.mirror_maker_1 import MirrorMaker1, import_mm1
from aggregator.extras.importers.mirror_maker_2 import import_mm2
from aggregator.extras.importers.replicator_files import Executable, import_executable
from aggregator.extras.importers.strimzi import is_resource
from aggregator.features.connectors.mirror_maker_source import Version
from aggregator.model.errors import ConfigError, Problem

TIMEOUT_SECONDS = 30.0


def is_address(word: str) -> bool:
    """Whether a word is the address of a Connect cluster, and not a file."""
    return word.startswith(("http://", "https://"))


def connectors_of(address: str) -> str:
    """The connectors of the cluster at an address, as JSON in the form in which they are posted.

    User and password may be in the address. ConfigError when it gives no answer that is one.
    """
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    url = urlunsplit(
        (parts.scheme, host, f"{parts.path.rstrip('/')}/connectors", "expand=info", "")
    )
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    if parts.username:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        token = base64.b64encode(login.encode()).decode()
        # Not to wherever it may send us.
        request.add_unredirected_header("Authorization", f"Basic {token}")
    shown = hide_passwords(address)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            data: Any = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            reason = f"answers {error.code} {error.reason}"
        raise ConfigError([Problem("", reason, "give the URL of a worker")], shown) from error
    except (OSError, ValueError, HTTPException) as error:
        reason = f"is not to be had: {error}"
        raise ConfigError([Problem("", reason, "give the URL of a worker")], shown) from error
    if not isinstance(data, dict) or not all(_is_info(it) for it in data.values()):
        reason = "gives no list of connectors with their configs"
        raise ConfigError([Problem("", reason, "give the URL of a worker")], shown)
    found = [{"name": name, "config": it["info"]["config"]} for name, it in data.items()]
    return json.dumps(found)


def _is_info(item: Any) -> bool:
    info = item.get("info") if isinstance(item, dict) else None
    return isinstance(info, dict) and isinstance(info.get("config"), dict)


FIRST_PORT = 8083
Found = dict[Kind, list[Posted]]
"""What the files hold, by kind."""


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What to import: files of any kind, files of a named kind, and options.

    `clusters` are URLs of Connect clusters. `options` are those of the old tool, by their names
    without dashes. `cluster_id` says that it is the replicator executable, `mirror_maker` that it
    is MirrorMaker 1, whatever is missing. `known` are aliases of sources that keep them, `version`
    is that of MirrorMaker 2.
    """

    files: Sequence[Path] = ()
    clusters: Sequence[str] = ()
    consumers: Sequence[Path] = ()
    producer: Path | None = None
    replication: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    cluster_id: str | None = None
    mirror_maker: bool = False
    aliases: Sequence[str] = ()
    known: Sequence[str] = ()
    hub: str = ""
    store: str = ""
    group: str = ""
    version: Version | None = None


def imported(request: ImportRequest) -> tuple[Imported, ...]:
    """A config for each hub. ConfigError with every reason why one does not come of it."""
    return tuple(with_logins(it) for it in _imported(request))


def _imported(request: ImportRequest) -> Sequence[Imported]:
    found: Found = {kind: [] for kind in Kind}
    for file in request.files:
        for kind, posted in sorted_file(str(file), _read(file)):
            found[kind].append(posted)
    for address in request.clusters:
        for kind, posted in sorted_file(hide_passwords(address), connectors_of(address)):
            found[kind].append(posted)
    for files, kind in (
        (request.consumers, Kind.CONSUMER),
        ([request.producer] if request.producer else [], Kind.PRODUCER),
        ([request.replication] if request.replication else [], Kind.REPLICATION),
    ):
        found[kind] += [Posted("", Settings(str(it), parse_properties(_read(it)))) for it in files]
    _check_one_tool(found, request)
    if found[Kind.MM2]:
        files_of_mm2 = [it.settings for it in found[Kind.MM2]]
        return tuple(_apart(import_mm2(files_of_mm2, request.version)))
    if found[Kind.CONNECTOR]:
        call = PostedConnectors(
            found[Kind.CONNECTOR],
            [it.settings for it in found[Kind.WORKER]],
            request.hub,
            request.store,
            request.group,
            request.version,
        )
        return tuple(_apart(import_connectors(call)))
    consumers = [it.settings for it in found[Kind.CONSUMER]]
    producer, replication = _only(found, Kind.PRODUCER), _only(found, Kind.REPLICATION)
    if replication is not None or request.cluster_id is not None:
        executable = Executable(
            request.cluster_id or "",
            _only(found, Kind.CONSUMER),
            producer,
            replication,
            request.options,
            next(iter(request.aliases), ""),
            request.group,
            request.known,
        )
        return (import_executable(executable),)
    call_of_mm1 = MirrorMaker1(consumers, producer, request.options, request.aliases, request.known)
    return (import_mm1(call_of_mm1),)


def finished(request: ImportRequest, secrets: Secrets) -> tuple[Finished, ...]:
    """The same as YAML that loads. ConfigError as `imported`, or when our config refuses it."""
    return tuple(finish(it, secrets, readable) for it in imported(request))


def readable(where: SettingPlace, value: str) -> str:
    """A reference to a key of an old file, if it is read back from there as it is."""
    reference = f"${{file:{Path(where.file).absolute()}:{where.key}}}"
    if "}" in reference[2:-1]:
        return ""
    text, problems, _ = resolve(reference, {}, Path())
    return reference if text == value and not problems else ""


def _read(file: Path) -> str:
    """The text of a file: properties as Java reads them, in ISO-8859-1, and JSON in UTF-8."""
    try:
        content = file.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise ConfigError([Problem("", f"cannot read it: {error.strerror}")], str(file)) from error
    if content.lstrip()[:1] not in (b"{", b"[") and not is_resource(content.decode("iso-8859-1")):
        return content.decode("iso-8859-1")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError([Problem("", "is not UTF-8, as JSON and YAML are")], str(file)) from error


def _only(found: Found, kind: Kind) -> Settings | None:
    settings = [it.settings for it in found[kind]]
    if len(settings) > 1:
        files = ", ".join(it.file for it in settings)
        raise ConfigError([Problem("", f"more than one is {kind}: {files}", "give one of them")])
    return settings[0] if settings else None


def _check_one_tool(found: Found, request: ImportRequest) -> None:
    """Files of several tools at once would become one config by accident."""
    tools = {
        "MirrorMaker 2": found[Kind.MM2],
        "Kafka Connect": [*found[Kind.CONNECTOR], *found[Kind.WORKER]],
        "MirrorMaker 1 or the replicator executable": [
            *found[Kind.CONSUMER],
            *found[Kind.PRODUCER],
            *found[Kind.REPLICATION],
        ],
    }
    given = [tool for tool, files in tools.items() if files]
    if not given and request.cluster_id is None and not request.mirror_maker:
        raise ConfigError([Problem("", "no file is given", "name the files of the old tool")])
    if len(given) > 1:
        reason = f"the files are of several tools: {', '.join(given)}"
        raise ConfigError([Problem("", reason, "import one after the other")])
    if given:
        _check_options(found, request)


def _check_options(found: Found, request: ImportRequest) -> None:
    """An option without effect is refused, as it was given for one."""
    given = {
        "--alias": bool(request.aliases),
        "--hub": bool(request.hub),
        "--cluster.id": request.cluster_id is not None,
        "--group": bool(request.group),
        "--offsets-topic": bool(request.store),
        "--version": request.version is not None,
        **{f"--{name}": True for name in request.options},
    }
    tool, instead = "MirrorMaker 1", "it says so in its files"
    takes: tuple[str, ...] = ("--alias",)
    taken = [f"--{name}" for name in request.options]
    if found[Kind.MM2]:
        tool, takes, taken = "MirrorMaker 2", ("--version",), []
    elif found[Kind.CONNECTOR] or found[Kind.WORKER]:
        tool, taken = "Kafka Connect", []
        takes = ("--hub", "--group", "--offsets-topic", "--version")
    elif found[Kind.REPLICATION] or request.cluster_id is not None:
        tool, takes = "the replicator executable", ("--alias", "--cluster.id", "--group")
    wrong = [name for name, is_given in given.items() if is_given]
    wrong = [name for name in wrong if name not in (*takes, *taken)]
    if wrong:
        reason = f"{', '.join(wrong)}: without effect for files of {tool}"
        raise ConfigError([Problem("", reason, f"leave it out; {instead}")])
    if request.aliases and len(request.aliases) > max(1, len(found[Kind.CONSUMER])):
        reason = f"--alias is given {len(request.aliases)} times"
        hint = f"once for each --consumer.config, of which there are {len(found[Kind.CONSUMER])}"
        raise ConfigError([Problem("", reason, hint)])


def _apart(configs: Iterable[Imported]) -> Iterable[Imported]:
    """Several configs for one machine: each with a checkpoint and a port of its own."""
    for number, config in enumerate(configs):
        if number == 0:
            yield config
            continue
        own = {
            "checkpoint": {"path": f"./state-{config.tree['name']}"},
            "api": {"listen": f"127.0.0.1:{FIRST_PORT + number}"},
        }
        yield replace(config, tree={**config.tree, **own})
