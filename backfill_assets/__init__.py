"""Backfills as controlled production changes: deterministic recomputation, bounded mutation, evidence.

A published partition is a claim: these rows follow from these inputs, this code, this configuration and this reference
data. A backfill replaces claims, so it is treated as a build. The rooms, from values to requests, each of which imports
only rooms above it in this list:

- `core`          errors, ids, settings, clock, leases, people, sessions of Spark.
- `planning`      what a change touches, as a manifest that a person can approve, and its stages. Pure.
- `files`         folders and object stores, by one port.
- `capture`       a bounded range of a source becomes landed files.
- `domain`        what an author declares: tables, windows, gates, releases of a transform. The only seam for authors.
- `lake`          the only room that uses Delta: snapshots, staged files, the swap.
- `ledger`        what was approved and what happened: manifests, states, hash-chained events, partition versions.
- `landing`       raw files are archived unchanged; the import ledger counts every record; bronze is built from them.
- `transforms`    how an author's function is called, and what identifies its code and its references.
- `gates`         the conditions of a candidate, measured in its files, and the judgement.
- `workspace`     the composition root: settings, domain, ledger, lake, clock and Spark of one process.
- `candidates`    from a manifest to staged rows that are measured and proven, and not yet visible to readers.
- `staleness`     which published partitions are out of date, and why.
- `publication`   authority, verdict, publish, roll back: combines the ledger and the swap.
- `restatements`  several runs that are planned, approved, published and undone together.
- `deliver`       records replayed to topics.
- `upkeep`        what is kept, removed, audited and reproduced.
- `report`        documents, words and pages: what a reviewer and an auditor read.
- `application`   every request, of the command line and of Dagster.
- `orchestration` Dagster's assets, checks, jobs and sensors, from the domain; beside it `cli`, `desk` and `testing`.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_OF_DAGSTER = {"ASSETS": "build", "BackfillDomain": "component", "build_definitions": "build"}
"""What other projects of Dagster use, and its module in `orchestration`."""


def __getattr__(name: str) -> Any:
    if name not in _OF_DAGSTER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # When it is asked for: commands start without Dagster, and every module imports this one.
    return getattr(import_module(f"{__name__}.orchestration.{_OF_DAGSTER[name]}"), name)


def __dir__() -> list[str]:
    """Dagster lists the components of a package by it."""
    return sorted([*globals(), *_OF_DAGSTER])
