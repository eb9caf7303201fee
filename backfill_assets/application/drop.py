"""Landing what is in the drop folder, on behalf of the person who answers for it: `BACKFILL_USER` of the process."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import datetime

from backfill_assets.application.land import build, land, landed_report
from backfill_assets.application.plan_load import plan_load
from backfill_assets.application.recorder import Acting
from backfill_assets.application.sensor_work import remember
from backfill_assets.calendar.partitions import count_of
from backfill_assets.capture.families import one_of
from backfill_assets.capture.files.drop_folder import DroppedFile, units
from backfill_assets.capture.files.drop_places import DropPlace, ServerPlace, drop_place, dropped
from backfill_assets.core.errors import BackfillError, Refused
from backfill_assets.core.people import Sensor, require_person
from backfill_assets.core.places import InvalidSetting
from backfill_assets.core.progress import Progress
from backfill_assets.domain import SourceTable
from backfill_assets.landing.attempt import Landed
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.events import FILE_FETCHED
from backfill_assets.ledger.outbox import GivenUp
from backfill_assets.report.errors import NotGiven
from backfill_assets.report.landed import LandReport
from backfill_assets.workspace import Workspace

MOST_FILES = 100
"""How many files one run lands before it builds their days; the others are landed by the next one."""


def places(ws: Workspace, source: SourceTable | None = None) -> Iterator[tuple[DropPlace, Sequence[str]]]:
    """The places into which files are dropped, each with its sources: of one source, or of all."""
    own = [source] if source else ws.domain.sources
    if (place := drop_place(ws.settings)) is not None:
        yield place, [each.short_name for each in ws.domain.sources]
    for each in own:
        if each.drop is not None:
            with ws.ledger.read() as tx:
                fetched = tx.events.fetched(each.name).keys()
            of_it = ServerPlace(each.drop, each.short_name, home=ws.settings.home, at=ws.clock(), fetched=fetched)
            with closing(of_it):
                yield of_it, [each.short_name]


def waiting(ws: Workspace, away: list[BackfillError] | None = None) -> tuple[DroppedFile, ...]:
    """The dropped files, oldest first, without those that were given up unchanged; some may not be fit to land.

    Args:
        away: Gets why a server cannot be asked; without it that is raised.

    Raises:
        Refused: There is a place for drops, and it is not stated who answers for it; or it cannot be read.
    """
    if not is_used(ws):
        return ()
    require_person("BACKFILL_USER, who answers for the drop folder,", ws.settings.user)
    found: list[DroppedFile] = []
    for place, sources in places(ws):
        try:
            found += _waiting_in(ws, place, sources)
        except BackfillError as error:
            if away is None or not isinstance(place, ServerPlace):
                raise
            away.append(error)
    return tuple(found)


def is_used(ws: Workspace) -> bool:
    """True if the domain has sources whose files are dropped."""
    return ws.settings.drop is not None or any(source.drop for source in ws.domain.sources)


def _waiting_in(ws: Workspace, place: DropPlace, sources: Sequence[str]) -> list[DroppedFile]:
    try:
        found = dropped(place, sources, ws.clock())
    except OSError as error:
        raise InvalidSetting(
            setting="BACKFILL_DROP",
            why=f"names {ws.settings.drop}, which cannot be read: {str(error.strerror).lower()}",
            wanted="a folder with a folder per source",
        ) from error
    with ws.ledger.read() as tx:
        given_up = {(work.subject, work.mark) for work in tx.stuck.work(Sensor.DROP)}
    return [each for each in found if (each.subject, each.mark) not in given_up]


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
    """Lands the settled files of a source, the oldest first, and builds the days that they touch."""
    by = ws.settings.user
    table = ws.domain.source_table(source)
    taken = _taken_in(ws, replace(acting, by=by), table, most=MOST_FILES)
    landed = count_of(sum(each.is_new for each in taken.landed), "file")
    said = [f"{landed} of {source} landed.", *taken.remarks]
    run = plan_load(ws, source, partitions=None, by=by, reason=f"dropped, landed by {by}")
    if run is not None:
        report = build(ws, run, replace(acting, by=by))
        said.append(f"{report.run.record.run_id} built {report.run.manifest.output}.")
    return "\n".join(said)


def land_all_dropped(ws: Workspace, source: str, acting: Acting, *, builds: bool) -> LandReport:
    """Lands the settled files of a source for a person, as `land_dropped` does.

    Args:
        builds: Whether the bronze days that they touch are built.

    Raises:
        Refused: Nothing is dropped for this source anywhere.
    """
    table = ws.domain.source_table(source)
    if ws.settings.drop is None and table.drop is None:
        why = f"no files are dropped for {table.name}: BACKFILL_DROP is not set, and it declares no folder of a server"
        raise NotGiven(why=why, add=f"drop={one_of('servers')} to its declaration")
    require_person("the one who lands", acting.by)
    taken = _taken_in(ws, acting, table)
    report = landed_report(ws, table, taken.landed, acting, builds=builds)
    return replace(report, refused=taken.refused, left=taken.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """The result of taking dropped files: what landed, what was refused and why, and how many are left."""

    landed: Sequence[Landed]
    refused: Mapping[str, str]
    remarks: Sequence[str]
    left: int


def _taken_in(ws: Workspace, acting: Acting, table: SourceTable, *, most: int | None = None) -> _Taken:
    """Lands the settled files of a source, the oldest first.

    A file that is refused is given up with the reason, and the others are landed; of a delivery nothing lands when a
    file is not what its manifest says. A landed one is put aside, unless it was written meanwhile: then it lands again
    when it has settled.
    """
    landed: list[Landed] = []
    refused: dict[str, str] = {}
    remarks: list[str] = []
    left = 0
    for place, sources in places(ws, table):
        found = [each for each in _waiting_in(ws, place, sources) if each.source == table.short_name]
        settled = [each for each in found if each.is_settled(ws.clock())]
        if isinstance(place, ServerPlace):
            settled = place.unchanged(settled)
        unfit = [each for each in found if each.unfit]
        give_up(ws, unfit)
        refused |= {each.subject: each.unfit for each in unfit}
        chosen = units(settled)[:most]
        left += len(found) - len(unfit) - sum(map(len, chosen))
        for number, unit in enumerate(chosen, start=1):
            outcomes, why = _landed_of(ws, place, acting.by, unit)
            if why is not None:
                others = [each for each in unit if each not in outcomes]
                give_up(ws, others, why=why)
                refused |= {each.subject: why for each in others}
                remarks.append(f"{', '.join(each.subject for each in others)} was refused: {why}")
            _put_aside(ws, place, table, [*_in_order(unit, outcomes)], by=acting.by)
            for each, outcome in outcomes.items():
                landed.append(outcome)
                counts = outcome.record.counts
                if counts.are_mostly_rejected:
                    records = count_of(counts.landed, "record")
                    remarks.append(f"{each.subject}: {counts.rejected:,} of {records} were rejected.")
            acting.listener(Progress(step="land", done=number, total=len(chosen), line=unit[0].subject))
    return _Taken(landed=landed, refused=refused, remarks=remarks, left=left)


def _landed_of(
    ws: Workspace, place: DropPlace, by: str, unit: Sequence[DroppedFile]
) -> tuple[Mapping[DroppedFile, Landed], str | None]:
    """Lands files that belong together, once all of them are there; returns what landed, and why the others did not."""
    found: dict[DroppedFile, Landed] = {}
    try:
        with ExitStack() as until_all_landed:
            taken = {each: until_all_landed.enter_context(place.taken(each)) for each in unit if not each.is_manifest}
            for capture in taken.values():
                capture.require_expected()
            for each, capture in taken.items():
                found[each] = land(ws, each.source, capture, on_duplicate=OnDuplicate.IGNORE, by=by)
    except Refused as error:
        return found, error.message
    return found, None


def _in_order(unit: Sequence[DroppedFile], found: Mapping[DroppedFile, Landed]) -> Iterator[tuple[DroppedFile, str]]:
    """The files that are set aside, with the import that names them: a manifest first, so that none is left without its
    files."""
    ids = {each: outcome.record.import_id for each, outcome in found.items()}
    if ids and len(ids) == sum(not each.is_manifest for each in unit):
        yield from ((each, min(ids.values())) for each in unit if each.is_manifest)
    yield from ids.items()


def _put_aside(
    ws: Workspace, place: DropPlace, table: SourceTable, files: Sequence[tuple[DroppedFile, str]], *, by: str
) -> None:
    """Puts landed files aside; those of a server stay there, and it is recorded that they were fetched."""
    if isinstance(place, ServerPlace):
        with ws.ledger.write() as tx:
            for each, import_id in files:
                said = {"subject": each.subject, "mark": each.mark, "import_id": import_id}
                tx.events.record(actor=by, entity="source", entity_id=table.name, action=FILE_FETCHED, payload=said)
        return
    for each, import_id in files:
        try:
            place.put_aside(each, import_id)
        except OSError as error:
            give_up(ws, [each], why=f"it has landed as {import_id}, and cannot be moved: {str(error.strerror).lower()}")


def unchanged(files: Collection[DroppedFile], seen: dict[str, str], at: datetime) -> list[DroppedFile]:
    """The files that have settled, and are as an earlier tick has seen them."""
    return [each for each in files if seen.get(each.subject) == each.mark and each.is_settled(at)]
