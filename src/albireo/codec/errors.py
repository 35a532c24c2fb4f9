"""What a decoder says of bytes that are not what they should be.

DecodeError          the bytes cannot be what they claim; carries the offset and a reason
"""


class DecodeError(ValueError):
    """Hostile, torn or foreign bytes: counted by the shell, never fatal to an actor."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"at byte {offset}: {reason}")
        self.offset = offset
        self.reason = reason
