"""Messages that nobody took while they were surely this consumer's: they are let go of, and not given."""

import numpy as np

from albireo.client.topic_line import CamePiece, MessageInbox
from albireo.codec.served import decode_served, encode_served
from albireo.model.instant import SECOND, Instant
from albireo.runtime.clock import boot_ns
from tests.parts.message_columns import columns


def piece(number: int, over_at: Instant | None) -> CamePiece:
    messages = columns([(1, number, number, b"job")])
    return CamePiece(decode_served(encode_served(messages, np.zeros(1, np.uint8), {1: "jobs"})), 0, over_at)


def test_what_was_not_taken_in_time_is_not_given() -> None:
    inbox, gone = MessageInbox(7, 3), list[CamePiece]()
    inbox.let_go = gone.append
    late, soon = Instant(boot_ns() - 1), Instant(boot_ns() + 3_600 * SECOND)
    for number, over_at in ((1, late), (2, late), (3, soon), (4, None), (5, late)):
        inbox.put(piece(number, over_at))
    assert [one.number for one in inbox.wait(0.0)] == [3] and len(gone) == 2
    assert [one.number for one in inbox.take()] == [4]
    assert inbox.wait(0.0) == [] and len(gone) == 3
