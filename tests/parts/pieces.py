"""All pieces of what a source of state tells."""

import msgspec

from albireo.machine.fold.state_piece import PIECE_BYTES, StateAsked, StatePiece, StateSource
from albireo.model.position import BEGINNING, Position


def pieces_since(source: StateSource, since: int, at: Position, bytes_max: int = PIECE_BYTES) -> list[StatePiece]:
    """The pieces of what changed after `since`, up to `at`."""
    asked = StateAsked(since=since, epoch=at.epoch, position=at, previous=BEGINNING, bytes_max=bytes_max)
    pieces: list[StatePiece] = []
    while True:
        piece = source.state_piece(asked)
        assert piece is not None
        pieces.append(piece)
        if piece.after is None:
            return pieces
        asked = msgspec.structs.replace(asked, since=piece.since, after=piece.after, number=asked.number + 1)
