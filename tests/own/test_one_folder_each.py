"""One of each thing that can be added stands in a folder of its own here, and nothing outside that folder names it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

OWN = Path(__file__).parent
ROOT = OWN.parents[1]
ADDED = {
    "table": "a table",
    "order": "an order kind",
    "question": "a question",
    "stream": "a stream",
    "next_version": "a record kind",
    "face": "a face",
    "adapter": "an adapter",
}
"""What each folder adds, in the words of `CONTRIBUTING.md`."""


def names_in(path: Path) -> Iterator[str]:
    """Identifiers, modules and texts of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.ClassDef(name=name) | ast.alias(name=name):
                yield name
            case ast.ImportFrom(module=str(name)) | ast.Constant(value=str(name)):
                yield name


NAMES = {
    path: set(names_in(path)) for room in ("src", "tests", "bench") for path in sorted((ROOT / room).rglob("*.py"))
}


def declared_in(folder: Path) -> set[str]:
    """Classes of its declarations."""
    files = [path for path in folder.rglob("*.py") if not path.name.startswith("test_")]
    return {node.name for path in files for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)}


def files_that_name(folder: Path) -> list[Path]:
    """Files that name a class of the folder, or the folder itself as a module or a path."""
    declared, places = declared_in(folder), (f"own.{folder.name}", f"own/{folder.name}")
    return [
        path
        for path, names in NAMES.items()
        if declared & names or any(place in name for place in places for name in names if "own" in name)
    ]


@pytest.mark.parametrize("name", ADDED)
def test_nothing_outside_its_folder_names_what_was_added(name: str) -> None:
    folder = OWN / name
    naming = [path for path in files_that_name(folder) if path != Path(__file__)]
    assert [path for path in naming if folder in path.parents], "at least its own tests name it"
    assert [str(path.relative_to(ROOT)) for path in naming if folder not in path.parents] == []


def test_the_table_of_what_an_addition_takes_names_each_of_them() -> None:
    rows = [line.split(" | ") for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if "`tests/own/" in line]
    told = {cells[0].removeprefix("| "): cells[-1].strip("`| ") for cells in rows if cells[0].startswith("| ")}
    assert told == {what: f"tests/own/{folder}" for folder, what in ADDED.items()}
    assert {path.name for path in OWN.iterdir() if path.is_dir() and path.name != "__pycache__"} == ADDED.keys()
