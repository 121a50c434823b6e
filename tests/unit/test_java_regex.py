"""Regexes as Java writes them: what works means the same, what does not is refused with its place.

What is expected is what `java.util.regex.Pattern` of Java 17 says of these names.
"""

from __future__ import annotations

import pytest

from aggregator.config.java_regex import LONG, RegexError, _long_ones, _short_ones, compiled

NAMES = ("orders", "orders-2", "cdc.orders", "cdcxorders", "ORDERS", "a_b", "aab", "2", "-")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (r"\p{Alpha}+", {"orders", "cdcxorders", "ORDERS", "aab"}),
        (r"\p{Lower}+", {"orders", "cdcxorders", "aab"}),
        (r"\p{L}+", {"orders", "cdcxorders", "ORDERS", "aab"}),
        (r"\pL+", {"orders", "cdcxorders", "ORDERS", "aab"}),
        (r"\p{Lu}+", {"ORDERS"}),
        (r"\p{IsAlphabetic}+\p{Pd}\p{Nd}", {"orders-2"}),
        (r"\p{IsLatin}+", {"orders", "cdcxorders", "ORDERS", "aab"}),
        (r"\P{Alpha}+", {"2", "-"}),
        (r"[^\p{Alpha}]+", {"2", "-"}),
        (r"[\p{Lower}\p{Punct}]+", {"orders", "cdc.orders", "cdcxorders", "a_b", "aab", "-"}),
        (r"\Qcdc.orders\E", {"cdc.orders"}),
        (r"\Qcdc.\Eorders", {"cdc.orders"}),
        (r"\Qcdc.orders", {"cdc.orders"}),
        (r"a++b", {"aab"}),
        (r"a++ab", set()),
        (r"(?>a+)b", {"aab"}),
        (r"[a-z&&[^o]]+", {"aab"}),
        (r"[a[b_]]+", {"a_b", "aab"}),
        (r"(?<first>a)\k<first>b", {"aab"}),
        (r"(?i)orders", {"orders", "ORDERS"}),
        (r"(?i:o)rders\z", {"orders"}),
        (r"[\w&&\D]+", {"orders", "cdcxorders", "ORDERS", "a_b", "aab"}),
        (r"cdc[.]orders", {"cdc.orders"}),
        (r"[-\d]", {"2", "-"}),
        (r"\H+", set(NAMES)),
        (r"[^\p{Alpha}\H]?-", {"-"}),
    ],
)
def test_what_java_matches(pattern: str, names: set[str]) -> None:
    assert {name for name in NAMES if compiled(pattern).fullmatch(name)} == names


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a(", "missing ), unterminated subpattern at column 2"),
        (r"\p{L}(", "missing ), unterminated subpattern at column 6"),
        ("*a", "nothing to repeat at column 1 (write .* for any text)"),
        (r"ab\G", r"\G is not understood at column 3 (leave it out: a pattern has to match"),
        (r"x\p{InGreek}", r"\p{InGreek} is not understood at column 2 (write the characters"),
        (r"x\p", r"\p is not complete at column 2 (write \p{Alpha}"),
        ("a(?i)b", "global flags not at the start of the expression at column 2 (write (?i)"),
        ("(?d)a", "the flag d is not understood at column 1 (leave d out)"),
        ("x[ab", "unterminated character set at column 2 (write ] behind it)"),
        ("x[b-a]", "bad character range b-a at column 3"),
        ("(?<=a+)b", "look-behind requires fixed-width pattern (a look-behind has to have one"),
        (r"[a\y]", r"\y is not understood in a class at column 3"),
    ],
)
def test_what_cannot_be_used_is_reported_with_its_place_and_a_replacement(
    pattern: str, reason: str
) -> None:
    with pytest.raises(RegexError) as caught:
        compiled(pattern)
    assert str(caught.value).startswith(reason)


def test_classes_in_classes_end_somewhere() -> None:
    with pytest.raises(RegexError, match="nested too deeply"):
        compiled("[" * 5_000)


def test_long_patterns_take_no_place_of_short_ones_and_are_kept_as_well() -> None:
    short, long = _short_ones.cache_info(), _long_ones.cache_info()
    for _ in range(2):
        for number in range(5):
            compiled(f"{'b' * LONG}{number}")
    assert _short_ones.cache_info() == short
    # Topics are matched one by one.
    assert _long_ones.cache_info().hits == long.hits + 5


def test_what_is_short_in_java_is_not_long_in_python() -> None:
    assert len(compiled(r"\H" * 100).pattern) < 5_000
