"""Door: which requests are answered, and which message of a reader counts as read.

    closed --its member leads--> stale --the socket was empty, or waited long enough--> open --it does not--> closed
                                   ^-------------- nobody looked for a while --------------/

Only an open door answers; else what comes is dropped, so that a client with two endpoints goes to the other one. It
opens once what lay in its socket is thrown away: whoever sent that has gone on. What fails for now, or is late, is not
answered either, and comes again. Requests have no identity, so a PUT that comes again is another one.

A message counts as read once its answer left in time to a client that was there. That is put on record before the
reader's next message is given, or a moment later. A message whose answer did not leave is given again.

Invariants
    order:  a reader's next message is given after the one before is on record as read.
    bounds: OPEN_MAX requests, READERS_MAX readers, each with one that asks: the last one.

Not done here: sockets, the node (actor.py). Decision: ADR-0248.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.face.pubsub.words import PubsubRequest, failed, read_request
from albireo.model.instant import MS, SECOND, Instant

OPEN_MAX: Final = 256
"""Requests under way, besides GET; further ones are dropped."""
READERS_MAX: Final = 1_000
SETTLE_NS: Final = 200 * MS
"""Time that an answer has to leave this machine before its message counts as read."""
STALL_NS: Final = 1 * SECOND
"""Time without a look after which what lies in the socket is too old."""


class AnswerClient(msgspec.Struct, frozen=True):
    """Effect: answer a client, and tell if it left, if it is to a reader."""

    peer: bytes
    answer: bytes
    reading: PubsubRequest | None = None


class PerformRequest(msgspec.Struct, frozen=True):
    """Effect: carry out a PUT, SUBSCRIBE or UNSUBSCRIBE."""

    number: int
    request: PubsubRequest


class FetchMessage(msgspec.Struct, frozen=True):
    """Effect: have the last message on record as read, if it was; then get the next one, or else the same."""

    reading: PubsubRequest
    is_read: bool
    is_wanted: bool = True
    """False: no message is wanted."""


class ForgetReader(msgspec.Struct, frozen=True):
    """Effect: read this no more."""

    reading: PubsubRequest


class TellDropped(msgspec.Struct, frozen=True):
    """Effect: say what an open door has dropped."""

    why: str


Effect = AnswerClient | PerformRequest | FetchMessage | ForgetReader | TellDropped


class _Asked(msgspec.Struct, frozen=True):
    peer: bytes
    due: Instant


class _Reader(msgspec.Struct, eq=False):
    asked: _Asked | None = None
    """Who waits for a message."""
    is_busy: bool = False
    """A Fetch of it is under way."""


class PubsubDoor:
    """The machine. Its time passes by looks."""

    def __init__(self, patience_ns: int) -> None:
        """`patience_ns`: time after which a request is not answered any more."""
        self.is_open = False
        self._patience_ns = patience_ns
        self._looked_at = Instant(0)
        self._stale_until: Instant | None = None
        """When the door opens though its socket was never empty; None: it is closed."""
        self._count = 0
        self._asked: dict[int, _Asked] = {}
        self._readers: dict[PubsubRequest, _Reader] = {}
        """Readers by their GET; the one that asked last is the last."""
        self._left: dict[PubsubRequest, Instant] = {}
        """When answers left that are not on record as read, in their order."""

    def looked(self, letters: Sequence[Sequence[bytes]], now: Instant, *, leads: bool, is_empty: bool) -> list[Effect]:
        """The socket was looked at, as it is every 100 ms at least.

        Args:
            letters: what was taken: identity of the sender, and parts.
            leads: the own member leads.
            is_empty: nothing is left in the socket.
        """
        was_away = now - self._looked_at > STALL_NS
        self._looked_at = now
        if not leads:
            readers, self._readers, self._left = self._readers, {}, {}
            self.is_open, self._stale_until = False, None
            return [ForgetReader(one) for one in readers]
        if self._stale_until is None or was_away:
            self.is_open, self._stale_until = False, Instant(now + self._patience_ns)
        if not self.is_open:
            self.is_open = is_empty or now >= self._stale_until
            return []
        effects = [one for letter in letters for one in self._came(letter, now)]
        due = [one for one, left_at in self._left.items() if now - left_at >= SETTLE_NS]
        return effects + [self._fetch(one, is_wanted=False) for one in due if not self._readers[one].is_busy]

    def performed(self, number: int, answer: bytes | None, now: Instant) -> list[Effect]:
        """A request was carried out or refused; no answer: not now, or nobody knows."""
        asked = self._asked.pop(number)
        return [AnswerClient(asked.peer, answer)] if answer is not None and now <= asked.due else []

    def fetched(self, reading: PubsubRequest, answer: bytes | None, now: Instant) -> list[Effect]:
        """A FetchMessage ended; with an empty answer if no message was wanted, without one if it is not done now."""
        reader = self._readers.get(reading)
        if reader is None:
            return []
        reader.is_busy = False
        if self._left.pop(reading, None) is not None and answer is None:
            self._left[reading] = now  # Once more a moment later.
        if answer == b"" and reader.asked is not None:
            return [self._fetch(reading)]
        asked, reader.asked = reader.asked, None
        return [AnswerClient(asked.peer, answer, reading)] if asked is not None and answer and now <= asked.due else []

    def answer_left(self, reading: PubsubRequest, now: Instant) -> None:
        """An answer was handed to the connection of its reader, which was there."""
        if reading in self._readers:
            self._left[reading] = now

    def _came(self, letter: Sequence[bytes], now: Instant) -> list[Effect]:
        if len(letter) < 2 or letter[1]:
            return [TellDropped("it is no request of a REQ socket")]
        peer, parts = letter[0], letter[2:]
        request = read_request(parts[0]) if len(parts) == 1 else "BAD REQUEST: IT HAS ONE PART"
        if isinstance(request, str):
            return [AnswerClient(peer, failed(request))]
        asked = _Asked(peer, Instant(now + self._patience_ns))
        if request.operation == "GET":
            return self._get(request, asked)
        if len(self._asked) >= OPEN_MAX:
            return [TellDropped(f"{OPEN_MAX} requests are under way")]
        self._count += 1
        self._asked[self._count] = asked
        return [PerformRequest(self._count, request)]

    def _get(self, reading: PubsubRequest, asked: _Asked) -> list[Effect]:
        effects: list[Effect] = []
        reader = self._readers.pop(reading, None) or _Reader()
        if len(self._readers) >= READERS_MAX:
            idle = (one for one, known in self._readers.items() if not known.is_busy and one not in self._left)
            if (oldest := next(idle, None)) is None:
                return [TellDropped(f"{READERS_MAX} readers are busy")]
            del self._readers[oldest]
            effects.append(ForgetReader(oldest))
        self._readers[reading], reader.asked = reader, asked
        return effects if reader.is_busy else [*effects, self._fetch(reading)]

    def _fetch(self, reading: PubsubRequest, *, is_wanted: bool = True) -> FetchMessage:
        self._readers[reading].is_busy = True
        return FetchMessage(reading, reading in self._left, is_wanted)
