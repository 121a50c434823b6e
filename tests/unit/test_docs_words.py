"""Texts are plain English: words that hide what is meant do not come back.

Neither a page nor the code has any of them, nor have the names, comments and docstrings of tests.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORDS = re.compile(
    r"\b(told|tell|tells|telling|goes on|go on|going on|went on|stands|whoever|nobody|anew"
    r"|so (?:many|long|often)|(?:is|are) to be|of ours)\b",
    re.IGNORECASE,
)
"""Say instead: report, show, continue, is, anyone who, no one, again, up to N, must be, our."""
GENERATED = {"cli.md", "options.md", "modules.md"}
"""Written from the texts of the code, which are looked at themselves."""
CODE = [
    path
    for folder in ("aggregator", "bench", "jobs")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".java", ".go", ".js", ".css", ".html")
    and not {"__pycache__", "vendor"} & set(path.parts)
]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        ROOT / "Makefile",
        *(path for path in (ROOT / "docs").glob("*.md") if path.name not in GENERATED),
        *(ROOT / "docs" / "notebooks").glob("*.md"),
        *(path for path in (ROOT / "conf").iterdir() if path.is_file()),
        *(path for path in (ROOT / "docker").rglob("*") if path.suffix in (".yaml", ".yml")),
        ROOT / "docker" / "Dockerfile",
        ROOT / "docker" / "aggregator.service",
    ]
)


def hits(text: str) -> list[str]:
    """The words of the list in a text, each with what is around it; names in capitals are none."""
    found = [it for it in WORDS.finditer(text) if not it.group().isupper()]
    return [" ".join(text[max(it.start() - 30, 0) : it.end() + 30].split()) for it in found]


def test_the_list_finds_what_it_is_for() -> None:
    text = "Nobody is told how\nmany; it goes on anew. A standard tells of a standby."
    assert len(hits(text)) == 5
    assert not hits("The standby continues; a retold story; up to many.")


@pytest.mark.parametrize("page", PAGES, ids=lambda it: str(it.relative_to(ROOT)))
def test_a_page_has_none_of_these_words(page: Path) -> None:
    text = page.read_text("utf-8")
    if page.suffix == ".md":
        # What a command prints is the code's text.
        text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    assert hits(text) == []


def test_the_code_has_none_of_these_words() -> None:
    found = {path: hits(path.read_text("utf-8")) for path in CODE}
    assert {str(path.relative_to(ROOT)): it for path, it in found.items() if it} == {}


def test_names_comments_and_docstrings_of_tests_have_none_of_these_words() -> None:
    """What is a text for the product, or of it, may have any word."""
    codes = {it: it.read_text("utf-8") for it in (ROOT / "tests").rglob("*.py")}
    # Most have none of them anywhere, and need not be taken apart.
    suspects = {it: code for it, code in codes.items() if hits(code.replace("_", " "))}
    del suspects[Path(__file__)]
    found = {path: hits("\n".join(read_by_people(code))) for path, code in suspects.items()}
    assert {str(path.relative_to(ROOT)): it for path, it in found.items() if it} == {}


def test_of_a_test_only_what_people_read_is_examined() -> None:
    code = '''
def test_it_goes_on() -> None:
    """Nobody knows."""
    told = "whoever"  # It stands.
    assert told == NOBODY
'''
    assert len(hits("\n".join(read_by_people(code)))) == 5


def read_by_people(code: str) -> Iterator[str]:
    """The names of a module, as words, its comments and its docstrings."""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.NAME:
            yield token.string.replace("_", " ")
        elif token.type == tokenize.COMMENT:
            yield token.string
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield text
