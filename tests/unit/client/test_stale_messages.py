"""Messages that nobody took while they were surely this consumer's: they are let go of, and not given."""

from albireo.client.topic_line import CamePiece, MessageInbox
from albireo.model.instant import SECOND, Instant
from albireo.runtime.clock import boot_ns
from tests.parts.served_piece import piece


def test_what_was_not_taken_in_time_is_not_given() -> None:
    inbox, gone = MessageInbox(7, 3), list[CamePiece]()
    inbox.let_go = gone.append
    late, soon = Instant(boot_ns() - 1), Instant(boot_ns() + 3_600 * SECOND)
    for number, over_at in ((1, late), (2, late), (3, soon), (4, None), (5, late)):
        inbox.put(piece(number, over_at))
    assert [one.number for one in inbox.wait(0.0)] == [3] and len(gone) == 2
    assert [one.number for one in inbox.take()] == [4]
    assert inbox.wait(0.0) == [] and len(gone) == 3
