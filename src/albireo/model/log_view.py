"""One log at one instant, as the machines see it that decide about it.

The log alone writes these positions; a machine gets them with every event and keeps none of its own.
"""

import msgspec

from albireo.model.position import BEGINNING, EpochHistory, Position


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """Beginning of a log: all that another log needs in order to begin there too."""

    position: Position = BEGINNING
    """Position of the last record that is not there any more."""
    header_crc: int = 0
    """CRC of the header of the frame that ended there, to which the first frame chains."""
    log_time_ms: int = 0
    """Log time at the end of that frame."""
    is_known: bool = True
    """False: the first frame can't be read, so nobody can be told where the log begins."""


class LogView(msgspec.Struct, frozen=True):
    """Positions of one log, from left to right, and its damage and refusals."""

    begin: Beginning = Beginning()
    committed: Position = BEGINNING
    """Position of the last record that readers see; never above `durable`."""
    told: Position = BEGINNING
    """Commit position as the log was told, by the own member machine or by the holder: readers see the lesser of it
    and `durable`."""
    durable: Position = BEGINNING
    """Position of the last record on this disk."""
    end: Position = BEGINNING
    """Position of the last record appended."""
    history: EpochHistory = EpochHistory()
    """Epoch history as it stands in the store header."""
    damaged_from: int = 0
    """First committed sequence that can't be read; 0: all can be read."""
    refuses_because: str = ""
    """Reason why nothing can be appended now; empty: appends are taken."""

    @property
    def first_sequence(self) -> int:
        """Lowest sequence that is there; one above `end` in an empty log."""
        return self.begin.position.sequence + 1

    @property
    def is_whole(self) -> bool:
        return not self.damaged_from

    @property
    def takes_epoch(self) -> bool:
        """True: an epoch can be granted; the store header has room for it."""
        return self.history.has_room(self.first_sequence)

    def has_epoch_of(self, position: Position) -> bool:
        """True: by its history, the record of this sequence is of that epoch."""
        return self.history.epoch_of(position.sequence) == position.epoch
