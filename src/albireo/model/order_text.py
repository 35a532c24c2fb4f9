"""Bounds of the texts and times of an order, of every kind."""

from typing import Annotated, Final

from msgspec import Meta

EXPIRES_MS_MAX: Final = 3_600_000


TEXT_CHARS_MAX: Final = 1_000
"""Most characters of id, user, reason, text value and a receipt's detail, each: records have to fit into a frame."""


OrderText = Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]
