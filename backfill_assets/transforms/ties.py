"""Ties and sums: where the rows that a function describes depend on the order in which Spark takes them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql.types import DoubleType, FloatType, StructType

from backfill_assets.transforms.dependencies import (
    NONE,
    OF_PYTHON,
    ON_ROWS,
    Called,
    Facts,
    Keys,
    Known,
    Node,
    Numbers,
    Ranked,
    around,
    calls,
    columns,
    groups_of,
    lists,
    numbers_in,
    parts,
    places_of,
    plain_number,
    ranked,
    told_by,
    tree_of,
)

# Ties: rows between which nothing decides, where what a function describes depends on which of them Spark takes
# first.
#
# Read from the plan that Spark has analysed, so that it does not matter how the author wrote it, nor whether the
# session is in this process or behind Spark Connect. A tie does no harm where it makes no difference: rows that
# are equal in every column that is used later, and lists whose order is lost again (`sort_array`), give the same
# rows in any order.

FIRST_OF_GROUP = {"first", "first_value", "last", "last_value", "any_value", "nth_value"}
LISTS = {"collect_list", "collect_set", "array_agg"}
TEXTS = {"listagg", "string_agg"}
BY_VALUE = {"max_by", "min_by"}
MERGED = {
    *("percentile_approx", "approx_percentile", "histogram_numeric", "approx_top_k", "approx_top_k_accumulate"),
    *("approx_top_k_combine", "hll_sketch_agg", "hll_union_agg", "theta_sketch_agg", "theta_union_agg"),
    *("theta_intersection_agg", "tuple_sketch_agg", "kll_sketch_agg_bigint", "kll_sketch_agg_float"),
    *("kll_sketch_agg_double", "kll_merge_agg_bigint", "kll_merge_agg_float", "kll_merge_agg_double"),
}
PLACED = {"row_number", "ntile", "lag", "lead"}
AMONG_PEERS = {"rank", "dense_rank", "percent_rank", "cume_dist"}
TIED = FIRST_OF_GROUP | LISTS | TEXTS | BY_VALUE | MERGED | {"mode"}

_SORTED = {
    *("sort_array", "size", "cardinality", "array_size", "array_contains", "array_max", "array_min", "arrays_overlap"),
    *("exists", "forall", "isnull", "isnotnull", "count", "explode", "explode_outer", "inline", "inline_outer"),
}
"""Functions of a list that give the same for any order of it."""

_KEEPS = {
    *("transform", "filter", "array_distinct", "array_compact", "array_remove", "flatten", "array_append"),
    *("array_prepend", "array_union", "array_except", "array_intersect", "concat", "coalesce", "ifnull", "nvl"),
}
"""Functions of a list that give the same elements for any order of it, in another order."""

_A_NAME = re.compile(r"[\w .-]+")

_BY_ITSELF = "lambdafunction(if ((isnull(lambda left#"
"""How a plan begins the order of `array_sort` where none was given."""


@dataclass(frozen=True, slots=True, order=True)
class Tie:
    """A tie: a place that gives other rows where Spark takes equal rows in another order."""

    what: str  #: Names it and where it is in a declaration, such as `first as amount`.
    name: str  #: The function or method.
    column: str  #: The column that differs, or what the method was given.
    why: str  #: Why the rows can differ.
    instead: str  #: What to write.


_NO_ORDER = "nothing decides which of the rows of a group is the first"
_INSTEAD: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(FIRST_OF_GROUP, (_NO_ORDER, "write max_by(..., struct(...)) or min_by with columns that decide")),
    **dict.fromkeys(LISTS, ("nothing decides the order of the list", "write sort_array(...) around it")),
    **dict.fromkeys(
        TEXTS, ("nothing decides the order of the texts", "write array_join(sort_array(collect_list(...)), ...)")
    ),
    **dict.fromkeys(
        BY_VALUE,
        (
            "rows with an equal largest or smallest value tie, and nothing decides between them",
            "order by struct(...) of columns until a key is among them, or of the value itself",
        ),
    ),
    **dict.fromkeys(
        MERGED,
        (
            "its result depends on the order in which tasks are merged",
            "write what is exact, such as percentile, or group and count",
        ),
    ),
    "mode": ("values that are equally frequent tie", "write mode(..., deterministic=True)"),
}
_A_KEY = "a key of the rows, or after a join that can multiply rows the keys of both sides, is among them"
_IN_WINDOW = (
    "rows tie in the order of its window",
    f"add columns to its orderBy until {_A_KEY} and those of partitionBy",
)
_ROWS = (
    "rows tie in the order of its window, and its frame counts rows",
    f"add columns to its orderBy until {_A_KEY}, or use rangeBetween",
)
_BATCHES = (
    "Spark hands it rows in an order and in numbers that nothing decides",
    "compute it with functions of Spark, or with a udf of one row",
)


def batched_by(method: str, function: str) -> Tie:
    """A function of Python that is handed several rows at once."""
    return Tie(f"{method} with {function}", method, function, *_BATCHES)


def ties_in(plan: str, keys: Keys) -> list[Tie]:
    """The ties of an analysed plan.

    Args:
        plan: The plan, as `EXPLAIN EXTENDED` writes it, without the line of its columns.
        keys: The columns by which rows of inputs are unique, by the names under which the plan holds them.
    """
    root = tree_of(plan)
    if root is None:
        return []
    known = Known(keys)
    facts = known.facts(root)
    found = _Found(known)
    found.visit(root, facts.numbers, facts.numbers)
    found.visit_shared()
    return sorted(set(found.ties))


@dataclass(slots=True)
class _Found:
    known: Known
    ties: list[Tie] = field(default_factory=list)
    _of_shared: dict[str, tuple[set[int], set[int]]] = field(default_factory=dict)

    def visit(self, node: Node, needed: Numbers, ordered: Numbers, *, is_limited: bool = False) -> None:
        """Looks at an operator, from the columns of it that are read above, and those whose order is."""
        for each in node.inside:
            inner = self.known.facts(each).numbers
            self.visit(each, inner, inner)
        below = [self.known.facts(each) for each in node.children]
        if node.name == "CTERelationRef":
            self._shared(node, needed, ordered)
        if not below:
            return
        first = below[0]
        match node.name:
            case "Project":
                self._project(node, needed, ordered, is_limited=is_limited)
            case "Aggregate":
                self._aggregate(node, first, needed, ordered)
            case "Window":
                self._window(node, first, needed, ordered)
            case "Deduplicate":
                keys = numbers_in(node.said)
                self._require(first, keys, needed, "dropDuplicates", self._names(first, keys))
                self.visit(node.children[0], needed | keys, ordered | keys)
            case "GlobalLimit" | "LocalLimit" | "Offset" | "Tail":
                self._limit(node, first, needed, ordered)
            case "Sort":
                used = numbers_in(node.said) if is_limited else NONE
                self.visit(node.children[0], needed | used, ordered | used)
            case "AttachDistributedSequence":
                self._add("zipWithIndex", "index", "nothing decides the order of the rows", "number them by row_number")
                self.visit(node.children[0], first.numbers, first.numbers)
            case "WithCTE":
                self.visit(node.children[-1], needed, ordered)
            case "Generate":
                self._generate(node, needed, ordered)
            case "Union":
                self._by_place(node, needed, ordered)
            case "Filter" | "Join" | "LateralJoin":
                used, in_order = numbers_in(node.said), _in_order(node.said)
                for each, facts in zip(node.children, below, strict=True):
                    numbers = facts.numbers
                    self.visit(each, (needed | used) & numbers, (ordered | in_order) & numbers)
            case name if name in ON_ROWS and name != "Distinct":
                used = numbers_in(node.said) & first.numbers
                is_passed = name in ("SubqueryAlias", "View", "ResolvedHint")
                add = NONE if is_passed else used
                self.visit(node.children[0], needed | add, ordered | add, is_limited=is_limited and is_passed)
            case _:
                if OF_PYTHON.search(node.name):
                    self._batches(node)
                for each, facts in zip(node.children, below, strict=True):
                    self.visit(each, facts.numbers, facts.numbers)

    # ---------------------------------------------------------------------------------------------- operators

    def _project(self, node: Node, needed: Numbers, ordered: Numbers, *, is_limited: bool) -> None:
        used, in_order = set[str](), set[str]()
        for each in self.known.facts(node).given:
            if each.number not in needed:
                continue
            used |= numbers_in(each.text)
            in_order |= _in_order(each.text, is_read=each.number in ordered)
        self.visit(node.children[0], frozenset(used), frozenset(in_order), is_limited=is_limited)

    def _aggregate(self, node: Node, below: Facts, needed: Numbers, ordered: Numbers) -> None:
        by, grouped, _ = groups_of(node)
        used = set(numbers_in(grouped))
        closure = below.closure(by)
        in_order = set(used)
        for each in self.known.facts(node).given:
            if each.number not in needed:
                continue
            used |= numbers_in(each.text)
            in_order |= _in_order(each.text)
            found = calls(each.text)
            for called in found:
                if called.name not in TIED or self._is_decided(called, below, by, closure):
                    continue
                is_read = each.number in ordered or not each.text.endswith(")")
                is_read_here = _is_operand(each.text, called.start, called.end + 1)
                readers = around(found, called.start)
                if called.name not in LISTS or is_read_here or _reads_order(readers, is_read=is_read):
                    self._add(called.name, each.name, *_INSTEAD[called.name])
        self.visit(node.children[0], frozenset(used), frozenset(in_order))

    def _is_decided(self, called: Called, below: Facts, by: Numbers, closure: Numbers) -> bool:
        """True if all rows of a group give the same, or what the function orders by decides."""
        value = numbers_in(called.argument(0).removeprefix("distinct "))
        if value <= closure:
            return True
        if called.name in BY_VALUE:
            return value <= below.closure(by | told_by(called.argument(1)))
        if called.name in TEXTS:
            ordered = [each.partition(" NULLS ")[0] for each in called.arguments if " NULLS " in each]
            by_order = frozenset().union(*(told_by(each.rpartition(" ")[0]) for each in ordered)) if ordered else NONE
            return bool(ordered) and value <= below.closure(by | by_order)
        return called.name == "mode" and called.arguments[-1] == "Some(true)"

    def _window(self, node: Node, below: Facts, needed: Numbers, ordered: Numbers) -> None:
        functions = [each for each in ranked(node) if each.given.number in needed]
        used = frozenset().union(*(numbers_in(each.given.text) for each in functions)) if functions else NONE
        passed = (needed & below.numbers) | used
        for each in functions:
            closure = below.closure(each.partition | each.order)
            # What a join with days or rules adds is often decided by what no declaration says.
            if not (closure >= passed or any(unique and unique <= closure for unique in below.unique)):
                self._ranked(each, below, ordered)
        self.visit(node.children[0], passed, (ordered & below.numbers) | used)

    def _ranked(self, each: Ranked, below: Facts, ordered: Numbers) -> None:
        """A function over a window in whose order rows tie."""
        called = next(iter(calls(each.text)), None)
        if called is None or called.name in AMONG_PEERS:
            return
        name, closure = called.name, below.closure(each.partition | each.order)
        if name in PLACED:
            self._add(name, each.given.name, *_IN_WINDOW)
            return
        begins, ends = each.lower.startswith("unboundedpreceding"), not re.match(r"-?\d", each.upper)
        is_steady = each.frame == "RangeFrame" or each.is_whole
        if name in TIED and numbers_in(called.argument(0).removeprefix("distinct ")) <= closure and name != "nth_value":
            is_steady = is_steady or (begins and ends and name in FIRST_OF_GROUP)
            if is_steady:
                return
        if name in TIED:
            if name in LISTS and each.given.number not in ordered and is_steady:
                return
            if is_steady and name not in FIRST_OF_GROUP and self._is_decided(called, below, each.partition, closure):
                return
            if name == "nth_value" and is_steady and numbers_in(called.argument(0)) <= closure:
                return
            why = _IN_WINDOW if name in FIRST_OF_GROUP | LISTS and each.order else _INSTEAD[name]
            self._add(name, each.given.name, *why)
        elif not is_steady:
            self._add(name, each.given.name, *_ROWS)

    def _limit(self, node: Node, below: Facts, needed: Numbers, ordered: Numbers) -> None:
        inner = node.children[0]
        while inner.name in ("GlobalLimit", "LocalLimit", "Offset", "Project", "SubqueryAlias", "View", "ResolvedHint"):
            if not inner.children:
                break
            inner = inner.children[0]
        name = "offset" if node.name == "Offset" else "limit"
        if node.name != "LocalLimit" and node.said.strip() != "0":
            by: Numbers = NONE
            if inner.name == "Sort" and inner.said.rstrip().endswith("true"):
                items = parts(lists(inner.said)[0]) or []
                by = frozenset().union(*(told_by(re.sub(r" (ASC|DESC) NULLS \w+$", "", each)) for each in items))
                facts = self.known.facts(inner)
                above = self._through(node, inner, needed)
                if not facts.closure(by) >= above:
                    why = "rows tie in the order before it, so that nothing decides which of them are taken"
                    instead = "add columns to the orderBy until a key of the rows is among them"
                    self._add(name, node.said.strip(), why, instead)
            elif not below.closure(NONE) >= needed:
                why = "nothing decides which rows are taken"
                self._add(name, node.said.strip(), why, "order the rows before it, by columns with a key among them")
        self.visit(node.children[0], needed, ordered, is_limited=True)

    def _through(self, node: Node, inner: Node, needed: Numbers) -> Numbers:
        """The columns of a lower operator from which columns of an upper one are computed."""
        each, wanted = node.children[0], needed
        while each is not inner:
            if each.name == "Project":
                given = self.known.facts(each).given
                wanted = frozenset().union(*(numbers_in(g.text) for g in given if g.number in wanted))
            each = each.children[0]
        return wanted

    def _generate(self, node: Node, needed: Numbers, ordered: Numbers) -> None:
        used = numbers_in(node.said.rpartition("[")[0])
        in_order = _in_order(node.said.rpartition("[")[0])
        below = self.known.facts(node.children[0]).numbers
        self.visit(node.children[0], (needed & below) | used, (ordered & below) | in_order)

    def _by_place(self, node: Node, needed: Numbers, ordered: Numbers) -> None:
        places = [each.number for each in self.known.facts(node).given]
        for each in node.children:
            numbers = [given.number for given in self.known.facts(each).given]
            pairs = list(zip(places, numbers, strict=False))
            self.visit(
                each,
                frozenset(number for place, number in pairs if place in needed),
                frozenset(number for place, number in pairs if place in ordered),
            )

    def _shared(self, node: Node, needed: Numbers, ordered: Numbers) -> None:
        wanted, in_order = self._of_shared.setdefault(node.said.partition(",")[0], (set(), set()))
        for place, each in enumerate(self.known.facts(node).given):
            if each.number in needed:
                wanted.add(place)
            if each.number in ordered:
                in_order.add(place)

    def visit_shared(self) -> None:
        """Looks at queries that have a name, from those that are used last: earlier ones are read by later ones."""
        for number in sorted(self.known.shared, key=lambda each: (len(each), each), reverse=True):
            node = self.known.shared[number].children[0]
            wanted, in_order = self._of_shared.get(number, (set(), set()))
            given = [each.number for each in self.known.facts(node).given]
            self.visit(
                node,
                frozenset(given[place] for place in wanted if place < len(given)),
                frozenset(given[place] for place in in_order if place < len(given)),
            )

    # ---------------------------------------------------------------------------------------------- ties

    def _batches(self, node: Node) -> None:
        named = re.search(r"(\w+|<lambda>)\([^()]*\)#\d+", node.said)
        method = next((name for part, name in _METHODS if part in node.name), node.name)
        self.ties.append(batched_by(method, named.group(1) if named else node.name))

    def _require(self, below: Facts, known: Numbers, needed: Numbers, name: str, given: str) -> None:
        if not below.closure(known) >= needed:
            why = "nothing decides which of the rows with equal values is kept"
            instead = "keep the row that row_number() numbers 1 in an order with a key among its columns"
            self._add(name, given, why, instead, joined="of")

    def _add(self, name: str, column: str, why: str, instead: str, *, joined: str = "as") -> None:
        joined = " " if name in ("limit", "offset") else f" {joined} "
        if joined == " as " and not _A_NAME.fullmatch(column):
            column = f"{name}()"  # the name that Spark makes of its text, which may name tables of the session
        self.ties.append(Tie(f"{name}{joined}{column}", name, column, why, instead))

    def _names(self, facts: Facts, numbers: Numbers) -> str:
        return ", ".join(dict.fromkeys(each.name for each in facts.given if each.number in numbers))


_METHODS = (
    ("FlatMapCoGroupsIn", "cogroup"),
    ("FlatMapGroupsInPandas", "applyInPandas"),
    ("FlatMapGroupsInArrow", "applyInArrow"),
    ("MapInPandas", "mapInPandas"),
    ("MapInArrow", "mapInArrow"),
)


def _in_order(text: str, *, is_read: bool = True) -> Numbers:
    """The columns of which an expression reads the order, if they are lists."""
    found = calls(text)
    is_read = is_read or not (plain_number(text) or text.endswith(")"))
    return frozenset(
        number
        for number, at in places_of(text)
        if _is_operand(text, at, at) or _reads_order(around(found, at), is_read=is_read)
    )


_COMPARED_BEFORE = re.compile(r" (?:=|<=>|[<>]=?) [\w.]*$")
_TAKEN_OR_COMPARED = re.compile(r"(?:#\d+L?)?(?:\.\w+)*(?:\[| (?:=|<=>|[<>]=?) )")


def _is_operand(text: str, start: int, end: int) -> bool:
    """True if the expression is compared with something, or one of its elements is taken by a place."""
    return bool(_TAKEN_OR_COMPARED.match(text, end) or _COMPARED_BEFORE.search(text, 0, start))


def _reads_order(readers: Sequence[Called], *, is_read: bool) -> bool:
    """True if the order of a list survives the functions that it is given to, the nearest first.

    Args:
        is_read: Whether the order of what the whole expression gives is read.
    """
    for each in readers:
        if each.name in _SORTED or (each.name == "array_sort" and each.argument(1).startswith(_BY_ITSELF)):
            return False
        if each.name not in _KEEPS or _is_given_places(each):
            return True
    return is_read


def _is_given_places(called: Called) -> bool:
    """True if the function that is applied to each element is given its place in the list as well."""
    function = next(iter(calls(called.argument(1))), None)
    # What it computes, its variables, and a flag.
    return function is not None and function.name == "lambdafunction" and len(function.arguments) > 3


# Sums of floating-point numbers, whose last digits depend on the order in which rows are added.
#
# Additions of decimals and whole numbers are exact in any order. A plan writes no types: those of its results
# come from the rows, others from the types that it casts to.

SUMS = {"sum", "try_sum", "avg", "mean", "try_avg", "product"}
MOMENTS = {
    *("stddev", "stddev_samp", "stddev_pop", "std", "variance", "var_samp", "var_pop", "skewness", "kurtosis"),
    *("corr", "covar_samp", "covar_pop", "regr_slope", "regr_intercept", "regr_r2", "regr_sxx", "regr_sxy", "regr_syy"),
}
DECIMAL = "decimal(38,6)"


@dataclass(frozen=True, slots=True, order=True)
class AddedDoubles:
    """A sum, mean or moment of floating-point numbers."""

    name: str  #: The function, such as `sum`.
    column: str  #: The column that it gives.


def double_columns(schema: StructType) -> list[str]:
    """The columns that hold floating-point numbers."""
    return [each.name for each in schema.fields if isinstance(each.dataType, DoubleType | FloatType)]


@dataclass(slots=True)
class _Types:
    """The floating-point columns of a plan, as far as they are known."""

    known: dict[str, bool]

    def is_double(self, text: str) -> bool:
        """True if an expression gives a floating-point number."""
        text = _without_conditions(text)
        if cast := re.match(r"^(?:try_)?cast\(.* as ([\w,() ]+)\)$", text, re.DOTALL):
            return cast.group(1).startswith(("double", "float"))
        exact = [each for each in calls(text) if each.name.lower() in _EXACT or _casts_exactly(each)]
        rest = _without(text, exact)
        if any(_casts_to_double(each) for each in calls(rest)):
            return True
        return any(self.known.get(number, False) for number in numbers_in(rest))


_EXACT = {"count", "floor", "ceil", "length", "hash", "xxhash64", "isnull", "isnotnull", "size", "datediff", "day"}


def _casts_to_double(each: Called) -> bool:
    return each.name in ("cast", "try_cast") and each.argument(0).endswith((" as double", " as float"))


def _casts_exactly(each: Called) -> bool:
    given = ",".join(each.arguments)
    return each.name in ("cast", "try_cast") and bool(
        re.search(r" as (?:decimal|bigint|int|smallint|tinyint)\b", given)
    )


def _without_conditions(text: str) -> str:
    return re.sub(r"\bWHEN .*? THEN ", "", re.sub(r"\bif \(.*?\) ", "", text))


def _without(text: str, spans: list[Called]) -> str:
    for each in reversed(spans):
        text = text[: each.start] + " " + text[each.end + 1 :] if each.end < len(text) else text[: each.start]
    return text


def added_doubles(plan: str, schema: StructType, given: Collection[str] = ()) -> tuple[AddedDoubles, ...]:
    """The additions of floating-point numbers in an analysed plan.

    Args:
        plan: The plan, without the line of its columns.
        schema: The columns of the rows.
        given: The columns of inputs that hold them.
    """
    root = tree_of(plan)
    if root is None:
        return ()
    shown = columns(lists(root.said)[0]) if lists(root.said) else []
    types = [isinstance(each.dataType, DoubleType | FloatType) for each in schema.fields]
    result = {each.number: is_double for each, is_double in zip(shown, types, strict=False)}
    return tuple(sorted(set(_added(root, _Types({}), result, given))))


def _added(node: Node, types: _Types, result: Mapping[str, bool], given: Collection[str]) -> Iterator[AddedDoubles]:
    for each in (*node.children, *node.inside):
        yield from _added(each, types, result, given)
    if not node.children:
        for found in lists(node.said)[:1]:
            for each_given in columns(found):
                types.known.setdefault(each_given.number, each_given.name in given)
        return
    if node.name not in ("Project", "Aggregate", "Window"):
        return
    if node.name == "Window":
        text = next(iter(lists(node.said)), "")
    else:
        text = groups_of(node)[2] if node.name == "Aggregate" else node.said[1:-1]
    for made in columns(text):
        if made.passed == made.number:
            continue
        is_double = result.get(made.number, types.is_double(made.text))
        types.known[made.number] = is_double
        if node.name == "Project":
            continue
        for called in calls(made.text):
            if called.name in MOMENTS or (
                called.name in SUMS and _adds_doubles(called, made.text, types, result.get(made.number))
            ):
                yield AddedDoubles(called.name, made.name)


def _adds_doubles(called: Called, text: str, types: _Types, of_result: bool | None) -> bool:
    is_alone = (called.start, called.end) == (0, len(text) - 1)
    if called.name.endswith("sum") and is_alone and of_result is not None:
        return of_result
    return types.is_double(called.argument(0).removeprefix("distinct "))
