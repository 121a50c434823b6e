"""Java properties files, as `java.util.Properties` reads them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SEPARATOR = re.compile(r"(?<!\\)(?:\\\\)*(\s*[=:]\s*|\s+)")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_CHARS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Every key with its value; of a key that is given twice the last one counts."""
    found: dict[str, str] = {}
    for line in _lines(text):
        match = _SEPARATOR.search(line)
        key, value = (line, "") if match is None else (line[: match.start(1)], line[match.end() :])
        found[_plain(key)] = _plain(value)
    return found


def _lines(text: str) -> Iterator[str]:
    """The lines that say something; one that ends with a backslash goes on in the next."""
    begun = ""
    for line in text.splitlines():
        part = line.lstrip()
        if not begun and (not part or part[0] in "#!"):
            continue
        whole = begun + part
        if (len(whole) - len(whole.rstrip("\\"))) % 2:
            begun = whole[:-1]
            continue
        begun = ""
        if whole:
            yield whole
    if begun:
        yield begun


def _plain(text: str) -> str:
    def char(match: re.Match[str]) -> str:
        escaped = match.group(1)
        if len(escaped) > 1:
            return chr(int(escaped[1:], 16))
        return _CHARS.get(escaped, escaped)

    return _ESCAPE.sub(char, text)
