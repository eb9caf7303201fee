"""How is a run or a set ended that readers do not see?"""

from __future__ import annotations

from backfill_assets.planning.sets import SET_PREFIX
from backfill_assets.workspace import Workspace


def cancel(ws: Workspace, name: str, *, by: str, reason: str) -> None:
    """Ends a run or a set that readers do not see, for good. Whoever is at work on it stops at its next step.

    Raises:
        UnknownName: No such run or set.
        IllegalTransition: Readers see it, it is being published, or it is a run of a set.
    """
    with ws.ledger.write() as writer:
        if name.startswith(SET_PREFIX):
            writer.cancel_set(name, by=by, reason=reason)
        else:
            writer.cancel_run(name, by=by, reason=reason)
