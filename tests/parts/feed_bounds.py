"""Parts that tests share: followers that ask for too much."""

from albireo.codec.message import FeedState
from albireo.machine.fold.state_piece import StateAsked, StatePiece


class Table:
    """A state that is always the same."""

    def state_piece(self, asked: StateAsked) -> StatePiece:
        message = FeedState(epoch=asked.epoch, position=asked.position, previous=asked.previous)
        return StatePiece(message, [], asked.since, None)
