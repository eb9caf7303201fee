"""What is proposed of sources that share no table, and of tables of which some have read the news already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from backfill_assets.application.propose import propose, step_after_landing
from backfill_assets.domain import Domain, TransformContext, derived_table
from backfill_assets.planning.partitions import DayRange
from backfill_assets.report.proposals import NewProposal
from backfill_assets.testing import DomainKit
from backfill_assets_tests.domains import by_worker
from backfill_assets_tests.support import operations

SALES, FEES = by_worker.sales, replace(by_worker.sales, name="bronze.fees")
DAYS = (date(2026, 1, 1), date(2026, 1, 2))


def _counted(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    return sales.groupBy("sold_on").agg(sf.count("*").alias("n")).select("sold_on", "n")


def _counts(name: str, source: object) -> object:
    declared = derived_table(
        name=name,
        inputs={"sales": source},  # type: ignore[dict-item]
        key=("sold_on",),
        partition=by_worker.days.partition,
        version="1.0.0",
        schema=by_worker.days.schema,
    )
    return declared(_counted)


DOMAIN = Domain(
    name="apart",
    package=by_worker.__name__,
    sources=(SALES, FEES),
    derived=(
        _counts("silver.days", SALES),
        _counts("silver.again", SALES),
        _counts("silver.fees", FEES),
    ),  # type: ignore[arg-type]
)


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[DomainKit]:
    """All tables are published, and one record more has come for the first day of both sources."""
    kit = DomainKit.open(DOMAIN, tmp_path / "home", first_day=DAYS[0])
    for source in (SALES, FEES):
        kit.land(source.name, [sold(str(number), day) for number, day in enumerate(DAYS)])
    for table in DOMAIN.derived:
        kit.published(table.name, DayRange.inclusive(*DAYS))
    for source in (SALES, FEES):
        late(kit, source.name, "late")
    yield kit
    kit.close()


def sold(number: str, day: date) -> dict[str, object]:
    return {"sale_id": number, "sold_at": f"{day}T10:00:00Z"}


def late(kit: DomainKit, source: str, number: str, by: str = "ana") -> None:
    replace(kit, asks=by).land(source, [sold(number, DAYS[0])], name=f"{number}.jsonl")


def rebuilt(new: NewProposal) -> list[str]:
    return [each.table for each in new.rebuilds]


def publish(kit: DomainKit, set_id: str) -> None:
    with kit.ws.ledger.read() as tx:
        members = tx.sets.get(set_id).manifest.members
    for member in members:
        kit.stage(member.run_id)
        kit.gate(member.run_id)
    operations.approve_set(kit.ws, set_id, by="ben")
    operations.publish_set(kit.ws, set_id, by="ana")


def test_sources_that_share_no_table_are_proposed_apart_and_one_is_decided_without_the_other(kit: DomainKit) -> None:
    would = propose(kit.ws, by="propose", dry_run=True).proposed
    fees, sales = propose(kit.ws, by="propose").proposed
    assert [(each.reason, each.rebuilds) for each in would] == [(each.reason, each.rebuilds) for each in (fees, sales)]
    assert (rebuilt(fees), rebuilt(sales)) == (["silver.fees"], ["silver.days", "silver.again"])
    assert ("bronze.sales" in fees.reason, "bronze.fees" in sales.reason) == (False, False)
    assert fees.set_id is not None and sales.set_id is not None
    publish(kit, fees.set_id)
    # A newer file of one source replaces its draft only, and what is decided about the other stays.
    late(kit, SALES.name, "later", by="eve")
    found = propose(kit.ws, by="propose")
    (newer,) = found.proposed
    assert (rebuilt(newer), [each.set_id for each in found.replaced]) == (
        ["silver.days", "silver.again"],
        [sales.set_id],
    )
    assert newer.set_id is not None
    publish(kit, newer.set_id)
    last = propose(kit.ws, by="propose")
    assert (last.proposed, last.open, last.replaced, last.waiting) == ((), (), (), ())
    assert {table: [row["n"] for row in kit.rows(table)] for table in ("silver.days", "silver.fees")} == {
        "silver.days": [3, 1],
        "silver.fees": [2, 1],
    }


def test_what_has_read_the_news_already_is_not_built_again(kit: DomainKit) -> None:
    """Ana publishes one table of the source by herself, before the proposal or after it."""
    _, sales = propose(kit.ws, by="propose").proposed
    kit.published("silver.days", DayRange.inclusive(DAYS[0], DAYS[0]))
    found = propose(kit.ws, by="propose")
    (rest,) = found.proposed
    assert (rebuilt(rest), [each.set_id for each in found.replaced]) == (["silver.again"], [sales.set_id])
    kit.published("silver.again", DayRange.inclusive(DAYS[0], DAYS[0]))
    ended = propose(kit.ws, by="propose")
    assert ended.proposed == ()
    assert [(each.set_id, each.why) for each in ended.replaced] == [(rest.set_id, "nothing remains to restate")]
    assert [each.record.manifest.because for each in ended.open] == ["bronze.fees 2026-01-01, 1 day"]


def test_advice_after_landing_is_about_the_source_that_was_landed(kit: DomainKit) -> None:
    assert step_after_landing(kit.ws, SALES.name) is not None
    assert len(propose(kit.ws, by="propose").proposed) == 2
    late(kit, FEES.name, "later")
    assert step_after_landing(kit.ws, SALES.name) is None
    assert step_after_landing(kit.ws, FEES.name) is not None
