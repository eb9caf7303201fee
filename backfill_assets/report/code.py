"""Code and references of a run beside those of the rows that it replaces, and what a code digest stands for: lines."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from itertools import takewhile
from typing import Any

from backfill_assets.calendar.partitions import Partitions, count_of
from backfill_assets.core.errors import Refused
from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import canonical_json
from backfill_assets.core.next_steps import Command, Invocation, do
from backfill_assets.domain import DerivedTable
from backfill_assets.files.port import Files
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import PinnedReference
from backfill_assets.report.errors import CannotUse
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
from backfill_assets.transforms.code import (
    ArchivedCode,
    ModuleChange,
    archived,
    changed_values,
    definitions,
    differences,
    digests_like,
    reached_texts,
    text_of_module,
)
from backfill_assets.transforms.references import archived_document
from backfill_assets.workspace import Workspace

FEWEST_DIGITS = 8
_MOST_LINES = 120
"""More lines of a difference than these a report leaves to the command that prints all."""

_MOST_CODES = 3
_MOST_KEYS = 40
_MOST_CHARACTERS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedValue:
    """A value that a function finds in its modules, and that differs where its definition does not."""

    name: str  #: Its name, with its module.
    bound_by: str  #: The statement that gives it, which asks something else for it.


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeDifference:
    """The differences between two archived codes."""

    before: str  #: A code digest.
    after: str  #: Another one.
    modules: tuple[ModuleChange, ...]  #: How the lines that count differ, by module.
    values: tuple[ChangedValue, ...]  #: Values that differ though no line of their definition does; none is shown.


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeChange:
    """The code of the rows that a run replaces, and how its own differs."""

    release: str  #: The release that computed these rows.
    partitions: Partitions  #: In which partitions.
    digest: str  #: The code digest of that release.
    #: How the code of the run differs from it; null where either was computed before code was archived.
    difference: CodeDifference | None
    all_lines: Invocation  #: What prints the whole difference.


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedKey:
    """A value of a reference document that differs."""

    key: str  #: Where it is in the document.
    before: str | None  #: What it was; null where the earlier document has no such key.
    after: str | None  #: What it is; null where the later one has none.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceChange:
    """A reference of the rows that a run replaces, beside the one that the run uses."""

    name: str  #: The reference.
    before: str  #: The version of these rows.
    after: str  #: The version of the run.
    partitions: Partitions  #: In which partitions.
    keys: tuple[ChangedKey, ...]  #: What differs, as far as there is room for it.
    left_out: int = 0  #: How many more keys differ.


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleOfCode:
    """A module of archived code."""

    module: str  #: Its name.
    file: str  #: Its file, below the folder that it is imported from.
    sha256: str  #: Of its whole text.
    definitions: tuple[str, ...]  #: The functions, classes and names whose lines count.
    text: str | None = None  #: The lines that count, where they were asked for, or null.


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeDocument:
    """The archived code behind a code digest."""

    digest: str  #: The code digest.
    modules: tuple[ModuleOfCode, ...]  #: The modules whose lines count.
    values: tuple[str, ...]  #: The names of the values that are found in them; none is kept.
    folder: str | None = None  #: Where the whole text of the modules was written, or null.


def code_named(ws: Workspace, named: str) -> ArchivedCode:
    """The archived code of a run, or of a digest, of which eight digits are enough.

    Raises:
        Refused: There is none, or several digests begin like this.
    """
    files, digest = ws.reference_archive, named.lower()
    if not _is_digest(digest):
        with ws.ledger.read() as tx:
            digest = tx.runs.get(named).manifest.code_digest
    like = digests_like(digest, files)
    if len(like) > 1:
        instead = f"one of {', '.join(each[:16] for each in like)}"
        raise CannotUse(what=f"the digest {named}", why="several digests begin like this", instead=instead)
    found = archived(like[0], files) if like else None
    if found is None:
        why = f"none of its code is archived in {files.place}"
        raise CannotUse(what=named, why=why, instead="a run of a derived table, or the code digest in its manifest")
    return found


def _is_digest(text: str) -> bool:
    return FEWEST_DIGITS <= len(text) <= 64 and not set(text) - set("0123456789abcdef")


def code_document(ws: Workspace, code: ArchivedCode, *, texts: bool = False, folder: str | None = None) -> CodeDocument:
    """The content of archived code.

    Args:
        texts: With the lines that count.
        folder: Where its modules were written.
    """
    reached = reached_texts(code, ws.reference_archive)
    return CodeDocument(
        digest=code.digest,
        modules=tuple(
            ModuleOfCode(
                module=each.name,
                file=each.path,
                sha256=each.source,
                definitions=tuple(definitions(reached[each.name])),
                text=reached[each.name] if texts else None,
            )
            for each in code.modules
        ),
        values=tuple(sorted(code.values)),
        folder=folder,
    )


def sources_of(ws: Workspace, code: ArchivedCode) -> Iterator[tuple[str, str]]:
    """The files of archived code, each with its whole text.

    Raises:
        Refused: The archive does not have one of them any more.
    """
    for module in code.modules:
        text = text_of_module(module.source, ws.reference_archive)
        if text is None or not _is_below(module.path):
            why = f"the text of {module.name} is no longer in {ws.reference_archive.place}"
            raise CannotUse(what=code.digest[:12], why=why, instead="a copy of the archive that has it")
        yield module.path, text


def _is_below(path: str) -> bool:
    return not path.startswith("/") and not {"", ".", ".."} & set(path.split("/"))


def code_difference(
    files: Files, before: ArchivedCode, after: ArchivedCode, *, most: int | None = None, first: str = ""
) -> CodeDifference:
    """The differences between two archived codes.

    Args:
        most: How many lines are shown in all; None for all of them.
        first: The module whose lines come first.
    """
    was, now = reached_texts(before, files), reached_texts(after, files)
    modules = tuple(differences(was, now, most=most, first=first))
    edited = {f"{each.module}.{name}" for each in modules for name in each.definitions}
    bound = {f"{module}.{name}": text for module, lines in now.items() for name, text in definitions(lines).items()}
    named = {name for each in modules for name in each.definitions}
    values = (
        name
        for name in changed_values(before.values, after.values)
        for full in [name.partition(" ")[0]]
        # What a module imports is named where it is bound.
        if full not in edited and (full in bound or full.rpartition(".")[2] not in named)
    )
    return CodeDifference(
        before=before.digest,
        after=after.digest,
        modules=modules,
        values=tuple(
            ChangedValue(name=name, bound_by=_short(bound.get(name, "").partition("\n")[0])) for name in values
        ),
    )


def code_changes(ws: Workspace, manifest: Manifest, replaced: Mapping[date, Manifest]) -> tuple[CodeChange, ...]:
    """The differences between the code of a run and that of the rows that it replaces, code by code, the latest
    first."""
    files, found, own = ws.reference_archive, [], _own_module(ws, manifest)
    codes = grouped(((made.transform_version, made.code_digest), day) for day, made in sorted(replaced.items()))
    others = [each for each in codes if each[1] != manifest.code_digest]
    for release, digest in sorted(others, key=lambda each: codes[each][-1], reverse=True)[:_MOST_CODES]:
        before, after = archived(digest, files), archived(manifest.code_digest, files)
        found.append(
            CodeChange(
                release=release,
                partitions=Partitions.of(manifest.grain, codes[release, digest]),
                digest=digest,
                difference=code_difference(files, before, after, most=_MOST_LINES, first=own)
                if before and after
                else None,
                all_lines=do(Command.CODE, digest[:12], manifest.code_digest[:12]),
            )
        )
    return tuple(found)


def _own_module(ws: Workspace, manifest: Manifest) -> str:
    """The module of the function that computes a run; empty where it is not declared any more."""
    with suppress(Refused):
        declared = ws.domain.table(manifest.table)
        if isinstance(declared, DerivedTable):
            return declared.release(manifest.transform_version).function.__module__
    return ""


def reference_changes(
    ws: Workspace, manifest: Manifest, replaced: Mapping[date, Manifest]
) -> tuple[ReferenceChange, ...]:
    """The references of a run that are not those of the rows that it replaces, with the keys that differ."""
    now = {each.name: each for each in manifest.references}
    others: dict[tuple[PinnedReference, PinnedReference], list[date]] = {}
    for day, made in sorted(replaced.items()):
        for was in made.references:
            if was.name in now and was.sha256 != now[was.name].sha256:
                others.setdefault((was, now[was.name]), []).append(day)
    return tuple(_reference_change(ws, manifest, was, own, days) for (was, own), days in others.items())


def _reference_change(
    ws: Workspace, manifest: Manifest, was: PinnedReference, now: PinnedReference, days: Iterable[date]
) -> ReferenceChange:
    before, after = (archived_document(each, ws.reference_archive) for each in (was, now))
    keys = list(changed_keys(before, after)) if before is not None and after is not None else []
    return ReferenceChange(
        name=now.name,
        before=was.version,
        after=now.version,
        partitions=Partitions.of(manifest.grain, days),
        keys=tuple(keys[:_MOST_KEYS]),
        left_out=max(0, len(keys) - _MOST_KEYS),
    )


def changed_keys(before: object, after: object, key: str = "") -> Iterator[ChangedKey]:
    """Where two documents of YAML differ, in their values or the types of these. Pure.

    Elements of lists of other lengths are those that one list has and the other does not, with their repetitions and in
    their order.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys(), key=str):
            below = f"{key}.{name}" if key else str(name)
            yield from changed_keys(before.get(name, _ABSENT), after.get(name, _ABSENT), below)
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) == len(after):
            for place, (was, now) in enumerate(zip(before, after, strict=True)):
                yield from changed_keys(was, now, f"{key}[{place}]")
            return
        same = difflib.SequenceMatcher(None, [_exact(each) for each in before], [_exact(each) for each in after], False)
        for kind, first, last, from_now, to_now in same.get_opcodes():
            if kind != "equal":
                yield from (ChangedKey(key=key, before=_short(_text(each)), after=None) for each in before[first:last])
                yield from (
                    ChangedKey(key=key, before=None, after=_short(_text(each))) for each in after[from_now:to_now]
                )
    elif _exact(before) != _exact(after):
        was, now = (None if each is _ABSENT else _text(each) for each in (before, after))
        if was is not None and now is not None and was != now and _short(was) == _short(now):
            start = max(
                0,
                sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(was, now, strict=False)))
                - _MOST_CHARACTERS // 2,
            )
            was, now = f"...{was[start:]}", f"...{now[start:]}"
        if was == now:  # one text, and values of two types
            was, now = f"{was} ({type(before).__name__})", f"{now} ({type(after).__name__})"
        yield ChangedKey(key=key, before=was and _short(was), after=now and _short(now))


_ABSENT = object()
"""The value of a key that a document does not have, which is not null."""


def _exact(value: object) -> str:
    """A value with the types of all that is in it."""
    if isinstance(value, dict):
        return f"{{{','.join(sorted(f'{_exact(name)}:{_exact(part)}' for name, part in value.items()))}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_exact, value))}]"
    return f"{type(value).__name__} {value!r}"


def _text(value: object) -> str:
    if isinstance(value, dict | list):
        with suppress(TypeError, ValueError):
            return canonical_json(_plain(value))
    return "null" if value is None else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list) else str(value)


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."


# Code: what a digest stands for, how two differ, and what a reviewer sees of both beside the rows.


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
