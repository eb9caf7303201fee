"""Landing what is in the drop folder, on behalf of the person who answers for it: `BACKFILL_USER` of the process."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime

from backfill_assets.application.land import build, land
from backfill_assets.application.plan_load import plan_load
from backfill_assets.application.recorder import Acting
from backfill_assets.application.sensor_work import remember
from backfill_assets.capture.deliveries import units
from backfill_assets.capture.drop_folder import DroppedFile
from backfill_assets.capture.drop_places import DropFolder, DropPrefix, drop_place, dropped
from backfill_assets.core.errors import Refused
from backfill_assets.core.people import Sensor, require_person
from backfill_assets.core.places import InvalidSetting
from backfill_assets.core.progress import Progress
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.landing.land import Landed
from backfill_assets.ledger.outbox import GivenUp
from backfill_assets.planning.partitions import count_of
from backfill_assets.workspace import Workspace

MOST_FILES = 100
"""How many files one run lands before it builds their days; the others are landed by the next one."""


def waiting(ws: Workspace) -> tuple[DroppedFile, ...]:
    """What is in the drop folder, the oldest first, without what was given up as it is; some of it may be unfit.

    Raises:
        Refused: There is a drop folder, and it is not stated who answers for it; or it cannot be read.
    """
    if ws.settings.drop is None:
        return ()
    require_person("BACKFILL_USER, who answers for the drop folder,", ws.settings.user)
    try:
        found = dropped(ws.settings, (source.short_name for source in ws.domain.sources), ws.clock())
    except OSError as error:
        raise InvalidSetting(
            setting="BACKFILL_DROP",
            why=f"names {ws.settings.drop}, which cannot be read: {str(error.strerror).lower()}",
            wanted="a folder with a folder per source",
        ) from error
    with ws.ledger.read() as tx:
        given_up = {(work.subject, work.mark) for work in tx.stuck.work(Sensor.DROP)}
    return tuple(each for each in found if (each.subject, each.mark) not in given_up)


def give_up(ws: Workspace, files: Collection[DroppedFile], *, why: str = "", attempts: int = 0) -> None:
    """Does not try files again as they are."""
    remember(
        ws,
        Sensor.DROP,
        [GivenUp(subject=f.subject, why=why or f.unfit, mark=f.mark, attempts=attempts) for f in files],
    )


def settled_sources(ws: Workspace) -> tuple[str, ...]:
    """The sources with files that have settled."""
    at = ws.clock()
    return tuple(dict.fromkeys(each.source for each in waiting(ws) if each.is_settled(at)))


def land_dropped(ws: Workspace, acting: Acting, source: str) -> str:
    """Lands the settled files of a source, the oldest first, and builds the days that they touch.

    A file that is refused is given up with the reason, and the others are landed; of a delivery nothing lands when a
    file is not what its manifest says. A landed one is put aside, unless it was written meanwhile: then it lands again
    when it has settled.
    """
    place, at = drop_place(ws.settings), ws.clock()
    assert place is not None
    by = ws.settings.user
    settled = [each for each in waiting(ws) if each.source == source and each.is_settled(at) and not each.unfit]
    chosen = units(settled)[:MOST_FILES]
    remarks: list[str] = []
    landed = 0
    for number, unit in enumerate(chosen, start=1):
        found, refused = _landed_of(ws, place, source, unit)
        if refused is not None:
            left = [each for each in unit if each not in found]
            give_up(ws, left, why=refused)
            of = ", ".join(each.subject for each in left)
            remarks.append(f"{of} was refused: {refused}")
        for each, import_id in _in_order(unit, found):
            _put_aside(ws, place, each, import_id)
        for each, outcome in found.items():
            landed += outcome.is_new
            counts = outcome.record.counts
            if counts.are_mostly_rejected:
                records = count_of(counts.landed, "record")
                remarks.append(f"{each.subject}: {counts.rejected:,} of {records} were rejected.")
        acting.listener(Progress(step="land", done=number, total=len(chosen), line=unit[0].subject))
    said = [f"{count_of(landed, 'file')} of {source} landed.", *remarks]
    run = plan_load(ws, source, partitions=None, by=by, reason=f"dropped, landed by {by}")
    if run is not None:
        report = build(ws, run, replace(acting, by=by))
        said.append(f"{report.run.record.run_id} built {report.run.manifest.output}.")
    return "\n".join(said)


def _landed_of(
    ws: Workspace, place: DropFolder | DropPrefix, source: str, unit: Sequence[DroppedFile]
) -> tuple[Mapping[DroppedFile, Landed], str | None]:
    """What landed of files that belong together, and why the others did not. Each is there before the first lands."""
    found: dict[DroppedFile, Landed] = {}
    try:
        with ExitStack() as until_all_landed:
            taken = {each: until_all_landed.enter_context(place.taken(each)) for each in unit if not each.is_manifest}
            for capture in taken.values():
                capture.require_expected()
            for each, capture in taken.items():
                found[each] = land(ws, source, capture, on_duplicate=OnDuplicate.IGNORE, by=ws.settings.user)
    except Refused as error:
        return found, error.message
    return found, None


def _in_order(unit: Sequence[DroppedFile], found: Mapping[DroppedFile, Landed]) -> Iterator[tuple[DroppedFile, str]]:
    """What is put aside, and the import that names it: a manifest first, so that none is left without its files."""
    ids = {each: outcome.record.import_id for each, outcome in found.items()}
    if ids and len(ids) == sum(not each.is_manifest for each in unit):
        yield from ((each, min(ids.values())) for each in unit if each.is_manifest)
    yield from ids.items()


def _put_aside(ws: Workspace, place: DropFolder | DropPrefix, each: DroppedFile, import_id: str) -> None:
    try:
        place.put_aside(each, import_id)
    except OSError as error:
        give_up(ws, [each], why=f"it has landed as {import_id}, and cannot be moved: {str(error.strerror).lower()}")


def unchanged(files: Collection[DroppedFile], seen: dict[str, str], at: datetime) -> list[DroppedFile]:
    """Those that have settled, and are as a tick before has seen them."""
    return [each for each in files if seen.get(each.subject) == each.mark and each.is_settled(at)]
