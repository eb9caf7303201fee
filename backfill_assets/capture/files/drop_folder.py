"""Drop folder: files that are put into `<drop>/<source>/`, before they land. Only the file system is asked here.

Files that land are moved into `<drop>/<source>/landed/`, under the name of their import; nothing is ever deleted.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from ctypes import CDLL, get_errno
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from backfill_assets.capture.files.file_capture import NOTHING, Expected, some_of
from backfill_assets.core.errors import Refused
from backfill_assets.core.wording import visible

LANDED = "landed"
MANIFESTS = ("manifest.json", "manifest.csv")
"""The names of manifests, in any case; or what they end in, behind a point."""
SETTLED_AFTER = timedelta(seconds=60)
"""A file is not taken before it has been left alone for so long."""

_UNFINISHED = (".part", ".partial", ".tmp", ".temp", ".filepart", ".crdownload", ".swp", "~")
"""How programs name a file that they are still writing; a hidden file is one as well."""

_AT_FDCWD, _NOREPLACE = -100, 1
_NO_SUCH_STEP = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedFile:
    """A file in the drop folder."""

    source: str  #: The name of its folder.
    path: Path
    subject: str  #: The same below the drop folder, as people are shown it.
    mark: str  #: Changes whenever the file is written or replaced, also when its size and its time are restored.
    changed_at: datetime  #: When it was written, renamed or moved here last.
    unfit: str = ""  #: Why it cannot be landed, whatever is in it; empty for a file.
    expected: Expected = NOTHING  #: What the manifest of its delivery says of it.
    delivery: str = ""  #: The manifest of its delivery, as people are shown it; empty where there is none.

    @property
    def is_manifest(self) -> bool:
        """True if the file is the manifest of a delivery, and holds no records."""
        return is_manifest(self.path.name)

    def is_settled(self, at: datetime) -> bool:
        """True if the file can be landed, and has not changed for long enough."""
        return not self.unfit and self.changed_at <= at - SETTLED_AFTER


def is_manifest(name: str) -> bool:
    """True if a file of this name is the manifest of a delivery."""
    lower = name.lower()
    return lower in MANIFESTS or lower.endswith(tuple(f".{each}" for each in MANIFESTS))


def dropped_files(drop: Path, sources: Iterable[str]) -> tuple[DroppedFile, ...]:
    """Everything in the folders of these sources that is finished by its name, the oldest first.

    What is in other folders is there as well: it cannot be landed.
    """
    known = set(sources)
    found: list[DroppedFile] = []
    for folder in _entries(drop):
        if folder.name not in known or folder.is_symlink() or not folder.is_dir():
            found.append(
                _dropped(drop, "", folder, unfit=f"it is not the folder of a source: {', '.join(sorted(known))}")
            )
            continue
        entries = (entry for entry in _entries(Path(folder.path)) if entry.name != LANDED)
        found += [_dropped(drop, folder.name, entry, unfit=_unfit(entry)) for entry in entries]
    return tuple(sorted(found, key=lambda each: (each.changed_at, each.subject)))


def put_aside(dropped: DroppedFile, *, drop: Path, import_id: str) -> Path | None:
    """Moves a landed file into the folder of landed ones, where it replaces nothing.

    A version that came into its place stays: the file is compared before it is moved, and what was moved is compared
    with it again and put back if it is another one. The second time without the time of its last change, which the
    move sets: a rewrite in place between both, of the same size and with its time restored, is not seen.

    Returns:
        Where it is now; None when it is not there any more as it was listed.

    Raises:
        OSError: It cannot be moved.
    """
    if _mark_of(dropped.path) != dropped.mark:
        return None
    folder = drop / dropped.source / LANDED
    folder.mkdir(exist_ok=True)
    try:
        target = _moved(dropped.path, lambda number: folder / f"{import_id}{number}-{dropped.path.name}")
    except FileNotFoundError:
        return None
    if dropped.mark.startswith(f"{_content_mark(target.lstat())}:"):
        return target
    _moved(target, lambda number: dropped.path.with_name(f"{number.lstrip('-')}{number and '-'}{dropped.path.name}"))
    return None


def _moved(source: Path, named: Callable[[str], Path]) -> Path:
    """Moves a file to the first of these names that is free: without a number, then with `-2` and so on."""
    for number in count(1):
        target = named(f"-{number}" if number > 1 else "")
        try:
            _move(source, target)
        except FileExistsError:
            continue
        return target
    raise AssertionError("numbers do not end")


def _move(source: Path, target: Path) -> None:
    """Moves a file where nothing of its new name exists, in one step of the file system.

    Where there is no such step (another system than Linux, or a file system without it) it is linked there, and its
    first name removed unless another file has taken it; one that takes it between these two is lost.
    """
    try:
        _renamed_where_free(source, target)
    except OSError as error:
        if error.errno not in _NO_SUCH_STEP:
            raise
        os.link(source, target, follow_symlinks=False)
        if os.path.samestat(source.lstat(), target.lstat()):
            source.unlink()


def _renamed_where_free(source: Path, target: Path) -> None:
    """Linux' renameat2 with RENAME_NOREPLACE, which Python does not have."""
    try:
        rename = CDLL(None, use_errno=True).renameat2
    except AttributeError as error:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from error
    if rename(_AT_FDCWD, os.fsencode(source.absolute()), _AT_FDCWD, os.fsencode(target.absolute()), _NOREPLACE):
        found = get_errno()
        raise OSError(found, os.strerror(found), str(source), None, str(target))


def is_finished(name: str) -> bool:
    """False for names that programs give to files which they are still writing."""
    return not name.startswith(".") and not name.endswith(_UNFINISHED)


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from (each for each in entries if is_finished(each.name))


def _dropped(drop: Path, source: str, entry: os.DirEntry[str], *, unfit: str) -> DroppedFile:
    path = Path(entry.path)
    try:
        held = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        held = os.stat_result((0,) * 10)
    return DroppedFile(
        source=source,
        path=path,
        subject=visible(path.relative_to(drop).as_posix()),
        # What can never be landed is given up once, also a folder that is still being filled.
        mark=f"unfit:{held.st_ino}" if unfit else _mark(held),
        # Not the time of its content, which a copy can take over from the original.
        changed_at=datetime.fromtimestamp(max(held.st_ctime, 0), UTC),
        unfit=unfit,
    )


def _unfit(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "it is a link, and a link can name what its owner could not read: put the file itself here"
    if entry.is_dir(follow_symlinks=False):
        return "it is a folder: put the files in it directly into the folder of their source"
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:
        return ""
    return (
        ""
        if stat.S_ISREG(mode)
        else "it is a pipe, a socket or a device, which has no content that could be landed again"
    )


def _mark_of(path: Path) -> str | None:
    """The mark of what is at a path now; None when nothing is."""
    try:
        return _mark(path.lstat())
    except (OSError, ValueError):
        return None


def _mark(held: os.stat_result) -> str:
    return f"{_content_mark(held)}:{held.st_ctime_ns}"


def _content_mark(held: os.stat_result) -> str:
    """The fingerprint of a file that a move does not change."""
    return f"{held.st_size}:{held.st_mtime_ns}:{held.st_ino}"


# Deliveries: dropped files that a manifest beside them names land together, when all of them are there.
#
# While a manifest is still being written, or cannot be read, nothing of its folder lands: which files it names is
# not known. The files of one that stays incomplete wait for a person.

COMPLETE_WITHIN = timedelta(days=1)
"""How long a manifest may be there before its last file."""


def in_deliveries(
    found: Sequence[DroppedFile], read: Callable[[DroppedFile], Sequence[Expected]], at: datetime
) -> tuple[DroppedFile, ...]:
    """Dropped files with what their manifests say of them, without those that have to wait.

    Args:
        read: What a manifest says of files of the source.
        at: The present.
    """
    held: set[str] = set()
    named_by: dict[str, str] = {}
    known = {each.subject: each for each in found}
    for manifest in found:
        if manifest.unfit or not manifest.is_manifest:
            continue
        beside = {each.path.name: each for each in found if each.source == manifest.source and not each.unfit}
        others = {each.subject for each in beside.values() if each != manifest}
        if not manifest.is_settled(at):
            held |= {manifest.subject, *others}
            continue
        try:
            said = {each.name: each for each in read(manifest)}
        except Refused as error:
            known[manifest.subject] = replace(manifest, unfit=error.message)
            held |= others
            continue
        if not said:  # of files of another source
            held.add(manifest.subject)
            continue
        missing = [name for name in said if name not in beside or not beside[name].is_settled(at)]
        mine = {beside[name].subject: said[name] for name in said if name in beside}
        if twice := [each.name for subject, each in mine.items() if subject in named_by]:
            # Which of the two says what it is, is not known; with the first one its files land, or wait.
            held |= mine.keys() - named_by.keys()
            why = f"names {some_of(twice)}, of another delivery: {named_by[beside[twice[0]].subject]} names it"
            known[manifest.subject] = replace(manifest, unfit=why)
            continue
        named_by |= dict.fromkeys(mine, manifest.path.name)
        if missing:
            held |= mine.keys()
            if at - manifest.changed_at < COMPLETE_WITHIN:
                held.add(manifest.subject)
            else:
                why = f"its delivery is not complete: {some_of(missing)} did not come within a day"
                known[manifest.subject] = replace(manifest, unfit=why)
            continue
        known[manifest.subject] = replace(manifest, delivery=manifest.subject)
        for subject, expected in mine.items():
            known[subject] = replace(known[subject], expected=expected, delivery=manifest.subject)
    return tuple(known[each.subject] for each in found if each.subject not in held)


def units(files: Iterable[DroppedFile]) -> Sequence[Sequence[DroppedFile]]:
    """Files that land together: those of a delivery, with its manifest; any other one alone."""
    found: dict[str, list[DroppedFile]] = {}
    for each in files:
        found.setdefault(each.delivery or each.subject, []).append(each)
    return [*found.values()]
