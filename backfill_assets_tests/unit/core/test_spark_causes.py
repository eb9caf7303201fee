"""What stopped Spark at the root is found in a Java stack, in one line and without credentials."""

from __future__ import annotations

import pytest
from pyspark.errors.exceptions.connect import PythonException, SparkException

from backfill_assets.core.spark_causes import (
    WorkerError,
    innermost,
    recorded_reason,
    root_cause,
    spark_reason,
    stops_again,
    text_refused,
    worker_error,
)

STACK = """An error occurred while calling o1.save.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows.
\tat org.apache.spark.sql.Some.where(Some.scala:1)
Caused by: org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.Other.here(Other.scala:2)
Caused by: {root}
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 12 more
"""


@pytest.mark.parametrize(
    ("root", "said"),
    [
        ("java.io.IOException: File too large", "IOException: File too large"),
        ("java.lang.OutOfMemoryError", "OutOfMemoryError"),
        ("a.b.Refused: secretKey=hunter2 of ben", "Refused: secretKey=... of ben"),
        ("a.b.Refused: no way to s3://ben:hunter2@host/x", "Refused: no way to s3://host/x"),
        ("a.b.Refused: Token: hunter2", "Refused: Token: ..."),
        (f"a.b.Long: {'x' * 500}", f"Long: {'x' * 194}..."),
    ],
)
def test_the_last_cause_of_a_stack_is_said_in_one_line_without_credentials(root: str, said: str) -> None:
    assert innermost(STACK.format(root=root)) == said


@pytest.mark.parametrize(
    ("message", "said", "again", "text"),
    [
        (
            "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to return NULL instead. If necessary set "
            '"spark.sql.ansi.enabled" to "false" to bypass this error. SQLSTATE: 22012\n== DataFrame ==',
            "Division by zero. Use `try_divide` to return NULL instead. [DIVIDE_BY_ZERO]",
            True,
            None,
        ),
        (
            "[CAST_INVALID_INPUT] The value 'it's 7' of the type \"STRING\" is malformed. SQLSTATE: 22018",
            "The value 'it's 7' of the type \"STRING\" is malformed. [CAST_INVALID_INPUT]",
            True,
            "it's 7",
        ),
        (
            '[X_CONFIG] Cannot modify the value of the Spark config: "spark.driver.memory". SQLSTATE: 46110',
            'Cannot modify the value of the Spark config: "spark.driver.memory". [X_CONFIG]',
            False,
            None,
        ),
        ("[TASK_WRITE_FAILED] No writing. SQLSTATE: 58030", "No writing. [TASK_WRITE_FAILED]", False, None),
    ],
)
def test_advice_to_change_a_setting_is_cut_and_what_the_rows_are_stops_spark_again(
    message: str, said: str, again: bool, text: str | None
) -> None:
    error = SparkException(message)
    assert (spark_reason(error), stops_again(error), text_refused(error)) == (said, again, text)


def test_without_a_cause_nothing_is_said() -> None:
    assert innermost("org.apache.spark.SparkException: Job aborted\n\tat somewhere") is None
    assert root_cause(ValueError("no Java")) is None


def test_a_server_of_spark_connect_says_what_python_raised_in_its_worker() -> None:
    text = """
  An exception was thrown from the Python worker. Please see the stack trace below.
[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/srv/shop/prices.py", line 9, in price
    return {"Rome": 1}[shop]
           ~~~~~~~~~~~^^^^^^
KeyError: 'Turin'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/shop/prices.py", line 11, in price
    raise PriceError(f"no price in {shop}.\\nAsk for it.")
  File "pyarrow/table.pxi", line 1718, in pyarrow.lib._Tabular.__getitem__
shop.prices.PriceError: no price in Turin.
Ask for it.
 SQLSTATE: 38000"""
    error = PythonException(message=text)
    assert worker_error(error) == WorkerError(
        kind="shop.prices.PriceError",
        said="shop.prices.PriceError: no price in Turin",
        places=(("/srv/shop/prices.py", 9), ("/srv/shop/prices.py", 11)),
    )
    assert spark_reason(error) == "shop.prices.PriceError: no price in Turin"
    assert recorded_reason(error) == "shop.prices.PriceError (its message is shown where the run was started)"
