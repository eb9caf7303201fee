"""The domain that keeps state, in which only some snapshots of the open cases are kept."""

from __future__ import annotations

from dataclasses import replace

from backfill_assets.domain import Domain, RetentionRule
from backfill_assets_tests.domains.states import due, moves
from backfill_assets_tests.domains.states import open_cases as with_every_snapshot

KEPT = RetentionRule(days=1, then="quarter")

open_cases = replace(with_every_snapshot, keep=KEPT)
due = replace(due, inputs={"cases": open_cases})

DOMAIN = Domain(name="kept", package="backfill_assets_tests.domains.kept", sources=(moves,), derived=(open_cases, due))
