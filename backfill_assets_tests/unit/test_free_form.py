"""Between rooms travel classes. What is free-form all the same is listed here, with the reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from backfill_assets.core.settings import PROJECT_ROOT

PACKAGE = PROJECT_ROOT / "backfill_assets"

FREE_FORM: Mapping[str, tuple[str, ...]] = {
    "the JSON body that an author sends to an API, which has its own form": (
        "capture/http/declaration.py HttpApi.body",
        "capture/http/client.py Request.body",
    ),
    "a document that describes an API, as JSON has it": ("capture/http/openapi.py Document",),
    "a message of Maxwell or Canal and the change event that it is, as JSON has them": (
        "landing/decoding/row_changes.py position_of",
        "landing/decoding/row_changes.py Event",
        "landing/decoding/row_changes.py EventsOf",
    ),
    "what a run agreed, as the JSON text that its digest is over": (
        "report/report.py RunReport.manifest",
        "landing/imports.py ContractVersions.version_built",
        "landing/imports.py as_present_build",
        "landing/imports.py as_present_reads",
        "landing/imports.py contracts_document",
        "ledger/bases.py without_pins",
        "planning/state.py ComputedFrom.configuration",
        "planning/kinds/any_change.py parse_change",
        "planning/kinds/change.py Change.configuration",
        "planning/kinds/change.py Change.document",
        "planning/kinds/expire.py Expire.document",
        "planning/kinds/load.py Load.document",
        "planning/kinds/merge.py Merge.configuration",
        "planning/kinds/merge.py Merge.document",
        "planning/kinds/pilot.py Pilot.configuration",
        "planning/kinds/pilot.py Pilot.document",
        "planning/kinds/replace.py Replace.document",
        "planning/manifest.py Manifest.configuration",
        "planning/manifest.py Manifest.document",
        "planning/manifest.py input_document",
        "planning/manifest.py parse_input",
        "planning/manifest_parts.py GateInput.document",
        "planning/manifest_parts.py GateInput.parse",
        "planning/manifest_parts.py GateTerm.document",
        "planning/manifest_parts.py GateTerm.parse",
        "planning/safeguards.py Policy.parse",
        "planning/manifest_parts.py Reason.parse",
        "planning/safeguards.py AgreedTerms.document",
        "planning/safeguards.py AgreedTerms.parse",
        "planning/safeguards.py Safeguard.document",
        "planning/safeguards.py Safeguard.parse",
        "planning/manifest.py configuration_of",
        "planning/sets.py ProposedBecause.parse",
        "planning/sets.py SetManifest.document",
        "staleness/decide.py ConfiguredWith",
        "staleness/decide.py CurrentState.configuration",
        "staleness/decide.py unknown_configuration",
    ),
    "what rows were computed from, as the JSON that is stored and digested": ("ledger/provenance.py document_of",),
    "rows as an author's test writes and compares them": (
        "testing/kit.py DomainKit.computed",
        "testing/kit.py DomainKit.rows",
        "testing/values.py Rows",
    ),
    "what a gate observed: every kind of gate has its own counts": (
        "gates/measured.py observed",
        "gates/judge.py Verdict.observed",
        "ledger/findings.py GateResult.observed",
        "ledger/checks.py CheckedGate.observed",
    ),
    "the payload of an event: every action has its own, and the chain hashes all of it": (
        "ledger/records.py ApprovalGrounds.parse",
        "ledger/events.py Event.payload",
        "ledger/events.py EventLog.change",
        "ledger/events.py EventWrites.record",
        "ledger/records.py EventRecord.payload",
        "ledger/runs.py RunSteps.move",
        "ledger/runs.py RunWrites.move",
        "ledger/runs.py RunWrites.take",
        "core/session_settings.py staged_versions",
    ),
    "sampled rows as the ledger keeps them, until they are parsed": (
        "ledger/findings.py PartitionCells.document",
        "ledger/findings.py PartitionCells.parse",
        "ledger/findings.py shown_row",
    ),
    "records of a JSON document of others, before they have a contract": (
        "sniff/look.py Documents.document",
        "sniff/look.py Documents.records",
        "sniff/look.py columns_of",
    ),
    "the fields of any record, to make another of them": ("core/identity.py fields_of",),
    "values of columns, as an author writes them": (
        "domain/contracts.py Lift.defaults",
        "domain/contracts.py lifts",
    ),
    "arguments of an author's function: frames by name, and its context": ("transforms/apply.py called",),
    "tables, and inputs in a way of their own, which are declared on top of gates": (
        "domain/failing_rows.py NOTHING",
        "domain/failing_rows.py failing",
        "domain/failing_rows.py others_of",
    ),
    "rows of any table, and keys of any row of the ledger": (
        "lake/checksums.py checksum_of",
        "gates/measure.py partition_cell",
        "lake/row_values.py rows_of_arrow",
        "lake/row_values.py texts",
        "deliver/outgoing.py Held.key",
        "deliver/outgoing.py key_bytes",
        "ledger/events.py Step.key",
        "deliver/outgoing.py Held.key",
        "deliver/outgoing.py key_bytes",
    ),
    "members of a captured record, as its stream named them": ("deliver/sinks.py as_captured",),
    "the JSON of a commit of Delta, and what the ledger keeps of a log": (
        "lake/swap.py actions_of",
        "ledger/queries.py log_evidence",
    ),
    "reference documents, as the parsers of a domain return them": (
        "domain/context.py GateContext.references",
        "domain/context.py TransformContext.references",
        "domain/tables.py References",
        "examples/enforcement_sla/open_cases.py days_whose_facts_last",
        "examples/enforcement_sla/reference_changes.py days_whose_facts_count",
        "examples/enforcement_sla/references.py DeadlineRules.from_references",
        "examples/enforcement_sla/sla_clocks.py days_that_a_row_needs",
    ),
    "actions of a log of Delta, and what is recorded of them, as JSON has them": (
        "lake/swap.py actions_of",
        "ledger/queries.py log_evidence",
    ),
    "the document of a command: every command has its own": (
        "cli/demo.py DemoStep.answer",
        "cli/demo.py Topic.carried_out",
        "examples/demo_topic.py DemoTopic.carried_out",
    ),
    "what a library takes: options of SQLAlchemy and librdkafka; resources, configuration and metadata of Dagster; "
    "specifications of Vega-Lite": (
        "report/charts.py _CONFIG",
        "report/charts.py specification",
        "capture/kafka/client.py KafkaClient.usual",
        "ledger/connection.py READ",
        "ledger/connection.py UPGRADE",
        "ledger/connection.py WRITE",
        "ledger/connection.py transaction",
        "orchestration/metadata.py Numbers.by_partition",
        "orchestration/metadata.py Numbers.of_run",
        "orchestration/metadata.py code_metadata",
        "orchestration/metadata.py gate_metadata",
        "orchestration/metadata.py row_metadata",
        "orchestration/metadata.py table_metadata",
        "orchestration/metadata.py transform_metadata",
        "orchestration/resources.py run_resources",
        "orchestration/storage.py storage_below",
    ),
}
"""By reason: the module, and the function, the field or the name."""


def free_form(path: Path) -> Iterator[str]:
    """Public functions and fields of classes whose annotation is a mapping of anything."""
    yield from _in(ast.parse(path.read_text(encoding="utf-8")).body, "")


def _in(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _in(node.body, f"{node.name}.")
        elif isinstance(node, ast.AnnAssign) and _is_free(node.annotation):
            yield prefix + ast.unparse(node.target)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if any(_is_free(each) for each in [node.returns, *(argument.annotation for argument in arguments)]):
                yield prefix + node.name
        elif isinstance(node, ast.Assign) and _is_free(node.value):
            yield prefix + ast.unparse(node.targets[0])


def _is_free(annotation: ast.expr | None) -> bool:
    text = "" if annotation is None else ast.unparse(annotation)
    return "Mapping[str, Any]" in text or "dict[str, Any]" in text


def test_what_is_free_form_is_listed_with_its_reason() -> None:
    found = {
        f"{path.relative_to(PACKAGE).as_posix()} {name}" for path in PACKAGE.rglob("*.py") for name in free_form(path)
    }
    listed = {name for names in FREE_FORM.values() for name in names}
    assert found - listed == set(), "between rooms travel classes: declare one, or list it above with the reason"
    assert listed - found == set(), "it is gone: take it off the list"
