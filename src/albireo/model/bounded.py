"""Bounded types: the fields of what a peer says, each with the most that is taken; the decoder checks them.

A message with a field out of bounds is malformed: it is dropped whole, counted and reported at a limited rate. So is a
frame of the log with such a record: the log keeps it, and no fold takes it.
"""

from typing import Annotated, Final

from msgspec import Meta

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
NAME_CHARS_MAX: Final = 200
"""Most characters of a name, and of a word that is one of a few."""
ENTRIES_MAX: Final = 1_000_000
"""Most entries of one list: as many as a node has items."""
TEXT_CHARS_MAX: Final = 10_000
"""Most characters of any other text."""

Count = Annotated[int, Meta(ge=0, le=INT64_MAX)]
"""Number of something, position, epoch, instant of the boot clock: as far as 64 bits with a sign go."""
Word = Annotated[int, Meta(ge=0)]
"""Random number of 64 bits: all that the wire has. It is compared and stored, and nothing is reckoned with it."""
Signed = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)]
"""Wall time, or any other number that may be below 0: what 64 bits with a sign hold."""
Number32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Register = Annotated[int, Meta(ge=0, le=2**16 - 1)]
Seat = Annotated[int, Meta(ge=0, le=1)]
"""Index of a member of a pair."""
Members = Annotated[tuple[Seat, ...], Meta(max_length=2)]
LogId = Annotated[bytes, Meta(max_length=64)]
Name = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
Text = Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]
Ids = Annotated[tuple[Number32, ...], Meta(max_length=ENTRIES_MAX)]
"""Ids of items."""
LongText = Annotated[str, Meta(max_length=1_000_000)]
"""Text of a declaration. CORE refuses shorter ones too, and says so (machine/desk/registry.py)."""
Words = Annotated[tuple[Register, ...], Meta(max_length=128)]
"""Registers of a voter: two blocks, and some to spare."""
Streams = Annotated[tuple[Register, ...], Meta(max_length=256)]
Counts = Annotated[dict[Name, Count], Meta(max_length=64)]
"""Counts by reason."""
Fields = Annotated[dict[str, object], Meta(max_length=64)]
"""Fields of a log line."""
