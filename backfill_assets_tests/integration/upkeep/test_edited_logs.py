"""The log of a published table is edited, a field or a file at a time: `audit` reports every edit."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.append import validation_table
from backfill_assets.lake.log_evidence import misleading_statistics
from backfill_assets.lake.swap import exchanged
from backfill_assets.upkeep.audit import audit
from backfill_assets.upkeep.audit_checks import commits_against_ledger, files_against_ledger, log_against_ledger
from backfill_assets.upkeep.damage import Damage, Lost
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_of, only_in_folders
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.seams import Seam
from backfill_assets_tests.support.shop import RECENT, Shop, open_shop, ticking_clock


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, published_home: Path, spark: SparkSession) -> Iterator[Shop]:
    """A table with a publication, one that was fenced off, one that landed after it, and a rollback."""
    only_in_folders("the log is edited where it is")
    home = tmp_path_factory.mktemp("logs") / "home"
    copy_home(published_home, home)
    opened = open_shop(home, clock=ticking_clock(NOON + 2 * ONE_HOUR), spark=spark)
    run_id = opened.ready(reason="better")
    with pytest.MonkeyPatch.context() as dying, pytest.raises(KeyboardInterrupt):
        Seam.COMMIT.put(dying, _die)
        opened.publish(run_id)
    operations.recover(opened.ws, by="ops")
    opened.publish(run_id)
    operations.rollback(opened.ws, run_id, by="ben", reason="or not")
    assert audit(opened.ws).problems == ()
    yield opened
    opened.ws.close()


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def log_of(shop: Shop) -> Path:
    return folder_of(shop.ws.lake, RECENT) / "_delta_log"


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values in a document that hold no others."""
    match value:
        case dict() if value:
            for name, part in value.items():
                yield from leaves(part, (*place, name))
        case list() if value:
            for number, part in enumerate(value):
                yield from leaves(part, (*place, number))
        case _:
            yield place


def edited(value: Any, place: tuple[Any, ...]) -> Any:
    """The document with another value at a place."""
    if not place:
        match value:
            case bool():
                return not value
            case int() | float():
                return value + 1
            case str():
                return value.replace("amount", "amoumt") if "amount" in value else f"{value}0"
            case _:
                return "x"
    other = copy.copy(value)
    other[place[0]] = edited(value[place[0]], place[1:])
    return other


def found(shop: Shop) -> str:
    report = audit(shop.ws, is_quick=True)
    return "\n".join([*report.problems, *(str(each) for each in report.unreadable)])


def found_in_log(shop: Shop) -> str:
    """What an audit finds in the table alone, which takes a tenth of its time."""
    with shop.ws.ledger.read() as tx:
        accepted, records = tx.versions.accepted(RECENT), [r for r in tx.publications.records() if r.table == RECENT]
    try:
        commits = sorted(exchanged(shop.ws.lake, RECENT), key=lambda commit: commit[0])
        known = {record.publication_id: record for record in records}
        problems = [
            *files_against_ledger(shop.ws, RECENT, accepted, {}),
            *commits_against_ledger(RECENT, commits, known, (), Damage(kind=Lost.FOREIGN)),
            *log_against_ledger(shop.ws, RECENT, accepted, records, ()),
        ]
    except BackfillError as error:
        problems = [f"{RECENT}: {error.message}"]
    return "\n".join(problems)


def edits_of_commits(log: Path) -> Iterator[tuple[Path, int, tuple[Any, ...], str]]:
    for path in sorted(log.glob("*.json")):
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            action = json.loads(line)
            for place in leaves(action):
                changed = [*lines]
                changed[number] = json.dumps(edited(action, place), separators=(",", ":"))
                yield path, number, place, "\n".join(changed)


@pytest.mark.long
def test_an_edit_of_any_field_of_any_commit_is_found(shop: Shop) -> None:
    log, missed, tried = log_of(shop), [], 0
    seen: set[tuple[object, ...]] = set()
    for path, number, place, text in edits_of_commits(log):
        if (kind := (path.name, *place)) in seen:
            continue  # what is edited in one of the files of a commit is edited in all in the same way
        seen.add(kind)
        before = path.read_bytes()
        path.write_text(text)
        try:
            tried += 1
            if RECENT not in found_in_log(shop):
                missed.append(f"{path.name} line {number}: {place}")
        finally:
            path.write_bytes(before)
    assert missed == []
    assert tried > 60
    assert found(shop) == ""


@pytest.mark.long
def test_every_commit_is_recorded_also_one_that_fences_a_publication_off(shop: Shop) -> None:
    with shop.ws.ledger.read() as tx:
        logs = [each.log for each in tx.publications.records() if each.table == RECENT and each.log]
    recorded = [log.after + number for log in logs for number in range(1, len(log.commits) + 1)]
    assert sorted(recorded) == list(range(len(list(log_of(shop).glob("*.json")))))


@pytest.fixture
def checkpoint(shop: Shop) -> Iterator[Path]:
    """The checkpoint of the newest version, at which readers begin."""
    DeltaTable(str(folder_of(shop.ws.lake, RECENT))).create_checkpoint()
    (path,) = log_of(shop).glob("*.checkpoint.parquet")
    yield path
    for each in (path, log_of(shop) / "_last_checkpoint"):
        each.unlink(missing_ok=True)


EDITED_IN_A_CHECKPOINT: Mapping[str, tuple[str, ...]] = {
    "add": ("path", "partitionValues", "size", "stats"),
    "metaData": ("id", "schemaString", "partitionColumns", "configuration"),
    "protocol": ("minReaderVersion", "minWriterVersion"),
    "txn": ("appId", "version"),
}


def test_an_edit_of_a_checkpoint_is_found_though_every_commit_is_as_it_was(shop: Shop, checkpoint: Path) -> None:
    assert found(shop) == ""
    table, missed = pq.read_table(checkpoint), []
    for action, names in EDITED_IN_A_CHECKPOINT.items():
        for name in names:
            rows = copy.deepcopy(table.to_pylist())
            held = next(row[action] for row in rows if row[action] is not None)
            part = dict(held[name]) if isinstance(held[name], list) and action != "metaData" else held[name]
            held[name] = "0" if part is None else _other(part, name)
            pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), checkpoint)
            if RECENT not in found_in_log(shop):
                missed.append(f"{action}.{name}")
    pq.write_table(table, checkpoint)
    assert missed == []
    assert found(shop) == ""


def test_a_checkpoint_of_no_commit_is_found(shop: Shop, checkpoint: Path) -> None:
    forged = checkpoint.with_name(f"{999:020}.checkpoint.parquet")
    shutil.copy(checkpoint, forged)
    try:
        assert f"{forged.name} is in the log, and there is no commit of version 999" in found(shop)
    finally:
        forged.unlink()


@pytest.mark.parametrize("content", [b'{"version":0,"size":1}', b'{"version":999,"size":1}', b"[]", b"{", b""])
def test_a_mark_of_the_last_checkpoint_that_leads_nowhere_is_found(shop: Shop, content: bytes) -> None:
    mark = log_of(shop) / "_last_checkpoint"
    mark.write_bytes(content)
    try:
        # Where the library follows the mark, it cannot open the table, and that is said.
        assert RECENT in found(shop)
    finally:
        mark.unlink()


def test_commits_that_were_cleaned_up_are_missed_and_the_checkpoint_behind_them_is_not_called_wrong(
    shop: Shop, checkpoint: Path
) -> None:
    removed = {path: path.read_bytes() for path in sorted(log_of(shop).glob("*.json"))[:2]}
    for path in removed:
        path.unlink()
    try:
        said = found(shop)
    finally:
        for path, content in removed.items():
            path.write_bytes(content)
    assert f"{RECENT} version 0: the commit is not the one" in said
    assert "the checkpoint" not in said
    assert checkpoint.exists()


def _other(value: Any, name: str) -> Any:
    match value:
        case dict():
            return [(key, "2026-01-04") for key in value]
        case list() if name == "configuration":
            return [*value, ("delta.appendOnly", "true")]
        case list():
            return ["amount"]
        case str() if value.startswith("{"):
            return value.replace("amount", "amoumt") if "amount" in value else json.dumps({"numRecords": 77})
        case _:
            return edited(value, ())


@pytest.mark.parametrize(
    "name",
    [
        *(f"{0:020}.{1:020}.compacted.json", f"{1:020}.crc", "_sidecars/a.parquet", "_staged_commits/a.json"),
        f"{1:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json",
    ],
)
def test_a_file_that_readers_take_in_place_of_commits_is_found(shop: Shop, name: str) -> None:
    path = log_of(shop) / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes((log_of(shop) / f"{0:020}.json").read_bytes())
    try:
        assert f"{name} is in the log" in found(shop)
    finally:
        path.unlink()


EVIDENCE = (validation_table(RECENT), "lineage.runs")
"""Tables that people query, beside the published ones."""


@pytest.fixture
def evidence(shop: Shop, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A table of evidence, which is there again afterwards."""
    folder = folder_of(shop.ws.lake, request.param)
    shutil.copytree(folder, tmp_path / "before")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(tmp_path / "before", folder)


@pytest.mark.parametrize("evidence", EVIDENCE, indirect=True)
def test_a_table_of_evidence_that_was_taken_away_is_found(shop: Shop, evidence: Path) -> None:
    shutil.rmtree(evidence)
    assert re.search(f"{evidence.parent.name}.{evidence.name}: .* is gone", "\n".join(audit(shop.ws).problems))


@pytest.mark.parametrize("evidence", EVIDENCE, indirect=True)
def test_a_column_of_evidence_that_was_renamed_in_the_log_is_found(shop: Shop, evidence: Path) -> None:
    first = evidence / "_delta_log" / f"{0:020}.json"
    first.write_text(first.read_text().replace("run_id", "run_ix"))
    assert "columns were changed" in "\n".join(audit(shop.ws).problems)


@pytest.mark.parametrize("evidence", EVIDENCE, indirect=True)
def test_any_statistic_that_makes_readers_skip_evidence_is_found(shop: Shop, evidence: Path) -> None:
    name = f"{evidence.parent.name}.{evidence.name}"
    assert not [*misleading_statistics(shop.ws.lake, name)]
    last, missed, tried = max((evidence / "_delta_log").glob("*.json")), [], 0
    before = last.read_text()
    lines = before.splitlines()
    number = next(place for place, line in enumerate(lines) if line.startswith('{"add"'))
    action = json.loads(lines[number])
    told = json.loads(action["add"]["stats"])
    for place in leaves(told):
        other = _narrower(told, place)
        changed = {"add": {**action["add"], "stats": json.dumps(other)}}
        last.write_text("\n".join([*lines[:number], json.dumps(changed), *lines[number + 1 :]]))
        tried += 1
        if not [*misleading_statistics(shop.ws.lake, name)]:
            missed.append(place)
    assert f"{name}: its log says of " in "\n".join(audit(shop.ws).problems)
    last.write_text(before)
    assert missed == []
    assert tried >= 4


def _narrower(told: Any, place: tuple[Any, ...]) -> Any:
    """The statistics, one of which leaves rows out."""
    if len(place) == 1:
        return {**told, place[0]: told[place[0]] + 1}
    of, column = place
    found = told[of][column]
    match of, found:
        case "nullCount", _:
            other = found + 1
        case "minValues", bool():
            other = True
        case "maxValues", bool():
            other = False
        case "minValues", _:
            other = "~"
        case _:
            other = "!"
    if isinstance(found, bool) and other == found:
        return {**told, "numRecords": 0}  # the bound leaves none out
    return {**told, of: {**told[of], column: other}}


def test_gate_results_for_people_that_were_edited_or_added_are_found(shop: Shop) -> None:
    table = DeltaTable(str(folder_of(shop.ws.lake, validation_table(RECENT))))
    version = table.version()
    table.update(updates={"passed": "NOT passed"}, predicate="gate = 'unique_key'")
    assert "the result of unique_key" in "\n".join(audit(shop.ws).problems)
    table.restore(version)
    assert audit(shop.ws).problems == ()
    forged = table.to_pyarrow_table().slice(0, 1).to_pylist()
    write_deltalake(table, pa.Table.from_pylist([{**forged[0], "run_id": "bf-forged"}]), mode="append")
    assert "results of run bf-forged, which the ledger does not know" in "\n".join(audit(shop.ws).problems)
    table.restore(version)
