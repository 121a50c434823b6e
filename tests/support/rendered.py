"""Executed notebooks as pages of Markdown, with their plots beside them, for docs/notebooks."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NOTE = (
    "<!-- Written by `make notebooks`, from {name} and what it shows on real clusters. -->\n"
    "<!-- Do not edit. -->\n\n"
)
MOST_LINES = 60
"""An output is cut off there: a page has to be readable."""


def render(book: Mapping[str, Any], stem: str, folder: Path, names: Mapping[str, str]) -> None:
    """Write `folder`/`stem`.md, and a PNG for each plot. `names` replaces paths of this machine."""
    parts = [NOTE.format(name=f"notebooks/{stem}.ipynb")]
    pictures = 0
    for cell in book["cells"]:
        text = source_of(cell)
        if cell["cell_type"] == "markdown":
            parts.append(f"{text}\n\n")
            continue
        parts.append(f"```python\n{text}\n```\n\n")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                pictures += 1
                picture = folder / f"{stem}-{pictures}.png"
                picture.write_bytes(base64.b64decode(data["image/png"]))
                parts.append(f"![what it draws]({picture.name})\n\n")
            elif shown := _shown(output, names):
                parts.append(f"```text\n{shown}\n```\n\n")
    (folder / f"{stem}.md").write_text("".join(parts).rstrip() + "\n", "utf-8")


def source_of(cell: Mapping[str, Any]) -> str:
    """The text of a cell, which is stored as lines or as one text."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def _shown(output: Mapping[str, Any], names: Mapping[str, str]) -> str:
    # What Spark and Java say while they start is no answer to anything.
    if output.get("name") == "stderr":
        return ""
    text = str(output.get("text") or output.get("data", {}).get("text/plain", ""))
    for own, name in names.items():
        text = text.replace(own, name)
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).strip("\n").splitlines()]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], "…"]
    return "\n".join(lines)
