"""Translates Java regexes for Python: what Python lacks is rewritten, or refused. Pure.

Patterns come from configs of MirrorMaker and Connect. They are for topic names, which are ASCII:
so a class of Unicode is the ASCII characters in it.
"""

import re
import string
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

ASCII = frozenset(map(chr, range(128)))
POSIX = {
    "Lower": frozenset(string.ascii_lowercase),
    "Upper": frozenset(string.ascii_uppercase),
    "ASCII": ASCII,
    "Alpha": frozenset(string.ascii_letters),
    "Digit": frozenset(string.digits),
    "Alnum": frozenset(string.ascii_letters + string.digits),
    "Punct": frozenset(string.punctuation),
    "Graph": frozenset(string.ascii_letters + string.digits + string.punctuation),
    "Print": frozenset(string.ascii_letters + string.digits + string.punctuation + " "),
    "Blank": frozenset(" \t"),
    "Cntrl": frozenset(char for char in ASCII if unicodedata.category(char) == "Cc"),
    "XDigit": frozenset(string.hexdigits),
    "Space": frozenset(" \t\n\v\f\r"),
}
"""Java's `\\p{NAME}`."""
ALIASES = {
    "Alphabetic": "Alpha",
    "Letter": "Alpha",
    "Latin": "Alpha",
    "Lowercase": "Lower",
    "Uppercase": "Upper",
    "White_Space": "Space",
    "WhiteSpace": "Space",
    "Punctuation": "Punct",
    "Control": "Cntrl",
    "Hex_Digit": "XDigit",
    "javaLowerCase": "Lower",
    "javaUpperCase": "Upper",
    "javaLetter": "Alpha",
    "javaDigit": "Digit",
    "javaLetterOrDigit": "Alnum",
    "javaWhitespace": "Space",
}
SHORT = {
    "d": POSIX["Digit"],
    "w": POSIX["Alnum"] | {"_"},
    "s": POSIX["Space"],
    "h": POSIX["Blank"],
    "v": frozenset("\n\v\f\r"),
}
"""Java's `\\d` and so on; in capitals all others."""
CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
REPLACEMENTS = {
    "G": "leave it out: a pattern has to match the whole name",
    "R": "leave it out: no topic name has a line break",
    "X": "write . for any character",
    "c": "leave it out: no topic name has a control character",
    "0": "write the character itself",
    "N": "write the character itself",
}
"""What Python lacks and no topic name needs: the letter behind the backslash, and the fix."""
LONG = 500
"""Of patterns with more characters few are kept: a compiled one is many times as large."""


class RegexError(ValueError):
    """A pattern that cannot be used: why, at which column (from 1; 0 = unknown), and the fix."""

    def __init__(self, reason: str, column: int = 0, hint: str = "") -> None:
        self.reason, self.column, self.hint = reason, column, hint
        where = f" at column {column}" if column else ""
        super().__init__(f"{reason}{where}" + (f" ({hint})" if hint else ""))

    @property
    def where(self) -> str:
        """Reason and place, without the fix."""
        return f"{self.reason} at column {self.column}" if self.column else self.reason


def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern as Python's own; RegexError when it is none, or says what Python cannot."""
    return (_long_ones if len(pattern) > LONG else _short_ones)(pattern)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        pieces = _Reader(pattern).pieces()
    except RecursionError as error:
        raise RegexError("it is nested too deeply") from error
    text = "".join(piece.text for piece in pieces)
    try:
        return re.compile(text)
    except re.error as error:
        column = 0 if error.pos is None else _column(pieces, error.pos)
        raise RegexError(error.msg, column, _hint(pattern, error.msg)) from error
    except (OverflowError, RecursionError) as error:
        raise RegexError(str(error)) from error


# Topics are matched one by one, so not to keep the long patterns of a config would be to compile
# them for each. `re` itself keeps 512, however long: what comes by a request has a limit before.
_short_ones = lru_cache(maxsize=4096)(_compiled)
_long_ones = lru_cache(maxsize=512)(_compiled)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the pattern in Python's words, and where it stood in Java's."""

    text: str
    at: int


def _column(pieces: list[_Piece], pos: int) -> int:
    """The column of the pattern as it was written, of a place in Python's."""
    done = 0
    for piece in pieces:
        if pos < done + len(piece.text):
            return piece.at + 1
        done += len(piece.text)
    return pieces[-1].at + 1 if pieces else 1


def _hint(pattern: str, reason: str) -> str:
    if pattern.startswith("*"):
        return "write .* for any text"
    if "global flags" in reason:
        return "write (?i) at the very beginning, or (?i:...) around what it is for"
    if "fixed-width" in reason:
        return "a look-behind has to have one length: write one for each length, with |"
    return ""


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0

    def pieces(self) -> list[_Piece]:
        found = []
        while self._at < len(self._text):
            start = self._at
            found.append(_Piece(self._next(), start))
        return found

    def _next(self) -> str:
        text, start = self._text, self._at
        if text[start] == "\\":
            return self._escape()
        if text[start] == "[":
            return self._class()
        if match := re.compile(r"\(\?<(?![=!])([A-Za-z][A-Za-z0-9]*)>").match(text, start):
            self._at = match.end()
            return f"(?P<{match[1]}>"
        if match := re.compile(r"\(\?([A-Za-z]*)(?:-([A-Za-z]+))?[:)]").match(text, start):
            flags = match[1] + (match[2] or "")
            if strange := sorted(set(flags) - set("imsxu")):
                raise RegexError(
                    f"the flag {strange[0]} is not understood", start + 1, f"leave {strange[0]} out"
                )
        self._at += 1
        return text[start]

    def _escape(self) -> str:
        text, start = self._text, self._at
        letter = text[start + 1 : start + 2]
        if letter == "Q":
            end = text.find("\\E", start)
            quoted = text[start + 2 : end if end >= 0 else len(text)]
            self._at = end + 2 if end >= 0 else len(text)
            return re.escape(quoted)
        if letter in ("p", "P"):
            return _class_of(self._property())
        if letter in ("h", "H", "v", "V"):
            self._at += 2
            return _class_of(_short(letter))
        if letter == "z":
            self._at += 2
            return r"\Z"
        if letter == "e":
            self._at += 2
            return r"\x1b"
        if match := re.compile(r"\\k<([A-Za-z][A-Za-z0-9]*)>").match(text, start):
            self._at = match.end()
            return f"(?P={match[1]})"
        if (fix := REPLACEMENTS.get(letter)) is not None:
            raise RegexError(f"\\{letter} is not understood", start + 1, fix)
        self._at += 2
        return text[start : start + 2]

    def _property(self) -> frozenset[str]:
        r"""The characters of `\p{NAME}`, `\pN` or `\P{NAME}`, which is read."""
        text, start = self._text, self._at
        match = re.compile(r"\\[pP](?:\{\^?([A-Za-z_= ]+)\}|([A-Z]))").match(text, start)
        if match is None:
            hint = r"write \p{Alpha}, \p{L} or [A-Za-z]"
            raise RegexError(r"\p is not complete", start + 1, hint)
        name = match[1] or match[2]
        found = _named(name)
        if found is None:
            hint = "write the characters themselves, such as [A-Za-z0-9]"
            raise RegexError(f"\\p{{{name}}} is not understood", start + 1, hint)
        self._at = match.end()
        return ASCII - found if text[start + 1] == "P" else found

    def _class(self) -> str:
        """A class as it is, where Python reads it as Java does; else its characters one by one."""
        start = self._at
        found, plain = self._members()
        return self._text[start : self._at] if plain else _class_of(found)

    def _members(self) -> tuple[frozenset[str], bool]:
        """The ASCII characters of the class that begins here, and whether Python reads it alike."""
        text, start = self._text, self._at
        self._at += 1
        negated = text[self._at : self._at + 1] == "^"
        self._at += negated
        found: frozenset[str] = frozenset()
        both: frozenset[str] | None = None
        plain, first = True, True
        while True:
            char = text[self._at : self._at + 1]
            if not char:
                raise RegexError("unterminated character set", start + 1, "write ] behind it")
            if char == "]" and not first:
                self._at += 1
                break
            if text.startswith("&&", self._at):
                both = found if both is None else both & found
                self._at += 2
                found, plain = frozenset(), False
            elif char == "[":
                more, _ = self._members()
                found, plain = found | more, False
            else:
                more, simple = self._item()
                found, plain = found | more, plain and simple
            first = False
        if both is not None:
            found = both & found
        return (ASCII - found if negated else found), plain

    def _item(self) -> tuple[frozenset[str], bool]:
        r"""A character, a range or an escape in a class; and whether Python reads it alike."""
        text, start = self._text, self._at
        if text.startswith("\\Q", start):
            end = text.find("\\E", start)
            quoted = text[start + 2 : end if end >= 0 else len(text)]
            self._at = end + 2 if end >= 0 else len(text)
            return frozenset(quoted), False
        if text[start] == "\\":
            letter = text[start + 1 : start + 2]
            if letter in ("p", "P"):
                return self._property(), False
            if letter and letter.lower() in SHORT:
                self._at += 2
                return _short(letter), letter in "dDwWsS"
        low = self._char()
        if text[self._at : self._at + 1] != "-" or text[self._at + 1 : self._at + 2] in ("", "]"):
            return frozenset(low), True
        if text[self._at + 1] == "[" or text.startswith("-&&", self._at):
            return frozenset(low), True
        self._at += 1
        high = self._char()
        if ord(high) < ord(low):
            raise RegexError(f"bad character range {low}-{high}", start + 1)
        return frozenset(map(chr, range(ord(low), min(ord(high), 127) + 1))), True

    def _char(self) -> str:
        text, start = self._text, self._at
        if text[start] != "\\":
            self._at += 1
            return text[start]
        if match := re.compile(r"\\x([0-9A-Fa-f]{2})|\\u([0-9A-Fa-f]{4})").match(text, start):
            self._at = match.end()
            return chr(int(match[1] or match[2], 16))
        letter = text[start + 1 : start + 2]
        self._at += 2
        if letter.isalnum() and letter not in CONTROLS:
            hint = "write the character itself"
            raise RegexError(f"\\{letter} is not understood in a class", start + 1, hint)
        return CONTROLS.get(letter, letter)


def _short(letter: str) -> frozenset[str]:
    found = SHORT[letter.lower()]
    return ASCII - found if letter.isupper() else found


def _named(name: str) -> frozenset[str] | None:
    """The ASCII characters of a POSIX class, a binary property, a script or a category of Java."""
    plain = re.sub(r"^(Is|general_category=|gc=|script=|sc=|IsScript=)", "", name)
    if found := POSIX.get(ALIASES.get(plain, plain)):
        return found
    if plain == "LC":
        return POSIX["Alpha"]
    if not re.fullmatch(r"[LMNPSZC][a-z]?", plain):
        return None
    return frozenset(it for it in ASCII if unicodedata.category(it).startswith(plain))


def _class_of(chars: frozenset[str]) -> str:
    """A class of Python with these characters; one that matches nothing when there are none."""
    if not chars:
        return r"(?!)"
    codes = sorted(ord(it) for it in chars if ord(it) < 256)
    known = frozenset(codes)
    # By runs: nearly all characters, such as those of \H, would else be hundreds for two.
    begins = [it for it in codes if it - 1 not in known]
    ends = [it for it in codes if it + 1 not in known]
    runs = zip(begins, ends, strict=True)
    return "[" + "".join(f"\\x{low:02x}-\\x{high:02x}" for low, high in runs) + "]"
