from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

import pytest

from backfill_assets.core.errors import IllegalTransition, Refused, UnknownName
from backfill_assets.ledger.imports import ImportCounts, ImportDay, KeyCounts
from backfill_assets.ledger.states import ImportState
from backfill_assets.ledger.store import Ledger
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support.ledger_examples import DAYS, an_offered_file

FIVE_ACCEPTED = ImportCounts(landed=5, accepted=5)


def begin(ledger: Ledger, sha256: str = "a" * 64, source: str = "bronze.events") -> str:
    with ledger.write() as writer:
        return writer.imports.begin(an_offered_file(sha256, source), actor="ann").import_id


def finish(
    ledger: Ledger,
    import_id: str,
    counts: ImportCounts = FIVE_ACCEPTED,
    days: tuple[date, ...] = DAYS,
    superseded_elsewhere: dict[str, int] | None = None,
    keys: KeyCounts | None = None,
) -> None:
    with ledger.write() as writer:
        writer.imports.finish(
            import_id,
            counts=counts,
            days=[ImportDay(import_id=import_id, event_date=day, events=1, displaced=2) for day in days],
            schema_versions=[2, 1],
            ignored_columns=["b", "a"],
            keys=keys or KeyCounts(current=counts.accepted),
            moved_elsewhere={
                other: ImportCounts(accepted=-n, superseded=n) for other, n in (superseded_elsewhere or {}).items()
            },
            actor="ann",
        )


def test_files_are_numbered_in_the_order_of_arrival_over_all_sources(ledger: Ledger) -> None:
    assert [begin(ledger), begin(ledger, "b" * 64, "bronze.other"), begin(ledger)] == [
        "imp-000001",
        "imp-000002",
        "imp-000003",
    ]
    with ledger.read() as reader:
        assert [found.arrival for found in reader.imports.records()] == [1, 2, 3]
        assert [found.import_id for found in reader.imports.records("bronze.other")] == ["imp-000002"]
        assert [found.import_id for found in reader.imports.with_sha("bronze.events", "a" * 64)] == [
            "imp-000001",
            "imp-000003",
        ]
        with pytest.raises(UnknownName, match="imp-000009"):
            reader.imports.get("imp-000009")


def test_a_landed_file_is_read_as_it_was_recorded(ledger: Ledger) -> None:
    import_id = begin(ledger)
    with ledger.read() as reader:
        offered = reader.imports.get(import_id)
    assert (offered.state, offered.first_seen_at, offered.landed_at) == (ImportState.LANDING, NOON, None)
    assert (offered.original_path, offered.format, offered.compression) == ("/mail/é.csv", "csv", "gzip")
    counts = ImportCounts(landed=5, accepted=1, duplicate=1, superseded=1, rejected=2)
    finish(ledger, import_id, counts)
    with ledger.read() as reader:
        landed = reader.imports.get(import_id)
        assert (landed.state, landed.landed_at, landed.landed_by) == (ImportState.LANDED, NOON, "ann")
        assert (landed.counts, landed.schema_versions, landed.ignored_columns) == (counts, (1, 2), ("a", "b"))
        assert reader.imports.records(states=[ImportState.LANDED]) == (landed,)
        assert [day.event_date for day in reader.imports.days()] == list(DAYS)
        assert reader.events.violations() == ()


@pytest.mark.parametrize(
    "counts", [ImportCounts(landed=5, accepted=4), ImportCounts(landed=0, accepted=1, duplicate=-1)]
)
def test_counts_that_do_not_reconcile_are_refused(ledger: Ledger, counts: ImportCounts) -> None:
    import_id = begin(ledger)
    with pytest.raises(Refused, match="do not reconcile"):
        finish(ledger, import_id, counts)
    with ledger.read() as reader:
        assert reader.imports.get(import_id).state is ImportState.LANDING


def test_a_later_file_moves_records_of_earlier_ones_from_accepted_to_superseded(ledger: Ledger) -> None:
    first, second = begin(ledger), begin(ledger, "b" * 64)
    finish(ledger, first)
    finish(ledger, second, superseded_elsewhere={first: 2})
    with ledger.read() as reader:
        assert reader.imports.get(first).counts == ImportCounts(landed=5, accepted=3, superseded=2)
    third = begin(ledger, "c" * 64)
    for impossible in ({first: 4}, {first: -3}):
        with pytest.raises(Refused, match="more records"):
            finish(ledger, third, superseded_elsewhere=impossible)
    with pytest.raises(UnknownName):
        finish(ledger, third, superseded_elsewhere={"imp-000009": 1})
    with ledger.read() as reader:
        assert reader.imports.get(third).state is ImportState.LANDING
        assert reader.imports.get(first).counts.accepted == 3


def test_keys_that_do_not_add_up_are_found(ledger: Ledger) -> None:
    first, second = begin(ledger), begin(ledger, "b" * 64)
    finish(ledger, first)
    finish(ledger, second, counts=ImportCounts(landed=2, accepted=2), keys=KeyCounts(current=-1, withdrawn=2))
    with ledger.read() as reader:
        assert reader.row_checks.violations() == ()
        (found,) = reader.imports.open_accounts()
    assert found == (
        "the keys of bronze.events do not add up: 7 were accepted, 4 are current, 0 deleted and 2 withdrawn."
    )


def test_a_failed_or_landed_file_is_landed_again_in_its_place(ledger: Ledger) -> None:
    import_id = begin(ledger)
    with ledger.write() as writer:
        writer.imports.fail(import_id, note="cut off", actor="ann")
        assert writer.imports.get(import_id).note == "cut off"
        writer.imports.reopen(import_id, "reprocess", "ann")
    finish(ledger, import_id)
    with ledger.write() as writer:
        writer.imports.reopen(import_id, "correct", "ann")
    finish(ledger, import_id, days=DAYS[1:])
    with ledger.read() as reader:
        found = reader.imports.get(import_id)
        assert (found.arrival, found.on_duplicate, found.state) == (1, "correct", ImportState.LANDED)
        assert [day.event_date for day in reader.imports.days([import_id])] == list(DAYS[1:])
    with pytest.raises(IllegalTransition, match="LANDED"), ledger.write() as writer:
        writer.imports.fail(import_id, note="too late", actor="ann")


def test_loaded_files_stay_loaded_and_files_that_have_not_landed_are_not_loaded(ledger: Ledger) -> None:
    landed, landing = begin(ledger), begin(ledger)
    finish(ledger, landed)
    with ledger.write() as writer:
        writer.imports.mark_loaded([landed], actor="runner")
        writer.imports.mark_loaded([landed, landed], actor="runner")
    with pytest.raises(IllegalTransition, match=landing), ledger.write() as writer:
        writer.imports.mark_loaded([landed, landing], actor="runner")
    with ledger.read() as reader:
        assert [found.state for found in reader.imports.records()] == [ImportState.LOADED, ImportState.LANDING]
        assert [event.action for event in reader.events.entries(entity_id=landed)].count("import_loaded") == 1


def test_days_are_found_by_file_source_date_and_state(ledger: Ledger) -> None:
    first, other, failed = begin(ledger), begin(ledger, source="bronze.other"), begin(ledger)
    finish(ledger, first)
    finish(ledger, other, days=DAYS[:1])
    finish(ledger, failed, days=DAYS[:2])
    with ledger.write() as writer:
        writer.imports.reopen(failed, "reprocess", "ann")
        writer.imports.fail(failed, note="cut off", actor="ann")
    with ledger.read() as reader:
        whole = reader.imports.days()
        assert [(day.import_id, day.event_date) for day in whole] == [
            *((first, day) for day in DAYS),
            (other, DAYS[0]),
            (failed, DAYS[0]),
            (failed, DAYS[1]),
        ]
        assert whole[0] == ImportDay(import_id=first, event_date=DAYS[0], events=1, displaced=2)
        assert [day.import_id for day in reader.imports.days(days=[DAYS[0]])] == [first, other, failed]
        assert [day.import_id for day in reader.imports.days(source="bronze.other")] == [other]
        assert [day.event_date for day in reader.imports.days([first, other], days=DAYS[1:])] == list(DAYS[1:])
        assert len(reader.imports.days(states=[ImportState.LANDED])) == 4
        assert reader.imports.days([]) == reader.imports.days(days=[]) == ()


@pytest.mark.long
def test_a_file_may_touch_five_thousand_days_and_many_files_are_loaded_at_once(ledger: Ledger) -> None:
    days = tuple(date(2000, 1, 1) + timedelta(days=number) for number in range(5_000))
    big = begin(ledger)
    finish(ledger, big, days=days)
    with ledger.write() as writer:
        many = [writer.imports.begin(an_offered_file(f"{n:064}"), actor="ann").import_id for n in range(300)]
        for import_id in many:
            writer.imports.finish(
                import_id,
                counts=ImportCounts(),
                days=(),
                schema_versions=(),
                ignored_columns=(),
                actor="ann",
            )
        writer.imports.mark_loaded([big, *many], actor="runner")
    with ledger.read() as reader:
        assert [day.event_date for day in reader.imports.days(days=days)] == list(days)
        assert len(reader.imports.records(states=[ImportState.LOADED])) == 301
        assert reader.events.violations() == ()


def test_days_on_which_keys_became_not_known_stay_recorded_when_they_are_known_again(ledger: Ledger) -> None:
    def land(import_id: str, own: int, linked: Sequence[ImportDay] = ()) -> None:
        days = [ImportDay(import_id=import_id, event_date=DAYS[0], events=1, unknown=own)]
        with ledger.write() as writer:
            writer.imports.finish(
                import_id,
                counts=ImportCounts(),
                days=days,
                linked=linked,
                schema_versions=(),
                ignored_columns=(),
                actor="ann",
            )

    rejected, again, other = begin(ledger), begin(ledger, "b" * 64), begin(ledger, "c" * 64, "bronze.other")
    with ledger.read() as reader:
        before = int(reader.events.head().partition(":")[0])
    land(rejected, 2)
    land(other, 7)
    with ledger.read() as reader:
        between = int(reader.events.head().partition(":")[0])
    land(again, 0, [ImportDay(import_id=rejected, event_date=DAYS[0], events=0, unknown=-2)])
    with ledger.read() as reader:
        assert reader.imports.unknown_days("bronze.events") == ()
        assert reader.imports.became_unknown("bronze.events", DAYS, after=before) == {DAYS[0]: 2}
        assert reader.imports.became_unknown("bronze.events", DAYS[1:], after=before) == {}
        assert reader.imports.became_unknown("bronze.events", [], after=before) == {}
        assert reader.imports.became_unknown("bronze.events", DAYS, after=between) == {}
    third = begin(ledger, "d" * 64)
    land(third, 0, [ImportDay(import_id=rejected, event_date=DAYS[0], events=0, unknown=1)])
    with ledger.read() as reader:
        assert reader.imports.became_unknown("bronze.events", DAYS, after=between) == {DAYS[0]: 1}
