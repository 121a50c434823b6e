"""Durations, addresses and patterns as people write them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.values import parse_duration, parse_listen, parse_size, patterns
from support.examples import ASCII


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        (" a , ,b,", ["a", "b"]),
        ("", []),
        ([], []),
        ("a{1,3},b", ["a{1,3}", "b"]),
        ("[a,b],c", ["[a,b]", "c"]),
        ("(a,b|(c,d)),e", ["(a,b|(c,d))", "e"]),
        (r"a\,b,c\{,d", [r"a\,b", r"c\{", "d"]),
        (r"[\],(],x", [r"[\],(]", "x"]),
        ("a),b", ["a)", "b"]),
        (["a,b", " c "], ["a", "b", "c"]),
    ],
)
def test_patterns(value: str | list[str], expected: list[str]) -> None:
    assert patterns(value) == expected


@given(st.lists(st.from_regex(r"[a-z.*|_-]{1,8}(\{1,3\})?", fullmatch=True, alphabet=ASCII)))
def test_patterns_are_what_commas_joined(parts: list[str]) -> None:
    assert patterns(",".join(parts)) == parts
    assert patterns(parts) == parts


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("500ms", 0.5),
        ("10s", 10),
        ("5m", 300),
        ("2h", 7200),
        ("7d", 604800),
        (" 1.5 s ", 1.5),
        ("3", 3),
        (4, 4),
        (0.25, 0.25),
    ],
)
def test_durations(value: object, seconds: float) -> None:
    assert parse_duration(value) == seconds


@pytest.mark.parametrize("value", ["", "s", "1w", "-1s", "1 2", True, None])
def test_bad_durations(value: object) -> None:
    with pytest.raises(ValueError, match="500ms, 10s, 5m, 2h"):
        parse_duration(value)


def test_however_long_a_value_is_it_is_refused_at_once() -> None:
    began = time.monotonic()
    for text in (f"1{' ' * 100_000}x", f"{' ' * 100_000}x", f"{'1' * 100_000}x"):
        for parse in (parse_duration, parse_size):
            with pytest.raises(ValueError, match=r"use 500|10s, 5m|bytes"):
                parse(text)
    assert time.monotonic() - began < 5


def test_listen() -> None:
    assert parse_listen("127.0.0.1:0") == ("127.0.0.1", 0)
    assert parse_listen("[::1]:8083") == ("::1", 8083)
    assert parse_listen("off") is None
    for wrong in ("8083", ":8083", "a:b", "a:70000"):
        with pytest.raises(ValueError, match="host:port"):
            parse_listen(wrong)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (5, 5),
        ("5", 5),
        ("500kB", 500_000),
        ("10 MB", 10_000_000),
        ("1.5GB", 1_500_000_000),
        ("8MiB", 8 * 2**20),
        ("64kib", 64 * 2**10),
    ],
)
def test_sizes(value: object, size: int) -> None:
    assert parse_size(value) == size


@pytest.mark.parametrize("value", [None, True, "", "10k", "10Ki", "ten", "-5", "5 bytes", [5]])
def test_the_error_for_what_is_no_size_says_how_to_write_one(value: object) -> None:
    with pytest.raises(ValueError, match="bytes"):
        parse_size(value)
