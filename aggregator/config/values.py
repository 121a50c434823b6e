"""Small values of the config as people write them: durations, sizes, addresses, patterns."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

SIZES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def parse_duration(value: Any) -> Any:
    """Seconds of `500ms`, `10s`, `5m`, `2h`, `7d` or a plain number; ValueError otherwise."""
    if isinstance(value, bool) or value is None:
        raise ValueError("a duration is needed: 500ms, 10s, 5m, 2h or 7d")
    if isinstance(value, int | float):
        return float(value)
    # Blanks at the ends go first: two patterns of blanks in a row share them in many ways.
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?", str(value).strip())
    if match is None:
        raise ValueError(f"'{value}' is not a duration; use 500ms, 10s, 5m, 2h or 7d")
    return float(match.group(1)) * UNITS[match.group(2) or "s"]


def parse_size(value: Any) -> Any:
    """Bytes of `500kB`, `10MB`, `1GB` (powers of 1000), `64KiB`, `8MiB`, `1GiB`, or a number."""
    if isinstance(value, bool) or value is None:
        raise ValueError("a number of bytes is needed: 500kB, 10MB, 8MiB")
    if isinstance(value, int):
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)", str(value).strip())
    if match is None or match.group(2).lower() not in SIZES:
        raise ValueError(f"'{value}' is not a number of bytes; use 500kB, 10MB or 8MiB")
    size = float(match.group(1)) * SIZES[match.group(2).lower()]
    if not size < 2**63:
        raise ValueError("is more bytes than there can be")
    return round(size)


def parse_listen(value: str) -> tuple[str, int] | None:
    """(host, port) of `host:port`, None for `off`; ValueError otherwise. Port 0 = any free one."""
    if value == "off":
        return None
    host, _, port = value.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"'{value}' is not host:port, nor 'off'")
    return host.strip("[]"), int(port)


def patterns(value: str | Sequence[str]) -> list[str]:
    """The single regexes of an include or exclude: a list of them, or one text with commas.

    A comma separates, except inside braces, brackets or parentheses (`a{1,3}`, `[a,b]`) and after
    a backslash. Blanks around a pattern are dropped, and so are empty patterns. Never fails: what
    does not compile comes back as it is written.
    """
    texts = [value] if isinstance(value, str) else list(value)
    return [item for text in texts for part in _split(text) if (item := part.strip())]


def _split(text: str) -> list[str]:
    """Cut at the commas which no bracket of a regex encloses."""
    parts, current, depth, in_class, escaped = [], "", 0, False, False
    for char in text:
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        elif char in "({":
            depth += 1
        elif char in ")}":
            depth = max(0, depth - 1)
        elif char == "," and depth == 0:
            parts.append(current)
            current = ""
            continue
        current += char
    return [*parts, current]


def map_at(tree: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What plain data in the shape of a config has under a name; {} where that is no mapping."""
    value = tree.get(name)
    return value if isinstance(value, dict) else {}
