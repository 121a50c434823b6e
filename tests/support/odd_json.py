"""Objects of JSON of every shape, and what a landing table says of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from itertools import count
from typing import Any, NamedTuple

from hypothesis import strategies as st

SINGLES: list[tuple[Any, Any]] = [
    *((it, it) for it in (0, -1, 2**63 - 1, -(2**63), 1.5, -1e300, True, "", "é😀\n", '"{}\\')),
    # Beyond 64 bits, and beyond 38 digits.
    (10**25, Decimal(10**25)),
    (10**50, 1e50),
    (None, None),
    ([], None),
    ({}, None),
    ([1, "x"], ["1", "x"]),
    ([1, None], [1, None]),
]
"""As written, and as its column says."""
NO_COLUMNS = ["", "a b", "x;y", "tab\t", "nul\0", "(1)"]
"""Names that a table does not take: the value alone has them."""


class Object(NamedTuple):
    """An object as text, and what its columns say."""

    text: bytes
    said: dict[str, Any]


@st.composite
def objects(draw: st.DrawFn, names: Iterator[int], deep: int = 0) -> tuple[Any, dict[str, Any]]:
    """An object whose fields no other one has."""
    write: dict[str, Any] = {}
    said: dict[str, Any] = {}
    for _ in range(draw(st.integers(1, 4))):
        name = f"j{next(names)}"
        how = draw(st.sampled_from(["one", "one", "object", "list"] if deep < 4 else ["one"]))
        if how == "one":
            write[name], said[name] = draw(st.sampled_from(SINGLES))
            continue
        inner, means = draw(objects(names, deep + 1))
        several = how == "list"
        write[name], said[name] = ([inner] * 2, [means] * 2) if several else (inner, means)
    for odd in draw(st.sets(st.sampled_from(NO_COLUMNS), max_size=2)):
        write[odd] = 1
    if draw(st.booleans()):
        # They differ in case alone: one of them is a column.
        write |= {f"twin{deep}": "a", f"Twin{deep}": "b"}
    return write, said


@st.composite
def json_values(draw: st.DrawFn, most: int) -> list[Object]:
    """Values of a topic, in front of some of which is what JSON allows there, or editors write."""
    names = count()
    made = []
    for _ in range(most):
        write, said = draw(objects(names))
        before = draw(st.sampled_from([b"", b"\n\t ", b"\xef\xbb\xbf"]))
        text = json.dumps(write, ensure_ascii=draw(st.booleans())).encode()
        made.append(Object(before + text, said))
    return made
