"""Mailboxes: bounded, and with a rule for what is too much."""

import pytest

from albireo.runtime.errors import MailboxFull
from albireo.runtime.mailbox import Mailbox, Overflow


def test_the_oldest_goes_and_is_counted() -> None:
    mailbox: Mailbox[int] = Mailbox("m", 3, Overflow.DROP_OLDEST)
    assert [mailbox.put(number) for number in range(5)] == [True, False, False, False, False]
    assert (mailbox.take(10), mailbox.dropped, len(mailbox)) == ([2, 3, 4], 2, 0)


def test_full_is_an_error_that_names_the_mailbox() -> None:
    mailbox: Mailbox[int] = Mailbox("calls", 1, Overflow.FAIL)
    mailbox.put(1)
    with pytest.raises(MailboxFull, match=r"calls is full \(1\)"):
        mailbox.put(2)
    assert mailbox.take(10) == [1]


@pytest.mark.parametrize(
    ("inside", "back", "kept", "dropped"),
    [
        ([], [1, 2], [1, 2], 0),
        ([3], [1, 2], [1, 2, 3], 0),
        ([3, 4], [1, 2], [2, 3, 4], 1),
        ([3, 4, 5], [1, 2], [3, 4, 5], 2),
    ],
)
def test_what_is_put_back_comes_first_again_as_far_as_there_is_room(
    inside: list[int], back: list[int], kept: list[int], dropped: int
) -> None:
    mailbox: Mailbox[int] = Mailbox("m", 3, Overflow.DROP_OLDEST)
    for number in inside:
        mailbox.put(number)
    mailbox.put_back(back)
    assert (mailbox.take(10), mailbox.dropped) == (kept, dropped)
