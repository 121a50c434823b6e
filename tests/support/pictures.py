"""Pictures of what a command shows in a terminal, for the pages."""

from __future__ import annotations

import os
import re
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console, RenderableType

SCREENSHOTS = "AGGREGATOR_SCREENSHOTS"
"""The variable that names the folder of the documentation's images: then these are taken again."""
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.S)
"""Without fonts of other sites: a page shows an image without them."""


def are_pictures_wanted() -> bool:
    """Whether this run takes the pictures of the pages."""
    return bool(os.environ.get(SCREENSHOTS))


def keep_picture(shown: RenderableType, name: str, title: str, width: int) -> None:
    """Keep what a terminal of some width shows as `name`.svg, where pictures are wanted."""
    folder = os.environ.get(SCREENSHOTS)
    if not folder:
        return
    terminal = Console(record=True, width=width, file=StringIO(), force_terminal=True)
    terminal.print(shown)
    svg = terminal.export_svg(title=title, code_format=FORMAT, unique_id=name)
    (Path(folder) / f"{name}.svg").write_text(svg, "utf-8")
