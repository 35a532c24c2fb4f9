"""Whatever is drawn: what is served has elements and attributes of the lists only, and refers to nothing outside."""

from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.codec.topology.mistakes import Findings
from albireo.face.web.pictures.drawing import ATTRIBUTES, ELEMENTS, LEFT_OUT, drawing_of
from tests.parts.pictures import HOSTILE, SVG, of

NAMES = st.sampled_from(
    [*sorted(ELEMENTS | LEFT_OUT), "script", "a", "style", "foreignObject", "image", "set", "h:script", "x:y"]
)
KEYS = st.sampled_from(
    [
        *sorted(ATTRIBUTES),
        "style",
        "class",
        "onload",
        "xlink:href",
        "src",
        "x:href",
        "xml:base",
        "data-cell-id",
        "filter",
    ]
)
PIECES = st.lists(
    st.sampled_from(
        """url( #a ) javascript: http://e.example fill : ; red ' " \\75 /* */ data:text/html, < > & @import 0 % #123
        rgb(1,2,3) none URL( expression( """.split()
    ),
    max_size=6,
).map("".join)
VALUES = PIECES | st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=20)


@st.composite
def elements(draw: st.DrawFn, depth: int = 3) -> str:
    name = draw(NAMES)
    given = draw(st.dictionaries(KEYS, VALUES, max_size=3))
    inner = "".join(draw(st.lists(elements(depth - 1), max_size=3))) if depth else ""
    text = escape(draw(VALUES))
    return f"<{name}{''.join(f' {key}={quoteattr(one)}' for key, one in given.items())}>{text}{inner}</{name}>"


def is_harmless(text: str) -> bool:
    """Whether nothing is served, or nothing that could act."""
    drawing = drawing_of(text, Findings("a.svg"))
    if drawing is None:
        return False
    for one in ElementTree.fromstring(drawing.text).iter():
        space, _, name = one.tag.rpartition("}")
        assert space == "{http://www.w3.org/2000/svg" and name in ELEMENTS
        assert one.attrib.keys() <= ATTRIBUTES | {"viewBox"}
        for key, value in one.attrib.items():
            if key != "id":
                assert "url" not in value.lower() or "(" not in value, (key, value)
                assert ":" not in value and not value.startswith("//"), (key, value)
    return True


@settings(max_examples=200)
@given(elements())
def test_what_is_served_is_harmless(inner: str) -> None:
    is_harmless(of(inner, 'xmlns:x="urn:x" xmlns:h="http://www.w3.org/1999/xhtml"'))


@settings(max_examples=100)
@given(st.sampled_from([SVG, *(text for text, _ in HOSTILE.values() if len(text) < 4_000)]), st.data())
def test_a_file_that_was_cut_or_mixed_is_harmless(text: str, data: st.DataObject) -> None:
    at, to = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    is_harmless(text[:at] + data.draw(VALUES) + text[to:])


@given(st.text(max_size=200))
def test_any_text_is_judged(text: str) -> None:
    is_harmless(text)
