"""Mistakes in what a person wrote, all of them at once, each with its place and its remedy.

`build` turns a table (what a TOML or JSON parser gives) into a struct. msgspec stops at the first error; a person wants
the whole list, so fields are converted one by one and the struct is made only when all are good.
"""

import difflib
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar, cast

import msgspec

from albireo.model.topology import LEVELS_MAX, NODE_VOTER, RestOfTable

KeyPath = tuple[str | int, ...]
Variants = Mapping[type[msgspec.Struct], Callable[[str], type[msgspec.Struct] | None]]
"""Structs of which the key `kind` of a table chooses a variant; asked for that of a kind. None: nobody knows it."""

SHOWN_CHARS_MAX: Final = 60
"""Characters shown of a wrong value: a hostile one must not fill the screen."""
MISTAKES_MAX: Final = 1_000
"""Mistakes that are kept; further ones are only counted."""
_WITHIN = re.compile(r" - at `\$(?P<path>[^`]*)`$")

_Struct = TypeVar("_Struct", bound=msgspec.Struct)


class Mistake(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that must be changed, or looked at."""

    file: str
    key_path: str
    """Path of the key, such as `node[1].adapter[0].poll_ms`; in an item table the column."""
    line: int | None
    """Line, from 1; None where no line stands for the mistake."""
    text: str
    remedy: str
    is_warning: bool = False
    """True: the file is usable all the same."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        kind = "warning: " if self.is_warning else ""
        where = f" {self.key_path}:" if self.key_path else ""
        return f"{place}:{where} {kind}{self.text}. {self.remedy}"


class Findings:
    """Collects the mistakes of one file."""

    def __init__(self, file: str, lines: Mapping[KeyPath, int] | None = None, variants: Variants | None = None) -> None:
        self.file = file
        self.variants = variants or {}
        self._lines = lines or {}
        self._mistakes: list[Mistake] = []
        self._dropped = 0

    def add(self, path: KeyPath, text: str, remedy: str, *, is_warning: bool = False, line: int | None = None) -> None:
        if len(self._mistakes) >= MISTAKES_MAX:
            self._dropped += 1
            return
        self._mistakes.append(
            Mistake(
                file=self.file,
                key_path=dotted(path),
                line=line or self.line_of(path),
                text=text,
                remedy=remedy,
                is_warning=is_warning,
            )
        )

    def line_of(self, path: KeyPath) -> int | None:
        """Line of the key, else of the nearest table around it."""
        return next((self._lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self._lines), None)

    def mistakes(self) -> list[Mistake]:
        """Mistakes by line, warnings last, and one more entry for those that were dropped."""
        found = sorted(self._mistakes, key=lambda one: (one.is_warning, one.line or 0))
        if self._dropped:
            text = f"{self._dropped} more mistakes are not shown"
            remedy = "Mend those above first."
            found.append(Mistake(file=self.file, key_path="", line=None, text=text, remedy=remedy))
        return found


def dotted(path: KeyPath) -> str:
    """`("node", 1, "id")` as `node[1].id`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def shown(value: object) -> str:
    """A value in a message, cut to a length that a line can hold."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS_MAX else text[: SHOWN_CHARS_MAX - 3] + "..."


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """A sentence that proposes the nearest known name, or lists them when none is near."""
    names = list(known)
    near = difflib.get_close_matches(wrong[:64], names, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]!r}?"
    listed = ", ".join(names[:40])
    return f"Known are: {listed}." if names else "None is known here."


def build(kind: type[_Struct], table: object, path: KeyPath, found: Findings) -> _Struct | None:
    """Struct of type `kind`, or of its variant, made of `table`, with every mistake added to `found`.

    Keys of a table whose variant nobody knows are not judged: its kind is the one mistake.

    Returns:
        A value in which defaults replace wrong values, so that the search for mistakes can go on; None when a wrong
        value has no default. It is not to be used once `found` has a mistake.
    """
    if not isinstance(table, dict):
        found.add(path, f"must be a table, not {shown(table)}", f"Write it as [{dotted(path)}] with keys below.")
        return None
    is_known = True
    if kind in found.variants:
        variant = found.variants[kind](str(table.get("kind")))
        is_known = variant is not None
        kind = cast(type[_Struct], variant or kind)
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    rest = next((key for key, field in fields.items() if field.type == RestOfTable), None)
    values: dict[str, Any] = {}
    if rest is not None:
        values[fields.pop(rest).name] = {key: it for key, it in table.items() if key not in fields}
    for key in table if rest is None and is_known else ():
        if key not in fields:
            found.add((*path, key), f"the key {shown(key)} is not known here", did_you_mean(key, fields))
    is_whole = True
    for key, field in fields.items():
        if key in table:
            value = _convert(field.type, table[key], (*path, key), found)
            if value is not None:
                values[field.name] = value
            else:
                is_whole = is_whole and not field.required
        elif field.required:
            found.add(path, f"the key {key!r} is missing", f"Add {key} = ...{_example(field.type)}")
            is_whole = False
    if not is_whole:
        return None
    try:
        return kind(**values)
    except ValueError as error:
        found.add(path, str(error), "Change one of the two.")
        return None


def _convert(kind: Any, value: object, path: KeyPath, found: Findings) -> Any:
    """`value` as `kind`; None when it is wrong (TOML has no null, so None is never a good value)."""
    struct, is_many, bounds = _nested(kind)
    if struct is not None and not is_many:
        return build(struct, value, path, found)
    if struct is not None:
        return _convert_many(struct, value, path, found, bounds)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        said = str(error)
        within = _WITHIN.search(said)
        deeper = _parts(within["path"]) if within else ()
        reason = said[: within.start()] if within else said
        text = f"{shown(_at(value, deeper))} is wrong: {_too_deep(_at(value, deeper), reason) or _plain(reason)}"
        found.add((*path, *deeper), text, _remedy(reason))
        return None


def _convert_many(
    struct: type[msgspec.Struct], value: object, path: KeyPath, found: Findings, bounds: msgspec.Meta | None
) -> tuple[msgspec.Struct, ...] | None:
    if not isinstance(value, list):
        found.add(path, f"must be a list of tables, not {shown(value)}", f"Write each as [[{dotted(path)}]].")
        return None
    most = bounds.max_length if bounds else None
    if most is not None and len(value) > most:
        found.add(path, f"has {len(value)} entries, at most {most} are allowed", "Split it.")
        return None
    least = (bounds.min_length if bounds else None) or 0
    if len(value) < least:
        found.add(path, f"needs at least {least}", f"Add a [[{dotted(path)}]] table.")
        return None
    built = [build(struct, one, (*path, index), found) for index, one in enumerate(value)]
    return None if any(one is None for one in built) else tuple(one for one in built if one is not None)


def _nested(kind: Any) -> tuple[type[msgspec.Struct] | None, bool, msgspec.Meta | None]:
    """The struct inside a field's type, whether it is a tuple of them, and the bounds of its length."""
    bounds: msgspec.Meta | None = None
    while typing.get_origin(kind) is typing.Annotated:
        bounds = next((one for one in kind.__metadata__ if isinstance(one, msgspec.Meta)), bounds)
        kind = typing.get_args(kind)[0]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind, False, bounds
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        structs = [one for one in inner if isinstance(one, type) and issubclass(one, msgspec.Struct)]
        return (structs[0] if structs else None), False, bounds
    if origin is tuple and inner and isinstance(inner[0], type) and issubclass(inner[0], msgspec.Struct):
        return inner[0], True, bounds
    return None, False, bounds


def _parts(path: str) -> KeyPath:
    """msgspec's `[0].name` as a key path; `...` (inside a dict) ends it."""
    found = re.findall(r"\[(\d+)\]|\.([A-Za-z_]\w*)", path)
    return tuple(int(index) if index else name for index, name in found)


def _at(value: object, path: KeyPath) -> object:
    for part in path:
        try:
            value = value[part]  # type: ignore[index]  # The path comes from msgspec's look at this very value.
        except (TypeError, LookupError):
            return value
    return value


_PLAIN: Final = {"`str`": "a string", "`int`": "a whole number", "`float`": "a number", "`bool`": "true or false"}
_NODE_ID_MARK: Final = f"{{0,{LEVELS_MAX - 1}}}"
_PATTERNS: Final = (
    ("tcp://", "Write it as tcp://HOST:PORT, such as tcp://10.0.0.1:5000."),
    ("plc", "Write it as plc:ADAPTER, witness:NAME, or node:root/north for a node below."),
    (
        _NODE_ID_MARK,
        f"Lower-case letters, digits, - and _, {LEVELS_MAX} levels at most, parted by /, such as root/north.",
    ),
    ("{8}(-", "Take a new one from: python3 -c 'import uuid; print(uuid.uuid4())'."),
    ("^[a-z]", "Lower-case letters, digits, - and _, a letter first, at most 32."),
)


def _too_deep(value: object, reason: str) -> str:
    """Words for an id of too many levels; empty: that is not the mistake."""
    if not isinstance(value, str) or _NODE_ID_MARK not in reason:
        return ""
    levels = value.removeprefix(NODE_VOTER).partition(":")[0].count("/") + 1
    return f"it has {levels} levels, and a node's id has {LEVELS_MAX} at most" if levels > LEVELS_MAX else ""


def _plain(reason: str) -> str:
    """msgspec's sentence for people who don't read Python types."""
    if "matching regex" in reason:
        return "it has not the form that is wanted here"
    for name, plain in _PLAIN.items():
        reason = reason.replace(name, plain)
    return reason[:1].lower() + reason[1:]


def _remedy(reason: str) -> str:
    if "matching regex" in reason:
        return next((remedy for mark, remedy in _PATTERNS if mark in reason), "Change it.")
    if "of length" in reason:
        return "Change the value."
    if "got `str`" in reason:
        return "Take away the quotes."
    if "Expected `str`" in reason:
        return "Put it into quotes."
    return "Change the value."


def _example(kind: Any) -> str:
    """A hint at the form of a missing key."""
    while typing.get_origin(kind) is typing.Annotated:
        meta = next((one for one in kind.__metadata__ if isinstance(one, msgspec.Meta) and one.pattern), None)
        if meta and meta.pattern:
            return " " + next((remedy for mark, remedy in _PATTERNS if mark in meta.pattern), "")
        kind = typing.get_args(kind)[0]
    return ""
