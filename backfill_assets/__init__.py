"""Backfills as controlled production changes: deterministic recomputation, bounded mutation, evidence.

A published partition is a claim: these rows follow from these inputs, this code, this configuration and this reference
data. A backfill replaces claims, so it is treated as a build. The rooms, from what is declared to who asks; each
imports only rooms above it in this list:

- `planning`      what a change touches, as a manifest that a person can approve, and its stages. Pure.
- `domain`        what an author declares: tables, windows, gates, releases of a transform. The only seam for users.
- `lake`          the only room that knows Delta: snapshots, staged files, the swap.
- `ledger`        what was agreed and what happened: manifests, states, hash-chained events, partition versions.
- `landing`       raw files come in as they are; the import ledger counts every record; bronze is built from them.
- `transforms`    how an author's function is called, and what identifies its code and its references.
- `gates`         what a candidate must satisfy, measured in one pass, and the judgement.
- `workspace`     the composition root: settings, domain, ledger, lake, clock and Spark of one process.
- `candidates`    from a manifest to staged rows that are measured and proven, and not yet visible to readers.
- `staleness`     which published partitions no longer follow from what is there now, and why.
- `publication`   authority, verdict, publish, roll back, follow: the ledger and the swap brought together.
- `restatements`  several runs that are planned, approved, published and undone together.
- `upkeep`        what is kept, removed, audited and reproduced.
- `evidence`      the documents that a reviewer and an auditor read.
- `application`   what can be asked for: the only way in.
- `orchestration` Dagster's assets, checks, jobs and sensor, derived from the domain; beside it `cli`, the command.
"""
