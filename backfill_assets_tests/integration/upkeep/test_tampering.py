"""The ledger, a table or a landed file is edited by another program: `audit` reports it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.transaction import RemoveAction
from pyspark.sql import SparkSession

from backfill_assets.core.errors import MissingInput, Refused
from backfill_assets.core.progress import Progress
from backfill_assets.files import local
from backfill_assets.landing.conformed import conformed_folder
from backfill_assets.ledger.states import COUNTING
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_at, folder_of, only_in_folders, overwrite
from backfill_assets_tests.support.ledger_examples import disarm, tamper
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.seams import Seam
from backfill_assets_tests.support.shop import OUTPUT, RECENT, SALES, Shop, open_shop, sale, ticking_clock


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory, published_home: Path, spark: SparkSession) -> Path:
    """A home with two publications of a table, one of them rolled back and published again."""
    home = tmp_path_factory.mktemp("history") / "home"
    copy_home(published_home, home)
    shop = open_shop(home, clock=ticking_clock(NOON + 2 * ONE_HOUR), spark=spark)
    run_id = shop.published(reason="better")
    operations.rollback(shop.ws, run_id, by="ben", reason="or not")
    operations.approve(shop.ws, run_id, by="ben")
    shop.publish(run_id)
    shop.ws.close()
    return home


@pytest.fixture
def shop(tmp_path: Path, history: Path, spark: SparkSession) -> Iterator[Shop]:
    copy_home(history, tmp_path / "home")
    opened = open_shop(tmp_path / "home", clock=ticking_clock(NOON + 5 * ONE_HOUR), spark=spark)
    yield opened
    opened.ws.close()


def problems(shop: Shop) -> str:
    return "\n".join(audit(shop.ws).problems)


@pytest.mark.long
def test_an_unchanged_home_has_no_problems(shop: Shop) -> None:
    found = audit(shop.ws)
    assert found.problems == ()
    assert found.size_bytes > 0


@pytest.mark.long
def test_what_is_published_during_an_audit_is_no_edit(shop: Shop) -> None:
    run_id = shop.ready(version="0.9.0")

    def publishes(progress: Progress) -> None:
        if progress.table == RECENT:
            shop.publish(run_id)

    assert audit(shop.ws, listener=publishes).problems == ()


LAST = "(SELECT max(sequence) FROM events)"
EDITS = {
    "UPDATE partition_versions SET row_count = row_count + 1 WHERE state = 'ACCEPTED'": "partition versions",
    "UPDATE partition_versions SET checksum = 'xx64:0:0:0:0' WHERE version = 1": "partition versions",
    "UPDATE partition_versions SET files = '[]' WHERE state = 'ACCEPTED'": "partition versions",
    "UPDATE partition_versions SET provenance = '{}' WHERE version = 2": "partition versions",
    "UPDATE partition_versions SET state = 'SUPERSEDED' WHERE state = 'ROLLED_BACK'": "partition versions",
    "DELETE FROM partition_versions WHERE version = 1 AND table_name = 'silver.recent_sales'": "partition versions",
    "UPDATE publication_changes SET row_count = row_count + 1": "publication changes",
    "UPDATE publication_changes SET expected_version = 7": "publication changes",
    "UPDATE publication_changes SET provenance = '{}'": "publication changes",
    "UPDATE publications SET asked_by = 'nobody' WHERE action = 'ROLLBACK'": "publications",
    "UPDATE publications SET reason = 'because'": "publications",
    "UPDATE gate_results SET finding = 'SAME'": "gate results",
    "UPDATE gate_results SET passed = NOT passed": "gate results",
    "DELETE FROM gate_results WHERE gate = 'unique_key'": "gate results",
    "UPDATE approvals SET approved_by = 'cleo' WHERE state = 'APPROVED'": "approvals",
    "UPDATE approvals SET manifest_digest = 'aa' WHERE state = 'APPROVED'": "approvals",
    "UPDATE imports SET accepted = accepted - 1, rejected = rejected + 1": "imports of imp-000001",
    "UPDATE imports SET keys_current = keys_current + 1": "imports of imp-000001",
    "UPDATE import_days SET events = events + 1": "import days of imp-000001",
    "UPDATE runs SET state = 'PUBLISHED' WHERE state = 'SUPERSEDED'": "runs",
}
"""Every column is edited in `integration/ledger/test_row_digests.py`; these are seen by an audit of a lake as well."""


@pytest.mark.long
@pytest.mark.parametrize("statement", EDITS)
def test_an_edited_row_is_found(shop: Shop, statement: str) -> None:
    tamper(shop.ws.settings.ledger_url, statement)
    found = re.compile(f"{EDITS[statement]}.* were (edited|removed)")
    assert any(map(found.match, audit(shop.ws).problems)), problems(shop)


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (f"UPDATE events SET actor = 'mallory' WHERE sequence = {LAST}", "was edited"),
        ("DELETE FROM events WHERE sequence = 4", "events 4 to 4 were removed"),
        (f"DELETE FROM events WHERE sequence = {LAST}", "were removed"),
        ("UPDATE events SET sequence = -sequence WHERE sequence IN (5, 6)", "were removed|was edited"),
    ],
)
def test_an_edited_event_is_found(shop: Shop, statement: str, found: str) -> None:
    disarm(shop.ws.settings.ledger_url, "events")
    tamper(shop.ws.settings.ledger_url, statement)
    assert re.search(found, problems(shop))


def test_a_history_that_was_written_anew_does_not_hold_the_head_that_was_noted(shop: Shop) -> None:
    noted = audit(shop.ws).head
    operations.approve(shop.ws, shop.planned(), by="ben")
    assert audit(shop.ws, head=noted).problems == (), "what is only added to still holds every head it had"
    other = noted[:-1] + ("0" if noted[-1] != "0" else "1")
    (problem,) = audit(shop.ws, head=other).problems
    assert "does not contain the head" in problem


@pytest.mark.parametrize("typed", ["garbage", "3:abc", "", f"{10**18}:{'0' * 64}"])
def test_what_is_no_head_is_a_typing_mistake_and_no_tampering(shop: Shop, typed: str) -> None:
    with pytest.raises(Refused, match="is not the head of an event chain"):
        audit(shop.ws, head=typed)


def test_bytes_of_a_published_file_that_changed_are_found(shop: Shop) -> None:
    path = folder_of(shop.ws.lake, RECENT) / min(shop.live_paths())
    content = bytearray(path.read_bytes())
    content[10] ^= 1
    path.write_bytes(content)
    assert "the bytes of" in problems(shop)
    assert audit(shop.ws, is_quick=True).problems == ()


def test_files_that_a_rollback_would_bring_back_are_looked_at_as_well(shop: Shop) -> None:
    only_in_folders("a file is edited where it is")
    with shop.ws.ledger.read() as tx:
        replaced = [each for each in tx.versions.history(RECENT) if each.version == 1]
        published = tx.versions.accepted(RECENT)[replaced[0].partition].run_id
    path = folder_of(shop.ws.lake, RECENT) / replaced[0].files.files[0].path
    before = path.read_bytes()
    content = bytearray(before)
    content[10] ^= 1
    path.write_bytes(content)
    assert "its version cannot be restored" in problems(shop)
    with pytest.raises(MissingInput, match="not as they were gated"):
        operations.rollback(shop.ws, published, by="ben", reason="back")
    path.unlink()
    assert "version 1 cannot be restored" in "\n".join(audit(shop.ws, is_quick=True).problems)
    path.write_bytes(before)
    found = audit(shop.ws)
    with shop.ws.ledger.read() as tx:
        versions = [each for name in tx.versions.tables() for each in tx.versions.history(name)]
        imports = tx.imports.records(states=COUNTING)
    conformed = [each.conformed.size_bytes for each in imports if each.conformed]
    read = [each.files.size_bytes for each in versions] + [each.size_bytes for each in imports] + conformed
    assert (found.problems, found.size_bytes) == ((), sum(read))


@pytest.mark.long
def test_bytes_of_a_staged_file_that_changed_after_its_gates_are_not_published(shop: Shop) -> None:
    run_id = shop.ready(version="0.9.0")
    before = shop.live_paths()
    with shop.ws.ledger.read() as reader:
        (file,) = reader.candidates.of_run(run_id)[OUTPUT.start].files.files
    content = bytearray(shop.ws.lake.files(RECENT).read(file.path))
    content[10] ^= 1
    overwrite(shop.ws.lake, RECENT, file.path, bytes(content))
    with pytest.raises(MissingInput, match="not those that were recorded"):
        shop.publish(run_id)
    assert shop.live_paths() == before
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_publication_reads_no_bytes_of_files_that_were_not_touched_since_they_were_staged(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_in_folders("nothing but a write changes the ETag of an object")
    run_id = shop.ready(version="0.9.0")
    touched = folder_of(shop.ws.lake, RECENT) / min(path for path in shop.files() if run_id in path)
    read: list[Path] = []
    hashed = local.sha256_of_file

    def watched(path: Path) -> str:
        read.append(path)
        return hashed(path)

    monkeypatch.setattr(local, "sha256_of_file", watched)
    with monkeypatch.context() as dying:
        Seam.COMMIT.put(dying, _die)
        with pytest.raises(KeyboardInterrupt):
            shop.publish(run_id)
    operations.recover(shop.ws, by="ops")
    assert read == []
    touched.touch()
    shop.publish(run_id)
    assert read == [touched], "it may have been written; its bytes say that it was not"


def _die(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.long
def test_an_edit_whose_time_of_modification_was_set_back_is_not_published(shop: Shop) -> None:
    only_in_folders("a store says by the ETag that an object was written")
    run_id = shop.ready(version="0.9.0")
    path = folder_of(shop.ws.lake, RECENT) / min(path for path in shop.files() if run_id in path)
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[10] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    with pytest.raises(MissingInput, match="not those that were recorded"):
        shop.publish(run_id)


def test_bytes_of_a_landed_file_that_changed_are_found(shop: Shop) -> None:
    with shop.ws.ledger.read() as reader:
        (landed,) = reader.imports.records()
    path = folder_at(shop.ws.settings.landing) / landed.stored_path
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b'"amount": 10', b'"amount": 99', 1))
    assert "the bytes of the landed file" in problems(shop)


def conformed_file(shop: Shop) -> Path:
    """A file with judged records that has the amount of the first sale."""
    with shop.ws.ledger.read() as reader:
        (landed,) = reader.imports.records()
    folder = folder_at(shop.ws.settings.landing) / conformed_folder(
        shop.ws.domain.source_table(SALES), landed.import_id
    )
    return next(path for path in sorted(folder.glob("*.parquet")) if pq.read_table(path).num_rows)


def edit_conformed(shop: Shop) -> None:
    """Judged records of which every amount is another, in a file that is valid in every other way."""
    path = conformed_file(shop)
    table = pq.read_table(path)
    amounts = pa.array([1016] * table.num_rows, table.schema.field("amount").type)
    place = table.schema.get_field_index("amount")
    pq.write_table(table.set_column(place, table.schema.field("amount"), amounts), path)


def test_edited_conformed_records_are_found_and_no_row_is_computed_from_them(shop: Shop) -> None:
    only_in_folders("the file is edited where it is")
    edit_conformed(shop)
    assert "its conformed records, from which rows are computed, were changed" in problems(shop)
    with pytest.raises(MissingInput, match="are not those that were written when it landed"):
        shop.kit.land(SALES, [sale(OUTPUT.start, sale_id="late")], name="late.jsonl")


def test_conformed_records_that_are_gone_are_found(shop: Shop) -> None:
    only_in_folders("the file is removed where it is")
    conformed_file(shop).unlink()
    assert "is gone" in problems(shop)


def foreign_append(shop: Shop) -> None:
    table = shop.ws.lake.open(RECENT)
    rows = table.to_pyarrow_table().slice(0, 1)
    write_deltalake(table, pa.table(rows), mode="append")


def forged_commit(shop: Shop, metadata: dict[str, str]) -> None:
    """A commit that takes a published file away and says about itself what ours say."""
    table = DeltaTable(str(folder_of(shop.ws.lake, RECENT)))
    day = OUTPUT.start
    with shop.ws.ledger.read() as reader:
        (file,) = reader.versions.accepted(RECENT)[day].files.files
    gone = RemoveAction(
        file.path, data_change=True, deletion_timestamp=0, size=file.size_bytes, partition_values={"day": str(day)}
    )
    table.create_write_transaction(
        [gone],
        mode="append",
        schema=table.schema(),
        partition_by=["day"],
        commit_properties=CommitProperties(custom_metadata=metadata),
    )


def test_a_foreign_commit_is_found(shop: Shop) -> None:
    foreign_append(shop)
    assert "a commit (WRITE) that no publication explains" in problems(shop)


@pytest.mark.parametrize("claim", ["publication_id", "gave_up", "created_by"])
def test_a_commit_that_claims_to_be_ours_is_found(shop: Shop, claim: str) -> None:
    with shop.ws.ledger.read() as reader:
        known = reader.publications.records()[0].publication_id
    forged_commit(shop, {claim: known})
    assert "exchanged other files than" in problems(shop) or "no publication explains" in problems(shop)


@pytest.mark.long
def test_what_was_found_before_a_log_could_not_be_read_on_is_said(shop: Shop) -> None:
    table = DeltaTable(str(folder_of(shop.ws.lake, RECENT)))
    table.create_checkpoint()
    with shop.ws.ledger.read() as reader:
        (file,) = reader.versions.accepted(RECENT)[OUTPUT.start].files.files
    (folder_of(shop.ws.lake, RECENT) / file.path).unlink()
    (folder_of(shop.ws.lake, RECENT) / "_delta_log" / f"{0:020}.json").write_text("{")
    found = audit(shop.ws)
    assert len(found.unreadable) == 1
    assert f"{file.path} is gone" in "\n".join(found.problems)


def test_an_edited_manifest_is_found(shop: Shop) -> None:
    disarm(shop.ws.settings.ledger_url, "manifests")
    tamper(shop.ws.settings.ledger_url, "UPDATE manifests SET body = replace(body, 'better', 'bitter')")
    assert re.search("manifests of .* were edited", problems(shop))


def test_a_table_that_was_taken_away_is_found(shop: Shop) -> None:
    shutil.rmtree(folder_of(shop.ws.lake, SALES))
    assert "but the table is gone" in problems(shop)
