"""Words of what gates found: the verdict on a partition, what is commented on, and what a proof compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, assert_never

from backfill_assets.calendar.partitions import Grain, count_of, days_between, describe
from backfill_assets.gates.judge import Verdict, exceeds
from backfill_assets.ledger.findings import FAR, FAR_GROUPS, Finding, GateResult
from backfill_assets.planning.manifest_parts import MoreDays
from backfill_assets.report.words.states import taken_back_words

NOTHING_THERE = "no input partition before or after it is accepted, so there is nothing to compare with"


def more_days_words(more: Sequence[MoreDays]) -> str:
    """The words for the number of additional days that are read, input by input where they differ; empty where there
    are none."""
    if len({(each.back, each.ahead) for each in more}) == 1:
        return _sides(more[0])
    return ", and ".join(f"{_sides(each)} of {each.argument}" for each in more if _sides(each))


def _sides(more: MoreDays) -> str:
    sides = ((more.back, "back"), (more.ahead, "ahead"))
    return " and ".join(f"{count_of(days, 'more day')} {side}" for days, side in sides if days)


_MOST_RANGES = 20
UNUSABLE = "the proof of the window is not usable"
_WHY_OTHER_ROWS = "the window is too short, or the transform does not give the same rows twice"


def verdict_words(result: GateResult | Verdict) -> str:
    """The words for what a gate found in one partition."""
    seen = result.observed
    match result.finding:
        case Finding.COLUMNS:
            return "the files have the declared columns"
        case Finding.OTHER_COLUMNS:
            return f"{seen['file']} has other columns than declared: {seen['differing']}"
        case Finding.UNREADABLE:
            return f"{seen['reader']} could not read it: {seen['why']}"
        case Finding.REQUIRED:
            nulls, rows = seen["rows_without_a_required_value"], seen["rows"]
            return f"{nulls:,} of {rows:,} rows lack a value in a column that is declared not null"
        case Finding.UNIQUE_KEYS | Finding.SHARED_KEYS:
            return f"{_violating(result)} share their key with another row"
        case Finding.NO_NULLS | Finding.NULLS:
            return f"{_violating(result)} have no {seen['column']}"
        case Finding.ACCEPTED_VALUES | Finding.NOT_ACCEPTED:
            return f"{_violating(result)} have a {seen['column']} that is not accepted"
        case Finding.SATISFIED | Finding.UNSATISFIED:
            return f"{_violating(result)} do not satisfy {seen['condition']}"
        case Finding.ROW_COUNT:
            most = "" if seen["at_most"] is None else f" and at most {seen['at_most']:,}"
            return f"{count_of(seen['rows'], 'row')}, of at least {seen['at_least']:,}{most}"
        case Finding.COMPARED:
            return _compared_words(result)
        case Finding.ADDS_ONLY:
            return _adds_only_words(seen)
        case Finding.MERGED:
            return _merged_words(seen)
        case Finding.PILOTED:
            others = (
                "others differ from the accepted ones, as where a key enters or leaves the scope"
                if seen.get("others_differ", True)
                else "all others are the accepted ones"
            )
            return f"{count_of(seen.get('rows', 0), 'row')} of {seen.get('scope', 'the scope')}; {others}"
        case Finding.STATE_AGAIN:
            start = f"from the snapshot of {seen['earlier']}" if seen["earlier"] else "from a cold start"
            same = "is the same" if result.passed else "differs"
            return f"{seen['partition']} {same} {start} as from the snapshot of {seen['snapshot']}"
        case Finding.COLD_START:
            return "computed from a cold start, with no snapshot to compare"
        case Finding.EXPIRING:
            return _expiring_words(seen)
        case Finding.NOT_ASKED:
            return "not asked for when the run was planned"
        case Finding.NOTHING_TO_COMPARE:
            return NOTHING_THERE
        case Finding.SAME:
            rows = f"the same {count_of(seen['rows'], 'row')}" if seen["rows"] else "no rows, as staged,"
            return f"{rows} with {_with(result)}"
        case Finding.DIFFERENT:
            moved = seen["added"] + seen["removed"] + seen["changed"]
            several = f"{moved:,} of {moved + seen['unchanged']:,} rows differ" if moved else "rows differ"
            return f"with {_with(result)}, {several}: {_WHY_OTHER_ROWS}"
        case Finding.UNUSABLE:
            return (
                f"{UNUSABLE}: {count_of(seen['surplus'], 'row')} share their key with another row, so which rows "
                f"differ with {_with(result)} is not known"
            )
        case Finding.SAME_ELSEWHERE:
            return f"proven on {seen['compared']:,} others, {seen['first']} to {seen['last']}"
        case Finding.DIFFERENT_ELSEWHERE:
            return f"{_WHY_OTHER_ROWS}, as {seen['shown_by']} shows"
        case Finding.UNUSABLE_ELSEWHERE:
            return f"{UNUSABLE}: the key is not unique on {seen['shown_by']}"
        case Finding.NOTHING_ACCEPTED:
            return "no accepted rows to compare with"
        case Finding.TOO_MANY_GROUPS:
            return f"there are too many combinations of the dimensions to compare {seen['measure']} by them"
        case Finding.WITHIN_LIMIT | Finding.MOVED:
            return _moved_words(result)
        case Finding.NO_ROWS_FAIL:
            return f"no row fails: {seen['demands']}"
        case Finding.NOTHING_KNOWN:
            return f"nothing was measured: {seen['reference']} has no entry here"
        case Finding.ROWS_FAIL:
            verb = "fails" if seen["failing_rows"] == 1 else "fail"
            return f"{count_of(seen['failing_rows'], 'row')} {verb} (demanded: {seen['demands']})"
        case Finding.NOT_MEASURED:
            return _not_measured_words(seen)
        case Finding.LITTLE_HISTORY:
            there = f"{seen['compared']:,} of {seen['fewest']:,} accepted partitions"
            return f"little history: {there} are there to compare {seen['measure']} with"
        case Finding.AS_USUAL | Finding.FAR_FROM_USUAL:
            return _usual_words(seen)
        case Finding.FAR_AS_ACCEPTED:
            return f"{_usual_words(seen)}, as the accepted rows are that it would replace"
    assert_never(result.finding)


def _not_measured_words(seen: Mapping[str, Any]) -> str:
    if "table" not in seen:
        return f"it was not measured: {seen['demands']}"
    others = seen["missing_partitions"] - 1
    more = f" and {others:,} more" if others else ""
    return f"it cannot be measured without accepted rows of {seen['table']} {seen['missing']}{more}: {seen['demands']}"


def _violating(result: GateResult | Verdict) -> str:
    return f"{result.observed['violating_rows']:,} of {result.observed['rows']:,} rows"


def _compared_words(result: GateResult | Verdict) -> str:
    seen = result.observed
    removed, accepted = seen["removed"], seen["accepted_rows"]
    moved = seen["added"] + removed + seen["changed"]
    limits = ((removed, "max_removed_percent", "disappear"), (moved, "max_changed_percent", "move"))
    reasons = [f"more than {seen[most]} % {how}" for n, most, how in limits if exceeds(n, accepted, seen.get(most))]
    numbers = (
        f"{seen['added']:,} added, {removed:,} removed, {seen['changed']:,} changed, "
        f"{seen['unchanged']:,} unchanged of {accepted:,} accepted rows"
    )
    return "; ".join([numbers, *([" and ".join(reasons)] if reasons else [])])


def _adds_only_words(seen: Mapping[str, Any]) -> str:
    if seen["is_new"]:
        return f"{count_of(seen['added'], 'row')} added where nothing was accepted"
    if seen["added"] + seen["removed"] + seen["changed"] == 0:
        return "exactly the accepted rows"
    numbers = f"{seen['added']:,} added, {seen['removed']:,} removed, {seen['changed']:,} changed"
    return f"{numbers} in a partition that has an accepted version"


def _merged_words(seen: Mapping[str, Any]) -> str:
    named = f"{count_of(seen['changes'], 'change')} and {count_of(seen['deletes'], 'delete')}"
    shown = seen["elsewhere"][:_MOST_RANGES]
    more = seen["elsewhere_partitions"] - sum(len(days_between(days)) for days in shown)
    days = ", ".join([*shown, *([f"{more:,} more"] if more > 0 else [])])
    wrong = {
        "undecided": f"{seen['undecided']:,} without a partition, a key, a version or whether it deletes",
        "twice": f"{seen['twice']:,} share their key with another change",
        "older": f"{seen['older']:,} older than the accepted row of their key",
        "elsewhere": f"the rows of their keys depend on partitions that the run lacks: {days}",
        "others_differ": "rows of keys that no change names are not those that stay",
    }
    found = [words for name, words in wrong.items() if seen[name]]
    if seen["taken_back"]:
        found.append(f"{taken_back_words(seen['taken_back'])}: {'kept' if seen['are_kept'] else 'removed'}")
    return "; ".join([named, *found])


def _expiring_words(seen: Mapping[str, Any]) -> str:
    named = seen.get("others", ())
    more = seen.get("other_partitions", 0) - len(named)
    days = ", ".join([*named, *([f"{more:,} more"] if more else [])])
    wrong = [f"which snapshots expire has changed since the plan: {days}"] if named else []
    wrong += [f"open run {seen['read_by']} reads it"] if seen.get("read_by") else []
    return "; ".join(wrong) or "its table no longer keeps it, and no open run reads it"


def _with(result: GateResult | Verdict) -> str:
    """With what the rows were computed again."""
    more = [
        MoreDays(argument=argument, back=days["days_back"], ahead=days["days_ahead"])
        for argument, days in result.observed["more"].items()
    ]
    return more_days_words(more) if more else "other partitions in the same call"


def _moved_words(result: GateResult | Verdict) -> str:
    seen = result.observed
    measure, far, incomparable = seen["measure"], seen["moved_groups"], seen.get("incomparable_groups", 0)
    where = f"{count_of(seen['groups'], 'group')} of {seen['month']}"
    if not far and not incomparable:
        return f"{measure} moved no further in {where}"
    moved = f"moved by more than {seen['percent']} % in {far:,} of {where}"
    if not incomparable:
        return f"{measure} {moved}"
    lacking = (
        f"cannot be compared in {incomparable:,}{'' if far else f' of {where}'}, where a sum is not a finite number"
    )
    return f"{measure} {moved}, and {lacking}" if far else f"{measure} {lacking}"


def _usual_words(seen: Mapping[str, Any]) -> str:
    measure = seen["measure"]
    if "groups" in seen:
        groups, little = count_of(seen["groups"], "group"), seen["little_groups"]
        far = f"{measure} is far from the usual in {seen[FAR_GROUPS]:,} of {groups}"
        said = far if seen[FAR_GROUPS] else f"{measure} is as usual in {groups}"
        return f"{said}; {little:,} with little history" if little else said
    usual, low, high = (number_words(seen[name]) for name in ("usual", "low", "high"))
    value, side = number_words(seen["value"]), seen.get(FAR)
    if value == "NaN":
        return f"{measure} cannot be compared: it is not a finite number, where {usual} is usual"
    if not side:
        return f"{measure}: {value}, where {usual} is usual, between {low} and {high}"
    where = "below" if side == "low" else "above"
    return f"{measure}: {value} is far {where} the usual {usual}, which is between {low} and {high}"


def number_words(text: str) -> str:
    """A number that was recorded as text, with its thousands apart."""
    number = Decimal(text)
    return f"{number:,f}" if number.is_finite() else str(number)


def said_of(results: Iterable[GateResult]) -> str:
    """The verdicts that are commented on, each once."""
    return "; ".join(dict.fromkeys(map(verdict_words, results)))


def scope_of_proof(grain: Grain, results: Iterable[GateResult]) -> str:
    """The words for what a proof that holds compared, and what it did not.

    Args:
        grain: The grain of the partitions.
    """
    found = tuple(results)
    again = [result.partition for result in found if result.finding is Finding.SAME]
    if not again:
        return f"nothing was compared: {verdict_words(found[0])}" if found else "nothing was compared"
    rest = len(found) - len(again)
    were = "was" if rest == 1 else "were"
    others = f"; the other {count_of(rest, grain.noun)} {were} not computed again" if rest else ""
    return f"{describe(grain, again)}: computed again with more input, the same rows{others}"
