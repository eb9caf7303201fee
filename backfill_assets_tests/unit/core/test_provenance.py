"""What rows were computed from is written to the ledger exactly as it was read: publications have its digest."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.identity import canonical_json
from backfill_assets.ledger.provenance import (
    DerivedProvenance,
    OtherProvenance,
    Provenance,
    SourceProvenance,
    document_of,
    inputs_of,
    provenance_of,
)
from backfill_assets.report.documents import as_json

DERIVED = (
    '{"code":"c0","configuration":"d0","inputs":{"bronze.sales":"1f"},"manifest":"e0",'
    '"references":{"calendar":["2024.1","ab"]},"session":"5e","transform":"recent","transform_version":"1.0.0"}'
)
WITHOUT_INPUTS = DERIVED.replace('{"bronze.sales":"1f"}', "null")
OF_DERIVED = DerivedProvenance(
    code="c0",
    configuration="d0",
    inputs={"bronze.sales": "1f"},
    manifest="e0",
    references={"calendar": ("2024.1", "ab")},
    session="5e",
    transform="recent",
    transform_version="1.0.0",
)


@pytest.mark.parametrize(
    ("stored", "provenance"),
    [
        (
            '{"imports":[["imp-1","a1"],["imp-2","a2"]],"session":"5e"}',
            SourceProvenance(imports=(("imp-1", "a1"), ("imp-2", "a2")), session="5e"),
        ),
        ('{"imports":[],"session":""}', SourceProvenance(imports=(), session="")),
        ('{"imports":[]}', OtherProvenance(recorded='{"imports": []}')),
        (DERIVED, OF_DERIVED),
        ("{}", OtherProvenance()),
        ('{"code":"c","versions":[1]}', OtherProvenance(recorded='{"code": "c", "versions": [1]}')),
        (WITHOUT_INPUTS, OtherProvenance(recorded=json.dumps(json.loads(WITHOUT_INPUTS)))),
    ],
)
def test_a_stored_document_is_read_as_what_it_is_and_written_back_unchanged(
    stored: str, provenance: Provenance
) -> None:
    found = provenance_of(json.loads(stored))
    assert found == provenance
    assert canonical_json(document_of(found)) == stored


def test_a_history_prints_a_provenance_with_the_names_that_are_stored() -> None:
    assert as_json(OF_DERIVED) == json.loads(DERIVED)
    assert list(as_json(OF_DERIVED)) == list(json.loads(DERIVED))
    of_source = SourceProvenance(imports=(("imp-1", "a1"),), session="5e")
    assert as_json(of_source) == {"imports": [["imp-1", "a1"]], "session": "5e"}


def test_only_a_derived_table_reads_inputs() -> None:
    assert inputs_of(OF_DERIVED) == {"bronze.sales": "1f"}
    assert inputs_of(SourceProvenance(imports=(), session="5e")) == inputs_of(OtherProvenance()) == {}


NAMES = st.sampled_from(["imports", "session", *json.loads(DERIVED), "sha256"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)
NEARLY = st.fixed_dictionaries({}, optional=dict.fromkeys([*json.loads(DERIVED), "imports"], ANYTHING))
CHANGED = st.tuples(NAMES, ANYTHING).map(lambda part: {**json.loads(DERIVED), part[0]: part[1]})


@given(ANYTHING | NEARLY | CHANGED)
def test_whatever_another_program_wrote_comes_back_as_it_was(document: object) -> None:
    assert canonical_json(document_of(provenance_of(document))) == canonical_json(document)
