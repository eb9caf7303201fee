"""Terminal views of the status of everything, and of landed files."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from backfill_assets.cli.show import facts, listing, problems_view, state_text
from backfill_assets.core.wording import visible
from backfill_assets.ledger.states import EVER_PUBLISHED, ApprovalState, SetState
from backfill_assets.report.command_line import words_of
from backfill_assets.report.follow import waiting_publication_sentence
from backfill_assets.report.imports import ImportDocument
from backfill_assets.report.open_proposals import open_proposal_sentence
from backfill_assets.report.runs import RunSummary
from backfill_assets.report.sets import SetDocument
from backfill_assets.report.status import StatusDocument, TableStatus
from backfill_assets.report.stuck import stuck_sentence

_OPEN_SETS = (SetState.PLANNED, SetState.PUBLISHING, SetState.ROLLING_BACK)


def status_view(status: StatusDocument) -> RenderableType:
    """What there is, what waits, and for whom."""
    parts: list[RenderableType] = [facts([("home", status.home)]), "", _tables(status.tables), "", _runs(status.runs)]
    if status.sets:
        parts += ["", _sets(status.sets)]
    parts += _next(status)
    if status.proposals:
        named = (Text(visible(words_of(open_proposal_sentence(each)))) for each in status.proposals)
        parts += ["", Text("proposed restatements that are open", style="bold"), *named]
    if status.imports:
        parts += ["", imports_view(status.imports)]
    if status.to_follow:
        lines = (visible(words_of(waiting_publication_sentence(each))) for each in status.to_follow)
        parts += ["", Text("publications that are not followed by their dependents yet", style="bold"), *lines]
    if status.stuck:
        given_up = (Text(visible(words_of(stuck_sentence(each)))) for each in status.stuck)
        parts += ["", Text("what sensors have given up", style="bold red"), *given_up]
    return Group(*parts, *problems_view(status.problems))


def _tables(tables: Sequence[TableStatus]) -> RenderableType:
    rows = [[table.table, table.accepted_described, table.accepted_rows] for table in tables]
    return listing("tables", ["table", "accepted partitions", "rows"], rows, numbers=["rows"])


def _runs(runs: Sequence[RunSummary]) -> RenderableType:
    # The id of a run begins with the name of its table.
    rows = [[run.run_id, run.kind, run.partitions_described, state_text(run.state), run.approval] for run in runs]
    return listing("runs, newest first", ["run", "kind", "partitions", "state", "approval"], rows)


def _sets(sets: Sequence[SetDocument]) -> RenderableType:
    rows = [
        [
            each.set_id if each.name == each.set_id else f"{each.set_id} ({each.name})",
            each.because,
            state_text(each.state),
            ApprovalState.APPROVED if each.approved_by else ApprovalState.DRAFT,
            each.progress,
        ]
        for each in sets
    ]
    return listing("restatement sets, newest first", ["set", "because", "state", "approval", "done"], rows)


def _next(status: StatusDocument) -> list[RenderableType]:
    """The commands that take runs and sets on, as they can be typed; a run of a set is taken on by its set."""
    steps = [
        *(each.next_step for each in status.sets if each.state in _OPEN_SETS),
        *(run.next_step for run in status.runs if run.state not in EVER_PUBLISHED and run.set_id is None),
    ]
    lines = dict.fromkeys(visible(words_of(each)) for each in steps if each)
    return ["", Text("next", style="bold"), *map(Text, lines)] if lines else []


def imports_view(imports: Sequence[ImportDocument]) -> RenderableType:
    """Landed files and what became of their records, and why statements were made and landings stopped."""
    counts = ["landed", "accepted", "duplicate", "superseded", "rejected"]
    rows = [[each.import_id, each.file.rpartition("/")[2], state_text(each.state), *_counts(each)] for each in imports]
    columns = ["import", "file", "state", *counts]
    if any(each.note for each in imports):
        columns.append("note")
        rows = [[*row, each.note] for row, each in zip(rows, imports, strict=True)]
    return listing("landed files", columns, rows, numbers=counts)


def _counts(each: ImportDocument) -> list[int]:
    return [each.landed, each.accepted, each.duplicate, each.superseded, each.rejected]
