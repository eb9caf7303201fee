"""Agreements: under which declaration of a table its rows were last agreed to, by a publication, an act, a capture or a
replay.

What a person has agreed to replaces what was agreed to before. What was published, captured or done since without one
adds to it: a rule can make a table stricter by itself, and never looser.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import case, func, select, true

from backfill_assets.core.people import POLICY
from backfill_assets.ledger.queries import Queries
from backfill_assets.ledger.schema import approvals, captures, events, replays, runs, table_acts
from backfill_assets.ledger.states import EVER_PUBLISHED, ActState, ApprovalState
from backfill_assets.ledger.table_acts import TableActReads
from backfill_assets.planning.safeguards import Agreed, AgreedTerms, Policy, Safeguard

_EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Pinned:
    """Terms that were pinned: when last, and when last by what a person has agreed to."""

    policy: Policy
    at: datetime
    agreed_at: datetime | None
    safeguards: tuple[Safeguard, ...] | None = None


class AgreementReads(Queries):
    """The terms last agreed to, by table."""

    def of(self, table: str) -> Agreed:
        """The terms last agreed to for a table or for the readers of its name; nothing before the first publication.

        Cost: one row per run of the table since the last one that a person approved, and per act on it, capture and
        replay of it; each distinct declaration is parsed once.
        """
        own = tuple(self._of_runs(table, of_name=False))
        others = TableActReads(self._connection).were_shown(table) - {table}
        shown = [each for other in others for each in self._of_runs(other, of_name=True)]
        counting = [each for each in own if each.at >= _agreed_at(own)]
        every = [*own, *shown, *self._asked(table)]
        return Agreed(
            policies=tuple(dict.fromkeys(each.policy for each in every if each.at >= _agreed_at(every))),
            safeguards=tuple(each.safeguards for each in counting if each.safeguards is not None),
        )

    def _of_runs(self, table: str, *, of_name: bool) -> Iterator[_Pinned]:
        is_agreed = (approvals.c.state == ApprovalState.APPROVED) & approvals.c.approved_by.not_like(f"{POLICY}%")
        joined = runs.join(approvals, approvals.c.request_id == runs.c.run_id)
        published = (runs.c.table_name == table) & runs.c.state.in_(EVER_PUBLISHED)
        last = select(func.max(runs.c.added_sequence)).select_from(joined).where(published, is_agreed)
        # The event that added a run says when its terms were pinned: approvals come later, in any order.
        chosen = (
            select(
                runs.c.terms,
                func.max(events.c.at).label("at"),
                func.max(case((is_agreed, events.c.at))).label("agreed_at"),
            )
            .select_from(joined.join(events, events.c.sequence == runs.c.added_sequence))
            .where(published, runs.c.added_sequence >= func.coalesce(last.scalar_subquery(), 0))
            .group_by(runs.c.terms)
        )
        for row in self._rows(chosen):
            terms = AgreedTerms.parse(row.terms)
            policy = terms.name_policy if of_name else terms.policy
            if policy is not None:
                yield _Pinned(policy, row.at, row.agreed_at, terms.safeguards)

    def _asked(self, table: str) -> Iterator[_Pinned]:
        """The policies of acts, captures and replays that were approved, or were done without an approval."""
        done = (ActState.DONE, ActState.UNDONE)
        acts = (table_acts.c.name == table) & table_acts.c.state.in_(done)
        # As a rollback of a run, the rollback of a cut-over ends its approval.
        act_stands = table_acts.c.state == ActState.DONE
        captured = (captures.c.source == table) & (captures.c.waits.is_(False) | approvals.c.approved_by.is_not(None))
        replayed = (replays.c.table_name == table) & approvals.c.approved_by.is_not(None)
        for held, key, at, is_done, stands in (
            (table_acts, table_acts.c.act_id, table_acts.c.asked_at, acts, act_stands),
            (captures, captures.c.capture_id, captures.c.resolved_at, captured, true()),
            (replays, replays.c.replay_id, replays.c.asked_at, replayed, true()),
        ):
            is_agreed = approvals.c.approved_by.is_not(None) & stands
            chosen = (
                select(held.c.policy, func.max(at).label("at"), func.max(case((is_agreed, at))).label("agreed_at"))
                .join_from(held, approvals, approvals.c.request_id == key)
                .where(is_done)
                .group_by(held.c.policy)
            )
            for row in self._rows(chosen):
                yield _Pinned(Policy.parse(row.policy), row.at, row.agreed_at)


def _agreed_at(pinned: Iterable[_Pinned]) -> datetime:
    """When the newest terms were pinned to which a person has agreed."""
    return max((each.agreed_at for each in pinned if each.agreed_at), default=_EVER)
