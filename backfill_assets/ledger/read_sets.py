"""Reads of restatement sets: their runs, and the progress of their publication."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Select, exists, func, select

from backfill_assets.errors import UnknownName
from backfill_assets.ledger import rows
from backfill_assets.ledger.queries import Queries, Unreadable, batches, readable
from backfill_assets.ledger.records import SetRecord
from backfill_assets.ledger.schema import events, manifests, restatement_sets, runs, set_members
from backfill_assets.ledger.states import SetState
from backfill_assets.next_steps import Act, do


class SetReads(Queries):
    """Restatement sets."""

    def get(self, set_id: str) -> SetRecord:
        """One set.

        Cost: one primary key lookup; the document is parsed.

        Raises:
            UnknownName: There is no such set.
            Refused: Its document was edited in the database.
        """
        row = self._row(_sets().where(restatement_sets.c.set_id == set_id))
        if row is None:
            raise UnknownName(f"there is no restatement set {set_id!r}.", next_step=do(Act.STATUS), set_id=set_id)
        return rows.set_record(row)

    def records(
        self,
        *,
        states: Iterable[SetState] | None = None,
        table: str | None = None,
        person: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        unreadable: Unreadable | None = None,
    ) -> tuple[SetRecord, ...]:
        """Sets, the last planned first.

        Cost: one row per set; every document is parsed.

        Args:
            states: Only those in one of these states.
            table: Only those with a run of this table.
            person: Only those on which this person acted; upper and lower case make no difference.
            limit: At most this many.
            offset: How many of the last planned ones are left out.
            unreadable: Called with every set whose document cannot be read, which is then left out.

        Raises:
            Refused: A document cannot be read, and `unreadable` is not given.
        """
        chosen = _sets().order_by(restatement_sets.c.added_sequence.desc()).limit(limit).offset(offset)
        if states is not None:
            chosen = chosen.where(restatement_sets.c.state.in_(tuple(states)))
        if table is not None:
            of_table = select(set_members.c.set_id).join_from(set_members, runs, runs.c.run_id == set_members.c.run_id)
            chosen = chosen.where(restatement_sets.c.set_id.in_(of_table.where(runs.c.table_name == table)))
        if person is not None:
            own = (events.c.entity_id == restatement_sets.c.set_id, func.lower(events.c.actor) == person.lower())
            chosen = chosen.where(exists().where(*own))
        return tuple(readable(self._rows(chosen), rows.set_record, name="set_id", unreadable=unreadable))

    def id_of_run(self, run_id: str) -> str | None:
        """The id of the set that a run belongs to; None for a run of its own.

        Cost: one index lookup.
        """
        found = self._values(select(set_members.c.set_id).where(set_members.c.run_id == run_id))
        return found[0] if found else None

    def ids_of_runs(self, run_ids: Iterable[str]) -> dict[str, str]:
        """The ids of the sets that runs belong to, by run; runs of their own are left out.

        Cost: one index lookup per run.
        """
        chosen = select(set_members.c.run_id, set_members.c.set_id)
        return {
            row.run_id: row.set_id
            for batch in batches(run_ids)
            for row in self._rows(chosen.where(set_members.c.run_id.in_(batch)))
        }

    def whole_of(self, run_id: str) -> str:
        """What is undone with a run: the id of its set, or of a run of its own.

        Cost: one index lookup.
        """
        return self.id_of_run(run_id) or run_id

    def of_run(self, run_id: str) -> SetRecord | None:
        """The set that a run belongs to; None for a run of its own.

        Cost: two index lookups; the document is parsed.
        """
        set_id = self.id_of_run(run_id)
        return None if set_id is None else self.get(set_id)


def _sets() -> Select[*tuple[object, ...]]:
    return select(
        restatement_sets.c.set_id,
        restatement_sets.c.state,
        restatement_sets.c.note,
        restatement_sets.c.updated_at,
        manifests.c.body,
        manifests.c.digest,
    ).join_from(restatement_sets, manifests, restatement_sets.c.set_id == manifests.c.run_id)
