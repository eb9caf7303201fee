"""Python processes of Spark: do functions find the code and the values there that a run was planned with?

A function of a module is imported there by its name, with the environment and the files of that process: those of a
Spark server that was started before, or of another machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from backfill_assets.domain.errors import CodeBroken

if TYPE_CHECKING:
    from pyarrow import RecordBatch


def require_same_in_workers(
    session: SparkSession, domain: str, table: str, version: str, *, planned: str, named: str
) -> None:
    """Refuses to compute where a Python process of Spark finds other code or other values; one of them is asked.

    Args:
        session: Where the rows are computed.
        domain: The module of the domain.
        table: The table.
        version: The release that computes it.
        planned: The digest of its code in the manifest.
        named: The function, for a refusal.

    Raises:
        CodeBroken: They differ.
    """
    found = _digest_in_worker(session, domain, table, version, planned)
    if found and found != planned:
        problem = (
            f"is other code, or finds other values of its names, in a Python process of Spark ({found[:12]}) than it "
            f"was planned with ({planned[:12]}): start Spark with the environment and the files of the plan"
        )
        raise CodeBroken(code=named, problem=problem)


@lru_cache(maxsize=16)
def _digest_in_worker(session: SparkSession, domain: str, table: str, version: str, planned: str) -> str:  # noqa: ARG001 - what is planned otherwise is asked again
    """The digest that a Python process of Spark finds; empty where it cannot import the domain, and no function by its
    name either."""

    def digests(_batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        import pyarrow as pa

        try:
            from backfill_assets.domain.domain import load_domain
            from backfill_assets.transforms.code import DomainCode

            loaded = load_domain(domain, conditions=False)
            found = DomainCode(domain=loaded).of(loaded.table(table), version).digest
        except Exception:  # noqa: BLE001 - of the author's modules, which fails again where a function is imported
            found = ""
        yield pa.RecordBatch.from_pydict({"digest": [found]})

    rows = session.range(1, numPartitions=1).mapInArrow(digests, "digest string").collect()
    return str(rows[0]["digest"])
