"""How do the documents of this room look to a person at a terminal?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from backfill_assets.application.command_line import words_of
from backfill_assets.evidence.follow import asking_sentence
from backfill_assets.next_steps import Invocation, NextStep
from backfill_assets.planning.manifest import ALWAYS_SWAPPED
from backfill_assets.planning.partitions import count_of
from backfill_assets.wording import visible

Document = Mapping[str, Any]

_STATE_STYLE = {
    "PUBLISHED": "green",
    "PASSED": "green",
    "ACCEPTED": "green",
    "LOADED": "green",
    "BLOCKED": "red",
    "FAILED": "red",
    "ROLLED_BACK": "yellow",
    "PUBLISHING": "yellow",
}
_MOST_PARTITIONS = 40
_MOST_RUNS = 4
_NEVER_BROKEN = ("run", "set", "import", "gate", "partition", "state", "action", "at", "verdict")
MODES = {
    "DRY_RUN": "DRY_RUN: staged and gated, never published",
    "RECONCILIATION": "RECONCILIATION: recomputes what is published and reports every difference; publishes nothing",
}
_AT_REST = ("PUBLISHED", "SUPERSEDED", "ROLLED_BACK")


def show(console: Console, *parts: RenderableType | str) -> None:
    """Prints the parts, one below the other."""
    for part in parts:
        # A line of text may hold a command: it is never broken, so that it can be copied.
        if isinstance(part, str):
            console.print(visible(part), highlight=False, soft_wrap=True, markup=False)
        else:
            console.print(part, highlight=False, markup=False)


def state_text(state: str) -> Text:
    """A state in the colour of what it means for readers."""
    return Text(state, style=_STATE_STYLE.get(state, ""))


def in_words(value: object) -> str:
    """A value as it is shown; a next step as the command to type."""
    return words_of(value) if isinstance(value, NextStep | Invocation) else str(value)


def facts(pairs: Sequence[tuple[str, object]]) -> Table:
    """Names and values in two columns; pairs without a value are left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value not in (None, "", [], {}):
            grid.add_row(name, value if isinstance(value, Text) else Text(visible(in_words(value))))
    return grid


def listing(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, numbers: Sequence[str] = ()
) -> RenderableType:
    """A titled table; the named columns are right-aligned numbers. Names that people copy are never broken."""
    table = Table(header_style="dim", box=None, pad_edge=False)
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in numbers else "left",
            overflow="fold",
            no_wrap=column in numbers or column in _NEVER_BROKEN,
        )
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    return Group(Text(title, style="bold"), table)


def _cell(value: object) -> RenderableType:
    match value:
        case Text():
            return value
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case _:
            return Text(visible(in_words(value)))


def run_view(run: Document) -> RenderableType:
    """One run in a few lines."""
    approval = f"APPROVED by {run['approved_by']}" if run["approved_by"] else "DRAFT: no other person has agreed yet"
    if grounds := run.get("approved_for"):
        approval += f", for {', '.join(grounds['groups'])} (approvers.yaml {grounds['approvers_version']})"
    if run["state"] == "ROLLED_BACK" and not run["approved_by"]:
        approval = "DRAFT: the rollback withdrew the approval"
    return facts(
        [
            ("run", run["run_id"]),
            ("state", Text.assemble(state_text(run["state"]), f": {run['meaning']}")),
            ("note", run["note"]),
            ("approval", approval),
            ("table", f"{run['table']} by {run['transform']} {run['transform_version']}"),
            ("partitions", run["partitions_described"]),
            ("kind", f"{run['kind']}: {run['reason']} (asked by {run['requested_by']})"),
            ("mode", MODES.get(run["mode"])),
            ("policy", run["policy"]["sentence"] if run.get("policy") else None),
            ("set", run["set_id"]),
            ("next", run["next_step"]),
        ]
    )


def named(run_ids: Sequence[str]) -> str:
    """Some runs in a line."""
    more = len(run_ids) - _MOST_RUNS
    return ", ".join([*run_ids[:_MOST_RUNS], *([f"and {more:,} more"] if more > 0 else [])])


def versions_text(versions: Document) -> str:
    """What a run was staged with, or at least planned with."""
    known = versions["staged"] or versions["planned"] or {}
    return ", ".join(f"{name} {version}" for name, version in sorted(known.items()))


def report_view(report: Document) -> RenderableType:
    """The report a reviewer reads: what moves, which checks passed, what some rows look like."""
    parts: list[RenderableType] = [run_view(report), "", *backwards(report)]
    if report["totals"]:
        parts += [_verdict(report), ""]
    if report["totals"]:
        parts += [_moves(report), ""]
    if report["changed_columns"]:
        changed = ", ".join(f"{name} {count:,}" for name, count in report["changed_columns"].items())
        parts += [facts([("rows that differ, by column", changed)]), ""]
    recorded = facts([("supersedes", named(report["supersedes"])), ("versions", versions_text(report["versions"]))])
    parts += [recorded, ""]
    if report["sample"]:
        parts += [sample_view(report["sample"]), ""]
    if erased := report["samples_erased"]:
        parts += [facts([("rows", f"erased by {erased['by']}: {erased['reason']}")]), ""]
    parts.append(_gates(report["gates"]))
    if report["failing_keys"]:
        parts += ["", _failing_keys(report["failing_keys"])]
    if report["publications"]:
        parts += ["", publications_view(report["publications"])]
    return Group(*parts)


def backwards(document: Document) -> list[RenderableType]:
    """A line for every later release that a plan or a run would replace; nothing when it goes forward."""
    lines: list[RenderableType] = [Text(f"{each['sentence']}.", style="bold yellow") for each in document["goes_back"]]
    return [*lines, ""] if lines else []


def _verdict(report: Document) -> Text:
    """In one line: how much of it differs from what readers see, and what that means in this mode."""
    measured, equal = len(report["partitions"]), report["equal_partitions"]
    empty = report["new_empty_partitions"]
    differing = measured - equal - empty
    if report["mode"] == "RECONCILIATION":
        if not differing:
            return Text(f"no drift: all {count_of(measured, 'partition')} equal what is published", style="green")
        return Text(f"drift: {differing:,} of {count_of(measured, 'partition')} differ from what is published", "red")
    if report["kind"] in ALWAYS_SWAPPED:
        again = f"; {equal:,} of them with the rows that are accepted already" if equal else ""
        return Text(f"all {count_of(measured, 'partition')} would be swapped{again}")
    new = f"; {empty:,} are new and have no rows" if empty else ""
    stays = f"; {equal:,} equal the accepted rows and stay as they are" if equal else ""
    return Text(f"{differing:,} of {count_of(measured, 'partition')} would be swapped{new}{stays}")


def _moves(report: Document) -> RenderableType:
    columns = ["partition", "rows", "accepted_rows", "added", "removed", "changed", "unchanged"]
    rows: list[list[object]] = [[p[name] for name in columns] for p in report["partitions"]]
    shown = rows
    if len(rows) > _MOST_PARTITIONS:
        ranked = sorted(report["partitions"], key=lambda p: -(p["added"] + p["removed"] + p["changed"]))[:10]
        shown = [[p[name] for name in columns] for p in sorted(ranked, key=lambda p: str(p["partition"]))]
    shown = [*shown, ["all", *(report["totals"][name] for name in columns[1:])]]
    title = "compared with the accepted rows"
    if len(rows) > _MOST_PARTITIONS:
        title += f" (the 10 of {len(rows):,} partitions that move most; --json has all)"
    heads = ["partition", "rows", "accepted", "added", "removed", "changed", "unchanged"]
    return listing(title, heads, shown, numbers=heads[1:])


def sample_view(sample: Sequence[Document]) -> RenderableType:
    """Some rows before and after, one line per value that differs."""
    rows: list[list[object]] = []
    for row in sample[:6]:
        key = ", ".join(str(value) for value in row["key"].values())
        if row["before"] is None or row["after"] is None:
            rows.append([key, "(added)" if row["before"] is None else "(removed)", "", ""])
            continue
        for name, before in row["before"].items():
            after = row["after"][name]
            if before != after:
                rows.append([key, name, "null" if before is None else before, "null" if after is None else after])
                key = ""
    return listing("some rows, before and after", ["key", "column", "before", "after"], rows)


def _failing_keys(found: Sequence[Document]) -> RenderableType:
    rows: list[list[object]] = [
        [row["gate"], row["partition"], ", ".join(str(value) for value in row["key"].values())] for row in found
    ]
    return listing("keys of rows that fail", ["gate", "partition", "key"], rows)


def _gates(gates: Sequence[Document]) -> RenderableType:
    rows: list[list[object]] = []
    for gate in gates:
        style = "dim" if gate["outcome"] == "not measured yet" else "green"
        if gate["failed_partitions"]:
            style = "red" if gate["blocking"] else "yellow"
        rows.append(
            [
                gate["gate"],
                Text(gate["outcome"], style=style),
                "blocks" if gate["blocking"] else "informs",
                gate["first_failure"] or gate["demands"],
            ]
        )
    return listing("gates", ["gate", "verdict", "", "demands, or the first failure"], rows)


def publications_view(publications: Sequence[Document]) -> RenderableType:
    """Swaps in the order they happened, two lines each: the ids in them are copied, so no table may break them."""
    parts: list[RenderableType] = [Text("publications", style="bold")]
    for p in publications:
        done = Text.assemble(
            f"{p['started_at'][:19]}  {p['action']} ", state_text(p["state"]), visible(f" by {p['by']}")
        )
        parts += [
            Text.assemble(done, visible(f": {p['reason']}")),
            Text(f"    {p['table']} {_swapped(p)}; table version {p['delta_version']}; run {p['run_id']}"),
        ]
    return Group(*parts)


def _swapped(publication: Document) -> str:
    p = publication
    if p["from"] is None:
        return "as it was: nothing had been swapped"
    equal = f", {p['verified_count']:,} verified as equal" if p["verified_count"] else ""
    swapped = count_of(p["partition_count"], "partition")
    empty = f", {p['new_empty_count']:,} recorded as empty" if p["new_empty_count"] else ""
    return f"{p['from']}..{p['to']}, {swapped} swapped{empty}{equal}, {count_of(p['rows'], 'row')}"


def status_view(status: Document) -> RenderableType:
    """What there is, what waits, and for whom."""
    tables = listing(
        "tables",
        ["table", "accepted partitions", "rows"],
        [[t["table"], t["accepted_described"], t["accepted_rows"]] for t in status["tables"]],
        numbers=["rows"],
    )
    runs = listing(
        "runs, newest first",
        ["run", "table", "kind", "partitions", "state", "approval", "next"],
        [
            [
                r["run_id"],
                r["table"],
                r["kind"],
                r["partitions_described"],
                state_text(r["state"]),
                r["approval"],
                None
                if r["state"] in _AT_REST or not r["next_step"]
                else words_of(r["next_step"]).replace(r["run_id"], "RUN"),
            ]
            for r in status["runs"]
        ],
    )
    parts: list[RenderableType] = [facts([("home", status["home"])]), "", tables, "", runs]
    if status["sets"]:
        sets = [[s["set_id"], s["name"], s["because"], state_text(s["state"]), s["progress"]] for s in status["sets"]]
        parts += ["", listing("restatement sets, newest first", ["set", "name", "because", "state", "done"], sets)]
    if status["imports"]:
        parts += ["", imports_view(status["imports"])]
    if status["to_follow"]:
        lines = (visible(asking_sentence(each)) for each in status["to_follow"])
        parts += ["", Text("publications that are not followed by their dependents yet", style="bold"), *lines]
    return Group(*parts, *problems_view(status["problems"]))


def recovered_lines(recovered: Sequence[Document]) -> Sequence[str]:
    """What was half done, what became of it, and what to do next."""
    lines = [(f"{r['what']} {r['id']} {r['outcome']}", following(r["next_step"])) for r in recovered]
    return [line + next_step for line, next_step in lines] or ["nothing was half done"]


def following(step: NextStep | None) -> str:
    """How a sentence goes on that has a next step."""
    return f" Next: {words_of(step)}" if step else ""


def problems_view(problems: Sequence[Document]) -> Sequence[RenderableType]:
    """What could not be looked after, why, and what to do about it."""
    return [Text(visible(f"{p['table']}: {p['why']}{following(p['next_step'])}"), style="red") for p in problems]


def imports_view(imports: Sequence[Document]) -> RenderableType:
    """Landed files and what became of their records."""
    columns = ["landed", "accepted", "duplicate", "superseded", "rejected"]
    return listing(
        "landed files",
        ["import", "file", "state", *columns],
        [
            [i["import_id"], i["file"].rpartition("/")[2], state_text(i["state"]), *(i[name] for name in columns)]
            for i in imports
        ],
        numbers=columns,
    )


def history_view(history: Document) -> RenderableType:
    """What a table has been."""
    head = facts(
        [
            ("table", history["table"]),
            ("path", history["path"]),
            ("accepted", f"{history['accepted_described']}; {history['accepted_rows']:,} rows"),
        ]
    )
    return Group(head, "", publications_view(history["publications"]))


def story_view(story: Document) -> RenderableType:
    """The versions of one partition, each with where it came from."""
    parts: list[RenderableType] = [facts([("partition", f"{story['table']} {story['partition']}")])]
    for version in story["versions"]:
        code = f"{version['transform']} {version['transform_version']}; sha256 {version['code_digest'][:16]}"
        failed = [c["gate"] for c in version["checks"] if not c["passed"]]
        checks = f"{len(version['checks']) - len(failed)} passed" + (f", failed: {', '.join(failed)}" if failed else "")
        parts += [
            "",
            facts(
                [
                    (
                        f"version {version['version']}",
                        Text.assemble(state_text(version["state"]), f": {version['meaning']}"),
                    ),
                    ("rows", f"{version['rows']:,}, checksum {version['checksum']}"),
                    ("since", f"{version['accepted_at']} (table version {version['delta_version']})"),
                    ("files removed", version["removed_at"]),
                    ("why", f"{version['kind']}: {version['reason']}"),
                    ("no events", version["declared_empty_by"] and f"on the word of {version['declared_empty_by']}"),
                    ("asked, agreed", f"{version['requested_by']}, {version['approved_by']}"),
                    ("equal again in", ", ".join(v["run_id"] for v in version["verified_by"])),
                    ("undone", version["undone"]),
                    ("again since", version["restored_at"]),
                    ("run", version["run_id"]),
                    ("code", code),
                    ("staged with", versions_text(version["versions"])),
                    ("supersedes", named(version["supersedes"])),
                    ("references", ", ".join(f"{n} {v}" for n, v in version["references"].items())),
                    ("inputs", _inputs(version["provenance"])),
                    ("checks", checks),
                    (
                        "replaced",
                        f"version {version['replaced_version']}" if version["replaced_version"] else "nothing",
                    ),
                    ("to undo it", version["undo"]),
                ]
            ),
        ]
    return Group(*parts)


def _inputs(provenance: Document) -> str:
    if "imports" in provenance:
        return (
            ", ".join(f"{import_id} (sha256 {sha[:12]})" for import_id, sha in provenance["imports"])
            or "no landed file"
        )
    return ", ".join(f"{table} window {digest[:16]}" for table, digest in provenance.get("inputs", {}).items())


def audit_view(audit: Document) -> RenderableType:
    """Whether everything agrees."""
    looked = facts(
        [
            ("events in the chain", f"{audit['events']:,}"),
            ("accepted partitions", f"{audit['partitions']:,}, {audit['files']:,} files"),
            ("table commits", f"{audit['commits']:,}"),
            ("landed files", f"{audit['imports']:,}"),
            ("bytes read", f"{audit['size_bytes']:,}" if audit["size_bytes"] else "none (--quick)"),
            ("head of the chain", audit["head"]),
        ]
    )
    if audit["agrees"]:
        return Group(looked, Text("everything agrees", style="green"))
    problems = [Text(visible(f"- {problem}"), style="red") for problem in audit["problems"]]
    following = [Text(visible(f"next: {words_of(step)}")) for step in audit["next_steps"]]
    return Group(looked, *problems, *following)
