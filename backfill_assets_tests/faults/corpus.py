"""Which files would hurt a reader of landed files, and what has to become of every record in them?

Every file is made from a seed, and comes with what its author knows: which records are valid, under which key and with
which content, or that the file as a whole has to be refused. Nothing here asks the product anything.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from backfill_assets_tests.faults.corpus_json import (
    GZIP_KINDS,
    JSON_KINDS,
    gzip_file,
    json_file,
)
from backfill_assets_tests.faults.corpus_tables import (
    CSV_KINDS,
    PARQUET_KINDS,
    csv_file,
    parquet_file,
)
from backfill_assets_tests.faults.corpus_values import (
    Author,
    Hostile,
)

_MAKERS: Sequence[tuple[Callable[[str, Author, int], Hostile], Sequence[str]]] = (
    (json_file, JSON_KINDS),
    (csv_file, CSV_KINDS),
    (gzip_file, GZIP_KINDS),
    (parquet_file, PARQUET_KINDS),
)
KINDS: Sequence[tuple[Callable[[str, Author, int], Hostile], str]] = tuple(
    (make, kind) for make, kinds in _MAKERS for kind in kinds
)


def hostile_file(seed: int, number: int, count: int) -> Hostile:
    """The file of that number of a seed, with `count` records and some repetitions; kinds take turns."""
    make, kind = KINDS[number % len(KINDS)]
    author = Author(random.Random(f"{seed}/{number}"), prefix=f"f{number}-")
    return make(kind, author, count)
