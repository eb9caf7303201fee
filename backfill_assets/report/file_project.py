"""The files of a project that begins with a file of its author: its domain, its tests, and the way to publish it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from backfill_assets.core.wording import literal, word_of_a_shell
from backfill_assets.report.sniffed import imports_of, partition_of, short_name, source_of, variable_of
from backfill_assets.sniff.proposal import Proposal, ProposedColumn

_PLAUSIBLE_GAP_DAYS = 31
_TESTED_DAYS = 7
_DEFAULT_FIRST_DAY = date(1999, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProject:
    """A project for a file."""

    package: str  #: Its package.
    proposal: Proposal  #: The source table.
    data: str  #: The path of the file, as its commands name it.

    @property
    def table(self) -> str:
        """The short name of its derived table."""
        return f"{short_name(self.proposal)}_daily"

    @property
    def days(self) -> tuple[date, date]:
        """The first day of the file with a record and the last one."""
        first, last = self.proposal.first_on, self.proposal.last_on
        assert first is not None and last is not None, "a source table has an event time"
        return first, last

    @property
    def has_gaps(self) -> bool:
        """True if days may be missing that landing does not take for empty."""
        return not self.proposal.is_whole or self.proposal.longest_gap_days > _PLAUSIBLE_GAP_DAYS

    @property
    def first_day(self) -> date:
        """The first day that its tables can have."""
        first = self.proposal.first_on or _DEFAULT_FIRST_DAY
        return first.replace(month=1, day=1) if first < _DEFAULT_FIRST_DAY else first.replace(day=1)

    @property
    def measured(self) -> ProposedColumn | None:
        """The column of which its table shows the least and the greatest value of a day."""
        wanted = [each for each in self.proposal.columns if each.kind in ("LONG", "DOUBLE") and each.values]
        others = [
            each for each in wanted if each.name not in self.proposal.key and not each.name.lower().endswith("id")
        ]
        # The one with the most values; of several the first.
        return max(others, key=lambda each: each.values, default=None)

    @property
    def words(self) -> Mapping[str, str]:
        """The words that replace the marks in its templates, by mark."""
        (first, last), begins = self.days, self.first_day
        tested = last if self.has_gaps else max(first, last - timedelta(days=_TESTED_DAYS - 1))
        return {
            "@NAME@": self.proposal.name,
            "@SOURCE@": short_name(self.proposal),
            "@TABLE@": self.table,
            "@FILE@": self.proposal.looked[-1].file,
            "@DATA@": word_of_a_shell(self.data),
            "@PATH@": literal(self.data),
            "@DAY@": partition_of(self.proposal),
            "@FIRST@": f"{first}",
            "@LAST@": f"{last}",
            "@TESTED@": f"{tested}" if tested == last else f"{tested}..{last}",
            # One day has no second chunk before which a process could die.
            "@CHECKS@": "[check_deterministic]" if tested == last else "CHECKS",
            "@IMPORTED@": "Check, DomainKit, check_deterministic" if tested == last else "CHECKS, Check, DomainKit",
            "@FIRST_DAY@": f"{begins}",
            "@FIRST_DATE@": f"date({begins.year}, {begins.month}, {begins.day})",
        }

    def chosen(self, template: str) -> str:
        """The lines of a template that are for this file: some are for files with gaps, some for those without."""
        kept, left = ("@GAPS@", "@WHOLE@") if self.has_gaps else ("@WHOLE@", "@GAPS@")
        lines = [line for line in template.splitlines(keepends=True) if not line.startswith(left)]
        return "".join(line.removeprefix(kept) for line in lines)

    def module(self) -> str:
        """The text of its domain.

        Raises:
            CannotUse: The file has no times.
        """
        more = ("Domain", "Policy", "TransformContext", "derived_table", "expression")
        imports = imports_of(self.proposal, more, ("DateType", "LongType", *((self._type and (self._type,)) or ())))
        source, day = variable_of(self.proposal), partition_of(self.proposal)
        lines = [
            f'"""The domain of {self.package}: what arrives, what is computed from it, and who agrees to it."""',
            "",
            "from pyspark.sql import DataFrame",
            "from pyspark.sql import functions as F",
            *imports,
            "",
            *source_of(self.proposal),
            "",
            "",
            "@derived_table(",
            f'    name="silver.{self.table}",',
            f'    inputs={{"{source}": {source}}},',
            f'    key=("{day}",),',
            f'    partition=daily("{day}"),',
            "    schema=StructType(",
            "        [",
            f'            StructField("{day}", DateType(), nullable=False),',
            '            StructField("records", LongType(), nullable=False),',
            *(f'            StructField("{name}", {self._type}()),' for name in self._measures),
            "        ]",
            "    ),",
            '    gates=(expression("some_records", "records > 0"),),',
            '    version="1.0.0",',
            '    policy=Policy(backfill="approve"),  # "auto" asks no second person',
            ")",
            f"def {self.table}({source}: DataFrame, ctx: TransformContext) -> DataFrame:",
            f'    """Grain: one row per day with records{self._said}."""',
            f'    of_a_day = {source}.groupBy("{day}")',
            *self._aggregates(),
            "",
            "",
            *_domain_of(self.package, source, self.table),
        ]
        return "\n".join(lines) + "\n"

    @property
    def _type(self) -> str:
        kinds = {"LONG": "LongType", "DOUBLE": "DoubleType"}
        return kinds[self.measured.kind] if self.measured is not None else ""

    @property
    def _measures(self) -> tuple[str, ...]:
        return ("least", "greatest") if self.measured is not None else ()

    @property
    def _said(self) -> str:
        return f": how many, with the least and the greatest {self.measured.name}" if self.measured is not None else ""

    def _aggregates(self) -> list[str]:
        if self.measured is None:
            return ['    return of_a_day.agg(F.count("*").alias("records"))']
        name = self.measured.name
        return [
            "    return of_a_day.agg(",
            '        F.count("*").alias("records"),',
            f'        F.min("{name}").alias("least"),',
            f'        F.max("{name}").alias("greatest"),',
            "    )",
        ]


def _domain_of(package: str, source: str, table: str) -> list[str]:
    arguments = [f'name="{package}"', f'package="{package}"', f"sources=({source},)", f"derived=({table},)"]
    line = f"DOMAIN = Domain({', '.join(arguments)})"
    return [line] if len(line) <= 120 else ["DOMAIN = Domain(", *(f"    {each}," for each in arguments), ")"]
