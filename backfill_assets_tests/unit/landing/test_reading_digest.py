"""Digests of how files are read: each decoder has a version of its own, and what nobody has chosen is no choice."""

from __future__ import annotations

import pytest

from backfill_assets.domain import Csv
from backfill_assets.landing import reading_digest as digests
from backfill_assets.landing.reading_digest import reading_digest
from backfill_assets_tests.support.declared import source


@pytest.mark.parametrize(("version", "is_plain"), [("PLAIN_VERSION", True), ("DECODER_VERSION", False)])
def test_a_decoder_that_reads_otherwise_is_another_reading_of_its_files_alone(
    monkeypatch: pytest.MonkeyPatch, version: str, is_plain: bool
) -> None:
    plain, dialect = source(), source(reads=Csv(delimiter=";"))
    before = [reading_digest(plain), reading_digest(dialect)]
    monkeypatch.setattr(digests, version, 99)
    after = [reading_digest(plain), reading_digest(dialect)]
    assert [one != other for one, other in zip(before, after, strict=True)] == [is_plain, not is_plain]


def test_a_dialect_is_what_its_author_has_chosen_of_it() -> None:
    assert reading_digest(source(reads=Csv(delimiter=";"))) == reading_digest(
        source(reads=Csv(delimiter=";", quote='"'))
    )
    assert reading_digest(source(reads=Csv(delimiter=";"))) != reading_digest(source(reads=Csv(delimiter="|")))
