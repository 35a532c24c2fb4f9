"""Bounds of a producer."""

from typing import Final

import msgspec

from albireo.machine.producer.flight import MESSAGE_BYTES
from albireo.model.instant import SECOND

RUN_MAX: Final = 2**32 - 1
"""Largest number that a program draws for itself as a producer; the least is 1."""


class ProducerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of one producer."""

    queue_bytes_max: int = 32 << 20
    """Waiting and in flight together. At 400 items and 10 Hz, all of them moving, four minutes without CORE."""
    answer_timeout_ns: int = 2 * SECOND
    """Silence after which hello is said again; doubles up to `answer_timeout_ns_max` while nothing comes."""
    answer_timeout_ns_max: int = 15 * SECOND
    """A slow disk must not be answered with more load."""
    admission_pause_ns: int = 1 * SECOND
    """Wait after a refusal for want of room; then one batch is sent to ask again."""

    def __post_init__(self) -> None:
        if self.queue_bytes_max < MESSAGE_BYTES:
            raise ValueError(f"queue_bytes_max must hold at least one message of {MESSAGE_BYTES} bytes")
        if not 0 < self.answer_timeout_ns <= self.answer_timeout_ns_max or self.admission_pause_ns <= 0:
            raise ValueError("0 < answer_timeout_ns <= answer_timeout_ns_max and admission_pause_ns > 0")
