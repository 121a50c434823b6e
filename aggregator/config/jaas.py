"""The Java login line of Kafka (`sasl.jaas.config`): its module and its options."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_OPTION = re.compile(rf"\s*([\w.-]+)\s*=\s*({_QUOTED}|[^\s;\"']+)")
_HEAD = re.compile(r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b", re.IGNORECASE)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


@dataclass(frozen=True, slots=True)
class Login:
    """A parsed login line; `module` is the class name without its package."""

    module: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


def parse_jaas(text: str) -> Login:
    """The login that a line describes: `x.y.PlainLoginModule required name="value" ...;`.

    Raises ValueError, without any part of the text, if the line is not of this form.
    """
    head = _HEAD.match(text)
    if head is None:
        raise ValueError("does not begin with a login module and 'required'")
    at = head.end()
    options: dict[str, str] = {}
    while match := _OPTION.match(text, at):
        options[match.group(1)] = _unquote(match.group(2))
        at = match.end()
    rest = text[at:].strip()
    if not rest:
        raise ValueError("does not end with ';'")
    if rest != ";":
        raise ValueError(f'is not of the form name="value" ...; after {len(options)} options')
    return Login(head.group(1).rpartition(".")[2], options)


def _unquote(text: str) -> str:
    if text[0] not in "\"'":
        return text
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m.group(1), m.group(1)), text[1:-1], flags=re.S)
