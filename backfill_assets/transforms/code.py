"""Code identity: the digest of what a transform's function reaches in the author's modules, and the archive of their
source text.
"""

from __future__ import annotations

import ast
import difflib
import functools
import hashlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import backfill_assets
from backfill_assets.core.errors import MissingInput
from backfill_assets.core.identity import canonical_json, sha256_text
from backfill_assets.core.what_ran import what_ran
from backfill_assets.domain import Domain, Failing, SourceTable, Table
from backfill_assets.domain.tables import DerivedTable
from backfill_assets.files.port import Files
from backfill_assets.planning.manifest_parts import InexactSum
from backfill_assets.transforms.determined import require_determined
from backfill_assets.transforms.statements import Module, Named, Reaching, Sources, module_at
from backfill_assets.transforms.values import MISSING, Encoding, NotPinned, Read, found_by, is_constant, is_of_a_library

# Code identity: the digest of what a transform's function reaches in the author's modules.
#
# The digest is over lines, so a comment between or inside reached definitions is a change; one in any other
# definition or module is not. It is also over the values that the function finds in these modules: what was read
# from the environment or a file when they were imported, and what was assigned since. Installed packages and this
# project are not included; their versions are recorded.

_THIS_PROJECT = backfill_assets.__name__
LOADER = f"{_THIS_PROJECT}.landing"


_DIGITS_OF_A_VALUE = 3
"""Enough to see that it is another one, too few to find out what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleText:
    """The text of a reached module."""

    name: str
    path: str  #: Its file, below the folder that it is imported from.
    reached: bytes  #: The lines that count.
    source: bytes  #: All of it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The identity of the code of a table."""

    digest: str  #: The sha256 over the names and bytes of the modules.
    #: Their names, in order; `package.*` when a module is imported by a computed name, so that the whole package is
    #: included.
    modules: tuple[str, ...]
    #: The text of each; none of the code of this project.
    texts: tuple[ModuleText, ...] = field(default=(), repr=False)
    #: Digits of the digest of each value that is found in them, by name.
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DomainCode:
    """The present code of a domain's tables; each module is read once."""

    domain: Domain
    _sources: Sources = field(init=False)
    _parsed: dict[str, Module] = field(init=False, default_factory=dict)
    _ran: dict[str, Mapping[str, str]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sources", Sources.of(self.domain))

    def what_ran(self, image: str) -> Mapping[str, str]:
        """The evidence of what computes with this code, asked for once; see `core.what_ran`."""
        if image not in self._ran:
            self._ran[image] = what_ran(self._sources.root, image=image)
        return self._ran[image]

    @property
    def sources(self) -> Sources:
        """The author's files."""
        return self._sources

    def of(self, table: Table, version: str) -> Code:
        """The code of one release of a table, with the values of this instant; of a source table, the loader's."""
        if not isinstance(table, DerivedTable):
            return _loader()
        # What other releases use is not its code: a new release leaves earlier runs reproducible.
        parses = (each.parse for each in self.domain.references if each.name in table.references)
        # What the author declares as harmless is agreed to with the code that it is about.
        agreed = {f"undetermined {what}": reason.encode() for what, reason in table.undetermined.items()}
        return self._reached(table.release(version).function, *parses, agreed=agreed)

    def of_gates(self, table: Table) -> Mapping[str, Code]:
        """The code of the gates of a table that an author's function or query measures, by their names; it is no part
        of the code of the table, whose rows do not follow from it."""
        own = (gate for gate in table.gates if isinstance(gate, Failing) and not gate.release)
        return {gate.name: self.of_gate(gate) for gate in own}

    def gate_digests(self, table: Table) -> Mapping[str, str]:
        """The digests of that code, by the names of the gates."""
        return {name: code.digest for name, code in self.of_gates(table).items()}

    def of_gate(self, gate: Failing) -> Code:
        """The code of a gate, with that by which references are read that it names."""
        if gate.rows is None:
            return Code(digest=sha256_text(gate.sql), modules=())
        parses = (each.parse for each in self.domain.references if each.name in gate.references)
        return self._reached(gate.rows, *parses)

    def require_determined(self, table: Table, version: str) -> tuple[InexactSum, ...]:
        """Refuses a release of a table whose rows do not follow from what a manifest pins; see `determined`."""
        return require_determined(self.domain, self._sources, table, version)

    def lifts(self, source: SourceTable) -> Mapping[int, str]:
        """The digests of the code of a source's lifts that change values, by the version that they start from."""
        changing = {each: source.lift_from(each) for each in source.earlier}
        return {
            each: self._reached(lift.function).digest
            for each, lift in changing.items()
            if lift.function is not None and not lift.keeps_values
        }

    def _reached(self, *functions: Callable[..., Any], agreed: Mapping[str, bytes] = MappingProxyType({})) -> Code:
        reached = _Reached(sources=self._sources, parsed=self._parsed, values=dict(agreed))
        content = reached.by(*functions)
        values = [(f"value of {name}", value) for name, value in sorted(reached.values.items())]
        digits = {
            name: hashlib.sha256(value).hexdigest()[:_DIGITS_OF_A_VALUE] for name, value in reached.values.items()
        }
        if content is None:
            digest, modules = _digest([("*", self._package_bytes), *values]), (f"{self.domain.package}.*",)
            return Code(digest=digest, modules=modules, texts=tuple(self._package_texts()), values=digits)
        digest, texts = _digest([*content.items(), *values]), tuple(self._texts(content))
        return Code(digest=digest, modules=tuple(content), texts=texts, values=digits)

    def _texts(self, content: Mapping[str, bytes]) -> Iterator[ModuleText]:
        for name, reached in content.items():
            path = self._sources.file(name)
            assert path is not None, name
            # A module that is imported from another folder, such as one of tests, has the place of its name.
            below = Path(*name.split("."), "__init__.py") if path.name == "__init__.py" else Path(*name.split("."))
            if path.is_relative_to(self._sources.holder):
                below = path.relative_to(self._sources.holder)
            yield ModuleText(
                name=name, path=below.with_suffix(".py").as_posix(), reached=reached, source=self._parsed[name].source
            )

    def _package_texts(self) -> Iterator[ModuleText]:
        for path in self._sources.package_files():
            below, source = path.relative_to(self._sources.holder), path.read_bytes()
            name = ".".join(below.with_suffix("").parts).removesuffix(".__init__")
            yield ModuleText(name=name, path=below.as_posix(), reached=source, source=source)

    @functools.cached_property
    def _package_bytes(self) -> bytes:
        root = self._sources.root
        files = ((path.relative_to(root).as_posix(), path.read_bytes()) for path in self._sources.package_files())
        return _digest(files).encode()


@dataclass(kw_only=True)
class _Reached:
    """The objects that a function reaches, names and values in turn: a value can hold a function, and a function
    uses names."""

    sources: Sources
    parsed: dict[str, Module]
    values: dict[str, bytes] = field(default_factory=dict)
    _encoding: Encoding = field(init=False)

    def __post_init__(self) -> None:
        self._encoding = Encoding(sources=self.sources, parsed=self.parsed)

    def by(self, *functions: Callable[..., Any]) -> Mapping[str, bytes] | None:
        """The code that is reached, by module; None if all of the package can be."""
        reaching = Reaching(sources=self.sources, parsed=self.parsed)
        for function in functions:
            self._pin(_name_of_root(function), function)
        content, known, classes, seen = None, set[Named](), 0, set[Read]()
        while known != (now := self._encoding.found | self._encoding.made) or classes < len(self._encoding.classes):
            known = now
            content = reaching.content(known)
            for read in sorted(reaching.reads.keys() - seen, key=repr):
                seen.add(read)
                self._read(read)
            for module in sorted(reaching.whole):
                self._all_of(module)
            for kind in list(self._encoding.classes)[classes:]:
                classes += 1
                self._pin_class(kind)
        return content

    def _read(self, read: Read) -> None:
        name, value = found_by(read)
        holder = name.rpartition(".")[0]
        if value is MISSING or is_of_a_library(value, self.sources):
            return
        if isinstance(value, ModuleType):
            self._all_of(value.__name__)
        elif self.sources.file(holder) is not None or is_constant(value):
            self._pin(name, value)

    def _all_of(self, module: str) -> None:
        """The values of a module that is handed on, as far as they can be pinned."""
        path, loaded = self.sources.file(module), sys.modules.get(module)
        if path is None or loaded is None:
            return
        for statement in module_at(self.parsed, module, path).statements:
            for name in statement.binds & vars(loaded).keys():
                self._pin(f"{module}.{name}", vars(loaded)[name])

    def _pin(self, name: str, value: object) -> None:
        if name not in self.values:
            # What cannot be pinned is refused when a run is planned, and shown until then.
            self.values[name] = self._encoding.of(value, is_foreign=True)

    def _pin_class(self, kind: type) -> None:
        name = f"{kind.__module__}.{kind.__qualname__}"
        key = f"{name} {sum(each.startswith(f'{name} ') for each in self.values)}"
        try:
            self.values[key] = self._encoding.of_class(kind)
        except NotPinned:
            self.values[key] = b""


@functools.cache
def _loader() -> Code:
    """The modules of this project that turn landed files into rows."""
    spec = importlib.util.find_spec(LOADER)
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent
    return Code(digest=_digest((p.name, p.read_bytes()) for p in sorted(folder.glob("*.py"))), modules=(f"{LOADER}.*",))


def _name_of_root(function: Any) -> str:
    """The name of a function, or of the class of a callable object."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _digest(contents: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, content in contents:
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


# Code archive: the source text of the modules that a release reaches, so that a code digest leads to lines.
#
# A module is kept once by the sha256 of its text, and the list of the modules by the code digest, written after
# them: a list that is there is whole. Of values that a function finds in its modules three digits of their
# digests are kept: enough to name the one that changed, too few to tell what it is.

_FOLDER = "code"
"""Beside the folders of references; one of this name has files of YAML, which have other names."""

_FORMAT = 1
_CONTEXT_LINES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedModule:
    """A module of the archive."""

    name: str  #: Its name, such as `finance.fees`.
    path: str  #: Its file, below the folder that it is imported from.
    reached: str  #: The sha256 of its lines that count.
    source: str  #: The sha256 of its whole text.


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedCode:
    """The archived code behind a code digest."""

    digest: str
    sha256: str  #: Of the list itself, which manifests name.
    modules: tuple[ArchivedModule, ...]  #: The modules, by name.
    values: Mapping[str, str]  #: Three digits of each value that is found in them, by name.


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleChange:
    """The differences in the lines of a module that count."""

    module: str  #: Its name.
    definitions: tuple[str, ...]  #: The functions, classes and names that were changed, added or removed.
    lines: tuple[str, ...]  #: The unified difference, or its first lines.
    left_out: int = 0  #: How many more lines the difference has.


def keep(code: Code, files: Files) -> str:
    """Archives code; returns the sha256 of its list. Empty for the code of this project, which its version names.

    What is there already is not written again. A process that dies here leaves modules that no list names, and that
    the next one finds.

    Raises:
        MissingInput: The list that is there under the digest is one of other code.
    """
    if not code.texts:
        return ""
    path = _list_path(code.digest)
    if files.stat(path) is None:
        modules = []
        for text in code.texts:
            hashes = [hashlib.sha256(each).hexdigest() for each in (text.reached, text.source)]
            for sha256, content in dict(zip(hashes, (text.reached, text.source), strict=True)).items():
                if files.stat(_text_path(sha256)) is None:
                    files.put_if_absent(_text_path(sha256), content)
            modules.append([text.name, text.path, *hashes])
        document = {"format": _FORMAT, "digest": code.digest, "modules": modules, "values": dict(code.values)}
        # Another process may have put the same code first, with other lines of it that do not count.
        files.put_if_absent(path, canonical_json(document).encode())
    # A list that is there need not be one of this code: another program may have put it there.
    there = archived(code.digest, files)
    reached = {text.name: hashlib.sha256(text.reached).hexdigest() for text in code.texts}
    if there is None or {each.name: each.reached for each in there.modules} != reached:
        raise MissingInput.coded(
            "code_list_of_other_code",
            "the list {place} is not that of the code with digest {digest}, which would not lead to its lines.",
            digest=code.digest,
            place=f"{files.place}/{path}",
        )
    return there.sha256


def archived(digest: str, files: Files) -> ArchivedCode | None:
    """The archived code of a digest; None where there is none, or it cannot be read."""
    content = _content(files, _list_path(digest))
    with suppress(ValueError, KeyError, TypeError):
        document = json.loads(content)
        return ArchivedCode(
            digest=document["digest"],
            sha256=hashlib.sha256(content).hexdigest(),
            modules=tuple(
                ArchivedModule(name=name, path=path, reached=reached, source=source)
                for name, path, reached, source in document["modules"]
            ),
            values=document["values"],
        )
    return None


def digests_like(start: str, files: Files) -> tuple[str, ...]:
    """The archived code digests that begin with some digits."""
    names = (each.path.rpartition("/")[2] for each in files.listed(_FOLDER))
    return tuple(
        sorted(name.removesuffix(".json") for name in names if name.endswith(".json") and name.startswith(start))
    )


def text_of_module(sha256: str, files: Files) -> str | None:
    """The text of a module, or of its lines that count; None where the archive does not have exactly that."""
    content = _content(files, _text_path(sha256))
    return content.decode(errors="replace") if hashlib.sha256(content).hexdigest() == sha256 else None


def reached_texts(code: ArchivedCode, files: Files) -> Mapping[str, str]:
    """The lines that count of every module, by its name; of a text that is lost, a line that says so."""
    texts = {each.name: (each.reached, text_of_module(each.reached, files)) for each in code.modules}
    lost = "# The archive does not have this text as it was: sha256 {}.\n"
    return {name: lost.format(sha256) if text is None else text for name, (sha256, text) in texts.items()}


def texts_now(code: Code) -> Mapping[str, str]:
    """The texts of the present code."""
    return {each.name: each.reached.decode(errors="replace") for each in code.texts}


def differences(
    was: Mapping[str, str], now: Mapping[str, str], *, most: int | None = None, first: str = ""
) -> Iterator[ModuleChange]:
    """The differences between modules, by name. Pure.

    Where not all lines fit, each module has a share of the room, imports are left out, and functions come before names.

    Args:
        most: How many lines of the differences are returned in all; None for all of them.
        first: The module that comes first, with half of the room if it needs it.
    """
    changed = sorted(
        (name for name in was.keys() | now.keys() if was.get(name, "") != now.get(name, "")),
        key=lambda name: (name != first, name),
    )
    whole = {name: _lines(name, was.get(name, ""), now.get(name, "")) for name in changed}
    room = {name: len(lines) for name, lines in whole.items()} if most is None else _shares(whole, most, first)
    for name in changed:
        before, after, lines = was.get(name, ""), now.get(name, ""), whole[name]
        if len(lines) > room[name]:
            rest = [_without_imports(each) for each in (before, after)]
            lines = _lines(name, *(rest if rest[0] != rest[1] else (before, after)), functions_first=True)
        shown = lines[: room[name]]
        yield ModuleChange(
            module=name,
            definitions=changed_definitions(before, after),
            lines=tuple(shown),
            left_out=len(whole[name]) - len(shown),
        )


def _shares(whole: Mapping[str, Sequence[str]], most: int, first: str) -> Mapping[str, int]:
    """The number of lines that fit of each module: what a short one does not need, the longer ones share."""
    others = sum(len(lines) for name, lines in whole.items() if name != first)
    own = min(len(whole.get(first, ())), max(most - others, (most + 1) // 2))
    found, room = ({first: own} if first in whole else {}), most - own
    waiting = sorted((name for name in whole if name != first), key=lambda name: len(whole[name]))
    for place, name in enumerate(waiting):
        found[name] = min(len(whole[name]), room // (len(waiting) - place))
        room -= found[name]
    return found


def _lines(name: str, before: str, after: str, *, functions_first: bool = False) -> list[str]:
    """The unified difference of two texts of a module."""
    was, now = before.splitlines(), after.splitlines()
    functions = [_lines_of_functions(each) if functions_first else frozenset[int]() for each in (before, after)]
    hunks: list[tuple[bool, list[str]]] = []
    for group in difflib.SequenceMatcher(None, was, now).get_grouped_opcodes(_CONTEXT_LINES):
        (_, i, _, j, _), (_, _, i_end, _, j_end) = group[0], group[-1]
        found, is_elsewhere = [f"@@ -{_range(i, i_end)} +{_range(j, j_end)} @@"], True
        for tag, start, end, later, last in group:
            if tag == "equal":
                found += [f" {line}" for line in was[start:end]]
                continue
            found += [*(f"-{line}" for line in was[start:end]), *(f"+{line}" for line in now[later:last])]
            is_elsewhere &= functions[0].isdisjoint(range(start, end)) and functions[1].isdisjoint(range(later, last))
        hunks.append((is_elsewhere, found))
    ordered = sorted(hunks, key=lambda hunk: hunk[0]) if functions_first else hunks
    return [f"--- before/{name}", f"+++ after/{name}", *(line for _, hunk in ordered for line in hunk)]


def _range(start: int, end: int) -> str:
    count = end - start
    return str(start + 1) if count == 1 else f"{start + bool(count)},{count}"


def _statements(text: str) -> Sequence[ast.stmt]:
    with suppress(SyntaxError, ValueError):
        return ast.parse(text).body
    return ()


def _lines_of_functions(text: str) -> frozenset[int]:
    """The places of the lines of the functions and classes at the top of a module."""
    chosen = [each for each in _statements(text) if isinstance(each, ast.FunctionDef | ast.ClassDef)]
    return frozenset(place for each in chosen for place in range(_first_line(each) - 1, each.end_lineno or 0))


def _without_imports(text: str) -> str:
    """A text whose imports at the top are empty lines, so that the others keep their numbers."""
    lines = text.splitlines()
    for each in _statements(text):
        if isinstance(each, ast.Import | ast.ImportFrom):
            lines[each.lineno - 1 : each.end_lineno] = [""] * ((each.end_lineno or each.lineno) - each.lineno + 1)
    return "\n".join(lines)


def changed_definitions(before: str, after: str) -> tuple[str, ...]:
    """The functions, classes and names at the top of a module whose text differs, in the order of the names."""
    was, now = definitions(before), definitions(after)
    return tuple(sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name)))


def changed_values(was: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """The names of values that differ. One that only one side finds is named by lines that differ."""
    return tuple(sorted(name for name in was.keys() & now.keys() if was[name] != now[name]))


def what_changed(was: ArchivedCode | None, now: Code, files: Files, *, most: int = 5) -> str:
    """Names the modules, functions and values in which present code differs from archived code; empty if unknown."""
    if was is None or not now.texts:
        return ""
    changed: list[str] = []
    for change in differences(reached_texts(was, files), texts_now(now), most=0):
        names = ", ".join(change.definitions[:most])
        changed.append(f"{change.module} ({names})" if names else change.module)
    # A changed function is a changed value too; where no line has changed, it is a value alone.
    changed = changed or [f"the value of {name}" for name in changed_values(was.values, now.values)]
    more = f" and {len(changed) - most} more" if len(changed) > most else ""
    return ", ".join(changed[:most]) + more


def changed_in_code_archive(
    cited: Iterable[tuple[str, str]], files: Files, *, is_quick: bool
) -> Iterator[tuple[str, str]]:
    """The files of the archived code that are not what manifests name, with a sentence about each.

    Args:
        cited: Code digests, each with the sha256 of its list.
    """
    texts: dict[str, str] = {}
    for digest, sha256 in cited:
        found, named = archived(digest, files), f"the archived code {digest[:12]} ({_list_path(digest)})"
        if files.stat(_list_path(digest)) is None:
            yield _list_path(digest), f"{named} is gone: what it computed cannot be led back to lines."
        elif found is None or found.sha256 != sha256 or found.digest != digest:
            yield (
                _list_path(digest),
                f"the bytes of {named} were changed: what it computed cannot be led back to lines.",
            )
        else:
            texts |= {each: module.name for module in found.modules for each in (module.reached, module.source)}
    for sha256, name in sorted(texts.items()):
        if files.stat(_text_path(sha256)) is None:
            yield _text_path(sha256), f"the archived text of {name} ({_text_path(sha256)}) is gone."
        elif not is_quick and files.digest(_text_path(sha256)) != sha256:
            yield _text_path(sha256), f"the bytes of the archived text of {name} ({_text_path(sha256)}) were changed."


def definitions(text: str) -> Mapping[str, str]:
    """The text of what is bound at the top of a module, by name; nothing of a text that is not Python."""
    found: dict[str, str] = {}
    for node in _statements(text):
        for name in _bound(node):
            # Several statements may bind one name.
            found[name] = found.get(name, "") + _lines_of(text, node)
    return found


def _lines_of(text: str, node: ast.stmt) -> str:
    return "\n".join(text.splitlines()[_first_line(node) - 1 : node.end_lineno])


def _first_line(node: ast.stmt) -> int:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return node.lineno


def _bound(node: ast.stmt) -> Sequence[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]


def _list_path(digest: str) -> str:
    return f"{_FOLDER}/{digest}.json"


def _text_path(sha256: str) -> str:
    return f"{_FOLDER}/{sha256}.txt"


def _content(files: Files, path: str) -> bytes:
    """The bytes of a file; none where there is none that can be read."""
    try:
        return files.read(path)
    except OSError:  # it is gone, or something else is in its place
        return b""
