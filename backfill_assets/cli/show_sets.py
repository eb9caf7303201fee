"""Terminal views of restatement sets."""

from __future__ import annotations

from rich.console import Group, RenderableType

from backfill_assets.cli.show import facts, listing, state_and_meaning, state_text
from backfill_assets.report.sets import SetDocument

_MOST_FILES = 40


def set_view(found: SetDocument) -> RenderableType:
    """How far a set is, run by run, and the versions at which it can be read."""
    head = facts(
        [
            ("set", set_name(found.set_id, found.name)),
            ("state", state_and_meaning(found.state, found.meaning)),
            ("note", found.note),
            ("because", found.because),
            ("reason", f"{found.reason} (asked by {found.requested_by})"),
            ("approval", f"APPROVED by {found.approved_by}" if found.approved_by else "DRAFT"),
            ("done", found.progress),
            ("outdated", _outdated(found)),
            ("read it at", ", ".join(f"{table} version {version}" for table, version in found.versions.items())),
            ("next", found.next_step),
        ]
    )
    behind = [_changed_by(found), ""] if found.changed_by else []
    return Group(head, "", *behind, _runs(found))


def _changed_by(found: SetDocument) -> RenderableType:
    title = f"landed files that decide rows of the changed days{_more_than(_MOST_FILES, len(found.changed_by))}"
    rows = [
        [
            each.import_id,
            each.file.rpartition("/")[2],
            each.landed_by,
            f"{each.source} {each.days_described}",
            each.rows,
            each.moved_away,
            each.taken_back,
            each.restored,
        ]
        for each in found.changed_by[:_MOST_FILES]
    ]
    numbers = ["rows", "moved away", "taken back", "restored"]
    return listing(title, ["import", "file", "landed by", "days", *numbers], rows, numbers=numbers)


def _more_than(most: int, there: int) -> str:
    return f" (the first {most:,} of {there:,}; --json has all)" if there > most else ""


def set_name(set_id: str, name: str) -> str:
    """A set's id, and what it was called."""
    return set_id if name == set_id else f"{set_id} ({name})"


def _outdated(found: SetDocument) -> str | None:
    outdated = [f"{each.run.table} {each.outdated_described}" for each in found.runs if each.outdated_described]
    return f"{'; '.join(outdated)}: what it was computed from was staged again" if outdated else None


def _runs(found: SetDocument) -> RenderableType:
    rows = [
        [
            each.run.run_id,
            each.run.table,
            each.run.partitions_described,
            state_text(each.run.state),
            each.changed_partitions,
            each.verified_partitions,
        ]
        for each in found.runs
    ]
    heads = ["run", "table", "partitions", "state", "changed", "verified"]
    return listing("runs, in the order of publication", heads, rows, numbers=["changed", "verified"])
