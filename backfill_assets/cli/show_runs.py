"""Terminal views of a run, its report and its publications."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from backfill_assets.cli.show import facts, listing, state_and_meaning, state_text
from backfill_assets.core.wording import visible
from backfill_assets.ledger.records import ApprovalGrounds, FailingKey, SampledRow
from backfill_assets.ledger.states import EVER_PUBLISHED, RunState
from backfill_assets.planning.manifest_parts import ALWAYS_SWAPPED, Mode
from backfill_assets.planning.partitions import Grain, count_of, partition_text
from backfill_assets.report.changed_inputs import InputMovedOn
from backfill_assets.report.matrices import states_in_words
from backfill_assets.report.measured import GateSummary, Moves
from backfill_assets.report.mixed_releases import LeftBehind
from backfill_assets.report.publications import PublicationDocument
from backfill_assets.report.releases import LaterRelease
from backfill_assets.report.report import RunReport, RunVersions
from backfill_assets.report.runs import RunSummary

_MOST_PARTITIONS = 40
_MOST_MOVED = 10
_MOST_ROWS = 6
_MOST_RUNS = 4
_SPECIAL_MODES = {
    Mode.DRY_RUN: "DRY_RUN: staged and gated, never published",
    Mode.RECONCILIATION: "RECONCILIATION: recomputes what is published and reports every difference; publishes nothing",
}


def run_view(run: RunSummary) -> RenderableType:
    """One run in a few lines."""
    return facts(_run_facts(run, approval_text(run, None), None))


def report_head_view(report: RunReport) -> RenderableType:
    """The run of a report in a few lines."""
    policy = report.policy.sentence
    return facts(_run_facts(report.run, approval_text(report.run, report.approved_for), policy))


def _run_facts(run: RunSummary, approval: str, policy: str | None) -> list[tuple[str, object]]:
    return [
        ("run", run.run_id),
        ("state", state_and_meaning(run.state, run.meaning)),
        ("note", run.note),
        ("approval", approval),
        ("table", f"{run.table} by {run.transform} {run.transform_version}"),
        ("partitions", run.partitions_described),
        ("references", run.references_described),
        ("kind", f"{run.kind}: {run.reason} (asked by {run.requested_by})"),
        ("mode", mode_text(run.mode)),
        ("policy", policy),
        ("set", run.set_id),
        ("next", run.next_step),
    ]


def mode_text(mode: Mode) -> str | None:
    """What a mode keeps a run from; None for those that are published."""
    return _SPECIAL_MODES.get(mode)


def approval_text(run: RunSummary, grounds: ApprovalGrounds | None) -> str:
    """Who approved, and in which groups that person may."""
    if not run.approved_by:
        was_withdrawn = run.state is RunState.ROLLED_BACK
        return f"DRAFT: {'the rollback withdrew the approval' if was_withdrawn else 'no other person has agreed yet'}"
    groups = f", for {', '.join(grounds.groups)} (approvers.yaml {grounds.approvers_version})" if grounds else ""
    return f"APPROVED by {run.approved_by}{groups}"


def run_ids_text(run_ids: Sequence[str]) -> str:
    """Some runs in a line."""
    more = len(run_ids) - _MOST_RUNS
    return ", ".join([*run_ids[:_MOST_RUNS], *([f"and {more:,} more"] if more > 0 else [])])


def versions_text(versions: RunVersions) -> str:
    """What a run was staged with, or at least planned with."""
    known = versions.staged or versions.planned
    return ", ".join(f"{name} {version}" for name, version in sorted(known.items()))


def report_view(report: RunReport) -> RenderableType:
    """The report a reviewer reads: what moves, which checks passed, what some rows look like."""
    parts: list[RenderableType] = [
        report_head_view(report),
        "",
        *backwards((*report.goes_back, *report.moved_on, *report.left_behind)),
    ]
    if report.totals:
        parts += [_verdict(report), "", _moves(report, report.totals), ""]
    if report.changed_columns:
        changed = ", ".join(f"{name} {count:,}" for name, count in report.changed_columns.items())
        parts += [facts([("rows that differ, by column", changed)]), ""]
    if states := states_in_words(report.state_moves):
        parts += [facts([("from which state to which", "; ".join(states))]), ""]
    recorded = facts([("supersedes", run_ids_text(report.supersedes)), ("versions", versions_text(report.versions))])
    parts += [recorded, ""]
    if report.sample:
        parts += [sample_view(report.sample), ""]
    if erased := report.samples_erased:
        parts += [facts([("rows", f"erased by {erased.by}: {erased.reason}")]), ""]
    parts.append(_gates(report.gates))
    if report.failing_keys:
        parts += ["", _failing_keys(report)]
    if report.publications:
        parts += ["", publications_view(report.publications)]
    return Group(*parts)


def backwards(found: Sequence[LaterRelease | InputMovedOn | LeftBehind]) -> list[RenderableType]:
    """A line for everything that a plan or a run would go back behind; nothing when it goes forward."""
    lines: list[RenderableType] = [Text(f"{each.sentence}.", style="bold yellow") for each in found]
    return [*lines, ""] if lines else []


def _verdict(report: RunReport) -> Text:
    """In one line: how much of it differs from what readers see, and what that means in this mode."""
    measured, equal = len(report.partitions), report.equal_partitions or 0
    empty = report.new_empty_partitions or 0
    differing = measured - equal - empty
    if report.run.mode is Mode.RECONCILIATION:
        if not differing:
            return Text(f"no drift: all {count_of(measured, 'partition')} equal what is published", style="green")
        return Text(f"drift: {differing:,} of {count_of(measured, 'partition')} differ from what is published", "red")
    is_past = report.run.state in EVER_PUBLISHED
    swapped, stay = ("were swapped", "stayed as they were") if is_past else ("would be swapped", "stay as they are")
    if report.run.kind in ALWAYS_SWAPPED:
        again = f"; {equal:,} of them with the rows that are accepted already" if equal else ""
        return Text(f"all {count_of(measured, 'partition')} {swapped}{again}")
    new = f"; {empty:,} are new and have no rows" if empty else ""
    stays = f"; {equal:,} equal the accepted rows and {stay}" if equal else ""
    return Text(f"{differing:,} of {count_of(measured, 'partition')} {swapped}{new}{stays}")


def _moves(report: RunReport, totals: Moves) -> RenderableType:
    title, shown = "compared with the accepted rows", list(report.partitions)
    if len(shown) > _MOST_PARTITIONS:
        title += f" (the {_MOST_MOVED} of {len(shown):,} partitions that move most; --json has all)"
        ranked = sorted(shown, key=lambda part: -part.moves.differing)[:_MOST_MOVED]
        shown = sorted(ranked, key=lambda part: part.partition)
    rows = [_counts(partition_text(_grain(report), part.partition), part.moves) for part in shown]
    heads = ["partition", "rows", "accepted", "added", "removed", "changed", "unchanged"]
    return listing(title, heads, [*rows, _counts("all", totals)], numbers=heads[1:])


def _grain(report: RunReport) -> Grain:
    return Grain(report.manifest["target"]["grain"])


def _counts(name: str, moves: Moves) -> list[object]:
    return [name, moves.rows, moves.accepted_rows, moves.added, moves.removed, moves.changed, moves.unchanged]


def sample_view(sample: Sequence[SampledRow]) -> RenderableType:
    """Some rows before and after, one line per value that differs."""
    rows = [line for row in sample[:_MOST_ROWS] for line in _sampled(row)]
    return listing("some rows, before and after", ["key", "column", "before", "after"], rows)


def _sampled(row: SampledRow) -> list[list[object]]:
    key = _key_text(row)
    if row.before is None or row.after is None:
        return [[key, "(added)" if row.before is None else "(removed)", "", ""]]
    pairs = [(name, before, row.after[name]) for name, before in row.before.items() if before != row.after[name]]
    return [
        ["" if place else key, name, _value(before), _value(after)] for place, (name, before, after) in enumerate(pairs)
    ]


def _value(value: str | None) -> str:
    return "null" if value is None else value


def _key_text(row: SampledRow | FailingKey) -> str:
    return ", ".join(str(value) for value in row.key.values())


def _failing_keys(report: RunReport) -> RenderableType:
    grain = _grain(report)
    rows = [[row.gate, partition_text(grain, row.partition), _key_text(row)] for row in report.failing_keys]
    return listing("keys of rows that fail", ["gate", "partition", "key"], rows)


def _gates(gates: Sequence[GateSummary]) -> RenderableType:
    rows = [
        [
            gate.gate,
            Text(gate.outcome, style=_gate_style(gate)),
            "blocks" if gate.blocking else "informs",
            gate.first_failure or gate.demands,
        ]
        for gate in gates
    ]
    return listing("gates", ["gate", "verdict", "on failure", "demands, or the first failure"], rows)


def _gate_style(gate: GateSummary) -> str:
    if gate.failed_partitions:
        return "red" if gate.blocking else "yellow"
    return "green" if gate.passed_partitions else "dim"


def publications_view(publications: Sequence[PublicationDocument]) -> RenderableType:
    """Swaps in the order they happened, two lines each: the ids in them are copied, so no table may break them."""
    parts: list[RenderableType] = [Text("publications", style="bold")]
    for each in publications:
        parts += [
            Text.assemble(
                f"{each.started_at.isoformat()[:19]}  {each.action}",
                visible(f" by {each.by}"),
                *_since(each),
                visible(f": {each.reason}"),
            ),
            Text(f"    {each.table} {_swapped(each)}; table version {each.delta_version}; run {each.run_id}"),
        ]
    return Group(*parts)


def _since(publication: PublicationDocument) -> tuple[str | Text, ...]:
    """What has become of it, where that is not what its action says."""
    return () if publication.state == "PUBLISHED" else (" (", state_text(publication.state), ")")


def _swapped(publication: PublicationDocument) -> str:
    if publication.from_ is None:
        return "as it was: nothing had been swapped"
    equal = f", {publication.verified_count:,} verified as equal" if publication.verified_count else ""
    empty = f", {publication.new_empty_count:,} recorded as empty" if publication.new_empty_count else ""
    swapped = f"{count_of(publication.partition_count, 'partition')} swapped{empty}{equal}"
    return f"{publication.from_}..{publication.to}, {swapped}, {count_of(publication.rows, 'row')}"
