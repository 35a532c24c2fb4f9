"""The links of one actor: which of them are due, and who gets their letters.

A link is due when its descriptor became readable, when a drain left something over, or when a send may have swallowed
the descriptor's signal. Links wait in the order in which they became due; a link that was cut short comes last.
"""

import asyncio
import os
from collections.abc import Callable, Sequence

import msgspec

from albireo.codec.errors import DecodeError
from albireo.runtime.link.link import Letter, Link
from albireo.runtime.link.sockets import Sockets
from albireo.runtime.loop import ActorLoop


class TurnLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Most that one wake-up drains. A behaviour sets its own in `start`: `actor.turn_limits = TurnLimits(...)`."""

    letters_max: int = 256
    bytes_max: int = 2 * 1024 * 1024
    """Bytes after which no further message is taken in this turn. A single larger one is still taken whole."""


class ActorLinks:
    """Links that the actor's loop watches, and drains in its turns."""

    def __init__(
        self,
        sockets: Sockets,
        turn_soon: Callable[[], object],
        on_malformed: Callable[[Link, bytes, DecodeError], object],
    ) -> None:
        self.sockets = sockets
        self.is_in_turn = False
        """True, set by the actor: a send is followed up at the end of the turn instead of at once."""
        self._turn_soon = turn_soon
        self._on_malformed = on_malformed
        self._loop = asyncio.get_running_loop()
        self._due: dict[Link, None] = {}
        self._sent_in_turn: set[Link] = set()
        self._takers: dict[Link, Callable[[Sequence[Letter]], object]] = {}
        self._is_listening = False

    def watch(self, link: Link, taker: Callable[[Sequence[Letter]], object] | None = None) -> Link:
        """Have the loop look after a link.

        Args:
            link: open.
            taker: gets its letters; None: the behaviour does.
        """
        link.on_malformed = self._on_malformed
        link.on_sent = self._sent
        link.at_close.append(lambda: self._unlisten(link))
        if taker is not None:
            self._takers[link] = taker
        if self._is_listening:
            self._listen(link)
        return link

    def listen(self) -> None:
        """Take letters from now on. A descriptor that nobody drains during the start would keep the loop busy."""
        self._is_listening = True
        for link in self.sockets.links:
            if not link.is_closed:
                self._listen(link)

    @property
    def is_due(self) -> bool:
        return bool(self._due) and self._is_listening

    @property
    def malformed(self) -> int:
        """Malformed messages on all links."""
        return sum(link.malformed for link in self.sockets.links)

    def drain(self, limits: TurnLimits) -> list[Letter]:
        """Letters for the behaviour, from the links that are due. A link that a bound cuts short becomes the last."""
        count_left, bytes_left = limits.letters_max, limits.bytes_max
        letters: list[Letter] = []
        for link in list(self._due):
            if count_left <= 0 or bytes_left <= 0:
                break
            del self._due[link]
            if link.is_closed:
                continue
            drained = link.drain(count_left, bytes_left)
            count_left -= drained.count
            bytes_left -= drained.bytes_taken
            if not drained.is_empty:
                self._due[link] = None
            if (taker := self._takers.get(link)) is not None:
                taker(drained.letters)
            else:
                letters += drained.letters
        return letters

    def end_turn(self) -> None:
        """Ask the links that sent in this turn for input, because a send may have swallowed their signal."""
        self._due |= {link: None for link in self._sent_in_turn if not link.is_closed and link.has_input()}
        self._sent_in_turn.clear()

    def _listen(self, link: Link) -> None:
        if isinstance(self._loop, ActorLoop):
            self._loop.watch(link.descriptor(), lambda: self._readable(link))
        else:
            self._loop.add_reader(link.descriptor(), self._readable, link)
        self._readable(link)

    def _unlisten(self, link: Link) -> None:
        if isinstance(self._loop, ActorLoop):
            self._loop.unwatch(link.descriptor())
        else:
            self._loop.remove_reader(link.descriptor())

    def _readable(self, link: Link) -> None:
        # Not the turn itself: several links and calls of one round are one turn, so that the timers come between two.
        self._due[link] = None
        self._turn_soon()

    def _sent(self, link: Link) -> None:
        """Have the socket asked again after a send: in a turn once at its end, else at once.

        After the first message of a turn the CPU is left to the thread that carries it away, which on a full machine
        would begin when the turn is over (ADR-0133).
        """
        if self.is_in_turn:
            if not self._sent_in_turn:
                os.sched_yield()
            self._sent_in_turn.add(link)
        elif link.has_input():
            self._readable(link)
