"""Python asks Java for the same thing once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from py4j.clientserver import JavaClient
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill_assets.core.java_calls import settings_of

Calls = Callable[[], list[str]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What Java was asked for since it was asked for last; not what was given up, at some time or other."""
    asked: list[str] = []
    send = JavaClient.send_command

    def noted(self: JavaClient, command: str, *args: object, **others: object) -> str:
        asked.append(command)
        return str(send(self, command, *args, **others))

    def of_late() -> list[str]:
        found = [each for each in asked if not each.startswith(MEMORY_COMMAND_NAME)]
        asked.clear()
        return found

    monkeypatch.setattr(JavaClient, "send_command", noted)
    return of_late


def test_a_function_that_was_applied_before_takes_a_call(spark: SparkSession, calls: Calls) -> None:
    first = F.lower("a")
    calls()
    again = F.lower("a")
    assert len(calls()) == 2, "the column and its function"
    assert spark.range(1).selectExpr("'C' AS a").select(first, again).collect() == [("c", "c")]


@pytest.mark.parametrize("n", [0, 1, 3, 4, 10, 11, 40])
def test_a_list_has_all_its_elements_in_order(spark: SparkSession, n: int) -> None:
    values = [str(place) for place in range(n)]
    java: Any = spark.sparkContext._jvm
    assert list(java.java.util.ArrayList(values)) == values
    assert list(java.java.util.ArrayList([*values, None])) == [*values, None]
    columns = [F.lit(value) for value in values]
    assert spark.range(1).select(F.array(*columns)).collect() == [(values,)]


def test_a_list_of_forty_takes_few_calls(spark: SparkSession, calls: Calls) -> None:
    java: Any = spark.sparkContext._jvm
    java.java.util.ArrayList([str(place) for place in range(40)])
    assert len(calls()) < 20


def test_settings_are_read_again_when_one_of_them_is_another(spark: SparkSession, calls: Calls) -> None:
    name = "spark.sql.shuffle.partitions"
    before = dict(settings_of(spark))
    calls()
    assert settings_of(spark) == before == spark.conf.getAll
    settings_of(spark)
    calls()
    settings_of(spark)
    assert len(calls()) < 5
    spark.conf.set(name, "7")
    try:
        assert settings_of(spark) == {**before, name: "7"}
    finally:
        spark.conf.set(name, before[name])
    assert settings_of(spark) == before
