"""References: the reference documents of a run, exactly those with which it was planned.

A reference file is read once, identified by the sha256 of its bytes, and archived under that name: a run reads the
bytes with which it was planned, even if the file has changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import SEEK_END
from pathlib import Path
from typing import Any

from backfill_assets.core.errors import InvalidReference, MissingInput, Refused, UnknownName
from backfill_assets.core.local_files import NotRegular
from backfill_assets.domain import DerivedTable, Domain, Failing, Reference, ReferenceValue, Table
from backfill_assets.domain.gates_by_reference import KnownRows
from backfill_assets.files.local import LocalFiles
from backfill_assets.files.port import Files
from backfill_assets.planning.manifest_parts import PinnedReference
from backfill_assets.planning.safeguards import KNOWN, READ, Safeguard
from backfill_assets.transforms import errors
from backfill_assets.transforms.schemas import current_schema

MOST_BYTES = 1 << 20
"""A larger file is refused before it is parsed, which every plan does. PyYAML takes 3 to 4 seconds for a MiB of dates,
16 at worst. libyaml is five times as fast, but reads some files otherwise (tabs, byte order marks)."""

_MOST_CHARACTERS = 300
_FEWEST_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedReference:
    """A parsed reference document, what identifies it, and where it was read."""

    name: str
    sha256: str
    content: bytes
    value: ReferenceValue
    place: str

    @property
    def pinned(self) -> PinnedReference:
        return PinnedReference(name=self.name, version=self.value.version, sha256=self.sha256)


def load_references(domain: Domain, files: Files) -> Mapping[str, LoadedReference]:
    """Every reference of the domain, from `<name>.yaml` in a place."""
    return {reference.name: load_reference(reference, files) for reference in domain.references}


def load_reference(reference: Reference, files: Files) -> LoadedReference:
    """One reference, from `<name>.yaml` in a place."""
    return _read(reference, files, file_name(reference), is_named=False)


def file_name(reference: Reference) -> str:
    """The name of the file that a reference is read from."""
    return f"{reference.name}.yaml"


def _read(reference: Reference, files: Files, path: str, *, is_named: bool) -> LoadedReference:
    place = str(files.place / path)
    try:
        with files.open(path) as file:
            content = file.read(MOST_BYTES + 1)
            size_bytes = file.seek(0, SEEK_END)
    except NotRegular as error:
        why = "is not a regular file: a pipe, a socket or a device holds no document that a run could name"
        raise errors.ReferenceBroken(reference=reference.name, place=place, why=why) from error
    except OSError as error:
        raise errors.ReferenceNotRead(reference=reference.name, place=place, is_named=is_named) from error
    if len(content) > MOST_BYTES:
        why = (
            f"is {size_bytes / 2**20:,.1f} MiB large, and a reference can have {MOST_BYTES >> 20} MiB at most: "
            "references are small facts that every plan parses; land large tables as a source"
        )
        raise errors.ReferenceBroken(reference=reference.name, place=place, why=why)
    return _parsed(reference, content, place=place)


def archive(references: Iterable[LoadedReference], files: Files) -> None:
    """Archives the references' bytes under their sha256, so that a run can be repeated with them."""
    for reference in references:
        path = archived_path(reference.name, reference.sha256)
        if files.stat(path) is None:
            files.put_if_absent(path, reference.content)  # another process may just have put the same bytes there


def load_pinned(domain: Domain, pinned: Iterable[PinnedReference], files: Files) -> Mapping[str, LoadedReference]:
    """The references that a manifest names, from the archive.

    Raises:
        MissingInput: The archive does not contain those bytes any more, or contains others under their name.
    """
    parsers = {reference.name: reference for reference in domain.references}
    loaded: dict[str, LoadedReference] = {}
    for pin in pinned:
        path = archived_path(pin.name, pin.sha256)
        content = _content(files, path)
        if hashlib.sha256(content).hexdigest() != pin.sha256 or pin.name not in parsers:
            raise MissingInput.coded(
                "reference_not_archived",
                "{reference} {version} (sha256 {sha256}) is what the rows are computed with, and "
                "the archive {place} does not hold it as it was.",
                then="restore the file in the archive, or plan with the present references",
                reference=pin.name,
                version=pin.version,
                sha256=pin.sha256[:12],
                place=str(files.place),
            )
        loaded[pin.name] = _parsed(parsers[pin.name], content, place=str(files.place / path))
    return loaded


def _content(files: Files, path: str) -> bytes:
    """The bytes of a file; none when there is none that can be read."""
    try:
        return files.read(path)
    except OSError:  # it is gone, or something else is in its place
        return b""


def archived_document(pinned: PinnedReference, files: Files) -> Any | None:
    """The document of an archived reference as YAML has it; None where the archive does not have exactly that."""
    from backfill_assets.transforms.strict_yaml import parse_yaml

    content = _content(files, archived_path(pinned.name, pinned.sha256))
    if hashlib.sha256(content).hexdigest() != pinned.sha256:
        return None
    with suppress(ValueError):
        return parse_yaml(content)
    return None


def changed_in_archive(pinned: Iterable[PinnedReference], files: Files, *, is_quick: bool) -> Iterator[str]:
    """The parts of the archive that differ from what manifests pin, one sentence each.

    Args:
        files: The archive.
    """
    for pin in pinned:
        path = archived_path(pin.name, pin.sha256)
        named = f"the archived reference {pin.name} {pin.version} ({path})"
        try:
            if files.stat(path) is None:
                yield f"{named} is gone: what was computed or approved with it cannot be shown."
            elif not is_quick and files.digest(path) != pin.sha256:
                yield f"the bytes of {named} were changed: what was computed or approved with it cannot be shown."
        except OSError as error:
            yield f"{named} cannot be read: {error.strerror}."


def find_version(
    reference: Reference, wanted: str, *, present: LoadedReference, archived: Files, used: Container[str]
) -> LoadedReference:
    """A version of a reference by name: the present one, one that a run was planned with, or a file that has it.

    Args:
        wanted: A version, at least eight characters of the sha256 of one, or the path of a YAML file.
        present: The reference as it is now.
        archived: The archive. It also has versions that were read and never used.
        used: The sha256 of those that manifests pin.

    Raises:
        UnknownName: No such version is known.
        Refused: Several documents have this version.
    """
    if wanted.endswith((".yaml", ".yml")):
        path = Path(wanted).absolute()
        return _read(reference, LocalFiles(path.parent), path.name, is_named=True)
    versions_used = (each for each in archived_versions(reference, archived) if each.sha256 in used)
    known = {each.sha256: each for each in (*versions_used, present)}
    found = [
        each
        for each in known.values()
        if each.value.version == wanted or (len(wanted) >= _FEWEST_DIGITS and each.sha256.startswith(wanted))
    ]
    if not found:
        versions = sorted({each.value.version for each in known.values()})
        raise UnknownName.coded(
            "no_such_version",
            "no version {wanted!r} of {reference} was ever used here; known are {known}.",
            then="name one of these, or the path of a YAML file that has it",
            reference=reference.name,
            wanted=wanted,
            known=versions,
        )
    if len(found) > 1:
        digests = sorted(each.sha256[:12] for each in found)
        raise Refused.coded(
            "several_documents",
            "{count} documents of {reference} have version {wanted}: sha256 {sha256}.",
            then="name one by its sha256: [reference={reference}={first}]",
            reference=reference.name,
            wanted=wanted,
            sha256=digests,
            count=len(digests),
            first=digests[0],
        )
    return found[0]


def archived_versions(reference: Reference, files: Files) -> Iterator[LoadedReference]:
    """The archived versions of a reference that are intact and that the domain's parser accepts."""
    for each in files.listed(reference.name):
        content = _content(files, each.path)
        if each.path != archived_path(reference.name, hashlib.sha256(content).hexdigest()):
            continue
        try:
            yield _parsed(reference, content, place=str(files.place / each.path))
        except InvalidReference:
            continue


def archived_path(name: str, sha256: str) -> str:
    """Where the archive has a version of a reference."""
    return f"{name}/{sha256}.yaml"


def _parsed(reference: Reference, content: bytes, *, place: str) -> LoadedReference:
    # YAML takes time to import, and most of what is asked of a domain needs no reference.
    from backfill_assets.transforms.strict_yaml import parse_yaml

    try:
        value = reference.parse(parse_yaml(content))
    except Exception as error:  # the parser belongs to the domain, and its errors concern the file
        raise errors.ReferenceBroken(reference=reference.name, place=place, why=_one_sentence(error)) from error
    if not isinstance(getattr(value, "version", None), str):
        why = f"its parse gives a {type(value).__name__}, which has no text as its version, so that no run can name it"
        raise errors.ReferenceBroken(reference=reference.name, place=place, why=why)
    return LoadedReference(
        name=reference.name, sha256=hashlib.sha256(content).hexdigest(), content=content, value=value, place=place
    )


def require_entries(reference: LoadedReference, gate: Failing, table: Table) -> KnownRows:
    """The entries of a reference, each of which says something clear of the table whose gate asks what they say.

    Raises:
        InvalidReference: One does not; with the file, the number and the line of the entry, and what to write.
    """
    asks = f"gate {gate.name} of {table.name}"
    known = reference.value
    if not isinstance(known, KnownRows) or known.entries not in ("", gate.entries):
        parse = "known_rows" if gate.keeps else "control_totals"
        has = f" in place of `{known.entries}`" if isinstance(known, KnownRows) else ""
        why = (
            f"{asks} reads its entries, so that the domain has to declare it with parse={parse}, and it has to have "
            f"`version` and `{gate.entries}`{has}"
        )
        raise errors.ReferenceBroken(reference=reference.name, place=reference.place, why=why)
    found = gate.mistake and gate.mistake(
        known.rows,
        partition=table.partition.column,
        grain=table.partition.grain,
        key=table.row_key,
        schema=current_schema(table),
    )
    if found:
        from backfill_assets.transforms.strict_yaml import line_of_entry

        number, wrong = found
        line = line_of_entry(reference.content, gate.entries, number)
        where = f", in line {line}," if line else ""
        why = f"entry {number} of `{gate.entries}`{where} {wrong} ({asks} asks what it says)"
        raise errors.ReferenceBroken(reference=reference.name, place=reference.place, why=why)
    return known


def known_to(table: Table, references: Mapping[str, LoadedReference]) -> tuple[Safeguard, ...]:
    """The safeguards that gates of a table take from these references: the rows that they keep, by their digests, or
    for a gate of an author the file, where nothing tells if another version is looser. A file that the rows of the
    table follow from as well is no safeguard: whoever changes it changes the rows.

    Raises:
        InvalidReference: An entry that a gate asks says nothing clear.
    """
    found: dict[str, Safeguard] = {}
    of_rows = table.references if isinstance(table, DerivedTable) else ()
    for gate in reading_references(table):
        for name in (name for name in gate.references if name in references):
            each = None
            if not gate.entries and name not in of_rows:
                exactly = {"sha256": references[name].sha256}
                each = Safeguard(name=f"{READ}{name} of gate {gate.name}", exactly=exactly)
            elif gate.entries and (known := require_entries(references[name], gate, table)) and gate.keeps:
                each = Safeguard(name=f"{KNOWN}{name}", holds={"rows": known.digests})
            if each is not None:
                found[each.name] = each
    return tuple(found.values())


def reading_references(table: Table) -> tuple[Failing, ...]:
    """The gates of a table that read references."""
    return tuple(gate for gate in table.gates if isinstance(gate, Failing) and gate.references)


def _one_sentence(error: Exception) -> str:
    """The error in one line; a YAML error with its position in the file."""
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    text = " ".join(str(error).split()).rstrip(".")
    if not isinstance(error, ValueError):
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "..."
