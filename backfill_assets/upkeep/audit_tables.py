"""Audit of tables: what readers see of each, its files and its log, against the ledger.

A publication determines its commit: which files, with how many rows, of which partition, and nothing else. So every
commit is compared with its publication, its bytes with the digest that was recorded when it had landed, and what the
log makes of the table, by its commits and by its checkpoints, with what that publication left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date

from backfill_assets.core.identity import EMPTY_FILE_SET, LogEvidence
from backfill_assets.lake.log_evidence import (
    commit_digests,
    live_row_counts,
    log_problems,
    state_digest,
)
from backfill_assets.lake.swap import Exchanged
from backfill_assets.lake.tables import changed_files, live_digests, missing_files
from backfill_assets.ledger.publications import SetToLedger
from backfill_assets.ledger.records import PartitionVersion, PublicationRecord
from backfill_assets.ledger.states import PublicationState, VersionState
from backfill_assets.planning.state import Expired
from backfill_assets.upkeep.damage import Amiss, Damage, Lost
from backfill_assets.workspace import Workspace

LANDED = (PublicationState.PUBLISHED, PublicationState.ROLLED_BACK)

_MAKES, _EXCHANGES = {"protocol", "metaData"}, {"metaData"}
"""What the commit that makes a table holds besides itself, and what one that exchanges files may hold."""


def files_against_ledger(
    ws: Workspace, name: str, accepted: Mapping[date, PartitionVersion], expired: Mapping[date, Expired]
) -> Iterator[str]:
    """Where the files that readers see are not those of the accepted versions."""
    live = dict(live_digests(ws.lake, name))
    # Asked once of all files; only where some are missing, of each partition again to say which.
    has_missing = bool(missing_files(ws.lake, name, (version.files for version in accepted.values())))
    for partition, version in accepted.items():
        found = live.pop(partition.isoformat(), EMPTY_FILE_SET.digest)
        if found != version.files.digest:
            yield (
                f"{name} {partition}: readers do not see version {version.version}, which the ledger calls accepted "
                f"(run {version.run_id})."
            )
        for problem in missing_files(ws.lake, name, [version.files]) if has_missing else ():
            yield Amiss.of(f"{name} {partition}: {problem}.", of_version(ws, version))
    by_value = {partition.isoformat(): each.run_id for partition, each in expired.items()}
    for value in sorted(live):
        why = f": the snapshot expired by run {by_value[value]}" if value in by_value else ""
        yield f"{name} {value}: readers see rows that no accepted version explains{why}."


def kept_versions(
    versions: Iterable[PartitionVersion], settings: Iterable[SetToLedger] = ()
) -> Sequence[PartitionVersion]:
    """The versions that are not accepted, and that a rollback could bring back.

    Args:
        settings: When the table was set to the ledger, and it was accepted that some versions cannot be brought back.
    """
    gone = {each for setting in settings for each in setting.gone}
    kept = (each for each in versions if each.state is not VersionState.ACCEPTED and each.removed_at is None)
    return [each for each in kept if (each.partition, each.version) not in gone]


def earlier_files_against_ledger(
    ws: Workspace, name: str, kept: Sequence[PartitionVersion], *, is_quick: bool
) -> Iterator[str]:
    """Where the files of kept versions are not as recorded."""
    if missing_files(ws.lake, name, (each.files for each in kept)):
        for version in kept:
            for problem in missing_files(ws.lake, name, [version.files]):
                said = f"{name} {version.partition}: {problem}; version {version.version} cannot be restored."
                yield Amiss.of(said, replace(of_version(ws, version), kind=Lost.EARLIER))
    if not is_quick:
        for version, problem in changed_of(ws, name, kept):
            said = f"{name}: {problem}; its version cannot be restored."
            yield Amiss.of(said, replace(of_version(ws, version), kind=Lost.EARLIER))


def changed_of(
    ws: Workspace, name: str, versions: Iterable[PartitionVersion]
) -> Iterator[tuple[PartitionVersion, str]]:
    """Files of versions that have other bytes, each once, with a version that it is of."""
    known = list(versions)
    of_path = {path: version for version in reversed(known) for path in version.files.paths}
    for problem in changed_files(ws.lake, name, (version.files for version in known)):
        yield next(version for path, version in of_path.items() if path in problem), problem


def of_version(ws: Workspace, version: PartitionVersion) -> Damage:
    """The loss of an accepted version."""
    return Damage(
        kind=Lost.ACCEPTED,
        table=version.table,
        grain=ws.domain.tables[version.table].partition.grain if version.table in ws.domain.tables else None,
        partition=version.partition,
        run_id=version.run_id,
        place=str(ws.lake.place(version.table)),
    )


def commits_against_ledger(
    name: str,
    seen: Iterable[tuple[int, Mapping[str, object], Exchanged]],
    known: Mapping[str, PublicationRecord],
    settings: Sequence[SetToLedger],
    foreign_in: Damage,
) -> Iterator[str]:
    """Where the commits of a table are not those of its publications, nor accepted when it was set to the ledger.

    Commits of other programs that follow each other are explained once the last of them has undone the others, as a
    RESTORE does: what readers see is what publications left. Readers of the versions between saw something else.
    """
    accepted = {version for each in settings for version in range(each.log.after + 1, each.log.version + 1)}
    carried: dict[str, int] = {}
    foreign: list[tuple[int, str, Exchanged]] = []
    for version, commit, found in seen:
        is_empty = not found.added and not found.removed
        if is_empty and version == 0 and "created_by" in commit and found.others <= _MAKES:
            continue
        if is_empty and not found.others and _is_given_up(known.get(str(commit.get("gave_up", "")))):
            continue
        publication_id = str(commit.get("publication_id", ""))
        record = known.get(publication_id)
        if record is None and version in accepted:
            continue  # its bytes are those that were recorded then, or `log_against_ledger` says so
        if record is None:
            foreign.append((version, str(commit.get("operation", "an unknown operation")), found))
        elif record.state not in LANDED:
            yield (
                f"{name} version {version}: publication {publication_id} landed, but the ledger calls it "
                f"{record.state}."
            )
        else:
            carried[publication_id] = version
            if found != _intended(record) or not found.others <= _EXCHANGES:
                yield (
                    f"{name} version {version}: the commit of publication {publication_id} exchanged other files than "
                    f"the ledger says"
                )
    for some in _in_a_row(foreign):
        if undo_each_other([exchange for _, _, exchange in some]):
            first, last = some[0][0], some[-1][0]
            said = f"{name} versions {first} to {last}: commits of another program, the last of which undid the others."
            yield Amiss.of(said, replace(foreign_in, kind=Lost.NOTHING))
        else:
            for version, operation, _ in some:
                said = f"{name} version {version}: a commit ({operation}) that no publication explains."
                yield Amiss.of(said, foreign_in)
    for publication_id, record in known.items():
        if not record.changes or ends_at(publication_id, settings) is not None:
            continue  # every partition was found equal, so there was nothing to commit; or it is known to be lost
        if record.state in LANDED and carried.get(publication_id) != record.delta_version:
            yield (
                f"{name}: the ledger says publication {publication_id} is version {record.delta_version}, the "
                f"table's log says {carried.get(publication_id, 'nothing')}."
            )


def _in_a_row(
    foreign: Iterable[tuple[int, str, Exchanged]],
) -> Iterator[Sequence[tuple[int, str, Exchanged]]]:
    some: list[tuple[int, str, Exchanged]] = []
    for each in foreign:
        if some and each[0] != some[-1][0] + 1:
            yield some
            some = []
        some.append(each)
    if some:
        yield some


def undo_each_other(exchanges: Iterable[Exchanged]) -> bool:
    """True if several commits together leave the files of a table as they were; columns, properties and statistics
    are compared with what publications left in any case."""
    added: set[str] = set()
    removed: set[str] = set()
    count = 0
    for exchange in exchanges:
        count += 1
        brought, taken = exchange.added - exchange.removed, exchange.removed - exchange.added
        added, removed = (added - taken) | (brought - removed), (removed - brought) | (taken - added)
    return count > 1 and not added and not removed


def _is_given_up(record: PublicationRecord | None) -> bool:
    """True if a recovery may have fenced this publication; until the ledger knows, it is still open."""
    return record is not None and record.state in (PublicationState.ABANDONED, PublicationState.PUBLISHING)


def _intended(record: PublicationRecord) -> Exchanged:
    old = {path for change in record.changes for path in change.expected.paths}
    new = {path for change in record.changes for path in change.new.paths}
    return Exchanged(added=frozenset(new - old), removed=frozenset(old - new))


def _logs(
    records: Iterable[PublicationRecord], settings: Sequence[SetToLedger]
) -> Iterator[tuple[LogEvidence, str, int | None]]:
    """The recorded evidence of a table's log, by what, and the last version up to which it counts; None for all.

    Args:
        settings: When the table was set to the ledger, in order; what was recorded before counts up to there.
    """
    for number, each in enumerate(settings):
        ends = min((later.log.after for later in settings[number + 1 :]), default=None)
        yield each.log, f"event {each.sequence}", ends
    for record in records:
        if record.log:
            name = f"publication {record.publication_id}"
            yield record.log, name, ends_at(record.publication_id, settings)


def ends_at(publication_id: str, settings: Iterable[SetToLedger]) -> int | None:
    """The last version up to which what a publication recorded of the log still counts; None where all of it does."""
    return min((each.log.after for each in settings if publication_id in each.missing), default=None)


def recorded_commits(
    records: Iterable[PublicationRecord], settings: Sequence[SetToLedger]
) -> Mapping[int, tuple[str, str]]:
    """The sha256 of the bytes of each commit of a table that the ledger has recorded, and by what, by version."""
    return {
        version: (digest, name)
        for log, name, ends in _logs(records, settings)
        for version, digest in enumerate(log.commits, start=log.after + 1)
        if ends is None or version <= ends
    }


def commits_as_recorded(
    ws: Workspace, name: str, records: Sequence[PublicationRecord], settings: Sequence[SetToLedger]
) -> Iterator[Amiss]:
    """The commits that the ledger has recorded, and that are gone or have other bytes, also of a log that cannot be
    read."""
    found = dict(commit_digests(ws.lake, name))
    for version, (digest, recorded_by) in sorted(recorded_commits(records, settings).items()):
        if found.get(version) != digest:
            said = f"{name} version {version}: the commit is not the one that {recorded_by} recorded."
            place = str(ws.lake.place(name) / "_delta_log" / f"{version:020}.json")
            yield Amiss.of(said, Damage(kind=Lost.COMMIT, table=name, place=place, sha256=digest))


def log_against_ledger(
    ws: Workspace,
    name: str,
    accepted: Mapping[date, PartitionVersion],
    records: Sequence[PublicationRecord],
    settings: Sequence[SetToLedger],
) -> Iterator[str]:
    """Where the log of a table does not contain what its publications recorded of it."""
    broken = list(commits_as_recorded(ws, name, records, settings))
    yield from broken
    counting = [(log.version, log.state, by) for log, by, ends in _logs(records, settings) if ends is None]
    if counting and state_digest(ws.lake, name) != max(counting)[1]:
        yield f"{name}: readers see other columns or properties than {max(counting)[2]} left."
    rows = {file.path: file.rows for version in accepted.values() for file in version.files.files}
    for path, counted in live_row_counts(ws.lake, name).items():
        if path in rows and counted != rows[path]:
            yield f"{name}: the statistics of {path} in the log are not those of its publication."
    for path, problem in log_problems(ws.lake, name):
        not_needed = Damage(kind=Lost.NOT_NEEDED, table=name, place=str(ws.lake.place(name) / path))
        # Without a commit that is gone, readers need the checkpoint behind it.
        yield Amiss.of(f"{name}: {problem}.", broken[0].damage if broken else not_needed)
