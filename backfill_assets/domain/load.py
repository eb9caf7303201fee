"""Loading of the domain that the settings name."""

from __future__ import annotations

import importlib
import traceback

from backfill_assets.domain.breakdown import check_measures
from backfill_assets.domain.domains import Domain
from backfill_assets.domain.mistakes import check_conditions
from backfill_assets.errors import BackfillError, InvalidDeclaration


def load_domain(module_name: str, *, conditions: bool = True) -> Domain:
    """The `DOMAIN` that a module declares.

    Args:
        module_name: As BACKFILL_DOMAIN names it.
        conditions: Check the conditions of gates as well; what only looks does not need them.

    Raises:
        InvalidDeclaration: The module cannot be imported, has no `DOMAIN`, or its declarations are invalid.
    """
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise InvalidDeclaration(
                f"the module {module_name!r} cannot be loaded: it imports {error.name!r}, which is not installed.",
                next_step="correct the module that BACKFILL_DOMAIN names",
            ) from error
        raise InvalidDeclaration(
            f"BACKFILL_DOMAIN names the module {module_name!r}, which cannot be imported.",
            next_step="put the folder that holds it on the path: export PYTHONPATH=$PWD",
        ) from error
    except BackfillError:
        raise
    except Exception as error:  # every error of an author's module is shown to the author, in one line
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise InvalidDeclaration(
            f"the module {module_name!r} cannot be loaded: {type(error).__name__}: {error} "
            f"({place.filename}, line {place.lineno}).",
            next_step="correct the module that BACKFILL_DOMAIN names",
        ) from error
    domain = getattr(module, "DOMAIN", None)
    if not isinstance(domain, Domain):
        raise InvalidDeclaration(f"the module {module_name!r} defines no DOMAIN of type Domain.")
    if conditions:
        for table in domain.tables.values():
            check_conditions(table)
        for derived in domain.derived:
            check_measures(derived, derived.breakdown)
    return domain
