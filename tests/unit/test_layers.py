"""Holds the shape of the code: who imports whom, how long a function is, what a module says."""

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
LONGEST = 60
"""Lines of a function, its signature and docstring included."""
MOST_PARAMETERS = 7

FLOORS = (
    "model",
    "config",
    "plan",
    "datapath",
    "store",
    "kafka",
    "status",
    "features",
    "engine",
    "api",
    "extras",
    "cli",
    "__main__",
)
"""The entries of `aggregator/`. Each may import those before it."""
STRANGERS = {
    "store": {"datapath.connector"},
    "kafka": {"store.lease"},
    "status": {"store.lease"},
    "api": {"engine.commits", "engine.dry_run"},
    "cli": {"datapath.connector.connector"},
}
"""An entry -> what it does not import, although that is below it."""
PURE_FLOORS = {"model", "config", "plan"}
FEATURES_MAY_IMPORT: dict[str, set[str]] = {
    "backfill": {"positions", "schemas"},
    "connectors": {"positions"},
    "dedup": {"quarantine"},
    "failover": {"groups", "positions"},
    "groups": {"backfill", "quarantine"},
    "lineage": {"delta_sink"},
    "maintenance": {
        "backfill",
        "completeness",
        "connectors",
        "dedup",
        "delta_sink",
        "timeline",
        "verify",
    },
    "peek": {"quarantine"},
    "verify": {"backfill"},
}
"""A feature -> the other features that it may import; no other one imports any."""
SHARED = {"child_process", "service", "services"}
"""Modules of `features/` for all of them."""
CLIENTS = {"pyspark", "delta", "deltalake", "confluent_kafka", "kafka", "socket", "subprocess"}
CLIENTS_OF = {"model/failpoint.py": {"socket", "subprocess"}}
VALUES = {
    "datapath.connector.reports",
    "datapath.spark.lane",
    "features.quarantine.quarantined",
    "features.timeline.timeline_report",
    "features.verify.past_audits",
    "status.copied",
    "status.schema",
    "status.sink",
    "status.view",
}
"""Modules of which pure ones take types of values."""
MODULES = sorted(path for path in ROOT.rglob("*.py"))
PLACES = {path.relative_to(ROOT).parts for path in MODULES}
JAVA = sorted(path for path in ROOT.rglob("*.java"))
NO_METHOD = r"return|new|else|throw|if|for|while|switch|try|case|do|synchronized \(|.*\brecord "
DECLARES = re.compile(rf"^( {{2,8}})(?!{NO_METHOD})[\w@<].*\w\(")

LONG_FUNCTIONS: dict[str, int] = {}
"""Functions that are longer, and their lines. This list only gets shorter."""
MANY_PARAMETERS: dict[str, int] = {
    "datapath/connector/spec.py:render_spec": 10,
    "datapath/spark/lane.py:LaneQuery.__init__": 8,
    "datapath/spark/lane.py:LaneQuery.start": 8,
    "engine/application.py:run": 9,
    "engine/dry_run/first_step.py:preview": 9,
    "engine/engine.py:Engine.__init__": 9,
    "engine/executor.py:CommandExecutor.__init__": 10,
    "extras/embedded/cluster.py:EmbeddedCluster.__init__": 12,
    "features/failover/failback.py:_forward": 8,
    "features/failover/failback.py:fail_back": 8,
    "features/timeline/past_queries.py:read_events": 9,
}
"""Functions with more parameters, and how many. This list only gets shorter."""
LONG_METHODS: dict[str, int] = {
    "Dedup.java:read": 73,
}
"""The same for Java."""
MANY_JAVA_PARAMETERS: dict[str, int] = {}
THREADS: dict[str, int] = {
    "api/server.py": 1,
    "cli/run.py": 1,
    "cli/serving.py": 1,
    "cli/signals.py": 2,
    "datapath/spark/lane.py": 1,
    "engine/recoverer.py": 1,
    "engine/workers.py": 1,
    "extras/demo/hub_reader.py": 1,
    "extras/demo/load.py": 1,
    "features/backfill/lane.py": 1,
    "features/child_process.py": 1,
    "features/delta_sink/supervisor.py": 1,
    "features/verify/audit_process.py": 1,
    "features/verify/job.py": 1,
    "kafka/admin/held_client.py": 2,
    "kafka/admin/parallel.py": 1,
    "model/loop.py": 1,
}
"""Modules that make a thread themselves, and in how many places: one that takes turns works by
`model/loop.py`. This list only gets shorter."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def floor_of(names: tuple[str, ...]) -> str:
    return names[0].removesuffix(".py")


def feature_of(names: tuple[str, ...]) -> str | None:
    """The feature that a module belongs to, None for one of another entry or of all features."""
    if len(names) < 2 or names[0] != "features":
        return None
    feature = names[1].removesuffix(".py")
    return None if feature in {*SHARED, "__init__"} else feature


@dataclass(frozen=True)
class Module:
    """What these tests look at in one module."""

    purpose: str | None
    imported: tuple[str, ...]
    """Every module that is imported anywhere in it, dotted; names of `from` joined on."""
    classes: tuple[ast.ClassDef, ...]
    functions: tuple[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef], ...]

    @property
    def inside(self) -> tuple[tuple[str, ...], ...]:
        """What it imports of the project, each as its path below `aggregator`."""
        names = (tuple(name.split(".")) for name in self.imported)
        return tuple(name[1:] for name in names if name[0] == "aggregator" and name[1:])

    @property
    def pure(self) -> bool:
        """Whether its first line says so."""
        return bool(re.search(r"\bPure\b", (self.purpose or "").partition("\n\n")[0]))


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All of a module, in any depth; not the expressions in them, which are most of a tree."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            todo += getattr(node, name, ())


def functions(
    node: ast.AST, prefix: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """All functions below a node, with the names of what they are in."""
    for child in getattr(node, "body", ()):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, child
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from functions(child, f"{prefix}{child.name}.")


@cache
def read(path: Path) -> Module:
    """Once for all tests: to walk through all modules takes half a second each time."""
    tree = ast.parse(path.read_text("utf-8"))
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
    return Module(purpose, tuple(imports), tuple(classes), tuple(functions(tree)))


def places(path: Path) -> tuple[str, ...]:
    return path.relative_to(ROOT).parts


def module_of(names: tuple[str, ...]) -> tuple[str, ...] | None:
    """The file that an imported name is of; None for one of a package's own."""
    for end in range(len(names), 0, -1):
        if (found := (*names[: end - 1], f"{names[end - 1]}.py")) in PLACES:
            return found
    return None


def test_the_package_has_at_most_fourteen_entries() -> None:
    entries = {places(path)[0].removesuffix(".py") for path in (*MODULES, *JAVA)}
    assert entries - {"__init__"} == {*FLOORS}
    assert len(entries) <= 14, "a new idea first looks for a folder that is there"


def test_each_folder_is_a_package() -> None:
    assert {path.parent for path in MODULES} == {path.parent for path in ROOT.rglob("__init__.py")}


def test_imports_go_one_way() -> None:
    rank = {name: number for number, name in enumerate(FLOORS)}
    wrong = {
        name_of(path): found
        for path in MODULES
        if places(path) != ("__init__.py",)
        and (
            found := {
                ".".join(names)
                for names in read(path).inside
                if names[0] in rank and rank[names[0]] > rank[floor_of(places(path))]
            }
        )
    }
    assert wrong == {}


def test_parts_that_have_no_business_with_each_other_do_not_import_each_other() -> None:
    wrong = {
        name_of(path): found
        for path in MODULES
        for stranger in STRANGERS.get(floor_of(places(path)), ())
        if (
            found := {
                name for name in map(".".join, read(path).inside) if name.startswith(stranger)
            }
        )
    }
    assert wrong == {}


def test_a_feature_imports_only_the_features_on_its_list() -> None:
    found: dict[str, set[str]] = {}
    for path in MODULES:
        feature = feature_of(places(path))
        others = {other for names in read(path).inside if (other := feature_of(names))}
        if feature is not None and others - {feature}:
            found.setdefault(feature, set()).update(others - {feature})
    assert found == FEATURES_MAY_IMPORT


def test_features_import_each_other_in_no_circle() -> None:
    def below(feature: str) -> set[str]:
        direct = FEATURES_MAY_IMPORT.get(feature, set())
        return direct.union(*map(below, direct))

    assert not [feature for feature in FEATURES_MAY_IMPORT if feature in below(feature)]


def test_a_pure_module_imports_no_client_and_nothing_impure() -> None:
    pure = {places(path) for path in MODULES if read(path).pure or places(path)[0] in PURE_FLOORS}
    wrong = {}
    for path in MODULES:
        if places(path) not in pure:
            continue
        clients = {name.split(".")[0] for name in read(path).imported} & CLIENTS
        clients -= CLIENTS_OF.get(name_of(path), set())
        impure = {
            ".".join(names)
            for names in read(path).inside
            if (module := module_of(names)) is not None
            and module not in pure
            and ".".join(module).removesuffix(".py") not in VALUES
        }
        if clients | impure:
            wrong[name_of(path)] = clients | impure
    assert wrong == {}


def test_no_two_classes_have_the_same_name() -> None:
    """So that a name means one thing; what only a module sees begins with an underscore."""
    where: dict[str, list[str]] = {}
    for path in MODULES:
        for node in read(path).classes:
            if not node.name.startswith("_"):
                where.setdefault(node.name, []).append(name_of(path))
    assert {name: found for name, found in where.items() if len(found) > 1} == {}


def is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether its parameters are the options of a command: its decorator says so."""
    names = [
        ast.unparse(it.func if isinstance(it, ast.Call) else it).split(".")[-1]
        for it in node.decorator_list
    ]
    return any(name in {"command", "callback"} for name in names)


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0].lineno if is_command(node) else node.lineno
    return (node.end_lineno or first) - first + 1


def parameters_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    names = [it.arg for it in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return 0 if is_command(node) else len(names) - (names[:1] in (["self"], ["cls"]))


def over(limit: int, measure: str) -> dict[str, int]:
    """The functions for which a measure is above its limit."""
    how = {"lines": lines_of, "parameters": parameters_of}[measure]
    return {
        f"{name_of(path)}:{name}": how(node)
        for path in MODULES
        for name, node in read(path).functions
        if how(node) > limit
    }


def test_a_function_is_short() -> None:
    assert over(LONGEST, "lines") == LONG_FUNCTIONS


def test_a_function_has_few_parameters() -> None:
    assert over(MOST_PARAMETERS, "parameters") == MANY_PARAMETERS


def test_few_modules_make_a_thread_themselves() -> None:
    counts = {name_of(path): path.read_text("utf-8").count("threading.Thread(") for path in MODULES}
    assert {name: count for name, count in counts.items() if count} == THREADS


def methods(path: Path) -> Iterator[tuple[str, int, int]]:
    """Methods of a Java file in its format: name, lines, parameters."""
    lines = path.read_text("utf-8").split("\n")
    for number, line in enumerate(lines):
        declared = DECLARES.match(line)
        if declared is None:
            continue
        head = ""
        for below in lines[number:]:
            head += below.strip() + " "
            if below.rstrip().endswith(("{", ";", "}")):
                break
        if not head.rstrip().endswith("{") or "=" in head.split("(")[0] or "->" in head:
            continue
        named = re.search(r"(\w+)\(", head)
        end = next(at for at in range(number, len(lines)) if lines[at] == f"{declared[1]}}}")
        assert named is not None
        yield f"{path.name}:{named[1]}", end - number + 1, count_parameters(head)


def count_parameters(head: str) -> int:
    inside = head.split("(", 1)[1].rsplit(")", 1)[0]
    while re.search(r"<[^<>]*>", inside):
        inside = re.sub(r"<[^<>]*>", "", inside)
    return inside.count(",") + 1 if inside.strip() else 0


def test_a_method_in_java_is_short_and_has_few_parameters() -> None:
    found = [it for path in JAVA for it in methods(path)]
    assert len(found) > 300
    assert {name: lines for name, lines, _ in found if lines > LONGEST} == LONG_METHODS
    many = {name: count for name, _, count in found if count > MOST_PARAMETERS}
    assert many == MANY_JAVA_PARAMETERS


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
        "import sys, aggregator.cli.main, aggregator.api.app, aggregator.api.server\n"
        "assert not {'pyspark', 'py4j', 'pandas'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_tree_of_errors_names_every_error_and_what_it_is_one_of() -> None:
    tree = read(ROOT / "model" / "errors.py").purpose
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
