"""Every name that a room returns has words, and no two of a kind have the same."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from backfill_assets.calendar.partitions import Grain, TablePartitions
from backfill_assets.calendar.windows import Months, Window
from backfill_assets.gates.judge import Verdict
from backfill_assets.gates.measured import MergedPartition
from backfill_assets.ledger.findings import Finding
from backfill_assets.ledger.states import TRANSITIONS
from backfill_assets.planning.impact import LeftOut, WhyLeftOut
from backfill_assets.planning.safeguards import A_PERSON, Demand, Policy, Rule
from backfill_assets.planning.stages import Agree
from backfill_assets.planning.state import Estimate, EstimateBasis
from backfill_assets.report.upkeep import LEFT_ALONE, WHY_LEFT_ALONE
from backfill_assets.report.words.plans import basis_words
from backfill_assets.report.words.recovery import outcome_words
from backfill_assets.report.words.stages import policy_words, waits_anyway, window_words
from backfill_assets.report.words.states import MEANING
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.requests.left_out import why_left_out
from backfill_assets.requests.recover import RecoveryEnd, RecoveryOutcome
from backfill_assets.upkeep.vacuum import LeftAlone, Why

DAY = date(2006, 7, 1)
MORE = {"rates": {"days_back": 7, "days_ahead": 0}}
COUNTS = {"added": 1, "removed": 2, "changed": 3, "unchanged": 4, "accepted_rows": 9, "rows": 8}
BESIDE_USUAL = {"measure": "rows", "value": "90", "usual": "100", "low": "64", "high": "144"}
OBSERVED: dict[Finding, dict[str, Any]] = {
    Finding.OTHER_COLUMNS: {"file": "part-0", "differing": "day is missing"},
    Finding.UNREADABLE: {"reader": "gold.x", "why": "it fails"},
    Finding.REQUIRED: {"rows": 9, "rows_without_a_required_value": 1},
    Finding.UNIQUE_KEYS: {"rows": 9, "violating_rows": 0},
    Finding.SHARED_KEYS: {"rows": 9, "violating_rows": 1},
    Finding.NO_NULLS: {"rows": 9, "violating_rows": 0, "column": "state"},
    Finding.NULLS: {"rows": 9, "violating_rows": 1, "column": "state"},
    Finding.ACCEPTED_VALUES: {"rows": 9, "violating_rows": 0, "column": "state"},
    Finding.NOT_ACCEPTED: {"rows": 9, "violating_rows": 1, "column": "state"},
    Finding.SATISFIED: {"rows": 9, "violating_rows": 0, "condition": "n > 0"},
    Finding.UNSATISFIED: {"rows": 9, "violating_rows": 1, "condition": "n > 0"},
    Finding.ROW_COUNT: {"rows": 9, "at_least": 1, "at_most": 5},
    Finding.COMPARED: {**COUNTS, "max_removed_percent": 10, "max_changed_percent": 90},
    Finding.ADDS_ONLY: {**COUNTS, "is_new": False},
    Finding.MERGED: dict(MergedPartition(changes=2, elsewhere=(date(2026, 1, 1),)).observed),
    Finding.PILOTED: {"scope": "shop=only", "rows": 3, "others_differ": True},
    Finding.STATE_AGAIN: {"partition": "2026-03-01", "snapshot": "2026-02-01", "earlier": None},
    Finding.SAME: {**COUNTS, "more": MORE},
    Finding.DIFFERENT: {**COUNTS, "more": {}},
    Finding.UNUSABLE: {**COUNTS, "more": MORE, "surplus": 2},
    Finding.SAME_ELSEWHERE: {"compared": 6, "first": "2006-07-01", "last": "2006-07-31"},
    Finding.DIFFERENT_ELSEWHERE: {"shown_by": "2006-07-01"},
    Finding.UNUSABLE_ELSEWHERE: {"shown_by": "2006-07-01"},
    Finding.TOO_MANY_GROUPS: {"measure": "amount"},
    Finding.AS_USUAL: BESIDE_USUAL,
    Finding.LITTLE_HISTORY: {"measure": "rows", "compared": 3, "fewest": 5},
    Finding.FAR_AS_ACCEPTED: {**BESIDE_USUAL, "value": "5", "far": "low"},
    Finding.FAR_FROM_USUAL: {**BESIDE_USUAL, "value": "500", "far": "high"},
    Finding.WITHIN_LIMIT: {"measure": "amount", "percent": 5, "month": "2006-07", "groups": 3, "moved_groups": 0},
    Finding.MOVED: {"measure": "amount", "percent": 5, "month": "2006-07", "groups": 3, "moved_groups": 1},
    Finding.NO_ROWS_FAIL: {"rows": 9, "failing_rows": 0, "demands": "every order is there"},
    Finding.NOTHING_KNOWN: {"rows": 9, "reference": "known_rows", "demands": "the rows of known_rows are there"},
    Finding.ROWS_FAIL: {"rows": 9, "failing_rows": 2, "demands": "every order is there"},
    Finding.NOT_MEASURED: {"demands": "every order is there"},
}
"""What each finding is worded from; the others need nothing."""


def test_every_name_has_its_own_words() -> None:
    for words, names in ((MEANING, TRANSITIONS), (WHY_LEFT_ALONE, Why), (LEFT_ALONE, LeftAlone)):
        assert list(words) == list(names)
        assert len(set(words.values())) == len(words)
    left_out = [why_left_out(LeftOut(table="t", grain=Grain.DAILY, partitions=(DAY,), why=why)) for why in WhyLeftOut]
    outcomes = [outcome_words(RecoveryOutcome(ended=ended)) for ended in RecoveryEnd]
    verdicts = [
        verdict_words(Verdict(passed=False, finding=finding, observed=OBSERVED.get(finding, {}))) for finding in Finding
    ]
    for said in (left_out, outcomes, verdicts):
        assert all(said) and len(set(said)) == len(said)


def test_a_comparison_says_which_of_its_limits_is_exceeded() -> None:
    verdict = Verdict(passed=False, finding=Finding.COMPARED, observed=OBSERVED[Finding.COMPARED])
    assert verdict_words(verdict) == (
        "1 added, 2 removed, 3 changed, 4 unchanged of 9 accepted rows; more than 10 % disappear"
    )


def test_what_is_left_out_names_the_input_that_it_lacks() -> None:
    lacking = TablePartitions(table="bronze.a", grain=Grain.DAILY, partitions=(DAY,))
    left = LeftOut(
        table="silver.b", grain=Grain.DAILY, partitions=(DAY,), why=WhyLeftOut.INCOMPLETE, missing=(lacking,)
    )
    assert why_left_out(left) == "never built: bronze.a lacks 2006-07-01, 1 day"


@pytest.mark.parametrize(
    ("basis", "said"),
    [(EstimateBasis.EARLIER_RUNS, "the latest 2 runs of this table"), (EstimateBasis.INPUT_ROWS, "one row for every")],
)
def test_an_estimate_says_what_it_rests_on(basis: EstimateBasis, said: str) -> None:
    assert basis_words(Estimate(rows={}, size_bytes=None, seconds=None, based_on=basis, runs=2)).startswith(said)


def test_windows_and_policies_have_words() -> None:
    assert window_words(Window(days_back=27, days_ahead=1)) == "27 days back and 1 ahead"
    assert window_words(Months(back=1)) == "1 month back and 0 ahead"
    assert policy_words(Policy(approvers=("finance", "audit "))) == (
        "backfills wait for the approval of another person of finance or audit, new days and follow-ups for none"
    )
    assert policy_words(Policy(backfill="auto")) == "new days, backfills and follow-ups wait for no approval"
    every = Policy(live="approve", follow="approve")
    assert policy_words(every) == "new days, backfills and follow-ups wait for the approval of another person"


@pytest.mark.parametrize(
    ("backfill", "demand", "said"),
    [
        ("auto", Demand(policy="backfill"), ""),
        ("approve", A_PERSON, ""),
        ("auto", A_PERSON, "; this waits for another person all the same"),
        (
            "auto",
            Demand(loosened=("policy",)),
            "; this waits for another person: the declaration is looser than was last agreed to (policy)",
        ),
        (
            "approve",
            Demand(loosened=("gates",)),
            "; this waits for another person: the declaration is looser than was last agreed to (gates)",
        ),
        (
            "auto",
            Demand(loosened=("policy", "gate x", "gate y"), unsure=("gate x", "gate y")),
            "; this waits for another person: the declaration is looser than was last agreed to (policy); gate x and "
            "gate y were changed since the last agreement: whether they are looser cannot be known, so they count as "
            "looser",
        ),
        (
            "auto",
            Demand(loosened=("gate x",), unsure=("gate x",)),
            "; this waits for another person: gate x was changed since the last agreement: whether it is looser cannot "
            "be known, so it counts as looser",
        ),
    ],
)
def test_words_of_a_policy_do_not_contradict_a_stage_that_waits(backfill: Rule, demand: Demand, said: str) -> None:
    assert waits_anyway([Agree(of="bf-1", requested_by="ana", demand=demand)], [Policy(backfill=backfill)]) == said
    assert waits_anyway([], [Policy(backfill=backfill)]) == ""
