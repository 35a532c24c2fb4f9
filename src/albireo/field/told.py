"""Told: what a device of a `ToldAdapter` told by itself, from its arrival to the word of what became of it.

    give --> inspection.py --> dead_band.py --> batches of the producer, with numbers
                  |                                    |
         a row is refused                 committed up to a number, or lost
                  |                                    |
               let go                          committed, or let go

The producer's queue is the mailbox of arrivals: bounded in bytes, the oldest dropped, counted and a gap record.

Invariant: a token that was given has at most one word; those that are committed hear so in the order of the tokens.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

import msgspec

from albireo.field.contract import Arrivals, ToldAdapter
from albireo.field.dead_band import DeadBand, PollNews
from albireo.field.inspection import Inspection
from albireo.machine.producer.producer import Producer
from albireo.model.instant import Instant, WallTime


class _Given(msgspec.Struct):
    """Tokens that have one fate."""

    first: int
    last: int
    last_batch: int
    """Number of the last batch of them."""
    is_let_go: bool = False


class ToldSide:
    """Arrivals and tokens of one adapter, in one life of it."""

    def __init__(self, adapter: ToldAdapter) -> None:
        self._adapter = adapter
        self.inspection = Inspection(adapter.items)
        self._token = 0
        self._batches: OrderedDict[int, _Given] = OrderedDict()
        """Tokens of each batch that waits for its word, by its number."""
        self._words: deque[tuple[Callable[[int], None], int, int]] = deque()
        """Words to say, each to a range of tokens."""
        self._said = asyncio.Event()

    def next_token(self) -> int:
        self._token += 1
        return self._token

    def news(self, arrivals: Sequence[Arrivals], band: DeadBand, now: Instant, node_ns: WallTime) -> PollNews:
        """The part of what was given that goes out."""
        inspected = [self.inspection.inspect(one, node_ns) for one in arrivals]
        found = [band.arrive(one.arrivals, one.is_late, now, node_ns) for one in inspected if one is not None]
        return PollNews(
            batches=tuple(batch for one in found for batch in one.batches),
            losses=tuple(loss for one in found for loss in one.losses),
        )

    def promise(self, token: int, first_batch: int, last_batch: int) -> None:
        """The token's word is that of these batches. Without any it is that of the tokens before it."""
        if first_batch <= last_batch:
            given = _Given(token, token, last_batch)
            self._batches.update((number, given) for number in range(first_batch, last_batch + 1))
        elif not self._batches:
            self._say(self._adapter.committed, token, token)
        elif (newest := next(reversed(self._batches.values()))).is_let_go or newest.last != token - 1:
            # Kept one by one, such tokens would be many while CORE is away and a device tells nothing new.
            self.let_go(token)
        else:
            newest.last = token

    def let_go(self, token: int) -> None:
        self._say(self._adapter.let_go, token, token)

    def hear(self, producer: Producer) -> None:
        """Learn what became of the batches."""
        while producer.batches.lost:
            self._let_go(self._batches.pop(producer.batches.lost.popleft(), None))
        while self._batches and next(iter(self._batches)) <= producer.batches.committed:
            number, given = self._batches.popitem(last=False)
            if number == given.last_batch and not given.is_let_go:
                self._say(self._adapter.committed, given.first, given.last)

    def forget(self) -> None:
        """Another run begins: what is not committed by now is let go."""
        for given in self._batches.values():
            self._let_go(given)
        self._batches.clear()

    def _let_go(self, given: _Given | None) -> None:
        if given is not None and not given.is_let_go:
            given.is_let_go = True
            self._say(self._adapter.let_go, given.first, given.last)

    def _say(self, word: Callable[[int], None], first: int, last: int) -> None:
        self._words.append((word, first, last))
        self._said.set()

    async def serve(self) -> None:
        """Say the words, never from within `give`, whose token the adapter does not have yet; until cancelled."""
        while True:
            await self._said.wait()
            self._said.clear()
            while self._words:
                word, first, last = self._words.popleft()
                for token in range(first, last + 1):
                    word(token)
