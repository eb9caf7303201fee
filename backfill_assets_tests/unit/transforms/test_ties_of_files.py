"""Ties are told from a plan over files as from one over known rows, though Spark writes their columns otherwise."""

from __future__ import annotations

import pytest

from backfill_assets.transforms.ties import ties_in

PLAN = """
Project [event_id#4, at#5, event_date#6, place#9L]
+- Window [count(event_id#4) windowspecdefinition(at#5 ASC NULLS FIRST{more}, \
specifiedwindowframe(RowFrame, unboundedpreceding$(), -1)) AS place#9L], [at#5 ASC NULLS FIRST{more}]
   +- Project [event_id#4, at#5, event_date#6]
      +- SubqueryAlias `input events`
         +- Project [event_id#4, at#5, event_date#6]
            +- {source}
"""
FILES = "Relation [event_id#4,at#5,event_date#6] parquet"
KNOWN = "LocalRelation <empty>, [event_id#4, at#5, event_date#6]"


@pytest.mark.parametrize("source", [FILES, KNOWN], ids=["files", "known rows"])
@pytest.mark.parametrize(("more", "ties"), [(", event_id#4 ASC NULLS FIRST", 0), ("", 1)], ids=["total", "tied"])
def test_the_key_of_an_input_decides_in_a_window_over_files_too(source: str, more: str, ties: int) -> None:
    plan = PLAN.format(more=more, source=source).lstrip("\n")
    assert len(ties_in(plan, {"input events": ("event_id",)})) == ties
