"""Functional dependencies in the rows of a plan: two rows that are equal in some columns are equal in others as well.

The key of an input decides about all of its columns, group by keys about their sums, an equality in a join about the
other side. Rows that are equal in every column that anybody reads may be taken in any order: so are ties decided.

The plan of Spark is read from its text: operators, the expressions of each, and the columns they give. Spark numbers
every column, such as `amount#12`, so that texts identify columns without their names. Literals are not escaped: a list
of columns is read by where they end, whatever literals hold, and of what cannot be read no more is known than of an
operator that this module does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice, product

from backfill_assets.domain.context import FRAME

_INDENT = re.compile(r"^((?:[: ]  )*)([:+]- )?(.*)$")
_NUMBER = re.compile(r"#(\d+)L?(?!\w)")
_NO_COLUMN = re.compile(
    r"lambda \w+#\d+L?|\b(?:scalar-subquery|exists|list|lateral-subquery)#\d+|(?<=\))#\d+L?|outer\([^()]*\)"
)
_PLAIN = re.compile(r"^(?!-|NOT |distinct |lambda |.* AS )[^#(\[,]*#(\d+)L?$", re.DOTALL)
_ALIAS = re.compile(r"^(.*?) AS (?!.* AS )(.*#(\d+)L?)$", re.DOTALL)
_MOVED = re.compile(r"^(?:date_(?:add|sub)\([\w.]*#(\d+)L?, -?\d+\)|\([\w.]*#(\d+)L? [-+] -?\d+\))$")
_OUTER = re.compile(r"\bouter\([^()]*\)")
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(slots=True, eq=False)
class Node:
    """An operator of a plan."""

    name: str  #: Such as `Aggregate`.
    said: str  #: What the plan says of it after its name.
    children: list[Node] = field(default_factory=list)  #: What it reads.
    inside: list[Node] = field(default_factory=list)  #: The plans of queries in its expressions.


@dataclass(frozen=True, slots=True)
class Given:
    """A column that an operator gives."""

    number: str
    text: str  #: Its expression; of a column that is passed on, the column itself.
    named: str  #: Its name and number, as operators above write it.

    @property
    def name(self) -> str:
        return self.named.rpartition("#")[0]

    @property
    def passed(self) -> str | None:
        """The number of the column that it is, by this or another name; None where it is computed."""
        plain = _PLAIN.match(self.text)
        return plain.group(1) if plain else None


def tree_of(plan: str) -> Node | None:
    """The operators of an analysed plan, as `EXPLAIN EXTENDED` writes it; None where it holds none."""
    root: Node | None = None
    above: list[tuple[int, Node]] = []
    for line in plan.splitlines():
        read = _INDENT.match(line)
        assert read is not None
        indent, branch, text = read.groups()
        depth = len(indent) // 3 + (1 if branch else 0)
        if root is not None and not branch:
            if above:  # a literal with a line break goes on
                above[-1][1].said += f" {text}"
            continue
        name, _, said = text.partition(" ")
        name, bracket, rest = name.partition("[")
        node = Node(name=name, said=f"[{rest} {said}" if bracket else said)
        if root is None:
            root, above = node, [(0, node)]
            continue
        while above and above[-1][0] >= depth:
            above.pop()
        if not above:
            return None
        parent_depth, parent = above[-1]
        # The plans of queries in expressions are one step further in than what the operator reads.
        (parent.inside if depth > parent_depth + 1 else parent.children).append(node)
        above.append((depth, node))
    return root


def numbers_in(text: str) -> frozenset[str]:
    """The numbers of the columns that an expression is computed from."""
    return frozenset(_NUMBER.findall(_NO_COLUMN.sub("", text)))


def has_outer(text: str) -> bool:
    """True if a condition is about a column of the query around it."""
    return bool(_OUTER.search(text))


def parts(text: str) -> list[str] | None:
    """The parts of a list, by its commas outside of brackets; None where the brackets do not match."""
    found, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
            if depth < 0:
                return None
        elif char == "," and depth == 0 and text[at + 1 : at + 2] == " ":
            found.append(text[start:at])
            start = at + 2
    return None if depth else [*found, text[start:]] if text else []


def lists(text: str) -> list[str]:
    """The lists in brackets that a text holds one after the other, without their brackets."""
    found, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char == "[":
            depth += 1
            if depth == 1:
                start = at + 1
        elif char == "]" and depth:
            depth -= 1
            if depth == 0:
                found.append(text[start:at])
    return found


def columns(text: str) -> list[Given]:
    """The columns of a list of named expressions. It is read by where columns end, whatever literals hold."""
    found: list[Given] = []
    before = ""
    for piece in text.split(", "):
        whole = f"{before}, {piece}" if before else piece
        if plain := _PLAIN.match(whole):
            found.append(Given(plain.group(1), whole, whole))
        elif alias := _ALIAS.match(whole):
            found.append(Given(alias.group(3), alias.group(1), alias.group(2)))
        else:
            before = whole
            continue
        before = ""
    if not found or before:
        found += [Given(each, before, f"#{each}") for each in sorted(numbers_in(before))]
    return found


@dataclass(frozen=True, slots=True)
class Called:
    """A function that an expression calls: its name, its arguments, and from where to where it is written."""

    name: str
    arguments: tuple[str, ...]
    start: int
    end: int

    def argument(self, place: int) -> str:
        """An argument; an empty text where there is none."""
        return self.arguments[place] if place < len(self.arguments) else ""


_CALL = re.compile(r"(?<![\w.`<>])(<lambda>|[a-z_]\w*)\(", re.IGNORECASE)


def calls(text: str) -> list[Called]:
    """The functions that an expression calls, in the order in which they are written."""
    found = []
    for match in _CALL.finditer(text):
        close = _closing(text, match.end() - 1)
        inner = text[match.end() : close]
        split = parts(inner)
        arguments = (inner,) if split is None else tuple(split)
        found.append(Called(match.group(1), arguments, match.start(), close))
    return found


def around(found: Sequence[Called], at: int) -> list[Called]:
    """The functions among whose arguments a place of an expression is, the nearest first."""
    return [each for each in reversed(found) if each.start < at < each.end]


def places_of(text: str) -> Iterator[tuple[str, int]]:
    """The columns that an expression is computed from, with their places in it."""
    blank = _NO_COLUMN.sub(lambda match: " " * len(match.group()), text)
    return ((match.group(1), match.start()) for match in _NUMBER.finditer(blank))


def _closing(text: str, at: int) -> int:
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place
    return len(text)


def conjuncts(condition: str) -> Sequence[str]:
    """The conditions of which all have to hold."""
    text = condition.strip()
    while text.startswith("(") and _closing(text, 0) == len(text) - 1:
        text = text[1:-1]
    found, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in _OPEN) - (char in _CLOSE)
        if depth == 0 and text.startswith(" AND ", at):
            found.append(text[start:at])
            start = at + 5
    if not found:
        return [text]
    return [each for part in (*found, text[start:]) for each in conjuncts(part)]


def plain_number(text: str) -> str | None:
    """The number of the column that an expression is; None where it is computed."""
    plain = _PLAIN.match(text.strip())
    return plain.group(1) if plain else None


def told_by(text: str) -> frozenset[str]:
    """The columns whose values follow from the value of an expression: of one, of a struct of some, of a negative, of
    one to which a number or days are added."""
    text = text.strip()
    if number := plain_number(text):
        return frozenset({number})
    if text.startswith("-"):
        return told_by(text[1:])
    if moved := _MOVED.match(text):
        return frozenset(filter(None, moved.groups()))
    made = next(iter(calls(text)), None)
    if made and made.name in ("struct", "named_struct", "array") and (made.start, made.end) == (0, len(text) - 1):
        return frozenset().union(*map(told_by, made.arguments))
    return frozenset()


Numbers = frozenset[str]
NONE: Numbers = frozenset()

ON_ROWS = {
    *(
        "SubqueryAlias",
        "View",
        "Filter",
        "Sort",
        "GlobalLimit",
        "LocalLimit",
        "Offset",
        "Tail",
        "Repartition",
        "Sample",
    ),
    *(
        "RepartitionByExpression",
        "RebalancePartitions",
        "ResolvedHint",
        "Deduplicate",
        "Distinct",
        "EventTimeWatermark",
    ),
    *("WithCTE", "CTERelationDef", "UnresolvedHint"),
}
"""Operators that give the columns that they read."""

OF_PYTHON = re.compile(r"InPandas|InArrow|Python")
_NO_BLANK = re.compile(r"(?<=#)(\d+L?),(?! )")
_MOST_TOGETHER, _MOST_UNITED = 12, 100
_WORDS = re.compile(r"[\w.]+#\d+L?")
_EQUAL = re.compile(r"^([^=<>!]+?) (?:=|<=>) (.+)$", re.DOTALL)
_CAST = re.compile(r"^cast\([^()]* as [\w(), ]+\)$")
_NULL = re.compile(r"^(?:null$|cast\(null as )")
_JOIN = re.compile(r"^(\w+)(?:\([^)]*\))?(?:, (.*))?$", re.DOTALL)
SPEC = re.compile(r" windowspecdefinition\((.*?),? ?specifiedwindowframe\((\w+), (.*?), ([^,]*?)\)\) AS ")


@dataclass(slots=True)
class Facts:
    """The known facts about the rows that an operator gives."""

    given: list[Given] = field(default_factory=list)  #: Its columns, in order.
    follows: list[tuple[Numbers, Numbers]] = field(default_factory=list)  #: Columns, and those that follow from them.
    filled: Numbers = NONE  #: Columns that are never null.
    constants: dict[str, str] = field(default_factory=dict)  #: Columns that hold one literal, with it.
    #: Sets of columns that no two rows share, but for rows that a join with known rows without a name has multiplied.
    #: Such rows themselves have the empty set.
    unique: list[Numbers] = field(default_factory=list)

    @property
    def numbers(self) -> Numbers:
        return frozenset(each.number for each in self.given)

    def closure(self, known: Iterable[str]) -> Numbers:
        """Everything that follows from some columns."""
        found = set(known)
        before = -1
        while before != len(found):
            before = len(found)
            for left, right in self.follows:
                if left <= found:
                    found |= right
        return frozenset(found)

    def are_told_by(self, known: Numbers) -> bool:
        """True if some columns tell any two rows apart, except those that a join with nameless known rows has
        multiplied."""
        closure = self.closure(known)
        return closure >= self.numbers or any(each <= closure for each in self.unique)


Keys = Mapping[str, Sequence[str]]
"""Columns by which the rows of an input are unique, by the name under which the plan holds the input."""


@dataclass(slots=True)
class Known:
    """The known facts about the rows of every operator of a plan."""

    keys: Keys  #: The keys of inputs.
    of: dict[int, Facts] = field(default_factory=dict)  #: What is known, by operator.
    shared: dict[str, Node] = field(default_factory=dict)  #: Queries that have a name, by their numbers.
    #: Columns whose names hold more than words, such as those that Spark makes of a text, and plain ones.
    strange: dict[str, str] = field(default_factory=dict)

    def facts(self, node: Node) -> Facts:
        """The known facts about the rows of an operator, whose texts name columns plainly afterwards."""
        if id(node) in self.of:
            return self.of[id(node)]
        for each in node.children:
            self.facts(each)
            if each.name == "CTERelationDef":
                self.shared[each.said.partition(",")[0]] = each
        for each in node.inside:
            self.facts(each)
        below = [self.of[id(each)] for each in node.children]
        for named, plain in self.strange.items():
            node.said = node.said.replace(named, plain)
        found = self._of(node, below)
        for given in found.given:
            if not _WORDS.fullmatch(given.named) and given.named != f"#{given.number}":
                self.strange[given.named] = f"_#{given.number}{'L' if given.named.endswith('L') else ''}"
        self.of[id(node)] = found
        return found

    def _of(self, node: Node, below: list[Facts]) -> Facts:
        if node.name == "WithCTE":
            return below[-1]
        if node.name == "CTERelationRef":
            return self._shared(node)
        if not below:
            # A relation of files lists its columns without blanks.
            listed = (_NO_BLANK.sub(r"\1, ", found) for found in lists(node.said)[:1])
            return Facts(given=[each for found in listed for each in columns(found)], unique=[NONE])
        if node.name in ON_ROWS:
            return self._on_rows(node, below[0])
        match node.name:
            case "Project":
                return projected(below[0], columns(_first_list(node.said)))
            case "Aggregate":
                return _aggregated(node, below[0])
            case "Window":
                return _windowed(node, below[0])
            case "Join" | "LateralJoin":
                right = below[1] if len(below) > 1 else self.of[id(node.inside[0])] if node.inside else Facts()
                return _joined(node, below[0], right)
            case "Union":
                return _united(below)
            case "Generate":
                return _generated(node, below[0])
            case "Expand":
                return _expanded(node, below[0])
            case "Intersect" | "Except":
                first = below[0]
                return Facts(first.given, list(first.follows), first.filled, unique=first.unique)
        given = columns(found[-1]) if (found := lists(node.said)) else [*below[0].given]
        return Facts(given=given)

    def _on_rows(self, node: Node, below: Facts) -> Facts:
        found = Facts(below.given, list(below.follows), below.filled, dict(below.constants), below.unique)
        if node.name == "SubqueryAlias" and (alias := node.said.strip("`")).startswith(FRAME):
            named = {each.name.lower(): each.number for each in below.given}
            sets = [
                frozenset(named.get(name.lower(), name) for name in key.split(", ") if name)
                for key in alias.removeprefix(FRAME).split(" or ")
            ]
            told = [(key, below.numbers) for key in sets]
            return Facts(below.given, told, frozenset().union(*sets), unique=sets)
        if node.name == "SubqueryAlias" and (key := self.keys.get(node.said.strip("`"))) is not None:
            named = {each.name.lower(): each.number for each in below.given}
            numbers = frozenset(named.get(name.lower(), name) for name in key)
            # Whatever reads an input, such as no rows at all in a check, what is known of it is declared.
            return Facts(below.given, [(numbers, below.numbers)], numbers, unique=[numbers])
        if node.name == "Filter":
            _learn(found, node.said)
            if _is_of_known_rows(node):
                # Fewer known rows can have keys that all of them do not: which, a plan does not say.
                found.unique = [*below.unique, NONE]
        if node.name == "Deduplicate":
            keys = frozenset(each.number for each in columns(_first_list(node.said)))
            found.follows.append((keys, below.numbers))
            found.unique = [*below.unique, keys]
        return found

    def _shared(self, node: Node) -> Facts:
        given = columns(_first_list(node.said))
        source = self.shared.get(node.said.partition(",")[0])
        if source is None or len(of := self.of[id(source)].given) != len(given):
            return Facts(given=given)
        inner = self.of[id(source)]
        renamed = {old.number: new.number for old, new in zip(of, given, strict=True)}
        follows = list(inner.follows)
        for old, new in renamed.items():
            if old != new:
                follows += [(frozenset({old}), frozenset({new})), (frozenset({new}), frozenset({old}))]
        filled = frozenset(renamed.get(each, each) for each in inner.filled)
        # Two uses of one query have rows of their own, so that its other numbers are those of neither.
        own = {old: f"{old} in {given[0].number if given else ''}" for old in _all(follows) - set(renamed.values())}
        unique = [_own(each, own) for each in inner.unique]
        return Facts(given, [(_own(a, own), _own(b, own)) for a, b in follows], filled, unique=unique)


def _is_of_known_rows(node: Node) -> bool:
    """True if an operator reads only known rows, whose name tells their keys."""
    while len(node.children) == 1:
        (node,) = node.children
        if node.name == "SubqueryAlias" and node.said.strip("`").startswith(FRAME):
            return True
        if node.name not in ("Filter", "Project", "SubqueryAlias"):
            return False
    return False


def _all(follows: list[tuple[Numbers, Numbers]]) -> Numbers:
    return frozenset().union(*(a | b for a, b in follows)) if follows else NONE


def _own(numbers: Numbers, own: Mapping[str, str]) -> Numbers:
    return frozenset(own.get(each, each) for each in numbers)


def _first_list(said: str) -> str:
    """The content of the outermost brackets, where an operator prints one list."""
    start, end = said.find("["), said.rfind("]")
    if node_lists := lists(said):
        return node_lists[0] if said.count("], ") else said[start + 1 : end]
    return said[start + 1 : end] if start >= 0 else ""


def projected(below: Facts, given: list[Given]) -> Facts:
    """The known facts about named expressions over rows."""
    found = Facts(given, list(below.follows), below.filled, dict(below.constants), below.unique)
    for each in given:
        number, used = frozenset({each.number}), numbers_in(each.text)
        if each.passed == each.number:
            continue
        found.follows.append((frozenset({each.text}), number))
        found.follows.append((number, frozenset({each.text})))
        found.follows.append((used, number))
        if told := told_by(each.text):
            found.follows.append((number, told))
        if each.passed in below.filled:
            found.filled |= number
        if not used:
            found.constants[each.number] = each.text
        elif used <= below.constants.keys() and (each.passed or _CAST.match(each.text)):
            (given_by,) = used
            found.constants[each.number] = _WORDS.sub(below.constants[given_by], each.text)
    return found


def _learn(found: Facts, condition: str) -> None:
    """Adds what the rows of a condition have in common."""
    for each in conjuncts(condition):
        if each.startswith("isnotnull(") and (number := plain_number(each[len("isnotnull(") : -1])):
            found.filled |= {number}
        equal = _EQUAL.match(each)
        if equal is None:
            continue
        left, right = (plain_number(side) for side in equal.groups())
        for one, other, text in ((left, right, equal.group(2)), (right, left, equal.group(1))):
            if one and other:
                found.follows.append((frozenset({one}), frozenset({other})))
            elif one and not other and (not numbers_in(text) or has_outer(text)):
                found.follows.append((NONE, frozenset({one})))
                if not has_outer(text):
                    found.constants[one] = text


def groups_of(node: Node) -> tuple[Numbers, str, str]:
    """The grouping of an aggregate: columns, and texts of expressions; then the text of that, and of what it gives."""
    first, *others = lists(node.said)[:2] or [""]
    if not others:  # one group of all rows
        return NONE, "", node.said[1:-1]
    by: set[str] = set()
    for each in parts(first) or ([first] if first else []):
        by |= {plain_number(each) or each} | told_by(each)
    return frozenset(by), first, node.said[len(first) + 5 : -1]


def _aggregated(node: Node, below: Facts) -> Facts:
    by, _, rest = groups_of(node)
    inside = below.closure(by)
    found = Facts(columns(rest))
    found.follows = [(left, right & inside) for left, right in below.follows if left <= inside and right & inside]
    for each in found.given:
        number = frozenset({each.number})
        if each.passed != each.number:
            found.follows.append((frozenset({each.text}), number))
            if each.text in by or each.passed in by:
                found.follows.append((number, frozenset({each.text}) | told_by(each.text)))
    found.follows.append((by, found.numbers))
    found.unique = [by, *(each for each in below.unique if each and each <= inside)]
    found.filled = frozenset(each.number for each in found.given if each.passed in below.filled)
    return found


@dataclass(frozen=True, slots=True)
class Ranked:
    """A function over a window: its column, its text, the columns of its partition and order, and its frame."""

    given: Given
    text: str
    partition: Numbers
    order: Numbers
    frame: str
    lower: str
    upper: str

    @property
    def is_whole(self) -> bool:
        return self.lower.startswith("unboundedpreceding") and self.upper.startswith("unboundedfollowing")


def ranked(node: Node) -> list[Ranked]:
    """The functions of a window."""
    found = []
    for each in columns(lists(node.said)[0]) if lists(node.said) else ():
        if not (spec := SPEC.search(f"{each.text} AS ")):
            continue
        partition: set[str] = set()
        order: set[str] = set()
        for item in spec.group(1).split(", "):
            bare, _, direction = item.partition(" ASC NULLS") if " ASC NULLS" in item else item.partition(" DESC NULLS")
            (order if direction else partition).update(told_by(bare))
        text = each.text[: spec.start()]
        found.append(Ranked(each, text, frozenset(partition), frozenset(order), *spec.groups()[1:4]))
    return found


def _windowed(node: Node, below: Facts) -> Facts:
    found = Facts([*below.given], list(below.follows), below.filled, dict(below.constants), list(below.unique))
    for each in ranked(node):
        number = frozenset({each.given.number})
        found.given.append(each.given)
        if each.text.startswith("row_number("):
            found.follows.append((each.partition | number, below.numbers))
            found.unique.append(each.partition | number)
        if each.text.startswith(("rank(", "dense_rank(")) or (each.frame == "RangeFrame" and not each.is_whole):
            found.follows.append((each.partition | each.order, number))
        elif each.is_whole:
            found.follows.append((each.partition, number))
        elif below.closure(each.partition | each.order) >= below.numbers:
            found.follows.append((each.partition | each.order, number))
    return found


def _joined(node: Node, left: Facts, right: Facts) -> Facts:
    said = _JOIN.match(node.said.partition("], ")[2] if node.name == "LateralJoin" else node.said)
    kind, condition = (said.group(1), said.group(2) or "") if said else ("", "")
    if kind in ("LeftSemi", "LeftAnti"):
        found = Facts(left.given, list(left.follows), left.filled, dict(left.constants), left.unique)
        if kind == "LeftSemi":
            pairs = _pairs(condition, left, right)[0]
            found.filled |= {one for one, _ in pairs}
        return found
    pairs, is_equality = _pairs(condition, left, right)
    matched = (frozenset(one for one, _ in pairs), frozenset(other for _, other in pairs))
    outer = (kind in ("RightOuter", "FullOuter"), kind in ("LeftOuter", "FullOuter"))
    found = Facts([*left.given, *right.given], unique=_unique_joined(left, right, matched, outer))
    for facts, lacking, equal in zip((left, right), outer, matched, strict=True):
        never = facts.filled | equal
        found.follows += [(a, b) for a, b in facts.follows if not lacking or a & never]
        found.filled |= NONE if lacking else facts.filled
        found.constants |= {} if lacking else facts.constants
    if kind in ("Inner", "Cross") or not kind:
        for one, other in pairs:
            found.follows += [(frozenset({one}), frozenset({other})), (frozenset({other}), frozenset({one}))]
        found.filled |= matched[0] | matched[1]
        if kind == "Inner":
            _learn(found, condition)
    elif is_equality and pairs:
        if kind == "LeftOuter":
            found.follows.append((matched[0], matched[1]))
        elif kind == "RightOuter":
            found.follows.append((matched[1], matched[0]))
        elif kind == "FullOuter" and _are_plain(condition):
            names = {each.number: each.named for each in found.given}
            either = frozenset(f"coalesce({names[one]}, {names[other]})" for one, other in pairs)
            found.follows.append((either, matched[0] | matched[1]))
    return found


def _unique_joined(
    left: Facts, right: Facts, matched: tuple[Numbers, Numbers], outer: tuple[bool, bool]
) -> list[Numbers]:
    """The sets of columns that no two rows of a join share: those of a side of which no row has several rows of the
    other, and else those of both together.

    Args:
        matched: The columns of each side that the join holds equal.
        outer: Whether the columns of each side are null where it has no row.
    """
    found = []
    if right.are_told_by(matched[1]) and not outer[0]:
        found += left.unique
    if left.are_told_by(matched[0]) and not outer[1]:
        found += right.unique
    if not any(found):
        # Where known rows have no row on the other side, its columns are null, and say nothing of them.
        is_outer = any(outer)
        found += [one | other for one in left.unique for other in right.unique if (one and other) or not is_outer]
    return list(dict.fromkeys(each for each in found if each))[:_MOST_TOGETHER] or found[:1]


def _pairs(condition: str, left: Facts, right: Facts) -> tuple[list[tuple[str, str]], bool]:
    """The columns that a join holds equal, and whether it asks for nothing else."""
    found, is_all = [], True
    for each in conjuncts(condition) if condition else ():
        equal = _EQUAL.match(each)
        sides = [_one_number(side) for side in equal.groups()] if equal and " <=> " not in each else []
        if len(sides) == 2 and sides[0] in left.numbers and sides[1] in right.numbers:
            found.append((str(sides[0]), str(sides[1])))
        elif len(sides) == 2 and sides[1] in left.numbers and sides[0] in right.numbers:
            found.append((str(sides[1]), str(sides[0])))
        else:
            is_all = False
    return found, is_all


def _are_plain(condition: str) -> bool:
    equal = map(_EQUAL.match, conjuncts(condition))
    return all(each and all(map(plain_number, each.groups())) for each in equal)


def _one_number(text: str) -> str | None:
    """The number of the column that an expression is, or of the one whose value follows from it."""
    return plain_number(text) or next(iter(told_by(text)), None)


def _by_places(facts: Facts, row: list[str]) -> list[frozenset[int]]:
    """The sets of columns, by their places, from which others follow; those first from which all follow."""
    found = [
        frozenset(place for place, number in enumerate(row) if number in left)
        for left, _ in facts.follows
        if left <= set(row)
    ]
    return sorted(
        set(found),
        key=lambda some: (len(facts.closure(row[at] for at in some) & set(row)) * -1, len(some), sorted(some)),
    )


def _united(below: list[Facts]) -> Facts:
    first = below[0]
    found = Facts(given=[*first.given])
    rows = [[each.number for each in facts.given] for facts in below]
    if len({len(each) for each in rows}) != 1:
        return found
    places = range(len(rows[0]))
    apart = _apart(below, rows)
    if all(NONE in facts.unique for facts in below):
        found.unique = [NONE]
    if apart is None:
        return found
    mark = frozenset(rows[0][place] for place in apart)
    found.unique = found.unique or [each | mark for each in _unique_united(below, rows)]
    chosen_sets = [_by_places(facts, row) for facts, row in zip(below, rows, strict=True)]
    together = {frozenset().union(*each) for each in product(*(some[:_MOST_TOGETHER] for some in chosen_sets))}
    for chosen in sorted({*(each for some in chosen_sets for each in some), *together}, key=sorted):
        left = frozenset(rows[0][place] for place in chosen)
        each_closure = [facts.closure(row[place] for place in chosen) for facts, row in zip(below, rows, strict=True)]
        right = [
            place
            for place in places
            if all(row[place] in closure for closure, row in zip(each_closure, rows, strict=True))
        ]
        found.follows.append((left | mark, frozenset(rows[0][place] for place in right)))
    return found


def _apart(below: list[Facts], rows: list[list[str]]) -> frozenset[int] | None:
    """The places of columns in which rows of any two sides of a union differ; None where rows of two may be equal.

    Args:
        rows: The columns of each side, in order.
    """
    found = set()
    for (one, its), (other, others) in combinations(zip(below, rows, strict=True), 2):
        for place, (a, b) in enumerate(zip(its, others, strict=True)):
            if _never_equal(one, a, other, b):
                found.add(place)
                break
        else:
            return None
    return frozenset(found)


def _never_equal(one: Facts, its: str, other: Facts, others: str) -> bool:
    """True if a column of one side never holds what a column of the other side holds."""
    literals = [one.constants.get(its), other.constants.get(others)]
    if None not in literals:
        # What is cast, or asked for by a query inside, may be equal, and written otherwise.
        return literals[0] != literals[1] and not any(re.search("[(#]", str(each)) for each in literals)
    is_null = [bool(_NULL.match(str(each))) for each in literals]
    return (is_null[0] and others in other.filled) or (is_null[1] and its in one.filled)


def _unique_united(below: list[Facts], rows: list[list[str]]) -> list[Numbers]:
    """The sets of columns that no two rows of one side of a union share: the keys of all sides together."""
    sides = [
        [frozenset(map(row.index, each)) for each in facts.unique if each and each <= set(row)][:_MOST_TOGETHER]
        for facts, row in zip(below, rows, strict=True)
    ]
    chosen = islice(product(*sides), _MOST_UNITED)
    return [frozenset(rows[0][place] for place in frozenset().union(*some)) for some in chosen]


def _generated(node: Node, below: Facts) -> Facts:
    text = node.said.rpartition("[")
    made = columns(text[2].removesuffix("]"))
    found = Facts([*below.given, *made], list(below.follows), below.filled, dict(below.constants))
    found.unique = [each and each | frozenset(other.number for other in made) for each in below.unique]
    # Of a map the first column is its key, and no key is there twice.
    is_map = node.said.startswith("explode(") and len(made) > 1
    if made and (node.said.startswith("posexplode") or is_map or _stacks_names(text[0], len(made))):
        place, *others = made
        used = numbers_in(text[0])
        found.follows.append((used | {place.number}, frozenset(each.number for each in others)))
        found.unique = [each and each | {place.number} for each in below.unique]
    return found


def _stacks_names(text: str, width: int) -> bool:
    """True if a generator is `stack`, and its first column holds another literal in every row."""
    called = next(iter(calls(text)), None)
    if called is None or called.name != "stack":
        return False
    first = called.arguments[1::width]
    return len(set(first)) == len(first) and not any(map(numbers_in, first)) and not any("(" in each for each in first)


def _expanded(node: Node, below: Facts) -> Facts:
    rows_text, *_ = lists(node.said)
    given = columns(lists(node.said)[-1])
    found = Facts(given)
    rows = [parts(each) for each in lists(rows_text)]
    if any(row is None or len(row) != len(given) for row in rows):
        return found
    kept, told = set(), set()
    for place, each in enumerate(given):
        texts = [row[place] for row in rows if row is not None]
        if all(plain_number(text) == each.number for text in texts):
            kept.add(each.number)
        elif not any(map(numbers_in, texts)) and len(set(texts)) == len(rows):
            told.add(each.number)
    if told:
        for left, _ in below.follows:
            if left <= kept and below.closure(left) >= below.numbers:
                found.follows.append((left | frozenset(sorted(told)[:1]), found.numbers))
        found.follows += [(left, right & kept) for left, right in below.follows if left <= kept and right & kept]
    found.filled = below.filled & kept
    return found
