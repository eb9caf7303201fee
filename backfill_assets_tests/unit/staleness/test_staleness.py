"""What is stale and why, in small examples."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

from backfill_assets.calendar.partitions import DayRange, Grain
from backfill_assets.calendar.windows import SinceFirstDay, Window
from backfill_assets.planning.graph import Graph, TableInput, TableNode, topological
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.kinds.pilot import Pilot
from backfill_assets.planning.manifest import configuration_of
from backfill_assets.planning.manifest_parts import Cause, PinnedReference, Reason, ReferenceSemantics, together
from backfill_assets.planning.state import UNKNOWN_DIGEST, ComputedFrom, ComputedFromInput
from backfill_assets.report.words.states import stale_words
from backfill_assets.staleness.decide import CurrentState, ReferenceDiff, find_stale

AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
EVENTS = TableNode(name="bronze.events", grain=Grain.DAILY)
EDGE = TableInput(argument="events", table="bronze.events", window=Window(days_back=6, days_ahead=1))
WEEKLY = TableNode(name="silver.weekly", grain=Grain.DAILY, inputs=(EDGE,))
GRAPH = Graph(tables=topological([EVENTS, WEEKLY]), first_day=date(2024, 1, 1))
BUILT = DayRange.inclusive(date(2024, 3, 1), date(2024, 3, 31))
NEEDED = DayRange.inclusive(date(2024, 2, 24), date(2024, 4, 1))
DIGESTS = {day: f"events {day}" for day in NEEDED}
CALENDAR = PinnedReference(name="calendar", version="2024", sha256="1" * 64)
BASIS = ComputedFrom(
    run_id="weekly-1",
    partitions=tuple(BUILT),
    transform="weekly",
    transform_version="1.0.0",
    code_digest="c" * 64,
    configuration=configuration_of(WEEKLY),
    references=(CALENDAR,),
    inputs=(ComputedFromInput(edge=EDGE, digests=DIGESTS),),
    imports=frozenset(),
    requested_at=AT,
    session_digest="s" * 64,
)
PRESENT = CurrentState(
    transform="weekly",
    transform_version="1.0.0",
    code_digest="c" * 64,
    configuration=configuration_of(WEEKLY),
    session_digest="s" * 64,
    references=(CALENDAR,),
    digests={"bronze.events": DIGESTS},
)


def found(present: CurrentState = PRESENT, basis: ComputedFrom = BASIS) -> list[tuple[date, date, tuple[Reason, ...]]]:
    ranges = find_stale(WEEKLY, GRAPH, [basis], present).ranges
    return [(each.partitions[0], each.partitions[-1], each.reasons) for each in ranges]


def day(number: int, month: int = 3) -> date:
    return date(2024, month, number)


def test_what_matches_in_everything_is_not_stale() -> None:
    assert found() == []


def test_a_changed_input_day_stales_the_days_whose_window_holds_it_and_is_named() -> None:
    changed = {**DIGESTS, day(10): "again"}
    (only,) = found(replace(PRESENT, digests={"bronze.events": changed}))
    reason = Reason(cause=Cause.INPUT_CHANGED, name="bronze.events", days=(DayRange.inclusive(day(10), day(10)),))
    assert only == (day(9), day(16), (reason,))


def test_an_input_day_without_an_accepted_version_counts_as_changed() -> None:
    left = {d: digest for d, digest in DIGESTS.items() if d != day(31)}
    (only,) = found(replace(PRESENT, digests={"bronze.events": left}))
    assert only[:2] == (day(30), day(31))


def test_an_input_that_was_never_accepted_equals_nothing_not_even_its_absence() -> None:
    read = replace(BASIS.inputs[0], digests={**DIGESTS, day(31): UNKNOWN_DIGEST})
    left = {d: digest for d, digest in DIGESTS.items() if d != day(31)}
    for present in (DIGESTS, left):
        (only,) = found(replace(PRESENT, digests={"bronze.events": present}), replace(BASIS, inputs=(read,)))
        assert only[:2] == (day(30), day(31))


def test_an_input_day_that_another_run_computes_again_is_named_with_it_even_if_its_digest_is_the_same() -> None:
    present = replace(PRESENT, staged={"bronze.events": {day(10): "events-2"}})
    (only,) = found(present, replace(BASIS, inputs=(replace(BASIS.inputs[0], within=DIGESTS),)))
    tenth = (DayRange.inclusive(day(10), day(10)),)
    reason = Reason(cause=Cause.INPUT_CHANGED, name="bronze.events", days=tenth, run_id="events-2")
    assert only == (day(9), day(16), (reason,))
    assert stale_words("silver.weekly", reason) == (
        "bronze.events is computed again by events-2 of the same set: 2024-03-10, 1 day"
    )


def test_reasons_of_several_ranges_are_one_with_the_days_of_all_and_any_day_is_more_than_some() -> None:
    days = [DayRange.inclusive(day(first), day(first + 1)) for first in (1, 3, 9)]
    changed = [Reason(cause=Cause.INPUT_CHANGED, name="bronze.events", days=(each,)) for each in days]
    code = Reason(cause=Cause.CODE_CHANGED, name="weekly 1.0.0")
    kept = DayRange.inclusive(day(1), day(4))
    assert together([*changed, code, code]) == (code, replace(changed[0], days=(kept, days[2])))
    some = Reason(cause=Cause.REFERENCE_CHANGED, name="calendar", days=(days[0],))
    assert together([some, replace(some, days=None)]) == (replace(some, days=None),)


def test_a_state_is_stale_once_it_begins_later_or_there_are_days_before_the_first_one_that_it_has_read() -> None:
    edge = replace(EDGE, window=SinceFirstDay())
    state = replace(WEEKLY, inputs=(edge,))
    read = {day: digest for day, digest in DIGESTS.items() if day < BUILT.end}
    basis = replace(
        BASIS,
        configuration=configuration_of(state),
        inputs=(ComputedFromInput(edge=edge, digests=read, within=DIGESTS),),
    )
    earlier = {day(23, month=2): "built since", **DIGESTS}

    def stale(first_day: date, digests: Mapping[date, str]) -> Mapping[date, tuple[Reason, ...]]:
        graph = Graph(tables=topological([EVENTS, state]), first_day=first_day)
        present = replace(PRESENT, configuration=basis.configuration, digests={"bronze.events": digests})
        return find_stale(state, graph, [basis], present).reasons

    assert stale(NEEDED.start, earlier) == stale(day(1, month=1), DIGESTS) == {}
    reason = Reason(
        cause=Cause.INPUT_CHANGED, name="bronze.events", days=(DayRange.inclusive(day(23, month=2), day(23, month=2)),)
    )
    assert stale(day(1, month=1), earlier) == dict.fromkeys(BUILT, (reason,))
    later = Reason(cause=Cause.CONFIGURATION_CHANGED, was=f"days since {NEEDED.start}", now="since 2024-03-10")
    assert stale(day(10), DIGESTS) == {partition: (later,) for partition in BUILT if partition >= day(10)}


def test_an_input_that_is_not_declared_any_more_is_another_configuration() -> None:
    gone = ComputedFromInput(edge=replace(EDGE, argument="gone", table="bronze.gone"), digests=DIGESTS)
    ((first, last, (reason,)),) = found(basis=replace(BASIS, inputs=(*BASIS.inputs, gone)))
    assert (first, last, reason.cause) == (BUILT.start, BUILT.last, Cause.CONFIGURATION_CHANGED)


def test_two_changed_days_make_one_range_where_their_days_meet_and_two_where_they_do_not() -> None:
    for second, expected in ((day(12), [(day(9), day(18))]), (day(25), [(day(9), day(16)), (day(24), day(31))])):
        changed = {**DIGESTS, day(10): "again", second: "again"}
        ranges = found(replace(PRESENT, digests={"bronze.events": changed}))
        assert [(first, last) for first, last, _ in ranges] == expected
        assert len({str(reasons[0].days) for _, _, reasons in ranges}) == len(expected)


def test_changed_code_under_the_same_version_is_a_reason_of_its_own() -> None:
    ((_, _, reasons),) = found(replace(PRESENT, code_digest="d" * 64))
    assert reasons == (Reason(cause=Cause.CODE_CHANGED, name="weekly 1.0.0", was="c" * 12, now="d" * 12),)


def test_of_changed_code_under_another_version_nothing_more_is_said() -> None:
    ((_, _, reasons),) = found(replace(PRESENT, code_digest="d" * 64, transform_version="1.1.0"))
    assert reasons == (Reason(cause=Cause.VERSION_CHANGED, was="weekly 1.0.0", now="weekly 1.1.0"),)


def test_another_window_is_another_configuration_and_said_in_days() -> None:
    wider = replace(WEEKLY, inputs=(replace(EDGE, window=Window(days_back=13, days_ahead=1)),))
    ((_, _, reasons),) = found(replace(PRESENT, configuration=configuration_of(wider)))
    assert reasons == (
        Reason(
            cause=Cause.CONFIGURATION_CHANGED,
            was="events = bronze.events, Window(days_back=6, days_ahead=1)",
            now="events = bronze.events, Window(days_back=13, days_ahead=1)",
        ),
    )


def test_rows_of_a_pilot_are_a_reason_that_names_them_beside_what_is_configured_otherwise() -> None:
    pilot = Pilot(rows=Scope(where=(("tenant", "acme"),)))
    piloted = Reason(cause=Cause.PILOTED, name="tenant=acme", run_id=BASIS.run_id)
    basis = replace(BASIS, configuration=configuration_of(replace(WEEKLY, change=pilot)))
    ((_, _, reasons),) = found(PRESENT, basis)
    assert reasons == (piloted,)
    wider = replace(WEEKLY, inputs=(replace(EDGE, window=Window(days_back=13, days_ahead=1)),))
    ((_, _, both),) = found(replace(PRESENT, configuration=configuration_of(wider)), basis)
    assert [each.cause for each in both] == [Cause.CONFIGURATION_CHANGED, Cause.PILOTED]
    assert both[0].was == "events = bronze.events, Window(days_back=6, days_ahead=1)"


def test_another_table_under_the_same_argument_is_another_configuration() -> None:
    other = replace(BASIS.inputs[0], edge=replace(EDGE, table="bronze.others"))
    ((_, _, reasons),) = found(replace(PRESENT, digests={"bronze.others": DIGESTS}), replace(BASIS, inputs=(other,)))
    assert [reason.cause for reason in reasons] == [Cause.CONFIGURATION_CHANGED]
    assert reasons[0].was.startswith("events = bronze.others")


NEW_CALENDAR = replace(CALENDAR, version="2025", sha256="2" * 64)


def test_a_reference_that_cannot_say_which_days_changed_stales_every_partition() -> None:
    (only,) = found(replace(PRESENT, references=(NEW_CALENDAR,)))
    reason = Reason(cause=Cause.REFERENCE_CHANGED, name="calendar", was="2024", now="2025")
    assert only == (day(1), day(31), (reason,))


def test_a_reference_that_says_which_days_changed_stales_those_around_them() -> None:
    holiday = DayRange.inclusive(day(20), day(20))
    long_ago = DayRange.inclusive(date(2006, 8, 15), date(2006, 8, 15))
    known = ReferenceDiff(days=(long_ago, holiday), window=Window(days_back=3, days_ahead=5))
    (only,) = found(replace(PRESENT, references=(NEW_CALENDAR,), narrow=lambda _name, _used: known))
    reason = Reason(cause=Cause.REFERENCE_CHANGED, name="calendar", was="2024", now="2025", days=(holiday,))
    assert only == (day(15), day(23), (reason,))


def test_a_reference_whose_days_are_known_and_their_reach_is_not_stales_everything_unless_no_day_changed() -> None:
    some = ReferenceDiff(days=(DayRange.inclusive(day(20), day(20)),), window=None)
    (only,) = found(replace(PRESENT, references=(NEW_CALENDAR,), narrow=lambda _name, _used: some))
    assert only[:2] == (day(1), day(31))
    none = ReferenceDiff(days=(), window=None)
    assert found(replace(PRESENT, references=(NEW_CALENDAR,), narrow=lambda _name, _used: none)) == []


def test_a_reference_that_is_new_or_no_longer_used_stales_every_partition() -> None:
    narrow = ReferenceDiff(days=(), window=None)
    for references, basis in (((), BASIS), ((CALENDAR,), replace(BASIS, references=()))):
        ((_, _, reasons),) = found(replace(PRESENT, references=references, narrow=lambda _name, _used: narrow), basis)
        assert [(reason.cause, reason.days) for reason in reasons] == [(Cause.REFERENCE_CHANGED, None)]


def test_a_partition_is_stale_only_when_nothing_that_it_rests_on_agrees_and_then_for_what_the_last_says() -> None:
    late = replace(BASIS, run_id="replayed", transform_version="0.9.0")
    other = replace(BASIS, run_id="other", code_digest="d" * 64)

    def reasons(*earlier: ComputedFrom) -> list[tuple[date, date, list[Cause]]]:
        stale = find_stale(WEEKLY, GRAPH, [late], PRESENT, earlier=lambda _doubted: earlier)
        return [(r.partitions[0], r.partitions[-1], [why.cause for why in r.reasons]) for r in stale.ranges]

    everything = [(day(1), day(31), [Cause.VERSION_CHANGED])]
    assert reasons() == reasons(other) == everything
    assert reasons(other, BASIS) == []
    assert reasons(replace(BASIS, partitions=BASIS.partitions[:10])) == [(day(11), day(31), [Cause.VERSION_CHANGED])]


def test_only_what_the_last_bases_doubt_is_asked_about() -> None:
    asked: list[frozenset[date]] = []

    def earlier(partitions: Collection[date]) -> list[ComputedFrom]:
        asked.append(frozenset(partitions))
        return []

    find_stale(WEEKLY, GRAPH, [BASIS], PRESENT, earlier=earlier)
    assert asked == []
    find_stale(
        WEEKLY, GRAPH, [BASIS], replace(PRESENT, digests={"bronze.events": {**DIGESTS, day(25): "x"}}), earlier=earlier
    )
    assert [min(asked[0]), max(asked[0])] == [day(24), day(31)]


def test_the_same_bytes_under_another_version_name_are_no_change() -> None:
    assert found(replace(PRESENT, references=(replace(CALENDAR, version="renamed"),))) == []


def test_reasons_come_with_the_most_pressing_first_and_split_ranges_where_they_begin() -> None:
    changed = {**DIGESTS, day(10): "again"}
    ranges = found(replace(PRESENT, code_digest="d" * 64, digests={"bronze.events": changed}))
    assert [(first, last, [reason.cause for reason in reasons]) for first, last, reasons in ranges] == [
        (day(1), day(8), [Cause.CODE_CHANGED]),
        (day(9), day(16), [Cause.CODE_CHANGED, Cause.INPUT_CHANGED]),
        (day(17), day(31), [Cause.CODE_CHANGED]),
    ]


def test_a_gap_is_called_never_built_only_where_everything_it_needs_is_there() -> None:
    gap = replace(BASIS, partitions=tuple(d for d in BUILT if d not in (day(5), day(20))))
    left = {d: digest for d, digest in DIGESTS.items() if d != day(20)}
    basis = replace(gap, inputs=(replace(BASIS.inputs[0], digests=left),))
    stale = find_stale(WEEKLY, GRAPH, [basis], replace(PRESENT, digests={"bronze.events": left}))
    assert [(each.partitions, each.reasons) for each in stale.ranges] == [
        ((day(5),), (Reason(cause=Cause.NEVER_BUILT),))
    ]
    assert stale.waiting == (day(20),)
    assert stale.accepted == 29


def test_outside_what_was_published_never_built_is_for_the_days_that_were_asked_about() -> None:
    more = dict.fromkeys(DayRange.inclusive(day(1, 1), day(30, 4)), "x") | DIGESTS
    present = replace(PRESENT, digests={"bronze.events": more})
    assert find_stale(WEEKLY, GRAPH, [BASIS], present).ranges == ()
    asked = tuple(DayRange.inclusive(day(30), day(2, 4)))
    stale = find_stale(WEEKLY, GRAPH, [BASIS], present, asked=asked)
    assert stale.partitions == (day(1, 4), day(2, 4))
    assert stale.accepted == 2


def test_a_table_that_was_never_published_has_nothing_stale() -> None:
    assert find_stale(WEEKLY, GRAPH, [], PRESENT).ranges == ()


# ------------------------------------------------------------------------------------------------- source tables

LOADED = replace(
    BASIS, run_id="events-1", inputs=(), references=(), configuration={}, imports=frozenset({"imp-1", "imp-2"})
)
NOW = replace(PRESENT, references=(), configuration={}, digests={})


def test_a_source_day_that_was_built_without_a_landed_file_is_stale() -> None:
    landed = {day(3): frozenset({"imp-1", "imp-3"}), day(4): frozenset({"imp-3"}), day(5): frozenset({"imp-2"})}
    stale = find_stale(EVENTS, GRAPH, [LOADED], replace(NOW, landed=landed))
    days = (DayRange.inclusive(day(3), day(4)),)
    reason = Reason(cause=Cause.INPUT_CHANGED, name="bronze.events", days=days, files=("imp-3",))
    assert [(each.partitions, each.reasons) for each in stale.ranges] == [((day(3), day(4)), (reason,))]


def test_a_source_day_that_has_landed_and_was_never_built_is_stale_wherever_it_lies() -> None:
    landed = {day(1, 5): frozenset({"imp-9"}), day(2, 5): frozenset[str]()}
    stale = find_stale(EVENTS, GRAPH, [LOADED], replace(NOW, landed=landed))
    assert stale.partitions == (day(1, 5), day(2, 5))
    assert find_stale(EVENTS, GRAPH, [], replace(NOW, landed=landed)).partitions == stale.partitions
    assert find_stale(EVENTS, GRAPH, [LOADED], replace(NOW, landed=landed), asked=(day(1),)).ranges == ()


def test_a_source_table_is_not_computed_by_the_domains_modules() -> None:
    assert find_stale(EVENTS, GRAPH, [LOADED], replace(NOW, code_digest="d" * 64)).ranges == ()


def test_another_contract_stales_what_was_built_under_the_earlier_one() -> None:
    stale = find_stale(EVENTS, GRAPH, [LOADED], replace(NOW, configuration={"contract": "c" * 64}))
    assert [reason.cause for each in stale.ranges for reason in each.reasons] == [Cause.CONFIGURATION_CHANGED]
    assert stale.partitions == tuple(BUILT)


def test_what_was_computed_by_other_session_settings_is_stale() -> None:
    ((_, _, reasons),) = found(replace(PRESENT, session_digest="t" * 64))
    assert reasons == (Reason(cause=Cause.SESSION_CHANGED, was="s" * 12, now="t" * 12),)


KEPT = replace(BASIS, references=(replace(CALENDAR, semantics=ReferenceSemantics.AS_RECORDED),))
NEWER = PinnedReference(name="calendar", version="2025", sha256="2" * 64)


def test_rows_whose_reference_was_chosen_are_not_stale_by_a_newer_one_and_say_so() -> None:
    found_now = find_stale(WEEKLY, GRAPH, [KEPT], replace(PRESENT, references=(NEWER,)))
    assert (found_now.ranges, found_now.on_purpose, found_now.partitions) == ((), (), ())
    (kept,) = found_now.kept
    assert kept.partitions == tuple(BUILT)
    assert [(why.cause, why.was, why.now, why.run_id, why.semantics) for why in kept.reasons] == [
        (Cause.REFERENCE_KEPT, "2024", "2025", "weekly-1", ReferenceSemantics.AS_RECORDED)
    ]
    assert find_stale(WEEKLY, GRAPH, [BASIS], replace(PRESENT, references=(NEWER,))).kept == ()


def test_a_changed_input_makes_them_stale_and_leaves_them_to_a_person() -> None:
    present = replace(PRESENT, references=(NEWER,), digests={"bronze.events": {**DIGESTS, day(10): "again"}})
    found_now = find_stale(WEEKLY, GRAPH, [KEPT], present)
    stale_days = tuple(DayRange.inclusive(day(9), day(16)))
    assert (found_now.partitions, found_now.on_purpose) == (stale_days, stale_days)
    assert {why.cause for each in found_now.ranges for why in each.reasons} == {
        Cause.INPUT_CHANGED,
        Cause.REFERENCE_KEPT,
    }
    assert {p for each in found_now.kept for p in each.partitions} == set(BUILT) - set(stale_days)


def test_the_window_of_a_chosen_reference_is_no_other_configuration() -> None:
    wider = {"windows": {"events": {"days_back": 9, "days_ahead": 1}}}
    present = replace(PRESENT, configuration=wider, references=(NEWER,))
    asked: list[tuple[PinnedReference, ...]] = []

    def configured_with(references: tuple[PinnedReference, ...]) -> Mapping[str, Any]:
        asked.append(references)
        return KEPT.configuration

    found_now = find_stale(WEEKLY, GRAPH, [KEPT], replace(present, configured_with=configured_with))
    assert (found_now.partitions, asked) == ((), [KEPT.references])
    unknown = find_stale(WEEKLY, GRAPH, [KEPT], present)
    assert unknown.on_purpose == tuple(BUILT)
    assert find_stale(WEEKLY, GRAPH, [BASIS], replace(present, configured_with=configured_with)).on_purpose == ()


def test_rows_whose_difference_was_accepted_are_not_stale_until_their_inputs_change_again() -> None:
    left = replace(BASIS, run_id="weekly-2", difference_accepted=True)
    accepted = find_stale(WEEKLY, GRAPH, [left], PRESENT)
    (kept,) = accepted.kept
    assert (accepted.partitions, kept.partitions) == ((), tuple(BUILT))
    assert kept.reasons == (Reason(cause=Cause.DIFFERENCE_ACCEPTED, run_id="weekly-2"),)
    changed = replace(PRESENT, digests={"bronze.events": {**DIGESTS, day(10): "again"}})
    again = find_stale(WEEKLY, GRAPH, [left], changed)
    assert again.partitions == tuple(DayRange.inclusive(day(9), day(16)))
    # The rows follow from the inputs of before: there is no difference once these are back.
    back = find_stale(WEEKLY, GRAPH, [left], PRESENT, earlier=lambda _partitions: [BASIS])
    assert (back.partitions, back.kept) == ((), ())


def test_a_later_run_that_found_the_same_rows_with_the_present_reference_clears_them() -> None:
    present = replace(PRESENT, references=(NEWER,))
    again = replace(BASIS, run_id="weekly-2", references=(NEWER,))
    cleared = find_stale(WEEKLY, GRAPH, [KEPT], present, earlier=lambda _partitions: [again])
    assert (cleared.partitions, cleared.kept) == ((), ())
