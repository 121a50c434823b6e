"""The generated pages are what `make docs` writes now, and leave no command out."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from aggregator.cli.main import app

ROOT = Path(__file__).parents[2]


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = load_generator()


def commands(group: Any, words: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every command below a group, itself included, by its words."""
    found = {words: group}
    for name, command in getattr(group, "commands", {}).items():
        found |= commands(command, (*words, name))
    return found


COMMANDS = commands(typer.main.get_command(app))


@pytest.mark.parametrize("name", GENERATOR.PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    written = (ROOT / "docs" / name).read_text("utf-8")
    assert written == GENERATOR.PAGES[name](), f"docs/{name} is old: run make docs"


def test_every_command_is_on_the_page() -> None:
    assert set(GENERATOR.COMMANDS) == set(COMMANDS)


def test_the_file_map_names_every_module_and_no_other() -> None:
    listed = set(re.findall(r"^\| `([^`]+)` \|", GENERATOR.file_map(), re.M))
    package = ROOT / "aggregator"
    assert listed == {str(path.relative_to(package)) for path in package.rglob("*.py")}


def examples() -> list[str]:
    """The lines of all sh blocks that call the aggregator."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    text = "\n".join(
        block
        for page in pages
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    )
    whole = re.sub(r"\\\n\s*", "", text)
    return sorted(set(re.findall(r"^(?:\S*/)?aggregator (.*?)(?:\s+#.*)?$", whole, re.M)))


@pytest.mark.parametrize("line", examples())
def test_a_command_in_the_documentation_can_be_given(line: str) -> None:
    words = shlex.split(line)
    path = next(tuple(words[:length]) for length in (2, 1, 0) if tuple(words[:length]) in COMMANDS)
    known = {
        name
        for parameter in COMMANDS[path].params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    known |= {"-h", "--help"}
    rest = words[len(path) :]
    assert path or rest, "a command, or an option"
    takes = any(not name.startswith("-") for name in known)
    assert not path or not rest or takes or rest[0].startswith("-"), f"{rest[0]} is no command"
    for word in rest:
        if word.startswith("-"):
            assert word in known, f"{' '.join(path)} has no option {word}"
