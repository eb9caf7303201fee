"""Documents and pages of publications, from a ledger without a table behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from io import StringIO

import pytest
from rich.console import Console

from backfill_assets.cli.terminal import show
from backfill_assets.core.clock import Clock
from backfill_assets.core.settings import Settings
from backfill_assets.report.documents import as_json
from backfill_assets.report.publications import PublicationDocument, publication_documents, published_page
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains.example import DOMAIN
from backfill_assets_tests.support.ledger_examples import DAYS, make_publishable, publish

FORTY = [DAYS[0] + timedelta(days=place) for place in range(40)]


@pytest.fixture
def ws(settings: Settings, clock: Clock) -> Iterator[Workspace]:
    settings.home.mkdir(parents=True)
    with closing(Workspace(settings=settings, domain=DOMAIN, clock=clock)) as opened:
        yield opened


def published(ws: Workspace, run_id: str) -> PublicationDocument:
    with ws.ledger.read() as tx:
        return publication_documents(ws, tx, tx.publications.headers(run_id=run_id))[0]


def drawn(document: PublicationDocument) -> str:
    shown = StringIO()
    show(Console(file=shown, width=200), published_page(document))
    return shown.getvalue()


def test_a_publication_with_a_gap_says_how_many_partitions_between_its_ends_it_leaves_as_before(ws: Workspace) -> None:
    chosen = [*FORTY[:30], *FORTY[31:]]
    make_publishable(ws.ledger, "bf-1", days=chosen)
    publish(ws.ledger, "bf-1", days=chosen)
    document = published(ws, "bf-1")
    assert as_json(document)["untouched_count"] == 1
    assert "2024-10-01..2024-11-09, 39 days swapped, 1 day between them left as before, 117 rows" in drawn(document)


def test_a_publication_without_a_gap_says_nothing_of_others(ws: Workspace) -> None:
    make_publishable(ws.ledger, "bf-1", days=FORTY)
    publish(ws.ledger, "bf-1", days=FORTY)
    assert as_json(published(ws, "bf-1"))["untouched_count"] == 0
    assert "40 days swapped, 120 rows" in drawn(published(ws, "bf-1"))
