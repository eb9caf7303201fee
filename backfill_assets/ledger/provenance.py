"""Provenance: what the rows of a partition were computed from. The stored document is read and written here alone.

A publication's event has the digest of these documents, so what is read is written again exactly as it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backfill_assets.core.identity import fields_of
from backfill_assets.planning.manifest_parts import PinnedReference, ReferenceSemantics


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProvenance:
    """The provenance of a partition of a source: the files it was built from."""

    #: Every landed file with events of it, as its id and sha256; empty where nothing has landed.
    imports: tuple[tuple[str, str], ...]
    session: str  #: The digest of the session settings.


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedProvenance:
    """The provenance of a partition of a derived table: the inputs, code and settings it was computed from."""

    code: str  #: The digest of the code of its transform.
    configuration: str  #: The digest of the configuration of its run.
    inputs: Mapping[str, str]  #: The digest of the window that was read of each input, by table.
    manifest: str  #: The digest of the manifest of its run.
    #: The version and sha256 of every reference document that was read, by name.
    references: Mapping[str, tuple[str, str]]
    session: str  #: The digest of the session settings.
    transform: str  #: The transform.
    transform_version: str  #: Its registered version.


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherProvenance:
    """Any other document: an empty one where nothing was computed, or what another program wrote."""

    recorded: str = "{}"  #: What is recorded, as JSON text.


Provenance = SourceProvenance | DerivedProvenance | OtherProvenance
"""The origin of the rows of one partition."""

NOTHING_RECORDED = OtherProvenance()


def inputs_of(provenance: Provenance) -> Mapping[str, str]:
    """The digest of the window that was read of each input, by table; empty where no table was read."""
    return provenance.inputs if isinstance(provenance, DerivedProvenance) else {}


def references_of(provenance: Provenance) -> Mapping[str, PinnedReference] | None:
    """The references that were read, by name, as versions to use as recorded; None where that is not recorded."""
    if not isinstance(provenance, DerivedProvenance):
        return None
    as_recorded = ReferenceSemantics.AS_RECORDED
    return {
        name: PinnedReference(name=name, version=version, sha256=sha256, semantics=as_recorded)
        for name, (version, sha256) in provenance.references.items()
    }


def provenance_of(document: Any) -> Provenance:
    """The provenance that a stored document describes; one of an unknown shape is kept as it is."""
    try:
        found = _known(document)
        if document_of(found) == document:
            return found
    except (KeyError, TypeError, ValueError, AttributeError):
        pass  # Its parts are of other kinds than those of a document of ours.
    return OtherProvenance(recorded=json.dumps(document))


def _known(document: Any) -> SourceProvenance | DerivedProvenance:
    if "imports" in document:
        imports = tuple((import_id, sha256) for import_id, sha256 in document["imports"])
        return SourceProvenance(**{**document, "imports": imports})
    references = {name: (version, sha256) for name, (version, sha256) in document["references"].items()}
    return DerivedProvenance(**{**document, "references": references})


def document_of(provenance: Provenance) -> Mapping[str, Any]:
    """The document of a provenance, as it is stored and digested."""
    match provenance:
        case OtherProvenance():
            found: Mapping[str, Any] = json.loads(provenance.recorded)
            return found
        case SourceProvenance():
            return {"imports": [list(read) for read in provenance.imports], "session": provenance.session}
        case DerivedProvenance():
            # Each part as what it has to be: a document with another kind of part is none of ours.
            inputs = dict(provenance.inputs)
            references = {name: [*read] for name, read in provenance.references.items()}
            return {**fields_of(provenance), "inputs": inputs, "references": references}
