"""Error of every decoder.

DecodeError          the bytes are not in the format that they claim; carries the offset and a reason
"""


class DecodeError(ValueError):
    """Hostile, torn or foreign bytes: counted by the shell, never fatal to an actor."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"at byte {offset}: {reason}")
        self.offset = offset
        self.reason = reason
