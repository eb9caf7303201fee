"""Which versions have lost their files, and what may therefore no longer be published or brought back?"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from sqlalchemy import bindparam, select, update

from backfill_assets.errors import MissingInput
from backfill_assets.identity import EMPTY_FILE_SET
from backfill_assets.ledger.reading import batches
from backfill_assets.ledger.records import Action, PublicationIntent
from backfill_assets.ledger.schema import partition_versions
from backfill_assets.ledger.writing import Writing, some


class RetentionWriter(Writing):
    """Marks versions whose files go, and refuses swaps that would need them."""

    def mark_removed(self, versions: Iterable[tuple[str, date, int]]) -> int:
        """Remembers that the files of these versions are removed now, and says how many had not been yet."""
        held = partition_versions
        named = [
            {"of_table": table, "of_partition": partition, "of_version": version}
            for table, partition, version in versions
        ]
        if not named:
            return 0
        self._connection.execute(
            update(held)
            .where(
                held.c.table_name == bindparam("of_table"),
                held.c.partition_date == bindparam("of_partition"),
                held.c.version == bindparam("of_version"),
                held.c.removed_at.is_(None),
            )
            .values(removed_at=self.now),
            named,
        )
        return len(named)

    def _must_be_there(self, intent: PublicationIntent) -> None:
        """Refuses to make readers see what retention removed."""
        held = partition_versions
        restored = {change.partition: change.restores for change in intent.changes}
        new = {change.partition: change.new.digest for change in intent.changes}
        for batch in batches(new):
            chosen = select(held.c.partition_date, held.c.version, held.c.files_digest, held.c.removed_at).where(
                held.c.table_name == intent.table, held.c.removed_at.is_not(None), held.c.partition_date.in_(batch)
            )
            removed = [
                row
                for row in self._rows(chosen)
                if row.files_digest == new[row.partition_date] != EMPTY_FILE_SET.digest
                and (intent.action is Action.PUBLISH or row.version == restored[row.partition_date])
            ]
            if not removed:
                continue
            days = some(sorted(row.partition_date for row in removed))
            at = max(row.removed_at for row in removed).isoformat(timespec="seconds")
            if intent.action is Action.PUBLISH:
                raise MissingInput(
                    f"the staged files of run {intent.run_id} were removed by retention at {at}, for {days}.",
                    next_step=f"stage it again: backfill run {intent.run_id}",
                    run_id=intent.run_id,
                    table=intent.table,
                )
            raise MissingInput(
                f"run {intent.run_id} cannot be rolled back: what it replaced in {intent.table} was removed by "
                f"retention at {at}, for {days}.",
                next_step=f"restate the days instead: backfill plan {intent.table} --from DAY --to DAY --reason WHY",
                run_id=intent.run_id,
                table=intent.table,
            )
