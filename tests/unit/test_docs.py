"""The documentation is true: its examples load, its commands, files and links exist."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from aggregator import __version__
from aggregator.api.metrics import metrics_text
from aggregator.config import load_text, options_table
from aggregator.config.schema import MetricsConfig, SourceConfig
from aggregator.features.connectors import config_keys
from aggregator.features.connectors.to_source import KNOWN
from support.rendered import source_of
from support.statuses import whole_status

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = sorted(
    [
        README,
        ROOT / "CHANGELOG.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "conf" / "README.md",
        *DOCS.glob("*.md"),
    ]
)
PROSE_COLUMNS = 100
OPTIONS = {row.path for row in options_table()}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to a page's headings."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def of_language(language: str) -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for number, block in enumerate(blocks(page, language), 1):
            yield f"{name_of(page)}-{number}", block


YAML = dict(of_language("yaml"))
PYTHON = dict(of_language("python"))


def test_there_is_something_to_test() -> None:
    assert len(YAML) >= 4
    assert len(PYTHON) >= 2


@pytest.mark.parametrize("where", YAML)
def test_an_example_config_loads(where: str) -> None:
    # Anyone who takes an example over sets what it names.
    named = re.findall(r"\$\{env:(\w+)\}", YAML[where])
    assert load_text(YAML[where], env=dict.fromkeys(named, "x" * 16)).sources


@pytest.mark.parametrize("where", PYTHON)
def test_an_example_program_is_python(where: str) -> None:
    ast.parse(PYTHON[where])


def test_an_example_program_imports_what_there_is() -> None:
    for where, program in PYTHON.items():
        for each in ast.walk(ast.parse(program)):
            if isinstance(each, ast.ImportFrom) and (each.module or "").startswith("aggregator"):
                found = importlib.import_module(each.module or "")
                for name in each.names:
                    has = hasattr(found, name.name)
                    assert has or find_spec(f"{each.module}.{name.name}"), f"{where}: {name.name}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        linked = (page.parent / file) if file else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_prose_is_wrapped(page: Path) -> None:
    lines = [line for line in prose(page).splitlines() if not line.startswith("|")]
    assert [line for line in lines if len(line) > PROSE_COLUMNS] == []


def test_every_page_is_linked_from_the_index() -> None:
    index = DOCS / "README.md"
    linked = set(re.findall(r"\(([\w.-]+\.md)\)", index.read_text("utf-8")))
    assert linked == {page.name for page in DOCS.glob("*.md")} - {index.name}
    assert "(docs/README.md)" in README.read_text("utf-8")


def test_results_are_pages_and_the_index_of_results_has_each() -> None:
    index = DOCS / "results" / "README.md"
    linked = set(re.findall(r"\(([\w.-]+\.md)\)", index.read_text("utf-8")))
    assert linked == {path.name for path in index.parent.iterdir()} - {index.name}


def test_the_readme_is_short_and_shows_how_to_start_and_test_first() -> None:
    lines = README.read_text("utf-8").splitlines()
    assert len(lines) <= 140
    assert {"make demo", "make test"} <= {line.split("  ")[0] for line in lines[:30]}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_options_that_are_named_exist(page: Path) -> None:
    """Whatever looks like a path of the config is one; a chosen name means any."""
    roots = {path.split(".")[0] for path in OPTIONS if "." in path}
    # Some tables name options of other programs; each of these has a test of its own.
    text = re.sub(r"^\| (MirrorMaker 1|word|there) .*?\n\n", "", prose(page), flags=re.M | re.S)
    named = set(re.findall(r"`([a-z_]+(?:\.[a-z_<>]+)+)`", text))
    for name in named:
        parts = name.split(".")
        # Spark's own settings begin like our group of that name.
        if parts[0] in roots and parts[0] != "spark":
            known = name.replace("sources.eu", "sources.<alias>")
            assert known in OPTIONS, name


def test_the_words_of_a_connector_are_known_and_come_to_options_that_exist() -> None:
    (table,) = re.findall(r"^\| word .*?\n\n", (DOCS / "rest.md").read_text("utf-8"), re.M | re.S)
    rows = [line.split(" | ") for line in table.strip().splitlines()[2:]]
    taken = (*config_keys.CLIENTS, *config_keys.CONSUMERS, config_keys.OWN)
    known = {*KNOWN, *config_keys.REFUSED, *config_keys.NO_EFFECT, *taken}
    for row in rows:
        for word in re.findall(r"`([A-Za-z.*]+\.[A-Za-z.*]+)`", row[0]):
            plain = word.removesuffix("*").removesuffix("KEY")
            assert plain in known or plain.startswith(taken), word
        for key in re.findall(r"^`([a-z_]+)`", row[1]):
            assert key in SourceConfig.model_fields, key


def test_the_page_of_metrics_names_all_of_them_and_no_others() -> None:
    status = whole_status()
    text = metrics_text(status, MetricsConfig(partitions=True, names=["native", "mm2"])).decode()
    exported = set(re.findall(r"^# TYPE (\S+)", text, re.M))
    page = (DOCS / "metrics.md").read_text("utf-8")
    named = set(re.findall(r"`((?:aggregator|kafka)_[a-z_0-9]+)`", page))
    ours = {name for name in exported if not name.startswith("process_")}
    assert ours == named


def test_the_options_for_mirrormaker_users_exist() -> None:
    text = (DOCS / "compare.md").read_text("utf-8").split("## The same settings")[1]
    rows = [line.split("|")[-2] for line in text.splitlines() if line.startswith("| ")]
    named = re.findall(r"`([a-z_]+\.[a-z_.]+)`", " ".join(rows))
    assert len(named) > 8
    for name in named:
        assert name.replace("sources.eu", "sources.<alias>") in OPTIONS, name


def test_every_guarantee_names_tests_that_exist() -> None:
    table = (DOCS / "guarantees.md").read_text("utf-8").split("## The tests")[1]
    rows = [row for row in table.splitlines() if row.startswith("| ") and "| Test" not in row]
    assert len(rows) >= 8
    for row in rows:
        files = re.findall(r"`(tests/[^`]+)`", row)
        assert files, row
        for file in files:
            assert (ROOT / file).is_file(), file


def test_files_that_are_named_exist() -> None:
    for page in PAGES:
        for name in re.findall(
            r"`((?:docs|conf|docker|jobs|notebooks|tests)/[\w./-]+)`", prose(page)
        ):
            assert (ROOT / name).exists(), f"{name_of(page)}: {name}"


def test_modules_that_the_design_names_exist() -> None:
    text = prose(DOCS / "DESIGN.md") + prose(DOCS / "internals.md")
    for name in re.findall(r"`([a-z_]+/[a-z0-9_/]+\.py)`", text):
        assert (ROOT / "aggregator" / name).is_file() or (ROOT / name).is_file(), name


def test_the_design_is_short() -> None:
    assert len((DOCS / "DESIGN.md").read_text("utf-8").splitlines()) < 250
    assert len((DOCS / "internals.md").read_text("utf-8").splitlines()) <= 430


def test_the_readme_says_what_make_can_do() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    named = {
        word
        for page in PAGES
        for word in re.findall(r"\bmake ([a-z-]+)\b", "\n".join(blocks(page, "sh")))
    }
    assert named >= {"demo", "test", "setup"}
    assert named <= targets


def test_make_lists_every_target_and_is_what_ci_runs() -> None:
    listed = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True)
    phony = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.M)
    shown = set(re.findall(r"^  make (\S+) ", listed.stdout, re.M))
    assert shown == set(" ".join(phony).split())
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "set -euo pipefail" in script.read_text("utf-8")
    assert script.read_text("utf-8").rstrip().endswith("make test")


def test_the_changelog_has_the_version_or_a_head_for_it() -> None:
    versions = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert versions[0] in ("Unreleased", __version__)
    assert len(versions) == len(set(versions))


def test_the_notebooks_are_stored_without_output() -> None:
    found = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert found
    for notebook in found:
        cells = json.loads(notebook.read_text("utf-8"))["cells"]
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


def test_each_notebook_has_its_page_with_all_that_it_says_now() -> None:
    stems = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert {path.stem for path in (DOCS / "notebooks").glob("*.md")} == stems
    for stem in stems:
        page = (DOCS / "notebooks" / f"{stem}.md").read_text("utf-8")
        for cell in json.loads((ROOT / "notebooks" / f"{stem}.ipynb").read_text("utf-8"))["cells"]:
            assert source_of(cell) in page, "make notebooks"
        pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", page)
        assert all((DOCS / "notebooks" / it).is_file() for it in pictures)
        assert not re.search(r"/tmp/|/root/|/home/|/work/", page)
