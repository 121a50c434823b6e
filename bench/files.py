"""The two files of a result, a page and its raw figures: named, written, read again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from bench.report import Result, to_json, to_markdown

RAW = Path("build/results")
"""Folder of the raw figures, which are not committed."""


def new_files(pages: Path, raw: Path, date: str) -> list[Path]:
    """Names for the page and its JSON; a second result of a day gets a number, none is replaced."""
    pages.mkdir(parents=True, exist_ok=True)
    raw.mkdir(parents=True, exist_ok=True)
    name, number = f"bench-{date}", 1
    while (pages / f"{name}.md").exists() or (raw / f"{name}.json").exists():
        number += 1
        name = f"bench-{date}-{number}"
    return [pages / f"{name}.md", raw / f"{name}.json"]


def write(result: Result, paths: Sequence[Path]) -> None:
    """Write both files."""
    for path, text in zip(paths, (to_markdown(result), to_json(result)), strict=True):
        path.write_text(text, "utf-8")


def read(path: Path) -> Result:
    """A result from its JSON file. ValueError when it is none; OSError when it cannot be read."""
    try:
        return TypeAdapter(Result).validate_json(path.read_bytes())
    except ValidationError as error:
        raise ValueError(f"{path} is not a result of the bench: {error}") from error
