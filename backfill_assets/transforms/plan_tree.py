"""The tree of a plan of Spark, read from its text: operators, the expressions of each, and the columns they give.

Spark numbers every column of a plan, such as `amount#12`, so that texts identify columns without their names. Literals
are not escaped: a list of columns is read by where they end, whatever literals hold, and of what cannot be read no more
is known than of an operator that this module does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

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

    number: str  #: Its number.
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
