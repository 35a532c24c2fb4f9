"""Cases: every way of misbehaving by name, and what may be seen of a unit that does it.

Each unit of a case has the registers of `ADDRESSES`, which lie in three blocks, so that one can be wrong and the others
right.
"""

from typing import Final

import msgspec

from albireo.plant.unruly import manners
from albireo.plant.unruly.device import COUNTER, Manner

ADDRESSES: Final = (*range(6), *range(40, 46), COUNTER)
LACKED: Final = 3
"""Address that a unit lacks, or does not like."""


class UnrulyCase(msgspec.Struct, frozen=True):
    """One way of misbehaving."""

    what: str
    """Description for people."""
    manner: Manner
    bad: tuple[int, ...] = ADDRESSES
    """Addresses of which no value may be shown as good once the device is known."""
    hangs_up: bool = False
    """It ends connections, or leaves the adapter no other choice."""


def cases(timeout_s: float) -> dict[str, UnrulyCase]:
    """All of them, for an adapter that waits `timeout_s` for an answer."""
    slow_s, too_late_s = 0.5 * timeout_s, 1.5 * timeout_s
    return {**_QUICK, **_slow(slow_s, too_late_s)}


_QUICK: Final[dict[str, UnrulyCase]] = {
    "silent": UnrulyCase("nobody is there", manners.silent),
    "lacks-an-address": UnrulyCase("one address is refused (2)", manners.lacks(LACKED), (LACKED,)),
    "lacks-two-addresses": UnrulyCase("two addresses are refused (3)", manners.lacks(1, 43, code=3), (1, 43)),
    "reads-few-registers": UnrulyCase("no more than 4 registers at once (3)", manners.reads_at_most(4), ()),
    "silent-about-an-address": UnrulyCase(
        "a request that touches one address is not answered", manners.silent_about(LACKED), (LACKED,)
    ),
    "hangs-up-at-an-address": UnrulyCase(
        "a request that touches one address ends the connection", manners.hangs_up_at(LACKED), (LACKED,), hangs_up=True
    ),
    "hangs-up-after-each": UnrulyCase(
        "the connection ends behind each answer", manners.hangs_up_after_each, (), hangs_up=True
    ),
    "lacks-the-function": UnrulyCase("no such function (1)", manners.refuses(1)),
    "busy": UnrulyCase("always busy (6)", manners.refuses(6)),
    "unknown-exception": UnrulyCase("an exception that no standard knows", manners.refuses(0x77)),
    "without-number": UnrulyCase("transaction number 0 in each answer", manners.without_number, ()),
    "with-other-number": UnrulyCase("another transaction number", manners.with_other_number),
    "as-other-unit": UnrulyCase("another unit's number", manners.as_other_unit),
    "as-other-function": UnrulyCase("the answer to another function", manners.as_other_function),
    "exception-of-other-function": UnrulyCase("an exception to another function", manners.exception_of_other_function),
    "as-no-function": UnrulyCase("a function that nobody knows", manners.as_no_function),
    "too-short": UnrulyCase("a register less than was asked for", manners.too_short),
    "too-long": UnrulyCase("a register more than was asked for", manners.too_long),
    "miscounted": UnrulyCase("a wrong count of bytes", manners.miscounted),
    "half-only": UnrulyCase("half of a frame, and no more", manners.half_only, hangs_up=True),
    "behind-another-frame": UnrulyCase("an old frame before the right one", manners.behind_another_frame, ()),
    "within-another-frame": UnrulyCase(
        "the beginning of another frame before the right one", manners.within_another_frame, hangs_up=True
    ),
    "twice": UnrulyCase("every answer twice", manners.twice, ()),
    "byte-by-byte": UnrulyCase("each byte in a packet of its own", manners.byte_by_byte, ()),
    "noise": UnrulyCase("bytes that are no frame", manners.noise(b"\xff" * 300), hangs_up=True),
    "web-server": UnrulyCase(
        "the answer of a web server", manners.noise(b"HTTP/1.1 400 Bad Request\r\n\r\n"), hangs_up=True
    ),
}


def _slow(slow_s: float, too_late_s: float) -> dict[str, UnrulyCase]:
    """Those that depend on the time limit: answers that come slowly, and that come too late."""
    return {
        "gateway-says-silent": UnrulyCase(
            "the gateway says after a while that nobody is there (11)", manners.refuses(11, slow_s)
        ),
        "gateway-has-no-path": UnrulyCase(
            "the gateway says after a while that it has no path (10)", manners.refuses(10, slow_s)
        ),
        "late": UnrulyCase("right answers, too late", manners.late(too_late_s)),
        "late-without-number": UnrulyCase(
            "right answers, too late, with transaction number 0", manners.late_without_number(too_late_s), hangs_up=True
        ),
        "in-halves": UnrulyCase(
            "half of a frame in time, the rest too late", manners.in_halves(too_late_s), hangs_up=True
        ),
    }
