"""What to do about errors of references."""

from __future__ import annotations

from backfill_assets.core.errors import BackfillError, InvalidReference
from backfill_assets.report.requests import Advice, Option, step
from backfill_assets.transforms import errors


def of_transforms(error: BackfillError) -> Advice | None:
    """The advice for an error of this room; None for others."""
    match error:
        case errors.ReferenceNotRead(is_named=True):
            return "name a YAML file that exists"
        case errors.ReferenceNotRead():
            return f"put {error.reference}.yaml there, or set BACKFILL_REFERENCE to the place that has it"
        case InvalidReference():
            return "correct the file; nothing was changed"
        case errors.ReferenceNotArchived():
            return "restore the file in the archive, or plan with the present references"
        case errors.NoSuchVersion():
            return "name one of these, or the path of a YAML file that has it"
        case errors.SeveralDocuments(reference=reference, sha256=[first, *_]):
            return step("name one by its sha256: ", Option("reference", f"{reference}={first}"))
        case _:
            return None
