"""How many examples Hypothesis tries: all of them, or a tenth while one works on something."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

ALL, FEW = "all", "few"
"""The profiles; `--hypothesis-profile few` is what `make test-unit` and `make test-fast` say."""
TENTH = 10
"""Hypothesis itself tries a hundred where a test does not say how many."""
ASCII = st.characters(max_codepoint=127)
"""For `from_regex`: which characters there are besides takes Hypothesis a second to find out."""


def register_profiles() -> None:
    """Register both, and load the one with all examples."""
    # How long an example takes says how busy the machine is, and nothing about the code.
    everywhere = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile(ALL, everywhere)
    settings.register_profile(FEW, everywhere, max_examples=TENTH)
    settings.load_profile(ALL)


def examples(number: int) -> settings:
    """The settings of a test that wants `number` examples; with fewer in the profile, its part."""
    return settings(max_examples=max(1, number * settings().max_examples // 100))
