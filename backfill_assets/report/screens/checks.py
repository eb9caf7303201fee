"""Check of accepted rows: what each present gate found in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backfill_assets.calendar.partitions import Grain, Partitions, count_of, partition_text
from backfill_assets.report.page import Block, Note, Page, Tone, next_steps, page, section, table
from backfill_assets.report.repairs import after_rows_check
from backfill_assets.report.screens.shown_rows import keys_table
from backfill_assets.report.values import as_sentence
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.upkeep.check import GateOnRows, NotMeasurable, RowsCheck


def rows_page(found: RowsCheck) -> Page:
    """The page on a check of rows: what was measured, what each gate found, and what replaces rows that fail."""
    grain = Grain.DAILY if found.partitions is None else found.partitions.grain
    which = "" if found.partitions is None else f": {found.partitions}"
    rows = [
        (each.gate, "blocks" if each.blocking else "informs", _outcome(each, grain.noun), each.failed)
        for each in found.gates
    ]
    return page(
        f"Accepted rows of {found.table}{which}",
        section("Gates", table(["gate", "failure", "outcome", "failed in"], rows)),
        *(block for each in found.gates for block in _failed(each, grain)),
        Note(text=as_sentence(_not_accepted(found, found.not_accepted)), tone=Tone.ATTENTION)
        if found.not_accepted
        else None,
        Note(text=_of_candidates(found.of_candidates)) if found.of_candidates else None,
        *(Note(text=as_sentence(_not_measured(each)), tone=Tone.BAD) for each in found.not_measurable),
        Note(text=f"replaced meanwhile, and measured as before: {found.replaced}", tone=Tone.ATTENTION)
        if found.replaced
        else None,
        Note(text="every blocking gate passes, and nothing was changed", tone=Tone.GOOD) if found.passes else None,
        next_steps(*after_rows_check(found)),
    )


def _outcome(found: GateOnRows, noun: str) -> str:
    if found.failed is None:
        nothing = f", {found.nothing_known:,} without an entry to compare" if found.nothing_known else ""
        return f"passed in {count_of(found.measured, noun)}{nothing}"
    return f"failed in {len(found.failed):,} of {count_of(found.measured, noun)}"


def _not_accepted(found: RowsCheck, lacking: Partitions) -> str:
    every = count_of(found.asked or len(lacking), lacking.grain.noun)
    return f"no accepted rows on {len(lacking):,} of {every}: {lacking}"


def _of_candidates(gates: Sequence[str]) -> str:
    """The sentence that gates are about a candidate beside what was accepted before it, as the usual."""
    names, them = ", ".join(gates), "it" if len(gates) == 1 else "them"
    return f"asked only of candidates: {names}. Check does not measure {them}: each run does, and its report shows it"


def _not_measured(found: NotMeasurable) -> str:
    return f"{found.partitions} could not be measured with {', '.join(found.gates)}: {found.why}"


def _failed(found: GateOnRows, grain: Grain) -> Iterator[Block | None]:
    if found.failed is None:
        return
    rows = [
        (partition_text(grain, each.partition), each.version, verdict_words(each.result)) for each in found.failures
    ]
    yield section(f"{found.gate} fails", table(["partition", "version", "found"], rows, numbers=["version"]))
    yield section(f"Keys of rows that fail {found.gate}", keys_table(found.keys, grain), of_rows=True)
