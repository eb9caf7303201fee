"""What must be true when a race is over and `recover` has been there? A sentence for everything that is not.

Judged from the logs' own text and the ledger's chain of events; `audit` has to find the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from deltalake.exceptions import DeltaError

from backfill_assets.core.errors import BackfillError, IllegalTransition, Refused, TakenOver
from backfill_assets.ledger.records import Action, PublicationRecord
from backfill_assets.ledger.states import ApprovalState, PublicationState, RunState, SetState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.requests.publish import publish_run
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.faults.log import Commit, digest_of, read_log
from backfill_assets_tests.faults.scene import RUNS, SETS, Gated, Scene
from backfill_assets_tests.faults.turn_scheduler import Actor, Killed
from backfill_assets_tests.support.hand_made import COLUMN
from backfill_assets_tests.support.lakes import folder_of

LANDED = (PublicationState.PUBLISHED, PublicationState.ROLLED_BACK)


def outcomes_are_told(actors: Sequence[Actor]) -> Iterator[str]:
    """Every refusal says why, and what to do next."""
    for actor in actors:
        match actor.outcome:
            case Killed():
                continue
            case DeltaError() if actor.name.startswith("foreign"):
                continue  # it was told by its own library
            case Refused() as error if actor.name == "recover":
                yield f"recover did not end what it could: {error!r}"
            case IllegalTransition() as error if "cannot become ABANDONED" in error.message:
                yield f"{actor.name} got a result that is not in the ledger, without the reason why it lost: {error!r}"
            case BackfillError() as error if error.message and error.next_step:
                continue
            case BackfillError() as error:
                yield f"{actor.name} got no next step: {error!r}"
            case BaseException() as error:
                yield f"{actor.name} ended with {error!r}"


def readers_find_every_file(scene: Scene) -> Iterator[str]:
    """What the newest version shows is there."""
    for table in COLUMN:
        root = folder_of(scene.ws.lake, table)
        for files in read_log(root)[-1].after.values():
            for path, size in files:
                found = root / path
                if not found.is_file() or found.stat().st_size != size:
                    yield f"readers of {table} miss {path}"


def nothing_is_amiss(scene: Scene, *, audited: bool = True) -> Iterator[str]:
    """Everything, once no actor acts any more and `recover` has been called; `audit` has to find it too."""
    with scene.ws.ledger.read() as reader:
        records = reader.publications.records()
        seen_by_gates = _gated_when_begun(scene, reader)
        yield from _ledger_is_closed(reader, records)
        for table in COLUMN:
            of_table = {r.publication_id: r for r in records if r.table == table}
            log = read_log(folder_of(scene.ws.lake, table))
            yield from _commits_and_publications_agree(table, log, of_table)
            for commit in log:
                if (record := of_table.get(commit.publication_id or "")) is not None:
                    yield from _changes_what_it_said(table, commit, record)
                    if record.action is Action.PUBLISH:
                        yield from _was_gated(commit, record, seen_by_gates.get(record.publication_id))
                    else:
                        yield from _restores_exactly(commit, record, log)
            yield from _accepted_is_seen(table, log, reader)
        yield from _candidates_are_there(scene, reader)
        for set_id in SETS:
            yield from _set_is_whole(reader, set_id)
    if audited:
        yield from _audit_agrees(scene)
    yield from readers_find_every_file(scene)


def _ledger_is_closed(reader: ReadTransaction, records: Sequence[PublicationRecord]) -> Iterator[str]:
    for record in records:
        if record.state is PublicationState.PUBLISHING:
            yield f"publication {record.publication_id} of {record.run_id} is still open"
    for run in reader.runs.records(states=[RunState.PUBLISHING, RunState.STAGING, RunState.GATING]):
        yield f"run {run.run_id} is still {run.state}"
    standing = {r.run_id for r in records if r.state is PublicationState.PUBLISHED}
    for run in reader.runs.records(states=[RunState.CANCELLED]):
        if run.run_id in standing:
            yield f"run {run.run_id} is CANCELLED and has a standing publication"
    for run in reader.runs.records(states=[RunState.PUBLISHED]):
        if run.run_id not in standing:
            yield f"run {run.run_id} is PUBLISHED without a standing publication"


def _commits_and_publications_agree(
    table: str, log: Sequence[Commit], known: Mapping[str, PublicationRecord]
) -> Iterator[str]:
    carried: dict[str, list[int]] = {}
    for commit in log:
        if commit.publication_id is not None:
            carried.setdefault(commit.publication_id, []).append(commit.version)
    for publication_id, versions in carried.items():
        if len(versions) > 1:
            yield f"{table}: publication {publication_id} landed {len(versions)} times"
        if publication_id not in known:
            yield f"{table}: the ledger does not know publication {publication_id}, which landed"
    for publication_id, record in known.items():
        whose = f"{table}: {record.action} of {record.run_id} ({publication_id})"
        if record.state in LANDED and record.changes and publication_id not in carried:
            yield f"{whose} is {record.state}, and no commit carries it"
        if record.state is PublicationState.ABANDONED and publication_id in carried:
            yield f"{whose} is {record.state}, and it landed"


def _changes_what_it_said(table: str, commit: Commit, record: PublicationRecord) -> Iterator[str]:
    """All of the intent at once and nothing else, over exactly what it expected: no lost update, no mixture."""
    intent = record
    whose = f"{table} version {commit.version} ({intent.action} of {intent.run_id})"
    for change in intent.changes:
        value = change.partition.isoformat()
        if digest_of(commit.before, value) != change.expected.digest:
            yield f"{whose} replaced files of {value} that it did not expect: an update is lost"
        if digest_of(commit.after, value) != change.new.digest:
            yield f"{whose} left a mixture in {value}"
    for found in intent.verified:
        value = found.partition.isoformat()
        if digest_of(commit.before, value) != found.files.digest:
            yield f"{whose} relied on files of {value} that were not there"
    if extra := commit.changed - {change.partition.isoformat() for change in intent.changes}:
        yield f"{whose} changed {sorted(extra)}, which it did not declare"


def _gated_when_begun(scene: Scene, reader: ReadTransaction) -> Mapping[str, Gated | str]:
    """What the gates had seen last when each publication was begun; a sentence if it may not have been begun."""
    gated: dict[str, int] = {}
    approved: dict[str, bool] = {}
    found: dict[str, Gated | str] = {}
    runs = {r.publication_id: r.run_id for r in reader.publications.records()}
    for event in reader.events.entries():
        match event.action:
            case "gates_recorded":
                gated[event.entity_id] = gated.get(event.entity_id, 0) + 1
            case "candidates_cleared" | "chunk_started":
                gated.setdefault(event.entity_id, 0)
            case "approved":
                approved[event.entity_id] = True
            case "approval_withdrawn":
                approved[event.entity_id] = False
            case "publication_begun":
                run_id = runs[event.entity_id]
                if not approved.get(run_id):
                    found[event.entity_id] = f"the publication of {run_id} was begun without an approval"
                elif number := gated.get(run_id, 0):
                    found[event.entity_id] = scene.gated[run_id][number - 1]
    return found


def _was_gated(commit: Commit, record: PublicationRecord, gated: Gated | str | None) -> Iterator[str]:
    """Readers see exactly what the gates saw, over exactly what the gates compared it with."""
    run_id = record.run_id
    if gated is None or isinstance(gated, str):
        yield gated or f"{run_id} was published without gates"
        return
    verified = {found.partition.isoformat() for found in record.verified}
    for value, files in gated.new.items():
        if digest_of(commit.before, value) != gated.compared[value]:
            yield f"version {commit.version} took {run_id} over what it was not compared with in {value}"
        if value not in verified and digest_of(commit.after, value) != files.digest:
            yield f"version {commit.version} shows other files of {run_id} in {value} than were gated"


def _restores_exactly(commit: Commit, record: PublicationRecord, log: Sequence[Commit]) -> Iterator[str]:
    undone = next((each for each in log if each.publication_id == record.undoes), None)
    if undone is None:
        yield f"version {commit.version} undoes {record.undoes}, which never landed"
        return
    for value in undone.changed | commit.changed:
        if digest_of(commit.after, value) != digest_of(undone.before, value):
            yield f"version {commit.version} did not bring back what version {undone.version} replaced in {value}"


def _accepted_is_seen(table: str, log: Sequence[Commit], reader: ReadTransaction) -> Iterator[str]:
    """What the ledger calls accepted is what the last of our commits made of every partition."""
    ours: dict[str, str] = {}
    for commit in log:
        if commit.publication_id is not None:
            ours.update((value, digest_of(commit.after, value)) for value in commit.changed)
    for day, version in reader.versions.accepted(table).items():
        if version.removed_at is not None:
            yield f"{table} {day}: version {version.version} is accepted, and marked as removed"
    accepted = {day.isoformat(): v.files.digest for day, v in reader.versions.accepted(table).items() if v.files.files}
    shown = {value: digest for value, digest in ours.items() if digest != digest_of({}, value)}
    for value in sorted(accepted.keys() | shown.keys()):
        if accepted.get(value) != shown.get(value):
            yield f"{table} {value}: the ledger accepts something else than our last commit left there"


def foreign_commits(scene: Scene, table: str) -> list[Commit]:
    """Commits that the ledger does not know."""
    return [commit for commit in read_log(folder_of(scene.ws.lake, table)) if commit.is_foreign]


def _audit_agrees(scene: Scene) -> Iterator[str]:
    """`audit` names every foreign commit, and finds fault only with partitions that these have touched."""
    problems = list(audit(scene.ws).problems)
    for table in COLUMN:
        touched: set[str] = set()
        for commit in foreign_commits(scene, table):
            touched |= commit.changed
            told = [p for p in problems if p.startswith(f"{table} version {commit.version}: a commit")]
            if len(told) != 1:
                yield f"audit does not name the foreign version {commit.version} of {table}"
            problems = [p for p in problems if p not in told]
        problems = [p for p in problems if not any(p.startswith(f"{table} {value}: ") for value in touched)]
    yield from (f"audit: {problem}" for problem in problems)


def _candidates_are_there(scene: Scene, reader: ReadTransaction) -> Iterator[str]:
    """Whatever can still be published or brought back has its files."""
    for run in reader.runs.records(states=[RunState.PASSED]):
        root = folder_of(scene.ws.lake, run.manifest.table)
        for candidate in reader.candidates.of_run(run.run_id).values():
            for path in candidate.files.paths:
                if not (root / path).is_file():
                    yield f"the candidate of {run.run_id}, which is {run.state}, has lost {path}"
    for table in COLUMN:
        root = folder_of(scene.ws.lake, table)
        for version in reader.versions.history(table):
            if version.removed_at is None and not all((root / path).is_file() for path in version.files.paths):
                yield f"version {version.version} of {table} {version.partition} has lost files, and is not marked"


def _set_is_whole(reader: ReadTransaction, set_id: str) -> Iterator[str]:
    """A set at rest is published as a whole or not at all."""
    record = reader.sets.get(set_id)
    states = {member.run_id: reader.runs.get(member.run_id).state for member in record.manifest.members}
    published = [run_id for run_id, state in states.items() if state is RunState.PUBLISHED]
    match record.state:
        case SetState.PENDING | SetState.ROLLED_BACK | SetState.CANCELLED if published:
            yield f"{set_id} is {record.state}, and {published} are published"
        case SetState.PUBLISHED if len(published) < len(states):
            replaced = [run_id for run_id, state in states.items() if state is RunState.SUPERSEDED]
            if len(published) + len(replaced) < len(states):
                yield f"{set_id} is {record.state}, and its runs are {states}"
        case _:
            return


def living_work_is_left_alone(actors: Sequence[Actor]) -> Iterator[str]:
    """Only a cancellation, of the run or of what it follows, takes a run from a process whose lease has not ended."""
    for actor in actors:
        told = str(actor.outcome)
        is_ended = "was cancelled by cleo" in told or "no longer asks for anything" in told
        if isinstance(actor.outcome, TakenOver) and not is_ended:
            yield f"{actor.name} was alive and lost its run: {actor.outcome}"


def losers_can_try_again(scene: Scene, losers: Sequence[str]) -> Iterator[str]:
    """A run that lost is compared anew and published, unless foreign commits stand in the way."""
    for run_id in losers:
        table = RUNS[run_id][0]
        with scene.ws.ledger.read() as reader:
            run = reader.runs.get(run_id)
        if run.state in (RunState.PUBLISHED, RunState.SUPERSEDED, RunState.CANCELLED):
            continue
        foreign = {value for commit in foreign_commits(scene, table) for value in commit.changed}
        scene.gate(run_id)
        if run.approval is ApprovalState.DRAFT:
            scene.approve(run_id)
        try:
            publish_run(scene.ws, run_id, by="ben")
        except BackfillError as error:
            if not foreign & {partition.isoformat() for partition in run.manifest.partitions}:
                yield f"{run_id} was compared anew and is refused all the same: {error}"
