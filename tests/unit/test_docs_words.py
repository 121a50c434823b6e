"""Texts are plain English: words that hide what is meant do not come back.

Neither a page nor the code has any of them.
"""

from __future__ import annotations

import re
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
