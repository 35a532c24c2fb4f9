"""Text of others, made safe for a terminal and for a spreadsheet."""

from typing import Final

_STEERING: Final = (
    *range(0x20),
    *range(0x7F, 0xA0),
    0x061C,
    *range(0x200E, 0x2010),
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
    *range(0xD800, 0xE000),
)
"""Code points that steer a terminal, end a line, or turn the direction of the text; and halves of surrogates."""
_ESCAPES: Final = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _STEERING} | {
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
}


def plain(text: str) -> str:
    """The text as one line that steers nothing: names, users and comments of others may hold anything."""
    return text.translate(_ESCAPES)


def cell_text(value: object, *, is_shown: bool = False) -> object:
    """A cell of CSV. A text that a spreadsheet would take for a formula begins with an apostrophe.

    Args:
        is_shown: the CSV goes to a terminal.
    """
    if not isinstance(value, str):
        return value
    text = f"'{value}" if value.startswith(_FORMULA) else value
    return plain(text) if is_shown else text


_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Beginnings of a formula (OWASP, CSV injection)."""
