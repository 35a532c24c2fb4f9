"""Credit: how many bytes may be on the way to a follower, within bounds whatever it says."""

from collections import deque
from typing import Final

from albireo.model.position import Position

CREDIT_BYTES_MAX: Final = 64 << 20
"""Most credit of one follower; a history gives 8 MiB."""
UNDER_WAY_MAX: Final = 4_096
"""Most pieces on the way to one follower, however small they are."""
PIECES_UNDER_WAY: Final = 4


class Credit:
    """Credit of one follower, within its bounds: what it gave, less what is on the way and not yet received."""

    __slots__ = ("given", "under_way", "under_way_bytes")

    def __init__(self, credit_bytes: int) -> None:
        self.give(credit_bytes)
        self.under_way: deque[tuple[Position, int, int]] = deque()
        """Last position and size of each piece, and its number among those of one position."""
        self.under_way_bytes = 0

    def give(self, credit_bytes: int) -> bool:
        """Take the credit that a follower gives; False: it was out of bounds, and is cut to them."""
        self.given = min(max(credit_bytes, 0), CREDIT_BYTES_MAX)
        return self.given == credit_bytes

    def sent(self, last: Position, size_bytes: int, number: int = 0) -> None:
        self.under_way.append((last, size_bytes, number))
        self.under_way_bytes += size_bytes

    def received(self, position: Position, pieces: int = 0) -> None:
        """Everything up to a position has arrived, and so many pieces of what leads to the next one."""
        under_way = self.under_way
        while under_way and under_way[0][0] <= position:
            self.under_way_bytes -= under_way.popleft()[1]
        ahead = under_way[0][0] if under_way else position
        while under_way and under_way[0][0] == ahead and under_way[0][2] < pieces:
            self.under_way_bytes -= under_way.popleft()[1]

    def piece(self, least: int, most: int) -> int:
        """Most bytes of the next piece: several are under way at once, so that what is given never rests on one."""
        return min(most, max(least, min(self.left, self.given // PIECES_UNDER_WAY)))

    @property
    def left(self) -> int:
        return self.given - self.under_way_bytes if len(self.under_way) < UNDER_WAY_MAX else 0
