"""Holds the shape of the code: who imports whom; each module is short and says its purpose."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import aggregator

ROOT = Path(aggregator.__file__).parent
MAX_LINES = 600
MAX_FUNCTION_LINES, MAX_PARAMETERS = 60, 7
LARGE = 23
"""Functions with more than that. Lower it when one becomes smaller; never raise it."""

WORDS = {"errors", "events", "model", "rules", "version"}
EDGES = {
    *("jars", "connector", "credentials", "registry"),
    *("embedded", "discover", "stream", "checkpoint"),
}
BELOW_EDGES = WORDS | {"config", "plan", "cores", "failpoint"}
BELOW_DOCUMENTS = BELOW_EDGES | EDGES
ROOMS = {
    *("flow", "status", "commits", "clusters", "gaps", "writing", "moves", "quarantine"),
    *(
        "audits",
        "groups",
        "completeness",
        "acls",
        "backfills",
        "schemas",
        "steering",
        "preview",
        "dedup",
    ),
}
"""What an engine works with."""
CORE = "core"
"""So begins the name of the module of a room in which is decided: a pure part by itself."""
MAY_IMPORT: dict[str, set[str]] = {
    "version": set(),
    "errors": set(),
    "rules": set(),
    "model": {"rules"},
    "events": set(),
    "failpoint": {"errors"},
    # A process beside this one: what is in it is another one's matter.
    "apart": {"errors"},
    "config": WORDS,
    "plan": WORDS | {"config"},
    # What the rooms of side stories decide: pure, whatever else is in the room.
    "cores": WORDS | {"config", "plan"},
    # What becomes of each partition: pure, and it knows no edge.
    "flow": WORDS | {"config", "plan", "cores"},
    "jars": BELOW_EDGES,
    # The Java by which Spark reads and writes, and its build, which is pinned as the jars are.
    "connector": BELOW_EDGES | {"jars"},
    # What clients other than Java's need to log in: stores that Java opens, tokens.
    "credentials": BELOW_EDGES | {"jars", "connector"},
    # What a cluster's schema registry tells, over HTTP.
    "registry": BELOW_EDGES,
    "discover": BELOW_EDGES | {"credentials"},
    # The JVM that it starts is started with the jars; its frames are the connector's.
    "stream": BELOW_EDGES | {"jars", "connector"},
    "checkpoint": BELOW_EDGES,
    "embedded": WORDS | {"config", "jars"},
    "documents": BELOW_DOCUMENTS,
    # What is lost of a source, and what people decide about it.
    "gaps": BELOW_EDGES | {"checkpoint", "documents"},
    # What is shown of a run: a view of one moment, and the document made from it.
    "status": BELOW_EDGES | {"connector", "documents", "flow", "gaps"},
    # From what the lanes report to the checkpoint.
    "commits": BELOW_EDGES | {"connector", "stream", "checkpoint", "flow", "status"},
    # Whoever asks a cluster while it is planned and run.
    "clusters": BELOW_EDGES | {"credentials", "discover", "flow", "commits"},
    # One writer at a time.
    "writing": BELOW_EDGES | {"checkpoint", "stream"},
    # Positions that people set.
    "moves": BELOW_DOCUMENTS | {"documents", "clusters", "commits", "gaps", "writing"},
    # Plain clients that read and write the quarantine topic, and who watches it.
    "quarantine": BELOW_EDGES | {"credentials", "discover", "documents", "status"},
    # Where consumer groups go on at the hub: asked, read, written.
    "groups": BELOW_DOCUMENTS
    | {"documents", "clusters", "commits", "gaps", "moves", "quarantine", "backfills"},
    # Who may read at the hub, as at the sources.
    "acls": BELOW_DOCUMENTS | {"documents"},
    # A source goes over to the hub, and back: groups, positions and pauses in their order.
    "failover": BELOW_DOCUMENTS | {"documents", "clusters", "commits", "groups", "moves"},
    # What schema ids of the sources are at the hub.
    "schemas": BELOW_EDGES | {"connector", "registry", "discover"},
    # Which events the hub holds, so that each comes once.
    "dedup": BELOW_EDGES | {"checkpoint", "documents", "quarantine"},
    # What was found when the hub was verified, and who looks for the newest of it.
    "audits": BELOW_EDGES | {"checkpoint", "documents"},
    # Up to when the hub is complete: claimed, kept, waited for.
    "completeness": BELOW_EDGES | {"checkpoint", "documents", "flow"},
    # Older ranges that come into the hub beside the live flow.
    "backfills": BELOW_DOCUMENTS
    | {"documents", "flow", "clusters", "commits", "moves", "schemas", "writing"},
    # What a run would do first, by the very step that decides.
    "preview": BELOW_EDGES
    | {"checkpoint", "discover", "flow", "commits", "clusters", "gaps", "steering"},
    # What people ask of a running instance: it knows the engine only as something that it steers.
    "steering": BELOW_DOCUMENTS
    | {"documents", "flow", "clusters", "commits", "gaps", "moves", "backfills"},
    "engine": BELOW_DOCUMENTS | ROOMS | {"documents", "tee"},
    # Sources as connectors: their words, their JSON, and what was changed over REST.
    "connect": BELOW_EDGES | {"checkpoint", "documents"},
    # Other tools' files, and what they have stored.
    "imports": BELOW_DOCUMENTS | {"documents", "clusters", "moves", "quarantine"},
    # What was: by the minute and by the event, for people.
    "timeline": BELOW_EDGES | {"checkpoint", "documents"},
    # Hub records in Delta tables: a job beside the engine, which starts it and looks at it.
    "tee": BELOW_DOCUMENTS | {"apart", "documents", "wire"},
    # Values that name a schema of a registry, as columns.
    "wire": BELOW_EDGES | {"registry"},
    # All tables at once, while nobody writes them.
    "upkeep": BELOW_EDGES
    | {"checkpoint", "stream", "writing", "timeline", "tee", "dedup"}
    | {"audits", "backfills", "completeness", "connect", "gaps"},
    # A Spark job beside the engine.
    "verify": BELOW_DOCUMENTS
    | {"apart", "documents", "clusters", "gaps", "moves", "audits", "backfills"},
    # One topic at one cluster, for whoever looks at it.
    "peek": BELOW_EDGES | {"credentials", "registry", "discover", "documents", "quarantine"},
    "serve": BELOW_DOCUMENTS
    | {"documents", "gaps", "quarantine", "dedup", "peek", "verify", "audits", "backfills"}
    | {"steering", "moves", "connect", "timeline"},
    # What notebooks import; nothing else does.
    "notebook": BELOW_DOCUMENTS
    | {"wire", "documents", "clusters", "connect", "completeness"}
    | {"peek", "quarantine", "gaps", "audits", "timeline"},
    "cli": BELOW_DOCUMENTS
    | ROOMS
    | {"documents", "connect", "imports", "peek", "timeline", "engine", "failover", "serve"}
    | {"verify", "tee", "upkeep"},
    "__main__": {"cli"},
}
"""Part of the package -> the parts that it may import; its own is always allowed."""

PURE = {"errors", "events", "model", "config", "plan", "cores", "flow"}
CLIENTS = {"pyspark", "delta", "deltalake", "confluent_kafka", "kafka", "socket", "subprocess"}
MODULES = sorted(path for path in ROOT.rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def part_of(path: Path) -> str:
    return _part(path.relative_to(ROOT).with_suffix("").parts)


def _part(names: tuple[str, ...]) -> str:
    if names[1:] and names[1].startswith(CORE):
        return "cores"
    return "version" if names[0].startswith("__") and names[0] != "__main__" else names[0]


@dataclass(frozen=True)
class Module:
    """What these tests look at in one module."""

    purpose: str | None
    lines: int
    imported: tuple[str, ...]
    """Every module that is imported anywhere in it, dotted; names of `from` joined on."""
    classes: tuple[ast.ClassDef, ...]

    @property
    def parts(self) -> set[str]:
        """The parts of the project that it imports."""
        names = (name.split(".") for name in self.imported)
        return {_part(tuple(name[1:])) for name in names if name[0] == "aggregator" and name[1:]}


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All of a module, in any depth; not the expressions in them, which are most of a tree."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            todo += getattr(node, name, ())


@cache
def read(path: Path) -> Module:
    """Once for all tests: to walk through all modules takes half a second each time."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    imports: list[str] = []
    classes: list[ast.ClassDef] = []
    for node in statements(tree):
        if isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ClassDef):
            classes.append(node)
    purpose = ast.get_docstring(tree)
    return Module(purpose, len(text.splitlines()), tuple(imports), tuple(classes))


def test_each_part_has_a_place_in_the_order_of_layers() -> None:
    assert {part_of(path) for path in MODULES} <= MAY_IMPORT.keys()


def test_imports_go_downwards() -> None:
    wrong = {
        name_of(path): read(path).parts - MAY_IMPORT[part] - {part}
        for path in MODULES
        if (part := part_of(path)) in MAY_IMPORT
    }
    assert {name: parts for name, parts in wrong.items() if parts} == {}


def test_the_order_of_layers_has_no_circle() -> None:
    for part, allowed in MAY_IMPORT.items():
        assert all(part not in MAY_IMPORT[below] for below in allowed)


def test_no_two_classes_have_the_same_name() -> None:
    """So that a name stands for one thing; what only a module sees begins with an underscore."""
    where: dict[str, list[str]] = {}
    for path in MODULES:
        for node in read(path).classes:
            if not node.name.startswith("_"):
                where.setdefault(node.name, []).append(name_of(path))
    assert {name: found for name, found in where.items() if len(found) > 1} == {}


def test_pure_parts_know_no_client() -> None:
    wrong = {
        name_of(path): {name.split(".")[0] for name in read(path).imported} & CLIENTS
        for path in MODULES
        if part_of(path) in PURE
    }
    assert {name: clients for name, clients in wrong.items() if clients} == {}


def test_a_module_is_short() -> None:
    lines = {name_of(path): read(path).lines for path in MODULES}
    assert {name: found for name, found in lines.items() if found > MAX_LINES} == {}


def test_functions_are_short_and_take_few_parameters() -> None:
    large = [
        f"{name_of(path)}: {it.name}"
        for path in MODULES
        for it in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef) and _is_large(it)
    ]
    assert len(large) <= LARGE, large


def _is_large(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    lines = (function.end_lineno or 0) - function.lineno + 1
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    own = [it for it in given if it.arg not in ("self", "cls")]
    return lines > MAX_FUNCTION_LINES or len(own) > MAX_PARAMETERS


def test_no_call_packs_its_arguments_and_no_code_dodges_the_formatter() -> None:
    for path in (*MODULES, *(ROOT.parent / "tests").rglob("*.py")):
        text = path.read_text("utf-8")
        assert not re.search(r"# fmt: (?:skip|off)$", text, re.MULTILINE), path
        if "*(" not in text:
            continue
        packed = [
            argument.lineno
            for call in ast.walk(ast.parse(text))
            if isinstance(call, ast.Call)
            for argument in call.args
            if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Tuple)
        ]
        assert packed == [], path


def test_a_module_says_its_purpose() -> None:
    purposes = {name_of(path): read(path).purpose or "" for path in MODULES}
    assert {
        name for name, purpose in purposes.items() if len(purpose.partition("\n")[0]) <= 20
    } == set()


@pytest.mark.slow
def test_the_command_line_starts_without_spark() -> None:
    """Nor does anything that it imports import it: seconds at every call, and a JVM's folder."""
    check = (
        "import sys, aggregator.cli.main, aggregator.serve.app, aggregator.serve.server\n"
        "assert not {'pyspark', 'py4j', 'pandas'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_tree_of_errors_names_every_error_and_what_it_is_one_of() -> None:
    tree = read(ROOT / "errors.py").purpose
    assert tree is not None
    bases = {
        node.name: base.id
        for path in MODULES
        for node in read(path).classes
        if node.name.endswith("Error")
        for base in node.bases
        if isinstance(base, ast.Name)
    }
    own = {name for name, base in bases.items() if base in {*bases, "AggregatorError"}}
    assert {name for name in own if not re.search(rf"\b{name}\b", tree)} == set()
    for name in own:
        (line,) = [it for it in tree.splitlines() if re.search(rf"[|`]-- .*\b{name}\b", it)]
        assert line.startswith("    |   ") == (bases[name] != "AggregatorError"), line
