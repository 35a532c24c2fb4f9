"""Findings of `albireo doctor`."""

from typing import Literal

import msgspec

Status = Literal["good", "warning", "failed", "unknown"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to one question."""

    name: str
    status: Status
    value: str
    remedy: str = ""
    """Empty where nothing is to be done."""
