"""Code: what a digest stands for, how two differ, and what a reviewer sees of both beside the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backfill_assets.planning.partitions import count_of
from backfill_assets.report.code import CodeChange, CodeDifference, CodeDocument, ReferenceChange
from backfill_assets.report.page import (
    Block,
    Code,
    Items,
    Listing,
    Note,
    Page,
    Section,
    Tone,
    facts,
    page,
    section,
    table,
    words,
)
from backfill_assets.transforms.code import ModuleChange


def code_page(found: CodeDocument) -> Page:
    """The modules of a code digest, with their text where it was asked for."""
    rows = [(each.module, ", ".join(each.definitions), each.file) for each in found.modules]
    return page(
        "Code",
        facts(("code", Code(found.digest)), ("written to", found.folder)),
        section("Modules whose lines count", table(["module", "counted parts", "file"], rows, whole=["module"])),
        section("Values that count", Items(items=found.values), folded=True),
        *(
            section(each.module, Listing(lines=tuple(each.text.splitlines())))
            for each in found.modules
            if each.text is not None
        ),
    )


def difference_page(found: CodeDifference) -> Page:
    """The page on the differences between two codes."""
    same = None if found.modules or found.values else Note(text="They are the same.", tone=Tone.GOOD)
    return page("Code", facts(("before", Code(found.before)), ("after", Code(found.after))), *_difference(found), same)


def code_section(changes: Sequence[CodeChange]) -> Section | None:
    """The section on the differences between the code of a run and that of the rows that it replaces."""
    return section("Changes of the code", *(block for each in changes for block in _change(each)))


def _change(found: CodeChange) -> Iterator[Block]:
    since = f"Since release {found.release} ({found.digest[:12]}), whose rows it replaces in {found.partitions}"
    if found.difference is None:
        yield Note(text=f"{since}: no lines to compare, since that code was not archived.", tone=Tone.SOFT)
        return
    yield Note(text=f"{since}:", tone=Tone.SOFT)
    yield from _difference(found.difference)
    if any(each.left_out for each in found.difference.modules):
        yield Note(text=words("All lines: ", found.all_lines), tone=Tone.SOFT)


def _difference(found: CodeDifference) -> Iterator[Block]:
    for each in found.modules:
        yield Note(text=_module(each))
        if each.lines:
            yield Listing(lines=each.lines, differs=True)
        if each.left_out:
            yield Note(text=f"{count_of(each.left_out, 'more line')} of {each.module} not shown.", tone=Tone.SOFT)
    if found.values:
        text = "Other values, by the same lines; they may be secret, and are not kept:"
        yield Note(text=text, items=tuple(f"{each.name}: {each.bound_by}".rstrip(": ") for each in found.values))


def _module(found: ModuleChange) -> str:
    names = ", ".join(found.definitions)
    return f"{found.module}: {names}" if names else found.module


def references_section(changes: Sequence[ReferenceChange]) -> Section | None:
    """The references of a run beside those of the rows that it replaces."""
    return section("References before and after", *(block for each in changes for block in _reference(each)))


def _reference(found: ReferenceChange) -> Iterator[Block]:
    yield Note(text=f"{found.name} {found.before} \u2192 {found.after}, in {found.partitions}")
    rows = [(each.key, each.before or "", each.after or "") for each in found.keys]
    yield table(["value", "before", "after"], rows, whole=["value"])
    if found.left_out:
        yield Note(text=f"{count_of(found.left_out, 'more value')} differ.", tone=Tone.SOFT)
    if not found.keys:
        yield Note(text="No values to compare: a document is not archived, or only its text differs.", tone=Tone.SOFT)
