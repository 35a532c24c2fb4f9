"""`albireo picture`: look at the pictures that a page shows. Spec: docs/page.md."""

from collections.abc import Iterator
from pathlib import Path

import click

from albireo.cli.output import Output, TextTable, printed, say
from albireo.cli.topology_file import read_topology, refusal
from albireo.codec.topology.mistakes import Findings, KeyPath, did_you_mean
from albireo.codec.topology.navigation import KnownItems, check_pattern
from albireo.codec.topology.topology import LoadedTopology
from albireo.face.web.pictures.files import PictureRead, read_pictures

_COLUMNS = ("name", "title", "node", "elements")


@click.group("picture")
def command() -> None:
    """Pictures that the page shows: NAME.svg of any drawing program, its elements bound to items by NAME.toml."""


@command.command()
@click.argument("place", type=click.Path(path_type=Path), default=Path("topology.toml"))
@printed
def check(place: Path) -> Output:
    """Judge the pictures of PLACE: of all pages of a topology, or of a directory.

    Only a topology tells which items there are. Exit codes: 0 good; 78 there are mistakes, each told with its file,
    line and remedy.
    """
    is_lone = place.is_dir()
    read = [*(read_pictures(place, "").values() if is_lone else _of_topology(read_topology(place)))]
    mistakes = [one for picture in read for one in picture.mistakes]
    if any(not one.is_warning for one in mistakes):
        raise refusal(place, mistakes)
    for one in mistakes:
        say(str(one))
    rows = [(one.title.name, one.title.title, one.title.node, len(one.picture.elements)) for one in read]
    pictures = [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
    text = (f"{place}: good.", TextTable(_COLUMNS, rows, empty="no page names pictures"))
    hints = ["whether their items are there is not judged: name a topology"] if is_lone else []
    return Output({"file": str(place), "valid": True, "pictures": pictures, "mistakes": mistakes}, text, hints)


def _of_topology(loaded: LoadedTopology) -> Iterator[PictureRead]:
    """Pictures of all pages."""

    def has(item: str, path: KeyPath, found: Findings) -> None:
        node_id, _, name = item.partition(":")
        node = next((one for one in loaded.topology.node if one.id == node_id), None)
        if node is None:
            found.add(path, f"the node {node_id} is not there", did_you_mean(node_id, loaded.arguments))
        else:
            check_pattern(name, node, _known(loaded, node_id), path, found)

    for node in loaded.topology.node:
        named = {
            str(one.settings["pictures"]) for one in node.face if one.kind == "web" and one.settings.get("pictures")
        }
        for directory in sorted(named):  # The members of a pair name the same.
            yield from read_pictures(Path(loaded.directory, directory), node.id, has).values()


def _known(loaded: LoadedTopology, node_id: str) -> KnownItems:
    """Items of the tables of a node; an adapter without a table knows its own."""
    adapters = loaded.arguments[node_id]
    names = frozenset(str(row["name"]) for one in adapters for row in one["items"])
    return KnownItems(names=names, is_all=all(one["items"] or one["kind"] == "host" for one in adapters))
