"""Testing: what the tests of an author's domain are written with.

A `DomainKit` is a domain in an empty home of its own: rows are landed, computed, staged and published in it as by the
commands. `check_rows` compares the rows of a table with expected ones, given the rows of its inputs. The other checks
hold for every table: `CHECKS` has those that need a table and its days only. What fails raises an `AssertionError` that
says which partitions differ, and how.
"""

from __future__ import annotations

from backfill_assets.testing.checks import (
    CHECKS,
    Check,
    check_deterministic,
    check_no_outside_effects,
    check_resumes_after_death,
    check_rows,
    check_staging_twice,
    check_totals,
    check_warm_up,
)
from backfill_assets.testing.kit import QUICK_SPARK, DomainKit, Gated

__all__ = [
    "CHECKS",
    "QUICK_SPARK",
    "Check",
    "DomainKit",
    "Gated",
    "check_deterministic",
    "check_no_outside_effects",
    "check_resumes_after_death",
    "check_rows",
    "check_staging_twice",
    "check_totals",
    "check_warm_up",
]
