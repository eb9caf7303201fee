"""Bases of accepted partitions in the ledger, through verifications, rollbacks and runs of a set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date

import pytest

from backfill_assets.calendar.windows import Window
from backfill_assets.core.errors import Refused
from backfill_assets.core.identity import canonical_json, sha256_text
from backfill_assets.ledger.store import Ledger, LedgerState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.graph import TableInput
from backfill_assets.planning.kinds.load import Load
from backfill_assets.planning.manifest_parts import PinnedInput, PinnedPartition, PinnedReference
from backfill_assets.planning.state import UNKNOWN_DIGEST, AcceptedPartition, ComputedFromInput
from backfill_assets_tests.support.ledger_examples import (
    DAYS,
    TABLE,
    disarm,
    files_of,
    gate,
    make_publishable,
    plan,
    publish,
    publish_equal,
    roll_back,
    stage,
    tamper,
)

GOLD = "gold.example"


def ready(ledger: Ledger, run_id: str, days: Iterable[date] = DAYS, **of_manifest: object) -> None:
    """A run that only has to be published."""
    chosen = tuple(days)
    plan(ledger, run_id, days=chosen, **of_manifest)
    stage(ledger, run_id, chosen)
    gate(ledger, run_id, chosen)
    with ledger.write() as writer:
        writer.requests.approve(run_id, by="Bob")


def resting_on(reader: ReadTransaction, table: str = TABLE) -> Mapping[str, tuple[date, ...]]:
    return {basis.run_id: basis.partitions for basis in reader.bases.of_accepted([table]).bases[table]}


def test_claims_are_the_accepted_versions_without_their_files(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    publish(ledger, "bf-1")
    make_publishable(ledger, "bf-2", days=DAYS[1:2])
    publish(ledger, "bf-2", days=DAYS[1:2], at=2)
    with ledger.read() as reader:
        claims = reader.versions.claims(TABLE)
        assert claims == {
            day: AcceptedPartition(
                version=version.version,
                run_id=version.run_id,
                digest=version.files.digest,
                rows=version.rows,
                file_count=len(version.files.files),
                size_bytes=version.files.size_bytes,
            )
            for day, version in reader.versions.accepted(TABLE).items()
        }
        assert [claim.version for claim in claims.values()] == [1, 2, 1]
        assert list(reader.versions.claims(TABLE, [DAYS[2], DAYS[0]])) == [DAYS[0], DAYS[2]]
        assert reader.versions.claims(TABLE, []) == reader.versions.claims("silver.other") == {}
        assert LedgerState(reader).accepted(TABLE, [DAYS[1], date(2030, 1, 1)]) == {DAYS[1]}


def test_a_version_rests_on_the_run_that_made_it(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    publish(ledger, "bf-1")
    make_publishable(ledger, "bf-2", days=DAYS[:1])
    publish(ledger, "bf-2", days=DAYS[:1], at=2)
    with ledger.read() as reader:
        assert resting_on(reader) == {"bf-1": DAYS[1:], "bf-2": DAYS[:1]}
        digests = reader.bases.of_accepted([TABLE]).digests[TABLE]
        assert digests == {day: version.files.digest for day, version in reader.versions.accepted(TABLE).items()}


def earlier(reader: ReadTransaction, *days: date) -> Mapping[str, tuple[date, ...]]:
    return {basis.run_id: basis.partitions for basis in reader.bases.of_accepted([TABLE]).earlier(TABLE, days)}


def test_only_the_bases_of_the_partitions_that_are_asked_for_are_read(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    publish(ledger, "bf-1")
    ready(ledger, "bf-2")
    publish_equal(ledger, "bf-2", DAYS[:2])
    with ledger.read() as reader:
        (found,) = reader.bases.of_accepted([TABLE], partitions=DAYS[:1]).bases[TABLE]
        assert (found.run_id, found.partitions) == ("bf-2", DAYS[:1])
        known = reader.bases.of_accepted([TABLE], partitions=DAYS[:1])
        assert [basis.run_id for basis in known.earlier(TABLE, DAYS)] == ["bf-1"]
        assert len(known.digests[TABLE]) == len(DAYS), "what is accepted is compared as a whole"


def test_a_version_rests_on_every_run_that_stands_by_it(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    publish(ledger, "bf-1")
    ready(ledger, "bf-2")
    second = publish_equal(ledger, "bf-2", DAYS[:2])
    ready(ledger, "bf-3", DAYS[:1])
    publish_equal(ledger, "bf-3", DAYS[:1], at=3)
    with ledger.read() as reader:
        assert resting_on(reader) == {"bf-2": DAYS[1:], "bf-3": DAYS[:1]}
        assert earlier(reader, *DAYS) == {"bf-1": DAYS[:2], "bf-2": DAYS[:1]}
        assert earlier(reader, DAYS[1]) == {"bf-1": DAYS[1:2]}
        assert earlier(reader, DAYS[2]) == earlier(reader) == {}
    roll_back(ledger, second)
    with ledger.read() as reader:
        assert earlier(reader, *DAYS) == {"bf-1": DAYS[:1]}


def test_a_version_that_was_found_equal_rests_last_on_the_last_run_that_found_it_so(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    publish(ledger, "bf-1")
    ready(ledger, "bf-2")
    second = publish_equal(ledger, "bf-2", DAYS[:2])
    with ledger.read() as reader:
        assert resting_on(reader) == {"bf-2": DAYS}
        assert [claim.version for claim in reader.versions.claims(TABLE).values()] == [1, 1, 2]
    ready(ledger, "bf-3", DAYS[:1])
    publish_equal(ledger, "bf-3", DAYS[:1], at=3)
    with ledger.read() as reader:
        assert resting_on(reader) == {"bf-2": DAYS[1:], "bf-3": DAYS[:1]}
    roll_back(ledger, second)
    with ledger.read() as reader:
        # What bf-2 had found equal is no longer its word; bf-3 stands by the first day.
        assert resting_on(reader) == {"bf-1": DAYS[1:], "bf-3": DAYS[:1]}


def test_a_verification_of_an_earlier_version_says_nothing_of_a_later_one_until_that_is_undone(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1", days=DAYS[:1])
    publish(ledger, "bf-1", days=DAYS[:1])
    ready(ledger, "bf-2", DAYS[:1])
    publish_equal(ledger, "bf-2", DAYS[:1])
    make_publishable(ledger, "bf-3", days=DAYS[:1])
    third = publish(ledger, "bf-3", days=DAYS[:1], at=3)
    with ledger.read() as reader:
        assert resting_on(reader) == {"bf-3": DAYS[:1]}
    roll_back(ledger, third)
    with ledger.read() as reader:
        assert resting_on(reader) == {"bf-2": DAYS[:1]}


def pinned(digest: str, *, from_run: str | None = None) -> PinnedInput:
    version = 0 if from_run else 1
    return PinnedInput(
        argument="days",
        table=TABLE,
        partitions=tuple(
            PinnedPartition(partition=day, version=version, digest=digest, from_run=from_run) for day in DAYS
        ),
    )


WINDOWS = {"windows": {"days": {"days_back": 2, "days_ahead": 1}}}


def test_a_basis_tells_what_its_manifest_agreed(ledger: Ledger) -> None:
    reference = PinnedReference(name="calendar", version="2024", sha256="e" * 64)
    ready(
        ledger,
        "gold-1",
        DAYS[:1],
        table=GOLD,
        configuration=WINDOWS,
        inputs=(pinned("d" * 64),),
        references=(reference,),
        change=Load(imports=("imp-1",)),
    )
    publish(ledger, "gold-1", table=GOLD, days=DAYS[:1])
    with ledger.read() as reader:
        manifest = reader.runs.get("gold-1").manifest
        resting = reader.bases.of_accepted([GOLD], inputs=["bronze.nobody"])
    (basis,) = resting.bases[GOLD]
    assert (basis.transform, basis.transform_version, basis.code_digest) == ("example", "1.0.0", "c" * 64)
    assert (basis.configuration, basis.references) == (WINDOWS, (reference,))
    assert (basis.imports, basis.requested_at) == (frozenset({"imp-1"}), manifest.requested_at)
    (read,) = basis.inputs
    assert read.edge == TableInput(argument="days", table=TABLE, window=Window(days_back=2, days_ahead=1))
    assert read.digests == dict.fromkeys(DAYS, "d" * 64)
    assert resting.digests.keys() == {GOLD, TABLE, "bronze.nobody"}
    assert resting.digests[TABLE] == resting.digests["bronze.nobody"] == {}


def test_what_was_read_of_a_candidate_is_what_its_run_published_or_found_equal(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    publish(ledger, "bf-1")
    ready(ledger, "bf-2")
    ready(
        ledger, "gold-1", DAYS[:1], table=GOLD, configuration=WINDOWS, inputs=(pinned(UNKNOWN_DIGEST, from_run="bf-2"),)
    )

    def read() -> Mapping[date, str]:
        with ledger.read() as reader:
            ((basis,),) = reader.bases.of_accepted([GOLD]).bases.values()
        return basis.inputs[0].digests

    second = publish_equal(ledger, "bf-2", DAYS[:2])
    publish(ledger, "gold-1", table=GOLD, days=DAYS[:1])
    assert read() == {
        DAYS[0]: files_of("bf-1", DAYS[0]).digest,
        DAYS[1]: files_of("bf-1", DAYS[1]).digest,
        DAYS[2]: files_of("bf-2", DAYS[2]).digest,
    }
    make_publishable(ledger, "bf-3", days=DAYS[2:])
    third = publish(ledger, "bf-3", days=DAYS[2:], at=3)
    assert read()[DAYS[2]] == files_of("bf-2", DAYS[2]).digest
    roll_back(ledger, third)
    roll_back(ledger, second)
    assert read() == dict.fromkeys(DAYS, UNKNOWN_DIGEST)


def test_pins_of_what_is_accepted_are_not_parsed_and_say_the_same(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    publish(ledger, "bf-1")

    def read_of(run_id: str, days: tuple[date, ...], versions: Mapping[date, int]) -> ComputedFromInput:
        with ledger.read() as reader:
            accepted = reader.versions.accepted(TABLE)
        pins = tuple(
            PinnedPartition(partition=day, version=versions[day], digest=accepted[day].files.digest) for day in days
        )
        of_days = PinnedInput(argument="days", table=TABLE, partitions=pins)
        # Another input, of a table without any: that its pins are none must not be taken for those of the first.
        of_none = PinnedInput(argument="none", table="silver.nobody", partitions=())
        windows = {"windows": WINDOWS["windows"] | {"none": {"days_back": 0, "days_ahead": 0}}}
        ready(ledger, run_id, DAYS[:1], table=GOLD, configuration=windows, inputs=(of_none, of_days))
        publish(ledger, run_id, table=GOLD, days=DAYS[:1])
        with ledger.read() as reader:
            resting = reader.bases.of_accepted([GOLD], inputs=[TABLE, "silver.nobody"])
            ((basis,),) = resting.bases.values()
        none, found = basis.inputs
        assert (none.digests, none.within) == ({}, None)
        assert (found.within is resting.digests[TABLE]) == (found.within is not None)
        assert found.digests == {day: accepted[day].files.digest for day in days}
        assert len(found.digests) == len(days)
        return found

    ones = dict.fromkeys(DAYS, 1)
    assert read_of("whole", DAYS, ones).within is not None
    assert read_of("part", DAYS[1:], ones).within is not None
    assert read_of("gap", (DAYS[0], DAYS[2]), ones).within is None
    assert read_of("other-version", DAYS, {**ones, DAYS[1]: 12}).within is None
    make_publishable(ledger, "bf-2", days=DAYS[1:2])
    publish(ledger, "bf-2", days=DAYS[1:2], at=2)
    assert read_of("again", DAYS, {**ones, DAYS[1]: 2}).within is not None
    make_publishable(ledger, "bf-3", days=DAYS[1:2])
    publish(ledger, "bf-3", days=DAYS[1:2], at=3)
    with ledger.read() as reader:
        resting = reader.bases.of_accepted([GOLD], inputs=[TABLE])
    (_, found) = resting.bases[GOLD][0].inputs
    assert found.within is None
    assert found.digests != resting.digests[TABLE]


def test_a_manifest_that_was_edited_is_not_believed(ledger: Ledger, ledger_url: str) -> None:
    make_publishable(ledger, "bf-1")
    publish(ledger, "bf-1")
    with ledger.read() as reader:
        document = json.loads(reader.runs.get("bf-1").manifest.text)
    edited = canonical_json({**document, "reason": "another"})
    assert sha256_text(edited) != sha256_text(canonical_json(document))
    disarm(ledger_url, "manifests")
    tamper(ledger_url, "UPDATE manifests SET body = :body WHERE run_id = 'bf-1'", body=edited)
    with ledger.read() as reader, pytest.raises(Refused, match="edited after it was agreed"):
        reader.bases.of_accepted([TABLE])


def test_tables_that_were_never_published_rest_on_nothing(ledger: Ledger) -> None:
    with ledger.read() as reader:
        assert reader.bases.of_accepted([TABLE]).bases == {TABLE: ()}
