"""Where a number came from: the keys of a partition, and one row in every version of it, with what is behind each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from backfill_assets.report.history import PartitionHistory, VersionHistory
from backfill_assets.report.page import (
    Code,
    Items,
    Note,
    Page,
    Section,
    Table,
    Tone,
    Toned,
    Value,
    joined,
    page,
    partition_ref,
    place_ref,
    run_ref,
    section,
    table,
    words,
)
from backfill_assets.report.row_history import KeyList, RowHistory, RowVersion
from backfill_assets.report.screens.history import PEOPLE, people, seen_text, undone_text
from backfill_assets.report.screens.runs import state_of
from backfill_assets.report.screens.staleness import stale_note
from backfill_assets.report.values import key_text, text_of
from backfill_assets.report.words.states import MEANING
from backfill_assets.report.words.verdicts import verdict_words

RowAddress = Callable[[Mapping[str, str]], str]
"""The address of the row of a key."""

_SHORT = 12


def ask_page() -> Page:
    """What the history of a row answers."""
    text = (
        "A row in every version that its partition ever had: what changed, which run computed it, from which release, "
        "references and landed files, and who approved it."
    )
    return page("Where did this number come from?", Note(text=text))


def keys_page(found: KeyList, address: RowAddress) -> Page:
    """Some keys of a partition, and its versions."""
    history = found.history
    links = tuple(place_ref(address(key), key_text(key)) for key in found.keys)
    none = Note(text=f"No keys can be shown: {found.problem}", tone=Tone.ATTENTION) if found.problem else None
    return page(
        f"{history.table} {history.described}", section("Some keys", Items(items=links), none), _versions(history)
    )


def _versions(history: PartitionHistory) -> Section | None:
    rows = [
        (
            each.claim.version,
            state_of(each.claim.state),
            each.claim.rows,
            seen_text(each),
            run_ref(each.claim.run_id),
            _release(each),
            *people(each),
            words(each.manifest.reason, Toned(value=words(" undone ", undone_text(each.undone)), tone=Tone.SOFT))
            if each.undone
            else each.manifest.reason,
        )
        for each in history.versions
    ]
    heads = ["version", "state", "rows", "readers saw it", "run", "release", *PEOPLE, "reason"]
    return section("Versions", table(heads, rows, numbers=["version", "rows"], whole=["state", "run"]))


def row_page(row: RowHistory, trace: str) -> Page:
    """A row in every version of its partition, the newest on the left.

    Args:
        trace: The address of what its present values were computed from.
    """
    history = row.history
    others = partition_ref(history.table, history.partition, "Other keys of this partition")
    legend = "The newest version comes first. A value that differs from the version before is marked with \u2260. "
    return page(
        f"{history.table} {history.described}{f': {key_text(row.key)}' if row.key else ''}",
        stale_note(history.table, row.stale),
        Note(text=words(legend, others), tone=Tone.SOFT),
        Note(text=place_ref(trace, "From this number to its request, the rows of its inputs, and landed records")),
        _values(row),
        section("Behind it", _behind(row)),
    )


def _values(row: RowHistory) -> Table:
    versions = row.versions
    lines: list[tuple[Value, ...]] = [
        ("state", *(state_of(v.version.claim.state, MEANING[v.version.claim.state]) for v in versions))
    ]
    if any(each.found for each in versions):
        lines.append(("row", *(each.found or "found" for each in versions)))
    changed = [
        (place, column)
        for place, name in enumerate(row.columns, start=len(lines))
        for column, each in enumerate(versions, start=1)
        if name in each.changed
    ]
    lines += [(name, *(_value(name, each) for each in versions)) for name in row.columns]
    return table(_heads(row), lines, changed=changed, headed=True)


def _heads(row: RowHistory) -> list[str]:
    return ["", *(f"version {each.version.claim.version}" for each in row.versions)]


def _value(name: str, row: RowVersion) -> Value:
    if row.values is None:
        return Toned(value="not known", tone=Tone.SOFT)
    value = row.values.get(name)
    shown: Value = Toned(value="null", tone=Tone.SOFT) if value is None else value
    return words("\u2260 ", shown) if name in row.changed else shown


def _behind(row: RowHistory) -> Table:
    """What is behind each version, a line for each kind of thing; the lineage of rows only where they have it."""
    told: dict[str, Callable[[RowVersion], Value]] = {
        "readers saw it": _seen,
        "run": lambda row: run_ref(row.version.claim.run_id),
        "kind": lambda row: row.version.manifest.kind,
        "reason": lambda row: row.version.manifest.reason,
        "requested by": lambda row: row.version.manifest.requested_by,
        "approved by": lambda row: row.version.approved_by,
        "run by": lambda row: row.version.ran_by,
        "published by": lambda row: row.version.published_by,
        "release": lambda row: _release(row.version),
        "references": lambda row: joined(f"{each.name} {each.version}" for each in row.version.manifest.references),
        "landed files": _landed,
        "verified by": lambda row: joined(run_ref(each.run_id) for each in row.version.verified_by),
        "gates that failed": lambda row: joined(
            (f"{gate.gate}: {verdict_words(gate)}" for gate in row.version.checks if not gate.passed), "; "
        ),
        "checksum of all rows": lambda row: Code(row.version.claim.checksum),
        "manifest, code": lambda row: joined(
            map(_short, (row.version.manifest.digest, row.version.manifest.code_digest))
        ),
        "lineage of the row": _lineage,
    }
    lines = [(name, *map(tell, row.versions)) for name, tell in told.items()]
    return table(_heads(row), [line for line in lines if any(map(text_of, line[1:]))], headed=True)


def _seen(row: RowVersion) -> Value:
    version = row.version
    undone = (", undone ", undone_text(version.undone)) if version.undone else ()
    return words(seen_text(version), *undone)


def _landed(row: RowVersion) -> Value:
    if row.landed_count is None:
        return "not known"
    files: list[Value] = [
        Toned(
            value=Code(file.name),
            tone=Tone.PLAIN,
            hint=f"{file.import_id}, sha256 {file.sha256}, landed by {file.landed_by}",
        )
        for file in row.landed
    ]
    more = row.landed_count - len(files)
    return joined([*files, *([f"and {more:,} more"] if more else [])])


def _short(digest: str) -> Value:
    """The beginning of a digest, and the whole of it where there is room."""
    return Toned(value=Code(f"{digest[:_SHORT]}\u2026"), tone=Tone.PLAIN, hint=digest)


def _lineage(row: RowVersion) -> Value:
    return joined(words(f"{name}: ", Code(value)) for name, value in row.lineage.items() if value is not None)


def _release(version: VersionHistory) -> str:
    return f"{version.manifest.transform} {version.manifest.transform_version}"
