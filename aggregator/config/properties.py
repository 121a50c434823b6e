"""Java's properties files: keys and values as `java.util.Properties` reads them. Pure."""

import re

_ESCAPED = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY = re.compile(r"((?:\\.|[^\\\s=:])*)\s*[=:]?\s*(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """The keys and values of a properties file; of a key that comes twice the last value."""
    found: dict[str, str] = {}
    for line in _lines(text):
        match = _KEY.fullmatch(line)
        if match is not None:
            found[_plain(match.group(1))] = _plain(match.group(2))
    return found


def _lines(text: str) -> list[str]:
    """Lines without comments, those that end in a lone backslash joined with the next."""
    found: list[str] = []
    open_line = ""
    # Not splitlines: a form feed, or a line break of Unicode, is no end of a line to Java.
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if not open_line and (not line or line[0] in "#!"):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            open_line += line[:-1]
            continue
        found.append(open_line + line)
        open_line = ""
    return [*found, open_line] if open_line else found


def _plain(text: str) -> str:
    def meant(match: re.Match[str]) -> str:
        word = match.group(1)
        return chr(int(word[1:], 16)) if len(word) == 5 else _LETTERS.get(word, word)

    return _ESCAPED.sub(meant, text)
