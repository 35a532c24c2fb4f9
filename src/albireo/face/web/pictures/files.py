"""Files of pictures: NAME.svg is drawn, NAME.toml binds its elements to items. Every mistake has its line and remedy.

    title = "South tunnel"
    node = "root/south"                                           # without it: the node of the page

    [element]                                                     # id in the drawing = what it shows
    co-8 = { value = "co_8" }                                     # a text: value and unit
    sump = { level = "sump_1_level" }                             # a rectangle: a bar in it
    fan-3 = { running = "fan_3_running", tripped = "fan_3_trip" } # a shape: equipment
    co = { profile = ["co_1", "co_2"], label = "CO" }             # a rectangle: likes side by side

The keys are the fields of `PictureFile` and `Binding`. Spec: docs/page.md.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from albireo.codec.topology.mistakes import Findings, KeyPath, Mistake, build, did_you_mean
from albireo.codec.topology.toml_lines import key_lines
from albireo.codec.topology.topology import parsed, text_of
from albireo.face.web.pictures.drawing import PREFIX, PictureDrawing, drawing_of
from albireo.face.web.words import Picture, PictureElement, PictureSign, PictureTitle
from albireo.runtime.text_reader import TextReader

PICTURES_MAX: Final = 50
ITEMS_MAX: Final = 180
"""Items of one picture: a page looks at 200, those of the faceplate among them."""
SIGNS: Final[tuple[PictureSign, ...]] = ("value", "level", "running", "profile")
Text = Annotated[str, Meta(max_length=200)]
Has = Callable[[str, KeyPath, Findings], None]
"""Notes a mistake if there is no item of this full name."""


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """Items that an element shows, and how. They are local names of the picture's node, or full names."""

    value: Text = ""
    level: Text = ""
    running: Text = ""
    """Item that is true while the equipment runs."""
    tripped: Text = ""
    """Item that is true while it is tripped."""
    profile: Annotated[tuple[Text, ...], Meta(max_length=40)] = ()
    label: Text = ""
    """Name of the element; without it the description of its item."""
    section: Text = ""
    """Where it stands in the list that a phone shows."""
    words: Annotated[tuple[Text, ...], Meta(max_length=2)] = ()
    """Words for false and true."""

    def __post_init__(self) -> None:
        if sum(bool(getattr(self, one)) for one in SIGNS) != 1:
            raise ValueError("an element has one of value, level, running and profile")
        if len(self.words) == 1 or (self.tripped and not self.running):
            raise ValueError("words are two; tripped goes with running")


class PictureFile(msgspec.Struct, frozen=True, kw_only=True):
    """The file that binds."""

    title: Annotated[str, Meta(min_length=1, max_length=100)]
    node: Text = ""
    element: dict[str, Any] = {}


class PictureRead(msgspec.Struct, frozen=True):
    """A picture as it was read."""

    title: PictureTitle
    picture: Picture
    """Empty but for its name if there are mistakes."""
    mistakes: list[Mistake] = []


def read_pictures(directory: Path, node: str, has: Has | None = None) -> dict[str, PictureRead]:
    """All pictures of a directory, by name. Reads files.

    Args:
        node: that of items of which no other node is told.
        has: None: nobody judges whether items are there.
    """
    try:
        names = sorted(one.stem for one in directory.iterdir() if one.suffix == ".svg")
    except OSError as error:
        names, reason = [directory.name], f"cannot read it: {error.strerror}"
    else:
        reason = f"there are more than {PICTURES_MAX} pictures" if len(names) > PICTURES_MAX else ""
    if reason:
        found = Findings(str(directory))
        found.add((), reason, "Name the directory in which the pictures of this page are.")
        return {names[0]: _told(PictureTitle(name=names[0], title=directory.name), found.mistakes(), Picture(name=""))}
    return {name: _read(TextReader(directory), name, node, has) for name in names}


def _read(read: TextReader, name: str, node: str, has: Has | None) -> PictureRead:
    found, drawn = Findings(f"{name}.toml"), Findings(f"{name}.svg")
    text = text_of(found.file, read, found, (), "Write the file that binds the elements of the drawing")
    svg = text_of(drawn.file, read, drawn, (), "Let it be read")
    drawing = None if svg is None else drawing_of(svg, drawn)
    table = None if text is None else parsed(text, found)
    title = PictureTitle(name=name, title=name)
    elements: tuple[PictureElement, ...] = ()
    if text is not None and table is not None:
        found = Findings(found.file, key_lines(text))
        told = build(PictureFile, table, (), found)
        if told is not None:
            title = PictureTitle(name=name, title=told.title, node=told.node or node)
            elements = _elements(told.element, title.node, drawing, found, has)
    picture = Picture(name=name, svg="" if drawing is None else drawing.text, elements=elements)
    return _told(title, [*found.mistakes(), *drawn.mistakes()], picture)


def _told(title: PictureTitle, mistakes: list[Mistake], picture: Picture) -> PictureRead:
    wrong = next((str(one) for one in mistakes if not one.is_warning), "")
    title = msgspec.structs.replace(title, trouble=wrong)
    return PictureRead(title, Picture(name=title.name) if wrong else picture, mistakes)


def _elements(
    table: Mapping[str, Any], node: str, drawing: PictureDrawing | None, found: Findings, has: Has | None
) -> tuple[PictureElement, ...]:
    """Elements with their items; whatever is wrong with them is in `found`."""
    elements: list[PictureElement] = []
    for identity, cells in table.items():
        path = ("element", identity)
        one = build(Binding, cells, path, found)
        if one is None:
            continue
        how = next(sign for sign in SIGNS if getattr(one, sign))
        names = (one.value or one.level or one.running, *one.profile, one.tripped)
        items = tuple(name if ":" in name else f"{node}:{name}" for name in names if name)
        if drawing is not None:
            _judge_element(how, path, drawing, found)
        for item in items if has is not None else ():
            assert has is not None
            has(item, path, found)
        elements.append(PictureElement(PREFIX + identity, how, items, one.label, one.section, one.words))
    if (count := sum(len(one.items) for one in elements)) > ITEMS_MAX:
        found.add(("element",), f"{count} items are shown", f"At most {ITEMS_MAX}: draw several pictures.")
    return tuple(elements)


def _judge_element(how: PictureSign, path: tuple[str, str], drawing: PictureDrawing, found: Findings) -> None:
    kind = drawing.kinds.get(path[1])
    if kind is None:
        found.add(path, "the drawing has no element of this id", did_you_mean(path[1], sorted(drawing.kinds)))
    elif how == "value" and kind != "text":
        found.add(path, "a value needs a text", "Bind the id of a text, or of a group with one.")
    elif how in ("level", "profile") and kind != "rect":
        found.add(path, f"a {how} needs a rectangle", "Bind the id of a rectangle.")
