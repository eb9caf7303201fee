"""Words that differ by kind of change, a row for each kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backfill_assets.planning.kinds.append import Append
from backfill_assets.planning.kinds.change import Change
from backfill_assets.planning.kinds.expire import Expire
from backfill_assets.planning.kinds.load import Load
from backfill_assets.planning.kinds.merge import Merge
from backfill_assets.planning.kinds.pilot import Pilot
from backfill_assets.planning.kinds.replace import Replace

NOTHING_FOLLOWS = (
    "what was computed from these snapshots stays as it is, and cannot be computed again while they have expired"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeWords:
    """What pages say of a change."""

    #: What computes the rows of a run, with the `release`.
    computed_by: str = "release {release}"
    #: What readers see of partitions once they are swapped.
    published: str = "readers see the new rows"
    #: What readers saw of a version.
    seen: str = "readers saw it"
    #: What its commit does, with the `partitions` and the `table`; empty where the report says it by its rows.
    swap: str = ""
    #: The dependents where there are none.
    no_dependents: str = "none"


_ROWS_CHANGE = ChangeWords()

WORDS: Mapping[type[Change], ChangeWords] = {
    Append: _ROWS_CHANGE,
    Expire: ChangeWords(
        computed_by="expiry of snapshots",
        published="readers no longer see these rows",
        seen="readers saw no rows",
        swap=(
            "One commit removes the files of {partitions} of {table}; a rollback of this run restores exactly these. "
            "Tables that were computed from them stay as they are."
        ),
        no_dependents=NOTHING_FOLLOWS,
    ),
    Load: _ROWS_CHANGE,
    Merge: _ROWS_CHANGE,
    Pilot: _ROWS_CHANGE,
    Replace: _ROWS_CHANGE,
}
