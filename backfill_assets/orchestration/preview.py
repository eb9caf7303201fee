"""Preview and beta features of Dagster that this package uses.

- `BackfillPolicy.single_run()`: one run over a range of partitions (beta).
- `AssetCheckSpec(partitions_def=...)`: a check status per partition (preview).
- `TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)`: windows at the edges of history (beta).

Tests hold Dagster to each of them, so its warnings would only hide others.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from dagster import BetaWarning, PreviewWarning


@contextmanager
def relied_upon() -> Iterator[None]:
    """Definitions made inside do not warn about the features above."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BetaWarning)
        warnings.simplefilter("ignore", PreviewWarning)
        yield
