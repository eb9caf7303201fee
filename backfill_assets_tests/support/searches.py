"""How many examples do tests that search try? Some in `make test`, many in `make test-faults`.

A profile of hypothesis says which: `quick`, or `thorough` with `pytest --hypothesis-profile=thorough`. A quick run
tries the same examples each time, so that it fails by what was changed; a thorough one tries others each time.
"""

from __future__ import annotations

from hypothesis import settings

THOROUGH = 250
"""Examples of a property in a thorough run."""
QUICK = 40


def register_profiles() -> None:
    """Registers both profiles and loads the quick one. Without deadlines: a busy machine fails no property."""
    settings.register_profile("thorough", deadline=None, max_examples=THOROUGH)
    settings.register_profile("quick", deadline=None, max_examples=QUICK, derandomize=True)
    settings.load_profile("quick")


def is_thorough() -> bool:
    """Whether everything is tried."""
    return settings().max_examples >= THOROUGH


def examples(thorough: int) -> int:
    """How many examples a test tries that draws them itself: so many in a thorough run, in a quick one fewer."""
    return max(1, thorough * settings().max_examples // THOROUGH)
