"""The house as its imports show it: which child of a folder imports which, and whether any of them stand in a circle.

    python tests/rooms.py            every circle between children of one folder, with the imports that tie it
    python tests/rooms.py machine    the floors of one folder, from the ground up

A child of a folder is a module in it or a folder in it, at every depth. What a package's `__init__` takes from its own
children, to offer it to others, is no import between children.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "albireo"

Module = tuple[str, ...]
"""Place of a module below `albireo`; that of a package ends with `__init__`."""
Children = dict[str, dict[str, list[str]]]
"""What each child of one folder imports of each other one, as `module -> module` lines."""


def modules() -> dict[Module, Path]:
    return {path.relative_to(SOURCE).with_suffix("").parts: path for path in sorted(SOURCE.rglob("*.py"))}


def imported(path: Path, known: dict[Module, Path]) -> Iterator[Module]:
    """Modules of this project that `path` imports, inside functions and for types alone as well."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {alias.name: _place(f"{node.module}.{alias.name}", known) for alias in node.names}
            names = [f"{node.module}.{name}" if place else node.module for name, place in inner.items()]
        else:
            continue
        yield from (place for name in names if (place := _place(name, known)))


def _place(name: str, known: dict[Module, Path]) -> Module | None:
    first, *parts = name.split(".")
    if first != "albireo":
        return None
    return next((one for one in (tuple(parts), (*parts, "__init__")) if one in known), None)


@cache
def house() -> dict[Module, Children]:
    """For each folder what its children import of each other."""
    known = modules()
    found: dict[Module, Children] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for importer, path in known.items():
        for place in set(imported(path, known)):
            depth = next((at for at, (a, b) in enumerate(zip(importer, place, strict=False)) if a != b), None)
            if depth is not None and importer[depth] != "__init__":
                line = f"{'/'.join(importer)} -> {'/'.join(place)}"
                found[importer[:depth]][importer[depth]][place[depth]].append(line)
    return found


def circle(children: Children) -> set[str]:
    """Children that stand in circles, or between two of them; empty: there is none."""
    left = {name: set(wanted) for name, wanted in children.items()}
    while True:
        wanted_by_any = set().union(*left.values())
        loose = [name for name, wanted in left.items() if not wanted & left.keys() or name not in wanted_by_any]
        if not loose:
            return set(left)
        for name in loose:
            del left[name]


def circles() -> dict[str, list[str]]:
    """The imports that tie a circle, by folder."""
    tied: dict[str, list[str]] = {}
    for folder, children in house().items():
        inside = circle(children)
        lines = [line for a in inside for b, why in children[a].items() if b in inside for line in why]
        if inside:
            tied["/".join(folder) or "."] = sorted(lines)
    return tied


def floors(folder: Module) -> list[list[str]]:
    """Children of a folder without circles, from the ground up: each stands right above the highest that it imports."""
    children = house()[folder]
    names = {one[len(folder)] for one in modules() if one[: len(folder)] == folder and len(one) > len(folder)}
    height: dict[str, int] = {}

    def height_of(name: str) -> int:
        if name not in height:
            height[name] = 1 + max((height_of(one) for one in children.get(name, ()) if one != "__init__"), default=-1)
        return height[name]

    for name in names - {"__init__"}:
        height_of(name)
    return [sorted(name for name, at in height.items() if at == floor) for floor in range(1 + max(height.values()))]


def main(arguments: list[str]) -> int:
    if arguments:
        for floor in reversed(floors(tuple(arguments[0].strip("/").split("/")))):
            print("  ".join(floor))
        return 0
    found = circles()
    for folder, lines in found.items():
        print(f"{folder}:", *lines, sep="\n  ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
