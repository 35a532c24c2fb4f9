"""Lines of the keys of a TOML text, which the standard library's parser does not tell.

Not here: judging the text, which a parser has accepted before. For any other text the answer is incomplete, never an
exception. Keys inside inline tables and arrays are not followed: their line is that of the key around them.

Grammar: TOML 1.0.0 (keys, tables, arrays of tables, four kinds of strings, comments).
"""

import re
import tomllib
from collections.abc import Iterator
from typing import Final, NamedTuple

from albireo.codec.topology.mistakes import KeyPath

_TOKENS: Final = re.compile(
    r'(?P<string>"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')'
    r"|(?P<comment>#[^\n]*)|(?P<newline>\n)|(?P<mark>[\[\]{}=,.])|(?P<bare>[^\s\"'#\[\]{}=,.]+)|(?P<other>.)",
    re.DOTALL,
)
_OPENING: Final = frozenset("[{")
_CLOSING: Final = frozenset("]}")


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def key_lines(text: str) -> dict[KeyPath, int]:
    """Line (from 1) of every key and table outside inline tables; entries of arrays of tables by their index.

    A table that is only implied by dotted keys has the line of the first of them.
    """
    lines: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for statement in _statements(text):
        first = statement[0]
        is_header = first.text == "[" and first.kind == "mark"
        is_array = is_header and len(statement) > 1 and statement[1].text == "["
        names = _names(statement[2:] if is_array else statement[1:] if is_header else statement)
        if not is_header:
            path = (*table, *names)
        elif is_array:
            around = _resolved(names, counts)
            path = (*around, counts.get(around, 0))
            counts[around] = counts.get(around, 0) + 1
        else:
            path = _resolved(names, counts)
        for length in range(1 if is_header else len(table) + 1, len(path) + 1):
            lines.setdefault(path[:length], first.line)
        table = path if is_header else table
    return lines


def _statements(text: str) -> Iterator[list[_Token]]:
    """Tokens of each statement: a header, or a key with its value, which may span lines inside brackets."""
    statement: list[_Token] = []
    depth = 0
    line = 1
    for found in _TOKENS.finditer(text):
        kind = found.lastgroup or "other"
        part = found.group()
        if kind in ("string", "mark", "bare"):
            statement.append(_Token(kind, part, line))
            depth += (part in _OPENING) - (part in _CLOSING) if kind == "mark" else 0
        elif kind == "newline" and depth <= 0:
            if statement:
                yield statement
            statement, depth = [], 0
        line += part.count("\n")
    if statement:
        yield statement


def _names(tokens: list[_Token]) -> KeyPath:
    """Dotted key at the start of `tokens`."""
    names: list[str] = []
    for token in tokens:
        if token.kind == "mark" and token.text in ("=", "]"):
            break
        if token.kind == "bare":
            names.append(token.text)
        elif token.kind == "string":
            names.append(_unquoted(token.text))
    return tuple(names)


def _unquoted(text: str) -> str:
    try:
        return str(tomllib.loads(f"key = {text}")["key"])
    except ValueError:
        return text


def _resolved(names: KeyPath, counts: dict[KeyPath, int]) -> KeyPath:
    """`node.adapter` below the latest `[[node]]`; the last part is left without an index."""
    path: KeyPath = ()
    for index, name in enumerate(names):
        path = (*path, name)
        if path in counts and index < len(names) - 1:
            path = (*path, counts[path] - 1)
    return path
