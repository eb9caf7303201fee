"""Left behind: days beside a restatement that keep rows of another release, for reports of what is not published."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.graph import Graph
from backfill_assets.planning.impact import dependents_of
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED
from backfill_assets.planning.partitions import Grain, compress, describe, next_partition
from backfill_assets.report.changed_inputs import UNDECIDED
from backfill_assets.report.releases import in_order, releases_of
from backfill_assets.report.requests import NAME, WHY, Act, NextStep, do, step


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """Partitions next to those that a run restates, whose rows stay as another release computed them.

    Attributes:
        releases: That release, or several, the earliest first.
        partitions: In how many partitions.
        described: The same partitions in words.
        sentence: All of it in words, with the dependents that read days on both sides of the border.
        next_step: How they are restated too.
    """

    releases: tuple[str, ...]
    partitions: int
    described: str
    sentence: str
    next_step: NextStep


Accepted = Callable[[str, Sequence[date]], Collection[date]]
"""Those of some partitions of a table that have accepted rows."""


def left_behind(
    graph: Graph, tx: ReadTransaction, run: RunRecord, replaced: Mapping[date, str]
) -> tuple[LeftBehind, ...]:
    """The stretches that a run which brings another release leaves behind on its borders, in order.

    Args:
        graph: The tables and their windows.
        tx: The ledger.
        run: The run; nothing is left behind by one that was published, or never will be.
        replaced: The release of the accepted rows that it replaces, by partition.
    """
    manifest = run.manifest
    brings_another = any(release != manifest.transform_version for release in replaced.values())
    if run.state not in UNDECIDED or manifest.mode in NEVER_PUBLISHED or not brings_another:
        return ()
    others = tx.versions.makers(manifest.table)
    for partition in _restated_together(tx, run):
        others.pop(partition, None)
    other_releases = {p: r for p, r in releases_of(tx, others).items() if r != manifest.transform_version}
    return beside(graph, manifest, other_releases, lambda table, some: tx.versions.claims(table, some).keys())


def beside(graph: Graph, manifest: Manifest, others: Mapping[date, str], accepted: Accepted) -> tuple[LeftBehind, ...]:
    """The stretches of other releases that border on a run. Pure, but for what is accepted.

    Args:
        graph: The tables and their windows.
        manifest: The run's contract.
        others: The releases of accepted partitions that are not restated with it, other than its own.
        accepted: What dependents hold.
    """
    grain, found = manifest.grain, []
    own = set(manifest.partitions)
    after = {next_partition(grain, partition) for partition in own}
    for stretch in compress(grain, others):
        partitions = [p for p in others if p in stretch]
        if after.intersection(partitions) or any(next_partition(grain, p) in own for p in partitions):
            mixed = tuple(_on_both_sides(graph, manifest, partitions, accepted))
            found.append(_stretch(manifest, grain, {p: others[p] for p in partitions}, mixed))
    return tuple(found)


def _on_both_sides(graph: Graph, manifest: Manifest, others: Sequence[date], accepted: Accepted) -> Iterator[str]:
    """What dependents compute from partitions of the run and of a stretch together, in words."""
    if manifest.table not in graph.tables:
        return
    own = {each.table: each for each in dependents_of(graph, manifest.table, manifest.partitions)}
    for each in dependents_of(graph, manifest.table, others):
        both = set(each.partitions).intersection(own[each.table].partitions) if each.table in own else set()
        if mixed := accepted(each.table, sorted(both)) if both else ():
            yield f"{each.table}, {describe(each.grain, mixed)}"


def _stretch(manifest: Manifest, grain: Grain, others: Mapping[date, str], mixed: Collection[str]) -> LeftBehind:
    releases, described = in_order(others), describe(grain, others)
    (days,) = compress(grain, others)
    return LeftBehind(
        releases=releases,
        partitions=len(others),
        described=described,
        sentence=f"{described} of {manifest.table} border on this run and stay as release {' and '.join(releases)} "
        "computed them: across that border values can differ only because the rules do"
        + (f", and what reads both sides of it mixes both releases: {'; '.join(mixed)}" if mixed else ""),
        next_step=step(
            do(
                Act.PLAN,
                manifest.table,
                first=days.start,
                last=days.last,
                transform_version=manifest.transform_version,
                reason=WHY,
                by=NAME,
            )
        ),
    )


def _restated_together(tx: ReadTransaction, run: RunRecord) -> frozenset[date]:
    """The partitions of the run, and of the runs of its set on the same table."""
    found = tx.sets.of_run(run.run_id)
    members = found.manifest.members if found else ()
    runs = tx.runs.named([member.run_id for member in members if member.table == run.manifest.table])
    return frozenset(run.manifest.partitions).union(*(other.manifest.partitions for other in runs))
