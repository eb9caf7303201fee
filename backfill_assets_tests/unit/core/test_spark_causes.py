"""What stopped Spark at the root is found in a Java stack, in one line and without credentials."""

from __future__ import annotations

import pytest

from backfill_assets.core.spark_causes import innermost, root_cause

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


def test_without_a_cause_nothing_is_said() -> None:
    assert innermost("org.apache.spark.SparkException: Job aborted\n\tat somewhere") is None
    assert root_cause(ValueError("no Java")) is None
