"""The kit tests the domain that it is given, also one that no module declares."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType

from backfill_assets.core.errors import InvalidDeclaration, Refused
from backfill_assets.domain import Domain, Release, TransformContext, derived_table, expression, row_count
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.testing import DomainKit, Gated, check_no_outside_effects
from backfill_assets.transforms.errors import NotDetermined
from backfill_assets_tests.domains import by_worker

DAYS = "2026-01-02..2026-01-05"
SALES = [{"sale_id": str(n), "sold_at": f"2026-01-0{2 + n % 4}T10:00:00Z"} for n in range(12)]

Opens = Callable[[Domain], DomainKit]


@pytest.fixture
def opens(tmp_path: Path) -> Iterator[Opens]:
    """Opens a kit with three sales on each of four days."""
    kits: list[DomainKit] = []

    def opened(domain: Domain) -> DomainKit:
        kit = DomainKit.open(domain, tmp_path / f"home-{len(kits)}", first_day=date(2026, 1, 1))
        kits.append(kit)
        kit.land("sales", SALES)
        return kit

    yield opened
    for kit in kits:
        kit.close()


def gated(kit: DomainKit) -> Gated:
    run_id = kit.planned("days", DAYS)
    kit.stage(run_id)
    return kit.gate(run_id)


def with_days(**changes: object) -> Domain:
    return replace(by_worker.DOMAIN, derived=(replace(by_worker.days, **changes),))  # type: ignore[arg-type]


def by_hundreds(factor: int) -> Domain:
    """A domain that is built in a function, with functions and values that no module has by a name."""

    def hundreds(n: int) -> int:
        return n * factor * 100

    @derived_table(
        name="silver.days",
        inputs={"sales": by_worker.sales},
        key=("sold_on",),
        partition=by_worker.days.partition,
        version="2.0.0",
        schema=by_worker.days.schema,
    )
    def days(sales: DataFrame, ctx: TransformContext) -> DataFrame:
        counted = sales.groupBy("sold_on").agg(sf.count("*").alias("sold"))
        hundreds_of = sf.udf(hundreds, LongType(), useArrow=False)
        return counted.select("sold_on", sf.coalesce(hundreds_of("sold"), sf.lit(0)).cast("long").alias("n"))

    return Domain(name="hundreds", package=by_worker.__name__, sources=(by_worker.sales,), derived=(days,))


def by_chance(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    return sales.groupBy("sold_on").agg(sf.floor(sf.max(sf.rand()) * 10).alias("n")).select("sold_on", "n")


def writing(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    Path("/tmp/never-written").unlink(missing_ok=True)
    return sales.groupBy("sold_on").agg(sf.count("*").alias("n"))


@pytest.mark.long
def test_gates_of_a_variant_are_those_of_the_variant(opens: Opens) -> None:
    """Three sales a day: the domain of the module has no gate on them."""
    gates = (expression("few", "n < 3"), expression("fewer", "n < 2", blocking=False), row_count(at_most=1))
    strict, usual = opens(with_days(gates=gates)), opens(by_worker.DOMAIN)
    assert gated(strict) == Gated(state="BLOCKED", failed=("few",), warned=("fewer",))
    assert gated(usual) == Gated(state="PASSED")
    with pytest.raises(Refused, match="it is BLOCKED"):
        strict.published("days", DAYS)
    assert not strict.accepted("days") and strict.ws.domain is not usual.ws.domain
    usual.published("days", DAYS)
    assert gated(usual).state == "VERIFIED"


@pytest.mark.long
def test_domains_of_one_package_that_are_open_together_compute_their_own_rows(opens: Opens) -> None:
    """Also where their rows are made by functions in the Python processes of Spark."""
    kits = {factor: opens(by_hundreds(factor)) for factor in (1, 2)}
    usual = opens(by_worker.DOMAIN)
    for factor, kit in kits.items():
        kit.published("days", DAYS)
        assert {row["n"] for row in kit.rows("days")} == {300 * factor}
    usual.published("days", DAYS)
    assert {row["n"] for row in usual.rows("days")} == {3}


@pytest.mark.long
def test_no_row_of_a_variant_is_computed_by_another_value_than_the_planned_one(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = opens(with_days(gates=(row_count(at_most=1),)))
    monkeypatch.setattr(by_worker, "TIMES", 4)
    run_id = kit.planned("days", DAYS)
    with pytest.raises(CodeBroken, match="in a Python process of Spark"):
        kit.stage(run_id)
    monkeypatch.setattr(by_worker, "TIMES", 1)
    kit.published("days", DAYS)


@pytest.mark.long
def test_what_a_function_of_a_test_may_not_do_is_found_in_the_test(opens: Opens) -> None:
    chance = opens(with_days(releases=(Release(version="2.0.0", function=by_chance),)))
    with pytest.raises(NotDetermined, match=r"uses sf\.rand in .*test_given_domains"):
        chance.planned("days", DAYS)
    kit = opens(with_days(releases=(Release(version="2.0.0", function=writing),)))
    with pytest.raises(AssertionError, match=r"acts outside: os\.remove"):
        check_no_outside_effects(kit, "days", DAYS)


@pytest.mark.long
def test_functions_in_a_folder_of_tests_beside_the_package_are_read_as_well(
    opens: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a project with `src/` and `tests/`: neither is imported from the folder of the other."""
    text = "from pyspark.sql import functions as sf\n\n\ndef lucky(sales, ctx):\n    return sales.select(sf.rand())\n"
    (tmp_path / "tests_apart.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    tests = importlib.import_module("tests_apart")
    kit = opens(with_days(releases=(Release(version="2.0.0", function=tests.lucky),)))
    with pytest.raises(NotDetermined, match=r"uses sf\.rand in .*tests_apart"):
        kit.planned("days", DAYS)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda: with_days(gates=(expression("of_others", "nobody > 0"),)), "'nobody' is not a column"),
        (lambda: replace(by_worker.DOMAIN, package="nowhere_to_be_found"), "'nowhere_to_be_found'.*has no source"),
        (lambda: by_worker, r"a kit opens a Domain or the name of its module, and was given .*by_worker\."),
        (lambda: types.SimpleNamespace(), "a kit opens a Domain or the name of its module"),
        (lambda: "backfill_assets_tests.support", "defines no DOMAIN"),
    ],
)
def test_what_definitions_refuse_the_kit_refuses(given: Callable[[], Domain], said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidDeclaration, match=said):
        DomainKit.open(given(), tmp_path / "home", first_day=date(2026, 1, 1))


@pytest.mark.parametrize("name", ["BACKFILL_HOME", "BACKFILL_DOMAIN", "BACKFILL_FIRST_DAY"])
def test_a_setting_that_is_an_argument_is_given_once(name: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=f"{name}.* the kit has it from the argument"):
        DomainKit.open(by_worker.DOMAIN, tmp_path / "home", first_day=date(2026, 1, 1), settings={name: "elsewhere"})
