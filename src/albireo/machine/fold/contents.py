"""Contents: what a batch of the log may hold, as its stream and kind declare it.

Whoever admits, folds, keeps back or forwards a batch asks the declaration (`declared.py`) and knows no stream itself.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

import msgspec

from albireo.codec.frame import FrameHeader
from albireo.machine.fold.origins import Enveloped
from albireo.machine.table.fold import Tables
from albireo.model.feature import FIRST_LEVEL
from albireo.model.refusal import Refusal
from albireo.model.samples import SampleBatch

Body = bytes | memoryview
Content = SampleBatch | Enveloped | Sequence[Any]
"""Part of a batch that the folds take: columns, the heads inside an envelope, or facts, each folded by its type."""


class Contents(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Contents of the batches of one stream and kind."""

    stream: IntEnum
    kind: int
    read: Callable[[FrameHeader, Body], Content]
    """Decodes the part that the folds take, all of a batch or its head only; raises DecodeError. Bodies come whole."""
    cost: Callable[[FrameHeader], int]
    """Cost of reading and folding a batch, in microseconds as measured on a slow core."""
    check: Callable[[Body, int], Content] | None = None
    """Checks all of a batch of so many records that a producer appends, and returns the same part; raises DecodeError.
    None: CORE alone appends it."""
    judge: Callable[[Tables, Content, str], Refusal | None] | None = None
    """Reason why CORE can't take a checked batch of this principal; if there is none, the batch is appended next. As a
    field None: each is taken."""
    may_be_private: bool = False
    """The payload may stay with the member that took it, and a reference stand for it (ADR-0130)."""
    goes_up: bool = False
    """A node above follows it."""
    is_secret: bool = False
    """Nobody who follows the log is given it: it stays with the members."""
    level: int = FIRST_LEVEL
    """Feature level that brought it; a log below it holds none."""
