"""The pace of a copy: how much is asked for at once, and how long the link is left to others behind each piece.

A link between members is a fast one. The link to a node below may be a slow one that carries its log too, so pieces
begin small and grow while they come quickly.

Spec: ADR-0124, ADR-0218.
"""

from typing import Final

import msgspec

from albireo.codec.tree.stored import PIECE_BYTES
from albireo.model.instant import SECOND, Instant
from albireo.model.piece_pace import PiecePace

RATE_BYTES_PER_S: Final = 16 << 20
"""Bound of the rate: an eighth of a 1 Gbit/s link; a terabyte takes 18 h."""
SHARE: Final = 4
"""A piece that took t is followed by a pause of (SHARE - 1) t."""
ANSWER_NS: Final = 2 * SECOND
"""Time without an answer after which the question is asked again."""


class CopyConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one copy: source and pace."""

    node: str = ""
    """Node below whose history is copied from the node itself; empty: the own one, from the other member."""
    source: str = "the other member's history"
    """Words for the source, for people."""
    answer_ns: int = ANSWER_NS
    """Time without an answer after which the question is asked again, and longest pause behind a piece."""
    rate_bytes_per_s: int = RATE_BYTES_PER_S
    piece_bytes_min: int = PIECE_BYTES
    """Bytes of the first piece, and of each on a slow link."""


FROM_MEMBER: Final = CopyConfig()
FROM_BELOW: Final = CopyConfig(
    answer_ns=10 * SECOND, rate_bytes_per_s=4 << 20, piece_bytes_min=8 << 10, source="the history of the node itself"
)


class CopyPace:
    """The pace of one copy."""

    def __init__(self, config: CopyConfig) -> None:
        self.pieces = PiecePace(config.piece_bytes_min, PIECE_BYTES)
        self.free_at = Instant(0)
        """When the next piece may be asked for."""
        self._config = config
        self._asked_at = Instant(0)

    def asked(self, now: Instant) -> None:
        """A piece is asked for."""
        self._asked_at = now

    def carried(self, piece_bytes: int, now: Instant) -> None:
        """The piece came."""
        config, took_ns = self._config, now - self._asked_at
        rest_ns = max((SHARE - 1) * took_ns, piece_bytes * SECOND // config.rate_bytes_per_s - took_ns)
        self.free_at = Instant(now + min(rest_ns, config.answer_ns))
        self.pieces.carried(piece_bytes, took_ns)
