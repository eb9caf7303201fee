"""What is compared at once: every partition, in order, in groups that are not larger than this process should hold."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.candidates.compare import GROUP_BYTES, GROUP_ROWS, groups_of
from backfill_assets.core.identity import DataFile, FileSet

FIRST = date(2024, 1, 1)
sizes = st.tuples(st.integers(0, 2 * GROUP_BYTES), st.integers(0, 2 * GROUP_ROWS))


def side(found: list[tuple[int, int] | None]) -> Mapping[date, FileSet]:
    return {
        FIRST + timedelta(days=day): FileSet.of([DataFile(path=f"{day}", size_bytes=each[0], sha256="", rows=each[1])])
        for day, each in enumerate(found)
        if each is not None
    }


@given(st.lists(st.none() | sizes, max_size=12), st.lists(st.none() | sizes, max_size=12))
def test_groups_are_all_partitions_in_order_and_larger_than_allowed_only_alone(
    staged: list[tuple[int, int] | None], accepted: list[tuple[int, int] | None]
) -> None:
    new, old = side(staged), side(accepted)
    partitions = sorted({*new, *old})
    groups = list(groups_of(partitions, new, old))
    assert [partition for group in groups for partition in group] == partitions

    def total(group: list[date], which: str) -> int:
        return sum(getattr(each[p], which) for each in (new, old) for p in group if p in each)

    for group in groups:
        if len(group) > 1:
            assert total([*group], "rows") <= GROUP_ROWS
            assert total([*group], "size_bytes") <= GROUP_BYTES
    for group, after in pairwise(groups):
        joined = [*group, after[0]]
        assert total(joined, "rows") > GROUP_ROWS or total(joined, "size_bytes") > GROUP_BYTES
