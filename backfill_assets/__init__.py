"""Backfills as controlled production changes: deterministic recomputation, bounded mutation, evidence.

A published partition is a claim: these rows follow from these inputs, this code, this configuration and this reference
data. A backfill replaces claims, so it is treated as a build. In the order of the data's way:

- `domain`        what an author declares: tables, windows, gates, releases of a transform. The only seam for users.
- `landing`       raw files come in as they are; the import ledger counts every record; bronze is built from them.
- `planning`      what a change touches, as a manifest that somebody can approve. Pure.
- `ledger`        what was agreed and what happened: manifests, states, hash-chained events, partition versions.
- `transforms`    calls the author's function over exactly the pinned inputs, and stages what it returns.
- `lake`          the only room that knows Delta: snapshots, staged files, the swap.
- `gates`         what a candidate must satisfy, measured on the files as they were written.
- `publication`   publish, roll back, recover: the ledger and the swap brought together.
- `evidence`      what a reviewer and an auditor read.
- `orchestration` Dagster's assets, checks, jobs and sensor, derived from the domain.

`operations` is what all of this offers to people and orchestrators; `cli` and `orchestration` call nothing else.
"""
