"""Python processes of Spark: do functions find the code and the values there that a run was planned with?

A function of a module is imported there by its name, with the environment and the files of that process: those of a
Spark server that was started before, or of another machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from backfill_assets.domain import Domain
from backfill_assets.domain.domain import is_named
from backfill_assets.domain.errors import CodeBroken

if TYPE_CHECKING:
    from pyarrow import RecordBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """The part of a domain that a Python process of Spark needs: the name of its module, or, for one that no module
    declares as `DOMAIN`, the domain itself. The digest that was planned tells two of them apart."""

    module: str
    domain: Domain | None = field(compare=False)


def require_same_in_workers(
    session: SparkSession,
    domain: Domain,
    module: str,
    table: str,
    version: str = "",
    *,
    gate: str = "",
    planned: str,
    named: str,
) -> None:
    """Refuses to compute where a Python process of Spark finds other code or other values; one of them is asked.

    Args:
        session: Where the rows are computed.
        domain: The domain.
        module: The module that the settings name.
        table: The table.
        version: The release that computes it; empty for a gate.
        gate: The gate of the table that is measured; empty for a release.
        planned: The digest of its code in the manifest.
        named: The function, for a refusal.

    Raises:
        CodeBroken: They differ.
    """
    sent = _Sent(module=module, domain=None if is_named(domain, module) else domain)
    found = _digest_in_worker(session, sent, table, version, gate, planned)
    if found and found != planned:
        problem = (
            f"is other code, or finds other values of its names, in a Python process of Spark ({found[:12]}) than it "
            f"was planned with ({planned[:12]}): start Spark with the environment and the files of the plan"
        )
        raise CodeBroken(code=named, problem=problem)


@lru_cache(maxsize=16)
def _digest_in_worker(session: SparkSession, sent: _Sent, table: str, version: str, gate: str, planned: str) -> str:  # noqa: ARG001 - what is planned otherwise is asked again
    """The digest that a Python process of Spark finds; empty where it cannot import the domain, and no function by its
    name either."""

    def digests(_batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        import pyarrow as pa

        try:
            from importlib import import_module

            from backfill_assets.domain.domain import load_domain
            from backfill_assets.transforms.code import DomainCode
            from backfill_assets.transforms.statements import functions_of_gates

            loaded = sent.domain or load_domain(sent.module, conditions=False)
            there = loaded.table(table)
            functions = [each.function for each in getattr(there, "releases", ())]
            # A function that was sent finds the values of its names in its module, which has to be imported.
            for each in (*functions, *functions_of_gates(there).values()):
                import_module(each.__module__)
            code = DomainCode(domain=loaded)
            found = (code.of_gates(there)[gate] if gate else code.of(there, version)).digest
        except Exception:  # noqa: BLE001 - of the author's modules, which fails again where a function is imported
            found = ""
        yield pa.RecordBatch.from_pydict({"digest": [found]})

    rows = session.range(1, numPartitions=1).mapInArrow(digests, "digest string").collect()
    return str(rows[0]["digest"])
