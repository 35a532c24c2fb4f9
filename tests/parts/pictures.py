"""Parts that tests share: a small drawing with a file that binds it, and drawings that want to act."""

from pathlib import Path
from typing import Final

NS: Final = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
SVG: Final = f"""<svg {NS} viewBox="0 0 800 300">
  <rect x="1" y="1" width="798" height="298" style="fill:none;stroke:#808080;stroke-width:2"/>
  <text id="co8" x="40" y="60" style="font-size:18px;fill:#000000"><tspan x="40" y="60">0.0</tspan></text>
  <text id="ghost" x="40" y="120" font-size="18">0</text>
  <rect id="bar" x="300" y="40" width="200" height="24" fill="#d0d0d0"/>
  <rect id="co" x="300" y="120" width="400" height="120" fill="none" stroke="gray"/>
  <g id="fan" transform="translate(600 30)"><rect width="60" height="30" fill="#666"/><path d="M0 0h9"/></g>
</svg>
"""
TOML: Final = """title = "North tunnel"

[element]
co8 = { value = "co_8", section = "Section 8" }
ghost = { value = "co_88", label = "Ghost" }
bar = { level = "co_8", label = "Bar of section 8" }
co = { profile = ["co_7", "co_8"], label = "Carbon monoxide" }
fan = { running = "fan_running", tripped = "fan_trip", label = "Fan 1" }
"""


def of(inner: str, head: str = "") -> str:
    """A drawing with this inside."""
    return f'<svg {NS} viewBox="0 0 100 100" {head}>{inner}</svg>'


HOSTILE: Final[dict[str, tuple[str, str]]] = {
    "script": (of("<script>alert(1)</script>"), "<script>"),
    "script elsewhere": (of('<script xlink:href="https://evil.example/x.js"/>'), "<script>"),
    "script in a group": (of('<g id="a"><g><script/></g></g>'), "<script>"),
    "script in metadata": (of("<metadata><script>1</script></metadata>"), "<script>"),
    "script of html": (of('<x:script xmlns:x="http://www.w3.org/1999/xhtml">1</x:script>'), "<script>"),
    "frame of html": (of('<iframe xmlns="http://www.w3.org/1999/xhtml" src="https://evil.example"/>'), "<iframe>"),
    "event at the root": (of("", 'onload="alert(1)"'), "onload"),
    "event in capitals": (of('<rect ONCLICK="alert(1)"/>'), "ONCLICK"),
    "event of an animation": (of('<rect onbegin="alert(1)"/>'), "onbegin"),
    "script in a filter": (of("<filter><feBlend/><script/></filter>"), "<script>"),
    "foreign object": (of("<foreignObject><p>x</p></foreignObject>"), "<foreignObject>"),
    "foreign object in a switch": (of("<switch><foreignObject/><text>x</text></switch>"), "<foreignObject>"),
    "image": (of('<image href="https://evil.example/x.png"/>'), "<image>"),
    "image of data": (of('<image href="data:image/svg+xml;base64,PHN2Zy8+"/>'), "<image>"),
    "link": (of('<a xlink:href="javascript:alert(1)"><text>x</text></a>'), "<a>"),
    "reference elsewhere": (of('<path xlink:href="https://evil.example/x.svg#a"/>'), "https://evil.example"),
    "use elsewhere": (of('<use href="https://evil.example/x.svg#a"/>'), "<use>"),
    "use of data": (of('<use xlink:href="data:image/svg+xml,x#a"/>'), "<use>"),
    "use of a file": (of('<use href="other.svg#a"/>'), "<use>"),
    "fill elsewhere": (of('<rect fill="url(https://evil.example/#a)"/>'), "fill refers"),
    "fill elsewhere, quoted": (of("""<rect fill="url('//evil.example#a')"/>"""), "fill refers"),
    "filter elsewhere": (of('<rect filter="URL( http://evil.example/f#a )"/>'), "filter refers"),
    "style elsewhere": (of('<rect style="fill:url(http://evil.example/#a)"/>'), "refers"),
    "style in disguise": (of(r'<rect style="fill:u\72l(http://evil.example)"/>'), "its style"),
    "style with a comment": (of('<rect style="fill:ur/**/l(http://evil.example)"/>'), "refers"),
    "style import": (of("<style>@import url(http://evil.example/a.css);</style>"), "<style>"),
    "style rules": (of("<style>rect{fill:red}</style>"), "<style>"),
    "import in a style": (of('<rect style="@import x"/>'), "its style"),
    "sheet": ('<?xml-stylesheet href="http://evil.example/a.css"?>' + of(""), "instruction"),
    "entities": ('<!DOCTYPE svg [<!ENTITY a "b">]>' + of("&a;"), "DOCTYPE"),
    "laughs": ('<!DOCTYPE svg [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>' + of("<text>&b;</text>"), "DOCTYPE"),
    "file entity": ('<!DOCTYPE svg [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + of("<text>&a;</text>"), "DOCTYPE"),
    "type elsewhere": ('<!DOCTYPE svg SYSTEM "http://evil.example/a.dtd">' + of(""), "DOCTYPE"),
    "unknown entity": (of("<text>&nbsp;</text>"), "not XML"),
    "set": (of('<rect><set attributeName="href" to="javascript:alert(1)"/></rect>'), "<set>"),
    "animate": (of('<rect><animate attributeName="x" dur="1s"/></rect>'), "<animate>"),
    "drawing in a drawing": (of("<svg/>"), "<svg>"),
    "handler": (of("<handler>x</handler>"), "<handler>"),
    "not XML": ("<svg", "not XML"),
    "nothing": ("", "not XML"),
    "html": ("<html><script>1</script></html>", "begins with"),
    "no namespace": ("<svg viewBox='0 0 1 1'/>", "begins with"),
    "no size": (f"<svg {NS}/>", "size of the drawing"),
    "endless size": (f'<svg {NS} viewBox="0 0 nan inf"/>', "size of the drawing"),
    "deep": (of("<g>" * 100 + "</g>" * 100), "in each other"),
    "many": (of("<g/>" * 6_000), "elements"),
    "clone": (of('<g id="a"/><use id="b" href="#a"/>'), "<use>"),
    "clone of itself": (of('<g id="a"><use href="#a"/></g>'), "<use>"),
    "gradient": (of('<rect fill="url(#g)"/>'), "fill refers"),
    "head of an arrow": (of('<path style="marker-end:url(#Arrow)"/>'), "refers"),
    "long": (of(f"<text>{'x' * (1 << 20)}</text>"), "characters"),
    "strange path": (of("""<path d="M0 0;expression('x')"/>"""), "d can't be"),
}
"""What may not be served, and a word of the reason."""


def drawn(directory: Path, name: str = "tunnel", svg: str = SVG, toml: str = TOML) -> Path:
    """Write a picture; the directory."""
    directory.mkdir(exist_ok=True)
    (directory / f"{name}.svg").write_text(svg)
    (directory / f"{name}.toml").write_text(toml)
    return directory
