"""Asked: what besides runs and sets has an id of its own that is approved; the same requests as of a run concern it.

An act on a version of a table is published, rolled back and cancelled as well. Captures and replays are not: the
command that asked for one goes on with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backfill_assets.application.recorder import Acting
from backfill_assets.publication import table_acts
from backfill_assets.publication.moves_approval import approve_capture, approve_replay
from backfill_assets.report.captured import CaptureDocument
from backfill_assets.report.errors import NotDoneWith
from backfill_assets.report.replayed import ReplayDocument, replay_document
from backfill_assets.report.table_acts import ActDocument, act_document, described_act
from backfill_assets.workspace import Workspace


def _never(deed: str) -> Callable[..., Any]:
    """A request that is refused, until a kind has an answer of its own to it."""

    def refuse(self: Asked, *_: Any, **__: Any) -> Any:
        raise NotDoneWith(name=self.name, deed=deed)

    return refuse


@dataclass(frozen=True, slots=True)
class Asked:
    """One of them by its id; each kind has what can be done with it.

    Raises (every method):
        UnknownName: There is none of this id.
        Refused: It is not done with its kind.
    """

    ws: Workspace
    name: str

    report = _never("reported on")
    stage = _never("staged")
    publish = _never("published")
    rollback = _never("rolled back")
    cancel = _never("cancelled")
    reproduce = _never("reproduced")


class AskedAct(Asked):
    """An act on a version of a table: readers are cut over to it, or it is given up."""

    def document(self) -> ActDocument:
        with self.ws.ledger.read() as tx:
            return act_document(tx, tx.acts.get(self.name))

    def approve(self, *, by: str, note: str) -> ActDocument:
        """Another person agrees to it."""
        return described_act(self.ws, table_acts.approve_act(self.ws, self.name, by=by, note=note))

    def publish(self, acting: Acting) -> ActDocument:
        """Does what was asked for: readers are shown the other version from here on."""
        return described_act(self.ws, table_acts.carry_out(self.ws, self.name, by=acting.by))

    def rollback(self, acting: Acting, *, reason: str, with_dependents: bool) -> ActDocument:  # noqa: ARG002 - as of a run
        """Shows readers the table again that they were shown before."""
        return described_act(self.ws, table_acts.undo(self.ws, self.name, by=acting.by, reason=reason))

    def cancel(self, *, by: str, reason: str, leave: bool = False) -> ActDocument:
        """Gives up an act that is not done."""
        if leave:
            raise NotDoneWith(name=self.name, deed="declined for a difference that is accepted")
        with self.ws.ledger.write() as tx:
            return act_document(tx, tx.acts.cancel(self.name, by=by, reason=reason))


class AskedCapture(Asked):
    """A capture."""

    def document(self) -> CaptureDocument:
        with self.ws.ledger.read() as tx:
            return CaptureDocument(capture=tx.captures.get(self.name))

    def approve(self, *, by: str, note: str) -> CaptureDocument:
        """Another person than the requester agrees to exactly its positions."""
        return CaptureDocument(capture=approve_capture(self.ws, self.name, by=by, note=note))


class AskedReplay(Asked):
    """A replay."""

    def document(self) -> ReplayDocument:
        with self.ws.ledger.read() as tx:
            return replay_document(tx.replays.get(self.name))

    def approve(self, *, by: str, note: str) -> ReplayDocument:
        """Another person than the requester agrees that exactly these records go to a live topic."""
        return replay_document(approve_replay(self.ws, self.name, by=by, note=note))


def asked(ws: Workspace, name: str) -> AskedAct | AskedCapture | AskedReplay:
    """What has an id that begins as these ids do."""
    kinds: Mapping[str, type[AskedAct | AskedCapture | AskedReplay]] = {
        "act": AskedAct,
        "cap": AskedCapture,
        "rep": AskedReplay,
    }
    return kinds[name.partition("-")[0]](ws, name)
