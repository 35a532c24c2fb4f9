"""Drawings: what drawing programs write is kept, what would act is refused by name, and nothing else is served."""

import time
from xml.etree import ElementTree

import pytest

from albireo.codec.topology.mistakes import Findings
from albireo.face.web.pictures.drawing import ATTRIBUTES, ELEMENTS, PictureDrawing, drawing_of
from tests.parts.pictures import HOSTILE, SVG, of


def judged(text: str) -> tuple[PictureDrawing | None, Findings]:
    found = Findings("a.svg")
    return drawing_of(text, found), found


def served(text: str) -> ElementTree.Element:
    """Root of what is served."""
    drawing, found = judged(text)
    assert drawing is not None, found.mistakes()
    root = ElementTree.fromstring(drawing.text)
    for one in root.iter():
        space, _, name = one.tag.rpartition("}")
        assert space == "{http://www.w3.org/2000/svg" and name in ELEMENTS
        assert one.attrib.keys() <= ATTRIBUTES | {"viewBox"}
    return root


@pytest.mark.parametrize("name", HOSTILE)
def test_what_would_act_is_refused_by_name_with_a_remedy(name: str) -> None:
    text, word = HOSTILE[name]
    begun = time.process_time()
    drawing, found = judged(text)
    assert drawing is None
    first = found.mistakes()[0]
    assert word in f"{first}", first
    assert first.remedy
    assert time.process_time() - begun < 1


def test_the_element_and_its_line_are_named() -> None:
    _, found = judged(of('\n<g>\n<rect id="gate" onclick="x()"/></g>'))
    (one,) = found.mistakes()
    assert (one.file, one.line, one.key_path) == ("a.svg", 3, "gate")
    assert str(one) == "a.svg:3: gate: onclick would act. Take it away: a picture has no program."


def test_a_style_becomes_attributes_and_goes_before_them() -> None:
    root = served(
        of('<rect fill="#fff" width="3" style="fill:none; stroke-width:2px !important;-inkscape-x:1;d:none"/>')
    )
    assert dict(root[0].attrib) == {"fill": "none", "width": "3", "stroke-width": "2px"}


def test_what_drawing_programs_write_beside_is_left_out() -> None:
    text = of(
        '<metadata><r:RDF xmlns:r="urn:r"><r:x r:resource="http://a.example"/></r:RDF></metadata><style/>'
        '<defs><linearGradient id="g" xlink:href="#h" onload="x"/><marker><path d="M0 0"/></marker></defs>'
        '<s:view xmlns:s="urn:sodipodi" s:onload="1"><g/></s:view><filter id="f"><feBlend/></filter>'
        '<g xmlns:i="urn:i" i:label="x" class="y" data-z="1" data-cell-id="c"><text>a<tspan>b</tspan></text></g>',
        'content="&lt;mxfile url(http://a.example)&gt;" version="1.1" width="100mm"',
    )
    root = served(text)
    assert [one.tag.rpartition("}")[2] for one in root.iter()] == ["svg", "g", "text", "tspan"]
    assert root[0].attrib == {"id": "pic-c"}
    assert "".join(root.itertext()) == "ab"
    drawing, _ = judged(text)
    assert drawing is not None and drawing.kinds == {"c": "text"}


def test_ids_are_apart_from_those_of_the_page() -> None:
    assert served(of('<g id="m1"><rect/></g>'))[0].attrib == {"id": "pic-m1"}


def test_the_root_has_a_box_and_no_size() -> None:
    root = served(SVG.replace('viewBox="0 0 800 300"', 'width="800px" height="300"'))
    assert root.attrib == {"viewBox": "0 0 800 300", "font-size": "16"}
    assert served(of("", 'id="a" x="3" font-size="9" fill="none"')).attrib == {
        "viewBox": "0 0 100 100", "font-size": "9", "fill": "none",
    }  # fmt: skip


def test_text_stays_text() -> None:
    assert "".join(served(of("<text>a &lt;script&gt; &amp; &#60;b</text><g>lost</g>")).itertext()) == "a <script> & <b"
