"""Asked: what besides runs and sets has an id of its own that is approved; the same requests as of a run concern it.

An act on a version of a table is published, rolled back and cancelled as well. Captures and replays are not: the
command that asked for one goes on with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from backfill_assets.application.recorder import Acting
from backfill_assets.ledger.captures import CaptureRecord
from backfill_assets.ledger.records import ReplayRecord
from backfill_assets.ledger.states import AskedKind
from backfill_assets.ledger.table_acts import ActRecord
from backfill_assets.publication import table_acts
from backfill_assets.publication.authority import approve_asked, asked
from backfill_assets.report.errors import NotDoneWith
from backfill_assets.report.table_acts import ActDocument, act_document
from backfill_assets.workspace import Workspace

AskedDocument: TypeAlias = ActDocument | CaptureRecord | ReplayRecord


def _never(deed: str) -> Callable[..., Any]:
    """A request that is refused, whatever has the id."""

    def refuse(self: Asked, *_: Any, **__: Any) -> Any:
        raise NotDoneWith(name=self.name, deed=deed)

    return refuse


@dataclass(frozen=True, slots=True)
class Asked:
    """One of them by its id.

    Raises (every method):
        UnknownName: There is none of this id.
        Refused: It is not done with its kind.
    """

    ws: Workspace
    name: str

    def document(self) -> AskedDocument:
        with self.ws.ledger.read() as tx:
            match asked(tx, self.name):
                case ActRecord() as record:
                    return act_document(tx, record)
                case record:
                    return record

    def approve(self, *, by: str, note: str) -> AskedDocument:
        """Another person than the requester agrees to exactly that."""
        approve_asked(self.ws, self.name, by=by, note=note)
        return self.document()

    report = _never("reported on")
    stage = _never("staged")
    reproduce = _never("reproduced")

    def publish(self, acting: Acting) -> AskedDocument:
        """Does what an act asks for: readers are shown the other version from here on."""
        self._require_act("published")
        table_acts.carry_out(self.ws, self.name, by=acting.by)
        return self.document()

    def rollback(self, acting: Acting, *, reason: str, with_dependents: bool) -> AskedDocument:  # noqa: ARG002 - as of a run
        """Shows readers the table again that they were shown before a cut-over."""
        self._require_act("rolled back")
        table_acts.undo(self.ws, self.name, by=acting.by, reason=reason)
        return self.document()

    def cancel(self, *, by: str, reason: str, leave: bool = False) -> AskedDocument:
        """Gives up an act that is not done."""
        self._require_act("cancelled")
        if leave:
            raise NotDoneWith(name=self.name, deed="declined for a difference that is accepted")
        with self.ws.ledger.write() as tx:
            tx.acts.cancel(self.name, by=by, reason=reason)
        return self.document()

    def _require_act(self, deed: str) -> None:
        if AskedKind.of_id(self.name) is not AskedKind.ACT:
            raise NotDoneWith(name=self.name, deed=deed)
