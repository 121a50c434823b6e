"""How many examples Hypothesis tries: half of them, all where time is no matter, or a tenth."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

ALL, HALF, FEW = "all", "half", "few"
"""The profiles. Each run draws other examples, so half of them in `make test` come to all in two
runs. `make test-long` names the first, `make test-unit` and `make test-fast` the last.
"""
SHARES = {ALL: 100, HALF: 50, FEW: 10}
"""Hypothesis itself tries a hundred where a test does not say how many."""
ASCII = st.characters(max_codepoint=127)
"""For `from_regex`: which characters there are besides takes Hypothesis a second to find out."""


def register_profiles() -> None:
    """Register them, and load the one with half of the examples."""
    # How long an example takes says how busy the machine is, and nothing about the code.
    everywhere = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    for name, share in SHARES.items():
        settings.register_profile(name, everywhere, max_examples=share)
    settings.load_profile(HALF)


def examples(number: int) -> settings:
    """The settings of a test that wants `number` examples; the profile says which part of them."""
    return settings(max_examples=max(1, number * settings().max_examples // 100))
