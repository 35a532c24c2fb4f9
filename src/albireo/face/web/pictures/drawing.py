"""A drawing (SVG of any drawing program), made anew of what is known to be harmless.

    text --expat--> elements and attributes of the lists below --> text that is served

What is on no list is left out. What would act or refer to something (a script, a link, another file, even another
element) is a mistake, and nothing of the drawing is served. Declarations in `style` become attributes, since the policy
of the site lets no style into a page. Spec: SVG 1.1 (W3C Recommendation 2011); ADR-0276.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

import msgspec

from albireo.codec.topology.mistakes import Findings, shown

CHARS_MAX: Final = 1 << 20
ELEMENTS_MAX: Final = 5_000
DEPTH_MAX: Final = 64
PREFIX: Final = "pic-"
"""Before each id: the page has ids of its own."""

TEXTS: Final = frozenset({"text", "tspan", "title"})
ELEMENTS: Final = TEXTS | frozenset("svg g path rect circle ellipse line polyline polygon".split())
LEFT_OUT: Final = frozenset(
    "defs metadata desc style filter mask pattern marker clipPath symbol linearGradient radialGradient switch".split()
)
"""Elements that are left out with all that is in them, but for what would act."""
STYLES: Final = frozenset(
    "fill stroke stroke-width stroke-dasharray stroke-dashoffset stroke-linecap stroke-linejoin stroke-miterlimit "
    "stroke-opacity fill-rule fill-opacity opacity font-size font-weight font-style text-anchor letter-spacing "
    "dominant-baseline visibility display paint-order vector-effect".split()
)
"""Attributes that may stand in `style` too."""
ATTRIBUTES: Final = STYLES | frozenset("id d x y x1 y1 x2 y2 cx cy r rx ry width height points transform".split())

_SVG: Final = "http://www.w3.org/2000/svg"
_XLINK: Final = "http://www.w3.org/1999/xlink"
_XHTML: Final = "http://www.w3.org/1999/xhtml"
_REMEDIES: Final = {
    "script": "Take it away: a picture has no program.",
    "foreignObject": "Let the drawing program write plain text (draw.io: text without Formatted Text and Word Wrap).",
    "image": "Draw it with shapes: a picture is one file.",
    "style": "Save as plain SVG with styles as attributes (Illustrator: Presentation Attributes).",
    "a": "Take the link away: the page leads from each element to its item.",
    "use": "Draw it in full (Inkscape: Edit, Clone, Unlink).",
} | dict.fromkeys(
    "animate animateMotion animateTransform animateColor set".split(), "Take it away: nothing moves in a picture."
)
_PLAIN: Final = "Take it away, or save as plain SVG."
_ALONE: Final = "Draw it plainly: a colour for a gradient, a path for the head of an arrow, no clip and no filter."
_VALUE: Final = re.compile(r"[\w\s.,#%()+\-]*", re.ASCII)
_ID: Final = re.compile(r"[\w.:\-]{1,100}")


class PictureDrawing(msgspec.Struct, frozen=True):
    """A drawing that may be served."""

    text: str
    kinds: Mapping[str, str]
    """Kind of the element of each id: `text` (or with one inside), `rect`, or `shape`."""


def drawing_of(text: str, found: Findings) -> PictureDrawing | None:
    """The drawing without anything that is on no list, or None if `found` has its mistakes."""
    reader = _DrawingReader(found)
    if len(text) > CHARS_MAX:
        reader.refuse("svg", f"it has more than {CHARS_MAX} characters", "Leave out what nobody sees.")
        return None
    try:
        reader.parser.Parse(text, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        found.add((), f"not XML: {reason}", "Save it anew as SVG, in UTF-8.", line=error.lineno)
    except _Stopped as stopped:
        reader.refuse(*stopped.args)
    return None if found.mistakes() else PictureDrawing("".join(reader.parts), reader.kinds)


class _Stopped(Exception):
    """Nothing behind this place is worth reading; with the arguments of `refuse`."""


class _DrawingReader:
    """Handlers of the parser, which write the new text."""

    def __init__(self, found: Findings) -> None:
        self.parts: list[str] = []
        self.kinds: dict[str, str] = {}
        self._found = found
        self._open: list[tuple[str, str]] = []
        """Name and id of each element that is not closed yet; an empty name: it is left out."""
        self._count = 0
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.ProcessingInstructionHandler = self._instruction

    def refuse(self, where: str, text: str, remedy: str) -> None:
        self._found.add((where[:60],), text, remedy, line=self.parser.CurrentLineNumber)

    def _doctype(self, *_: object) -> None:
        raise _Stopped("DOCTYPE", "a declaration of types could bring in entities and other files", "Take it away.")

    def _instruction(self, target: str, _: str) -> None:
        self.refuse(target, "an instruction could bring in other files", f"Take <?{target[:60]} ...?> away.")

    def _begin(self, qualified: str, attributes: dict[str, str]) -> None:
        space, _, name = qualified.rpartition(" ")
        where = attributes.get("id", "") or name
        self._count += 1
        if self._count > ELEMENTS_MAX or len(self._open) >= DEPTH_MAX:
            text = f"it has more than {ELEMENTS_MAX} elements, or more than {DEPTH_MAX} in each other"
            raise _Stopped(where, text, "Leave out what nobody sees.")
        is_first, is_svg = not self._open, space == _SVG
        if is_first and (name != "svg" or not is_svg):
            raise _Stopped(where, f"the file begins with {shown(qualified)}", "Save it as plain SVG.")
        is_seen = is_first or self._open[-1][0] != ""
        is_ours = is_svg and name in ELEMENTS and (name == "svg") == is_first
        is_strange = is_svg and (name in _REMEDIES or is_seen) and name not in LEFT_OUT
        if not is_ours and (is_strange or space == _XHTML):
            self.refuse(where, f"<{name[:40]}> is not allowed", _REMEDIES.get(name, _PLAIN))
        is_kept = is_ours and is_seen
        kept = dict(self._judged(where, attributes)) if is_kept else {}
        identity = kept.get("id", "").removeprefix(PREFIX)
        self._open.append((name if is_kept or name == "style" else "", identity))
        if is_kept:
            kept = self._root(attributes, kept) if is_first else kept
            self._note(name, identity)
            self.parts += [f"<{name}", *(f" {key}={quoteattr(value)}" for key, value in kept.items()), ">"]

    def _note(self, name: str, identity: str) -> None:
        """Note what can be bound."""
        if identity and name not in ("svg", "title"):
            self.kinds.setdefault(identity, "text" if name in TEXTS else "rect" if name == "rect" else "shape")
        if name == "text":
            self.kinds |= {identity: "text" for group, identity in self._open if group == "g" and identity}

    def _end(self, _: str) -> None:
        name, _ = self._open.pop()
        if name in ELEMENTS:
            self.parts.append(f"</{name}>")

    def _text(self, text: str) -> None:
        name, _ = self._open[-1]
        if name in TEXTS:
            self.parts.append(escape(text))
        elif name == "style" and text.strip():
            self.refuse("style", "<style> with rules is not allowed", _REMEDIES["style"])

    def _root(self, attributes: Mapping[str, str], kept: Mapping[str, str]) -> dict[str, str]:
        """The root has the box of the drawing and no size: the page gives it one. Type has a size of the drawing's."""
        size = f"0 0 {attributes.get('width', '')} {attributes.get('height', '')}".replace("px", "")
        try:
            x, y, width, height = map(float, attributes.get("viewBox", size).replace(",", " ").split())
        except ValueError:
            x = y = width = height = 0.0
        if not (0 < width < 1e6 and 0 < height < 1e6 and abs(x) + abs(y) < 1e6):
            self.refuse("viewBox", "the size of the drawing is not told", 'Give <svg> a viewBox="0 0 WIDTH HEIGHT".')
        styles = {name: value for name, value in kept.items() if name in STYLES}
        return {"xmlns": _SVG, "viewBox": f"{x:g} {y:g} {width:g} {height:g}", "font-size": "16", **styles}

    def _judged(self, where: str, attributes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Attributes that may stay; those of `style` come behind others of the same name, and so go before them."""
        style = re.sub(r"/\*.*?\*/", "", attributes.get("style", ""), flags=re.DOTALL)
        if any(mark in style for mark in "\\@<"):
            self.refuse(where, "its style has what no attribute can have", _PLAIN)
        cell = attributes.get("data-cell-id", "")  # draw.io has the names of its cells there.
        for qualified, value in (
            *attributes.items(),
            *_declared(style),
            *([] if "id" in attributes else [("id", cell)]),
        ):
            space, _, name = qualified.rpartition(" ")
            text = value.strip()
            if name.lower().startswith("on") and not space:
                self.refuse(where, f"{name[:40]} would act", "Take it away: a picture has no program.")
            elif name == "href" and space in ("", _XLINK):
                self.refuse(where, f"it refers to {shown(value)}", _REMEDIES["use"])
            elif not space and name != "content" and "url(" in re.sub(r"\s", "", text).lower():  # draw.io's own file.
                self.refuse(where, f"{name[:40] or 'its style'} refers to {shown(text)}", _ALONE)
            elif space or name not in ATTRIBUTES:
                continue
            elif name == "id" and _ID.fullmatch(text):
                yield name, PREFIX + text
            elif name != "id" and _VALUE.fullmatch(text):
                yield name, text
            elif name != "id":
                self.refuse(where, f"{name} can't be {shown(value)}", _PLAIN)


def _declared(style: str) -> Iterator[tuple[str, str]]:
    """Declarations of a style; those that no attribute can have get no name, and are judged all the same."""
    for one in style.split(";"):
        name, _, value = one.partition(":")
        name = name.strip().lower()
        yield name if name in STYLES else "", value.replace("!important", "")
