"""Loading of the domain that the settings name."""

from __future__ import annotations

import importlib
import traceback

from backfill_assets.core.errors import BackfillError
from backfill_assets.domain.breakdown import check_measures
from backfill_assets.domain.domains import Domain
from backfill_assets.domain.errors import DomainNotFound, DomainNotLoaded, NoDomain
from backfill_assets.domain.mistakes import check_conditions


def load_domain(module_name: str, *, conditions: bool = True) -> Domain:
    """The `DOMAIN` that a module declares.

    Args:
        module_name: As BACKFILL_DOMAIN names it.
        conditions: Check the conditions of gates as well; what only looks does not need them.

    Raises:
        InvalidDeclaration: No module is named, it cannot be imported, has no `DOMAIN`, or its declarations are invalid.
    """
    if not module_name:
        raise NoDomain()
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            why = f"it imports {error.name!r}, which is not installed"
            raise DomainNotLoaded(module=module_name, why=why) from error
        raise DomainNotFound(module=module_name) from error
    except BackfillError:
        raise
    except Exception as error:  # every error of an author's module is shown to the author, in one line
        place = traceback.extract_tb(error.__traceback__)[-1]
        why = f"{type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
        raise DomainNotLoaded(module=module_name, why=why) from error
    domain = getattr(module, "DOMAIN", None)
    if not isinstance(domain, Domain):
        raise DomainNotLoaded(module=module_name, why="it defines no DOMAIN of type Domain")
    if conditions:
        for table in domain.tables.values():
            check_conditions(table)
        for derived in domain.derived:
            check_measures(derived, derived.breakdown)
    return domain
