"""What to do about errors of domains and of an author's code."""

from __future__ import annotations

from backfill_assets.core.errors import BackfillError, InvalidDeclaration
from backfill_assets.core.wording import visible
from backfill_assets.domain import errors
from backfill_assets.report.advice.filling import plan_again
from backfill_assets.report.requests import NAME, Act, Advice, do, step


def of_domain(error: BackfillError) -> Advice | None:
    """The advice for an error of this room; None for others."""
    match error:
        case errors.NoDomain():
            begun, seen = do(Act.INIT, "my_shop"), do(Act.DEMO)
            return step(
                "set BACKFILL_DOMAIN to the module that declares DOMAIN; to begin one: ", begun, "; to see one: ", seen
            )
        case errors.DomainNotFound():
            return "put the folder that holds it on the path: export PYTHONPATH=$PWD"
        case errors.DomainNotLoaded():
            return f"correct {visible(error.place) or 'the module that BACKFILL_DOMAIN names'}"
        case errors.NotPlanned(table=table, days=days) if days:
            return do(Act.LOAD, table.partition(".")[2], first=days.start, last=days.last, by=NAME)
        case errors.CodeBroken():
            return "correct it in the domain, and plan again"
        case errors.PlannedOtherwise(manifest=manifest):
            return step("run it with what it was planned with, or plan it again: ", plan_again(manifest))
        case InvalidDeclaration():
            place = visible(error.place) or "the module that BACKFILL_DOMAIN names"
            return f"correct the declaration in {place}; then the command again"
        case _:
            return None
