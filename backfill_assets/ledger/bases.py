"""Reads of bases: what accepted partitions were computed from, without reading file sets or provenance.

Ten years of days over 30 tables are 110,000 accepted partitions; what planning asks of them are a few columns each.

Whether a manifest pins exactly what is accepted now is compared as text, without parsing the pins: windows of 90 days
over these tables are a million pins in a hundred runs per table, and hardly any differs from what is accepted. The text
of a manifest is canonical, so equal pins are equal texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from itertools import accumulate, islice
from typing import Any

from sqlalchemy import and_, select

from backfill_assets.calendar.windows import AnyWindow, parse_window
from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import sha256_text
from backfill_assets.core.people import POLICY
from backfill_assets.ledger.errors import Edited, NotInLedger
from backfill_assets.ledger.queries import PAGE, Queries, batches
from backfill_assets.ledger.schema import (
    approvals,
    candidate_partitions,
    manifests,
    partition_versions,
    publications,
    runs,
)
from backfill_assets.ledger.states import ApprovalState, PublicationState, VersionState
from backfill_assets.ledger.versions import VersionReads, found_equal
from backfill_assets.planning.graph import TableInput
from backfill_assets.planning.manifest_parts import PinnedReference
from backfill_assets.planning.state import UNKNOWN_DIGEST, ComputedFrom, ComputedFromInput

StandsFor = dict[str, list[date]]
"""Accepted partitions of a table, by the run that stands for them."""

_FOUND_EQUAL = (
    publications.c.begun_sequence,
    publications.c.run_id,
    partition_versions.c.table_name,
    partition_versions.c.partition_date,
)

RunPartition = tuple[str, str, date]
"""A run, its table, and one of its partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceIndex:
    """The bases of accepted partitions."""

    #: The last basis of every accepted partition, by table; each partition is in exactly one.
    bases: Mapping[str, tuple[ComputedFrom, ...]]
    #: The other bases of some partitions of a table, read as they are asked for, inside the transaction.
    earlier: Callable[[str, Collection[date]], Iterator[ComputedFrom]]
    #: The accepted file sets of the tables and of what they read, by table and partition.
    digests: Mapping[str, Mapping[date, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A partition that a run read from the candidate of another run of its set: where its digest belongs."""

    digests: dict[date, str]
    partition: date
    run_id: str
    table: str


_INPUTS = '"inputs":[{"argument":'
_PINS, _END = '"partitions":[[', ']],"table":'
"""The texts before and behind the pins of an input. In a text of JSON both have a backslash before their quotes."""


class Stretch(Mapping[date, str]):
    """The partitions of a mapping from one place to another, computed on first use, which is rare."""

    def __init__(self, whole: Mapping[date, str], start: int, end: int) -> None:
        self._whole, self._start, self._end = whole, start, end

    @cached_property
    def _part(self) -> Mapping[date, str]:
        return dict(islice(self._whole.items(), self._start, self._end))

    def __getitem__(self, partition: date) -> str:
        return self._part[partition]

    def __iter__(self) -> Iterator[date]:
        return islice(self._whole, self._start, self._end)

    def __len__(self) -> int:
        return self._end - self._start


@dataclass(slots=True)
class Accepted:
    """The accepted versions of a table, as a manifest that is planned now would write them down."""

    #: The digests of files that a repair wrote, with the digest of those that they stand for.
    repaired: Mapping[tuple[date, str], str] = field(default_factory=dict)
    #: By partition, in order; of rows that a repair put back in other files, those that they were accepted in first:
    #: what was computed from these follows from them, too.
    digests: dict[date, str] = field(default_factory=dict)
    made_by: dict[date, str] = field(default_factory=dict)  #: The runs that made the versions, by partition.
    _pins: list[str] = field(default_factory=list)
    _text: str = ""
    _places: dict[str, int] = field(default_factory=dict)
    _starts: list[int] = field(default_factory=list)

    def add(self, partition: date, version: int, digest: str, run_id: str) -> None:
        """The next accepted version, in the order of partitions."""
        self.digests[partition] = self.repaired.get((partition, digest), digest)
        self.made_by[partition] = run_id
        self._pins.append(f'["{partition.isoformat()}",{version},"{digest}"]')

    def same(self, pins: str) -> Mapping[date, str] | None:
        """The recorded pins, if the very same would be pinned now; None when anything differs, or days are left out.

        Args:
            pins: The text between the brackets of an input's partitions.
        """
        if not self._text:
            self._set_out()
        first, last = (self._places.get(pins[at + 2 : at + 12]) for at in (0, pins.rfind('["')))
        if first is None or last is None or not self._text.startswith(pins, self._starts[first]):
            return None
        return Stretch(self.digests, first, last + 1)

    def _set_out(self) -> None:
        self._text = ",".join(self._pins)
        self._places = {pin[2:12]: place for place, pin in enumerate(self._pins)}
        self._starts = [0, *accumulate(len(pin) + 1 for pin in self._pins)]


def without_pins(body: str) -> tuple[Mapping[str, Any], list[str]]:
    """A manifest's document in which numbers stand for the pins of its inputs, and the texts that they stand for."""
    parts: list[str] = []
    pins: list[str] = []
    done, start = 0, body.find(_INPUTS)
    while start >= 0 and (start := body.find(_PINS, start)) >= 0:
        begin = start + len(_PINS) - 1
        start = body.index(_END, begin) + 1
        parts.append(f"{body[done : begin - 1]}{len(pins)}")
        pins.append(body[begin:start])
        done = start + 1
    return json.loads("".join([*parts, body[done:]])), pins


class BasisReads(Queries):
    """The bases of partitions, as planning and staleness compare them."""

    def of_accepted(
        self,
        tables: Iterable[str],
        *,
        inputs: Iterable[str] = (),
        partitions: Collection[date] | None = None,
        agreed: bool = False,
    ) -> ProvenanceIndex:
        """The bases of the accepted partitions of tables, and what is accepted of them and of their inputs.

        The bases of a version are the run that made it, every later run that recomputed it, found it equal and whose
        publication stands, and every run whose difference an owner accepted. The last of them is read at once, the
        others when they are asked for.

        Cost: one short row per accepted partition of the tables, and the manifest of every run that stands for one.

        Args:
            tables: The tables whose bases are wanted.
            inputs: Tables whose digests are wanted as well; those that a basis has read are added to them.
            partitions: Only the bases of these partitions are wanted.
            agreed: Without the bases of runs that no person has approved, because their rows were found equal, or were
                left as they are, or put back as they were recorded.
        """
        named = list(tables)
        accepted = {table: self._accepted_now(table) for table in dict.fromkeys([*named, *inputs])}
        stands: dict[str, dict[date, str]] = {}
        before: dict[str, dict[date, list[str]]] = {table: {} for table in named}
        for table in named:
            made_by = accepted[table].made_by
            stands[table] = {p: run for p, run in made_by.items() if partitions is None or p in partitions}
            if agreed:
                stands[table] |= self._before_repairs(table, stands[table])
        left = [] if agreed else self._left(named)
        others = sorted([*self._found_equal(named, agreed=agreed), *left])
        for _, run_id, table, partition in others:
            if partition in stands[table]:
                before[table].setdefault(partition, []).append(stands[table][partition])
                stands[table][partition] = run_id
        last = {table: _by_run(its.items()) for table, its in stands.items()}
        accept = {run_id for _, run_id, *_ in left}
        drawn_up = self._drawn_up(
            {run: some for by_run in last.values() for run, some in by_run.items()}, accepted, accept
        )
        by_id = {basis.run_id: basis for basis in drawn_up}
        bases = {table: tuple(by_id[run_id] for run_id in by_run) for table, by_run in last.items()}
        digests = {table: now.digests for table, now in accepted.items()}
        read = {each.edge.table for some in bases.values() for basis in some for each in basis.inputs}
        digests |= {table: self._accepted_now(table).digests for table in read - digests.keys()}

        def earlier(table: str, partitions: Collection[date]) -> Iterator[ComputedFrom]:
            others = before.get(table, {})
            pairs = [(partition, run) for partition in sorted(partitions) for run in others.get(partition, ())]
            yield from self._drawn_up(_by_run(pairs), accepted, accept)

        return ProvenanceIndex(bases=bases, earlier=earlier, digests=digests)

    def is_computed_as_agreed(self, run_id: str, table: str, partitions: Sequence[date]) -> bool:
        """True if a run has the code, settings and references of the runs that were agreed to for accepted partitions.

        Cost: as `of_accepted`.
        """
        agreed = self.of_accepted([table], partitions=partitions, agreed=True).bases[table]
        computed = _computed_by(self.of_run(run_id, partitions))
        known = {partition for basis in agreed for partition in basis.partitions}
        return known == set(partitions) and all(_computed_by(basis) == computed for basis in agreed)

    def of_run(self, run_id: str, partitions: Sequence[date]) -> ComputedFrom:
        """The bases of partitions of a run, whether they are visible to readers or not.

        Cost: one primary key lookup; the manifest is parsed without its pins.

        Raises:
            UnknownName: There is no such run.
            Refused: Its manifest was edited in the database.
        """
        for basis in self._drawn_up({run_id: partitions}, {}, ()):
            return basis
        raise NotInLedger(kind="run", name=run_id)

    def _accepted_now(self, table: str) -> Accepted:
        held = partition_versions
        chosen = (
            select(held.c.partition_date, held.c.version, held.c.files_digest, held.c.run_id)
            .where(held.c.table_name == table, held.c.state == VersionState.ACCEPTED)
            .order_by(held.c.partition_date)
        )
        accepted = Accepted(repaired=VersionReads(self._connection).repaired_digests(table))
        # A few rows at a time: 100,000 of them held at once keep the garbage collector busier than the database.
        for some in self._connection.execute(chosen).partitions(PAGE):
            for partition, version, digest, run_id in some:
                accepted.add(partition, version, digest, run_id)
        return accepted

    def _before_repairs(self, table: str, partitions: Collection[date]) -> dict[date, str]:
        """The runs that were agreed to for the rows which repairs without an approval put back, by partition."""
        reads, held = VersionReads(self._connection), partition_versions
        if not reads.repaired(table):
            return {}
        put_back = and_(approvals.c.request_id == held.c.run_id, approvals.c.approved_by == f"{POLICY}repair")
        chosen = select(held.c.partition_date, held.c.version, held.c.replaces).join_from(held, approvals, put_back)
        of_table = chosen.where(held.c.table_name == table)
        before = {(day, version): replaces for day, version, replaces in self._columns(of_table)}
        found: dict[date, int] = {}
        for day, claim in reads.claims(table, sorted(partitions)).items():
            version = claim.version
            while (day, version) in before:
                version = before[day, version]
            if version != claim.version:
                found[day] = version
        agreed = {day: version.run_id for day, version in reads.pinned(table, sorted(found.items())).items()}
        made, equal = publications, found_equal(*_FOUND_EQUAL, partition_versions.c.version)
        equal = equal.join(approvals, approvals.c.request_id == made.c.run_id)
        equal = equal.where(made.c.table_name == table, approvals.c.state == ApprovalState.APPROVED)
        for _, run_id, _, day, version in sorted(map(tuple, self._columns(equal))) if found else ():
            if found.get(day) == version:
                agreed[day] = run_id
        return agreed

    def _left(self, tables: Sequence[str]) -> list[tuple[int, str, str, date]]:
        """Accepted versions that an owner left as they are, and the runs that found other rows, in that order."""
        held, found = partition_versions, candidate_partitions
        is_left = runs.c.table_name.in_(tables) & runs.c.left_sequence.is_not(None)
        # Few or none: asked first, because SQLite would look every accepted version up.
        leaving = [run_id for (run_id,) in self._columns(select(runs.c.run_id).where(is_left))]
        if not leaving:
            return []
        same = and_(
            held.c.table_name == runs.c.table_name,
            held.c.partition_date == found.c.partition_date,
            held.c.version == found.c.compared_version,
        )
        chosen = (
            select(runs.c.left_sequence, runs.c.run_id, held.c.table_name, held.c.partition_date)
            .join_from(runs, found, found.c.run_id == runs.c.run_id)
            .join(held, same)
            .where(runs.c.run_id.in_(leaving), held.c.state == VersionState.ACCEPTED)
        )
        return [(at, run_id, table, partition) for at, run_id, table, partition in self._columns(chosen)]

    def _found_equal(self, tables: Sequence[str], *, agreed: bool) -> list[tuple[int, str, str, date]]:
        """Accepted versions and the runs whose standing publications found them equal, the last begun last."""
        held, made = partition_versions, publications
        found = found_equal(*_FOUND_EQUAL)
        chosen = found.where(made.c.table_name.in_(tables), held.c.state == VersionState.ACCEPTED)
        if agreed:
            chosen = chosen.join(approvals, approvals.c.request_id == made.c.run_id)
            chosen = chosen.where(approvals.c.state == ApprovalState.APPROVED)
        return [(at, run_id, table, partition) for at, run_id, table, partition in self._columns(chosen)]

    def _drawn_up(
        self, stands_for: Mapping[str, Sequence[date]], accepted: Mapping[str, Accepted], left: Collection[str]
    ) -> Iterator[ComputedFrom]:
        """The bases of some runs.

        Args:
            left: The runs that found other rows, and whose owner left the accepted ones as they are.
        """
        repaired: dict[str, Mapping[tuple[date, str], str]] = {}
        for batch in batches(stands_for, PAGE):
            chosen = select(manifests.c.run_id, manifests.c.digest, manifests.c.body)
            bases: list[ComputedFrom] = []
            staged: list[Staged] = []
            for run_id, digest, body in self._columns(chosen.where(manifests.c.run_id.in_(batch))):
                if sha256_text(body) != digest:
                    raise Edited(what=f"the manifest of run {run_id}", of={"run_id": run_id})
                # No `Manifest` of it: thousands of pins are cheap to read and dear to keep.
                basis, read = _basis(body, tuple(stands_for[run_id]), accepted)
                bases.append(replace(basis, difference_accepted=True) if run_id in left else basis)
                staged += read
            self._fill_in(staged)
            for basis in bases:
                inputs = tuple(self._as_first_accepted(each, repaired) for each in basis.inputs)
                yield replace(basis, inputs=inputs)

    def _as_first_accepted(
        self, read: ComputedFromInput, repaired: dict[str, Mapping[tuple[date, str], str]]
    ) -> ComputedFromInput:
        """An input with the digests of the files in which the rows were accepted that a repair put back in others."""
        table = read.edge.table
        if table not in repaired:
            repaired[table] = VersionReads(self._connection).repaired_digests(table)
        if not (first := repaired[table]) or read.within is not None:
            return read
        digests = read.digests
        for key, digest in first.items():
            if digests.get(key[0]) == key[1]:
                digests = {**digests, key[0]: digest}
        return replace(read, digests=digests)

    def _fill_in(self, staged: Sequence[Staged]) -> None:
        """Fills in the digests that runs of a set brought in or found equal after others had read their candidates."""
        published = self._published_by({read.run_id for read in staged})
        for read in staged:
            digest = published.get((read.run_id, read.table, read.partition), UNKNOWN_DIGEST)
            read.digests[read.partition] = digest

    def _published_by(self, run_ids: Collection[str]) -> dict[RunPartition, str]:
        """The digests of the versions that the standing publications of runs brought in or found equal."""
        held, made = partition_versions, publications
        columns = (made.c.run_id, held.c.table_name, held.c.partition_date, held.c.files_digest)
        joined = select(*columns).join_from(made, held, held.c.publication_id == made.c.publication_id)
        brought_in = joined.where(made.c.state == PublicationState.PUBLISHED)
        digests: dict[RunPartition, str] = {}
        for batch in batches(sorted(run_ids)):
            for statement in (brought_in, found_equal(*columns)):
                for run_id, table, partition, digest in self._columns(statement.where(made.c.run_id.in_(batch))):
                    digests[run_id, table, partition] = digest
        return digests


def _computed_by(basis: ComputedFrom) -> tuple[object, ...]:
    """The code, settings and references by which rows are computed, besides their inputs."""
    references = sorted((each.name, each.version, each.sha256) for each in basis.references)
    code = (basis.transform, basis.transform_version, basis.code_digest)
    return (*code, basis.configuration, references, basis.session_digest)


def _by_run(pairs: Iterable[tuple[date, str]]) -> StandsFor:
    return grouped((run_id, partition) for partition, run_id in pairs)


def _basis(
    body: str, partitions: tuple[date, ...], accepted: Mapping[str, Accepted]
) -> tuple[ComputedFrom, list[Staged]]:
    document, pins = without_pins(body)
    transform = document["transform"]
    windows = document["configuration"].get("windows", {})
    staged: list[Staged] = []
    basis = ComputedFrom(
        run_id=document["run_id"],
        partitions=partitions,
        transform=transform["name"],
        transform_version=transform["version"],
        code_digest=transform["code_digest"],
        configuration=document["configuration"],
        references=tuple(map(PinnedReference.parse, document["references"])),
        inputs=tuple(
            _input(pinned, parse_window(windows[pinned["argument"]]), pins, accepted.get(pinned["table"]), staged)
            for pinned in document["inputs"]
        ),
        imports=frozenset(document["target"]["change"].get("imports", ())),
        requested_at=datetime.fromisoformat(document["requested_at"]),
        session_digest=document["session_settings"],
    )
    return basis, staged


def _input(
    pinned: Mapping[str, Any], window: AnyWindow, pins: Sequence[str], accepted: Accepted | None, staged: list[Staged]
) -> ComputedFromInput:
    """One input, with the digest of each partition that was read; candidates are noted, to be filled in."""
    table = pinned["table"]
    edge = TableInput(argument=pinned["argument"], table=table, window=window)
    if pinned["partitions"] == []:
        return ComputedFromInput(edge=edge, digests={})
    text = pins[pinned["partitions"]]
    if accepted is not None and (same := accepted.same(text)) is not None:
        return ComputedFromInput(edge=edge, digests=same, within=accepted.digests)
    day_of = date.fromisoformat
    parsed = json.loads(f"[{text}]")
    digests = {day_of(pin[0]): pin[2] for pin in parsed}
    staged += [
        Staged(digests=digests, partition=day_of(pin[0]), run_id=pin[3], table=table) for pin in parsed if len(pin) > 3
    ]
    return ComputedFromInput(edge=edge, digests=digests)
