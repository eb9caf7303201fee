"""A privilege that PostgreSQL refused is named with its object, and with the statement that grants it."""

from __future__ import annotations

import pytest

from backfill_assets.core.privileges import missing_grant


@pytest.mark.parametrize(
    ("said", "statement", "grant"),
    [
        ("permission denied for table runs", "SELECT 1 FROM runs", 'GRANT SELECT ON "runs" TO "ana"'),
        (
            "permission denied for table runs",
            "UPDATE runs SET state = %s WHERE run_id = %s",
            'GRANT SELECT, UPDATE ON "runs" TO "ana"',
        ),
        (
            "permission denied for table leases",
            "INSERT INTO leases VALUES (1) ON CONFLICT (work_id) DO UPDATE SET x = 1",
            'GRANT INSERT, UPDATE ON "leases" TO "ana"',
        ),
        (
            "permission denied for table head",
            "SELECT hash FROM head FOR UPDATE",
            'GRANT SELECT, UPDATE ON "head" TO "ana"',
        ),
        ("permission denied for table Weird Name", "SELECT 1", 'GRANT SELECT ON "Weird Name" TO "ana"'),
        ("permission denied for table order", "SELECT 1", 'GRANT SELECT ON "order" TO "ana"'),
        (
            "permission denied for table runs",
            "WITH a AS ( SELECT 1 ) DELETE FROM runs",
            'GRANT DELETE, SELECT ON "runs" TO "ana"',
        ),
        (
            "permission denied for schema public",
            "CREATE TABLE runs (a int)",
            'GRANT CREATE ON SCHEMA "public" TO "ana"',
        ),
        ("permission denied for schema shop", "SELECT 1", 'GRANT USAGE ON SCHEMA "shop" TO "ana"'),
        ("permission denied for sequence runs_seq", "INSERT INTO runs", 'GRANT USAGE ON SEQUENCE "runs_seq" TO "ana"'),
    ],
)
def test_the_grant_names_the_privilege_and_the_object(said: str, statement: str, grant: str) -> None:
    assert missing_grant(said, "ana", statement) == f"; its owner can {grant}"


def test_a_refusal_that_names_no_object_has_no_grant() -> None:
    assert missing_grant("must be owner of table sales", "ana") == ""


def test_a_role_that_is_no_plain_word_is_quoted() -> None:
    assert missing_grant("permission denied for table runs", "my-role").endswith('TO "my-role"')
