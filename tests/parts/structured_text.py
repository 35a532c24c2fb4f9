"""Runs the part of Structured Text (IEC 61131-3) that `docs/plc/guard.st` is written in.

Stricter than most compilers, so that what passes here is portable: no implicit conversion, a literal must fit the type
beside it, arithmetic must not overflow, an index must lie within its array.

What it does not do: anything that guard.st does not need (REAL, STRING, CASE, WHILE, methods, named arguments).
"""

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_TOKEN = re.compile(
    r"\s+|\(\*.*?\*\)|(?P<token>16#[0-9A-Fa-f]+|\d+|[A-Za-z_]\w*|:=|<>|<=|>=|\.\.|[-+*/=<>():;,.\[\]])", re.S
)
_BITS = {"BOOL": 1, "WORD": 16, "DWORD": 32}
_RANGES = {
    "BOOL": (0, 1),
    "WORD": (0, 0xFFFF),
    "DWORD": (0, 2**32 - 1),
    "UINT": (0, 0xFFFF),
    "INT": (-(2**15), 2**15 - 1),
}
_LITERAL = "a literal"
_LEVELS = (("OR",), ("XOR",), ("AND",), ("=", "<>"), ("<", ">", "<=", ">="), ("+", "-"))
"""Operators from the loosest on (table 71 of the standard; NOT and parentheses bind tighter)."""


class StructuredTextError(Exception):
    """The text is none, or does what is not portable."""


class Scalar(NamedTuple):
    """A value of an elementary type."""

    type: str
    value: int


Scope = dict[Any, Any]
"""Variables, fields or elements: a Scalar, or another Scope."""


class Tokens:
    """The text, word by word."""

    def __init__(self, text: str) -> None:
        self._words = list(_words(text))
        self._at = 0

    @property
    def next(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def take(self, *wanted: str) -> str:
        """The next word, which must be one of `wanted` if any are named."""
        word = self.next
        if not word or (wanted and word not in wanted):
            raise StructuredTextError(f"{' or '.join(wanted) or 'more'} expected, found {word or 'the end'!r}")
        self._at += 1
        return word

    def took(self, *wanted: str) -> bool:
        if self.next in wanted:
            self._at += 1
            return True
        return False


def _words(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise StructuredTextError(f"no word: {text[at : at + 20]!r}")
        at = match.end()
        if match["token"]:
            yield match["token"]


class Unit(NamedTuple):
    """A FUNCTION or a FUNCTION_BLOCK."""

    result: str
    variables: list[tuple[str, str, Any, Any]]
    """(section, name, type, expression or None)."""
    body: list[Any]


class Program:
    """All declarations of a text."""

    def __init__(self, text: str) -> None:
        self._structs: dict[str, list[tuple[str, Any]]] = {}
        self._units: dict[str, Unit] = {}
        tokens = Tokens(text)
        while tokens.next:
            if tokens.take("TYPE", "FUNCTION", "FUNCTION_BLOCK") == "TYPE":
                self._type(tokens)
            else:
                self._unit(tokens)

    def instance(self, block: str, retained: Mapping[str, int]) -> "Instance":
        """A function block as it stands after a start: VAR RETAIN from `retained`, all else as declared."""
        return Instance(self, self._units[block], retained)

    def fresh(self, type_: Any) -> Any:
        """A variable of that type with its default."""
        if isinstance(type_, tuple):
            low, high, element = type_
            return {index: self.fresh(element) for index in range(low, high + 1)}
        if type_ in self._structs:
            return {name: self.fresh(field) for name, field in self._structs[type_]}
        if type_ not in _RANGES:
            raise StructuredTextError(f"unknown type {type_}")
        return Scalar(type_, 0)

    def call(self, name: str, arguments: list[Scalar]) -> Scalar:
        unit = self._units[name]
        scope: Scope = {name: self.fresh(unit.result)}
        given = iter(arguments)
        for section, variable, type_, _ in unit.variables:
            scope[variable] = self.fresh(type_)
            if section == "VAR_INPUT":
                _assign(scope, variable, next(given))
        self.run(unit.body, scope)
        result: Scalar = scope[name]
        return result

    def run(self, body: list[Any], scope: Scope) -> None:
        for kind, *parts in body:
            if kind == "assign":
                place, key = self._place(parts[0], scope)
                _assign(place, key, self.value(parts[1], scope))
            elif kind == "if":
                chosen: list[Any] = next((branch for test, branch in parts[0] if self._is_true(test, scope)), [])
                self.run(chosen, scope)
            else:
                variable, first, last, inner = parts
                # A FOR is written out: its variable is an INT like any other.
                for index in range(self.value(first, scope).value, self.value(last, scope).value + 1):
                    _assign(scope, variable, Scalar(_LITERAL, index))
                    self.run(inner, scope)

    def _is_true(self, test: Any, scope: Scope) -> bool:
        if test is None:
            return True
        found = self.value(test, scope)
        if found.type != "BOOL":
            raise StructuredTextError(f"IF takes a BOOL, not {found.type}")
        return bool(found.value)

    def value(self, node: Any, scope: Scope) -> Any:
        kind, *parts = node
        if kind == "literal":
            return parts[0]
        if kind == "path":
            place, key = self._place(node, scope)
            return place[key]
        if kind == "not":
            operand = self.value(parts[0], scope)
            return Scalar(operand.type, operand.value ^ (2 ** _BITS[operand.type] - 1))
        if kind == "call":
            return self._called(parts[0], [self.value(one, scope) for one in parts[1]])
        return _operated(kind, self.value(parts[0], scope), self.value(parts[1], scope))

    def _called(self, name: str, arguments: list[Scalar]) -> Scalar:
        if name in self._units:
            return self.call(name, arguments)
        if name in ("SHL", "SHR"):
            (type_, word), (_, count) = arguments
            moved = word << count if name == "SHL" else word >> count
            return Scalar(type_, moved & (2 ** _BITS[type_] - 1))
        source, to, target = name.partition("_TO_")
        ((type_, word),) = arguments
        if not to or source != type_:
            raise StructuredTextError(f"{name} of a {type_}")
        bits = 32 if target == "DWORD" else 16
        word &= 2**bits - 1
        return Scalar(target, word - 2**16 if target == "INT" and word >> 15 else word)

    def _place(self, node: Any, scope: Scope) -> tuple[Scope, Any]:
        """Container and key of a variable, field or element."""
        _, name, steps = node
        place, key = scope, name
        for step in steps:
            place = place[key]
            key = step if isinstance(step, str) else self.value(step, scope).value
        if key not in place:
            raise StructuredTextError(f"no {key} in {name}: {sorted(place)[:3]}..{sorted(place)[-1]}")
        return place, key

    def _type(self, tokens: Tokens) -> None:
        name = tokens.take()
        tokens.take(":")
        tokens.take("STRUCT")
        fields = []
        while not tokens.took("END_STRUCT"):
            fields.append(self._declared(tokens)[:2])
        self._structs[name] = fields
        tokens.took(";")
        tokens.take("END_TYPE")

    def _declared(self, tokens: Tokens) -> tuple[str, Any, Any]:
        name = tokens.take()
        tokens.take(":")
        type_: Any = tokens.take()
        if type_ == "ARRAY":
            tokens.take("[")
            low = int(tokens.take())
            tokens.take("..")
            high = int(tokens.take())
            tokens.take("]")
            tokens.take("OF")
            type_ = (low, high, tokens.take())
        start = _expression(tokens) if tokens.took(":=") else None
        tokens.take(";")
        return name, type_, start

    def _unit(self, tokens: Tokens) -> None:
        name = tokens.take()
        result = tokens.take() if tokens.took(":") else ""
        variables = []
        while tokens.next.startswith("VAR"):
            section = tokens.take()
            section += " " + tokens.take() if tokens.next in ("CONSTANT", "RETAIN") else ""
            while not tokens.took("END_VAR"):
                variables.append((section, *self._declared(tokens)))
        self._units[name] = Unit(result, variables, _statements(tokens))
        tokens.take("END_FUNCTION" if result else "END_FUNCTION_BLOCK")


class Instance:
    """A function block and its variables."""

    def __init__(self, program: Program, unit: Unit, retained: Mapping[str, int]) -> None:
        self._program = program
        self._unit = unit
        self.variables: Scope = {}
        for section, name, type_, start in unit.variables:
            self.variables[name] = program.fresh(type_)
            if start is not None:
                _assign(self.variables, name, program.value(start, {}))
            if section == "VAR RETAIN":
                self.variables[name] = Scalar(type_, retained[name])

    def __call__(self, **in_out: Scope) -> None:
        """One call; VAR_IN_OUT are the caller's own."""
        self.variables.update(in_out)
        self._program.run(self._unit.body, self.variables)


def _statements(tokens: Tokens) -> list[Any]:
    body: list[Any] = []
    while tokens.next not in ("END_IF", "ELSE", "ELSIF", "END_FOR", "END_FUNCTION", "END_FUNCTION_BLOCK"):
        if tokens.took("IF"):
            body.append(_if(tokens))
        elif tokens.took("FOR"):
            body.append(_for(tokens))
        else:
            place = _operand(tokens)
            tokens.take(":=")
            body.append(("assign", place, _expression(tokens)))
        tokens.take(";")
    return body


def _if(tokens: Tokens) -> Any:
    branches: list[Any] = []
    word = "IF"
    while word != "END_IF":
        test = None if word == "ELSE" else _expression(tokens)
        if test is not None:
            tokens.take("THEN")
        branches.append((test, _statements(tokens)))
        word = tokens.take("ELSIF", "ELSE", "END_IF")
    return ("if", branches)


def _for(tokens: Tokens) -> Any:
    variable = tokens.take()
    tokens.take(":=")
    first = _expression(tokens)
    tokens.take("TO")
    last = _expression(tokens)
    tokens.take("DO")
    inner = _statements(tokens)
    tokens.take("END_FOR")
    return ("for", variable, first, last, inner)


def _expression(tokens: Tokens, level: int = 0) -> Any:
    if level == len(_LEVELS):
        return ("not", _operand(tokens)) if tokens.took("NOT") else _operand(tokens)
    left = _expression(tokens, level + 1)
    while tokens.next in _LEVELS[level]:
        operator = tokens.take()
        left = (operator, left, _expression(tokens, level + 1))
    return left


def _operand(tokens: Tokens) -> Any:
    if tokens.took("("):
        inner = _expression(tokens)
        tokens.take(")")
        return inner
    word = tokens.take()
    if word in ("TRUE", "FALSE"):
        return ("literal", Scalar("BOOL", int(word == "TRUE")))
    if word[0].isdigit():
        return ("literal", Scalar(_LITERAL, int(word[3:], 16) if word.startswith("16#") else int(word)))
    if tokens.took("("):
        arguments = [_expression(tokens)]
        while tokens.took(","):
            arguments.append(_expression(tokens))
        tokens.take(")")
        return ("call", word, arguments)
    steps: list[Any] = []
    while tokens.next in (".", "["):
        if tokens.take() == ".":
            steps.append(tokens.take())
        else:
            steps.append(_expression(tokens))
            tokens.take("]")
    return ("path", word, steps)


def _assign(place: Scope, key: Any, value: Any) -> None:
    if not isinstance(value, Scalar):
        # Structures are values: the copy must not follow the registers.
        place[key] = copy.deepcopy(value)
        return
    place[key] = _as(value, place[key].type)


def _as(value: Scalar, type_: str) -> Scalar:
    low, high = _RANGES[type_]
    if value.type not in (type_, _LITERAL) or not low <= value.value <= high:
        raise StructuredTextError(f"{value.value} ({value.type}) is no {type_}")
    return Scalar(type_, value.value)


def _operated(operator: str, left: Scalar, right: Scalar) -> Scalar:
    type_ = right.type if left.type == _LITERAL else left.type
    one, two = _as(left, type_).value, _as(right, type_).value
    if operator in ("AND", "OR", "XOR"):
        if type_ not in _BITS:
            raise StructuredTextError(f"{operator} of {type_}")
        return Scalar(type_, {"AND": one & two, "OR": one | two, "XOR": one ^ two}[operator])
    if operator in ("+", "-"):
        return _as(Scalar(_LITERAL, one + two if operator == "+" else one - two), type_)
    holds = {"=": one == two, "<>": one != two, "<": one < two, ">": one > two, "<=": one <= two, ">=": one >= two}
    return Scalar("BOOL", int(holds[operator]))
