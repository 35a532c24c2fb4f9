"""The contract of an adapter: what COMM asks of the code that speaks to one device, and what it gives back.

An adapter speaks one protocol to one device (or one line of them behind one connection). It knows nothing of the log,
of CORE or of the clock; COMM (field/comm.py) polls it, applies the dead band, marks a loss, reconnects, carries out
write orders and publishes diagnostics - the same way for every protocol. Third-party types stop here.

    polled      COMM asks: `poll` gives every item once                            (Adapter)
    told        the device speaks by itself: the adapter gives arrivals as they
                come, and hears what became of each                                (ToldAdapter)

An adapter may be both. Its items are then those that it polls and those that it is told.

Errors that cross this seam:

    DeviceLost    the device can't be reached, or no longer answers: COMM closes, marks every item, reconnects
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from albireo.model.command import Outcome
from albireo.model.item import DataItem
from albireo.model.samples import Column
from albireo.model.value import Value, ValueType

GOES_ON: Final = ""
"""Answer of a `SendGuard` when nothing speaks against the write."""

SendGuard = Callable[[], str]
"""Asked right before the bytes of a write leave: GOES_ON, or why it must not be sent any more."""


class DeviceLost(Exception):
    """The device does not answer, or the connection broke.

    `reason` is one line for the log, without addresses that change from time to time: an outage is logged once.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ConfigurationError(ValueError):
    """The arguments of an adapter can't work; the message says which and what to do."""


class ValueColumns(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """n values of one type."""

    value_type: ValueType
    rows: NDArray[np.intp]
    """Which items: indexes into `Adapter.items`."""
    value: Column
    """Engineering units. Where the quality is bad, the value is not meant and COMM keeps the last one."""
    quality: NDArray[np.uint32]


class PolledColumns(ValueColumns, frozen=True, eq=False, kw_only=True):
    """Values out of one poll, rows in rising order and each at most once."""

    source_ns: NDArray[np.int64] | None = None
    """The device's own wall time of each value; None: the device gives none, COMM stamps the time of the poll."""


class Arrivals(ValueColumns, frozen=True, eq=False, kw_only=True):
    """Values that a device told by itself, in the order in which they came; any number of one item, or none.

    Each is on record, except that one within the dead band of its item's last, where the item has a dead band, is not.
    """

    source_ns: NDArray[np.int64]
    """The device's wall time of each value."""


Give = Callable[[Sequence[Arrivals]], int]
"""Takes what one wake-up of the adapter brought, in order, and returns the token of it: 1, 2, 3... in this life.

Called in COMM's loop, between `connect` and the end of `close`. It waits for nothing and refuses nothing as a whole:

    a row that fits no item, or another type than its item's    left out, counted; the token is let go
    a value beyond the item's range                             UncertainEngineeringUnitsExceeded, counted
    a source time that can't be (inspection.py)                 the node's time and Uncertain, counted
    a source time before an earlier one of the item             kept as it is, counted
    more than waits for CORE at most (`queue_mib`)              the oldest go, counted; a gap record, and let go
"""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one write."""

    outcome: Outcome
    """VERIFIED, EXECUTED, MISMATCHED, REJECTED (surely never took effect) or UNKNOWN (may have)."""
    detail: str = ""
    read_back: Value | None = None


class Adapter(Protocol):
    """Speaks one protocol to one device.

    COMM never runs two of `connect`, `poll` and `close` at a time. `write` may come while `poll` waits for the
    device; an adapter whose protocol can't interleave puts a lock of its own around the exchange.
    """

    @property
    def items(self) -> Sequence[DataItem]:
        """Items that the adapter measures or sets; the same for its whole life, in the sequence that `rows` count."""
        ...

    @property
    def dead_bands(self) -> NDArray[np.float64]:
        """Width per item, engineering units: a value this close to the last sent value is not sent."""
        ...

    async def connect(self) -> None:
        """Reach the device. Called again after every `close`; a fresh start each time.

        Raises:
            DeviceLost: it can't be reached now.
        """
        ...

    async def poll(self) -> Sequence[PolledColumns]:
        """Every item that is polled once, at most one Columns per value type.

        A value that could not be had is there with a bad quality; it is never left out and never zero in its place.

        Raises:
            DeviceLost: nothing could be had.
        """
        ...

    async def write(self, row: int, value: Value, may_send: SendGuard) -> Written:
        """Write one item and read it back.

        `may_send` is asked once, after every wait and right before the bytes leave. Bytes leave at most once: no
        retry, whatever happens. Never raises DeviceLost: what is not known is Outcome.UNKNOWN.
        """
        ...

    def counters(self) -> Mapping[str, int]:
        """Totals since the start, for diagnostics items; the same keys each time, `errors` among them."""
        ...

    async def close(self) -> None:
        """Release the connection; never raises, may come twice."""
        ...


@runtime_checkable
class ToldAdapter(Adapter, Protocol):
    """Abilities of an adapter beyond `Adapter` whose device speaks by itself.

    `poll` goes on: it gives the items that are polled, which may be none, and shows that the device is there. What is
    told is no news of other items, so an item that stands still is not sent anew, and one of a device that came back is
    good again with its next arrival.

    Each token has one word, in this life of the adapter:

        committed   everything that was given under it is on record: on both members of a pair, however early the
                    stream's durability lets CORE answer. In the order in which it was given. A restart of CORE changes
                    nothing: COMM sends it again, and it stands there once.
        let go      it is not known to be on record, and COMM does not try again: the member stands by, its queue was
                    full, CORE could not take it (each is a gap on record), or a row was refused (counted, and a case).
                    An adapter whose device repeats itself gives it again, and it may then stand there twice.

    A life that ends says no more: with COMM's process, or with `close` at its stop.
    """

    def listen(self, give: Give) -> None:
        """`give` is where arrivals go. Called once, before the first `connect`."""
        ...

    def committed(self, token: int) -> None:
        """All of `token` is on record: it may be acknowledged to the device."""
        ...

    def let_go(self, token: int) -> None:
        """`token` is forgotten."""
        ...


@runtime_checkable
class WatchedAdapter(Adapter, Protocol):
    """Abilities of an adapter beyond `Adapter` that sees what is wrong."""

    def conditions(self) -> Mapping[str, bool]:
        """Name -> is wrong now, for diagnostics items with a case each; the same keys each time."""
        ...


class WriteTenure(msgspec.Struct, frozen=True, kw_only=True):
    """The tenure under which an adapter writes."""

    epoch: int
    member: int = 0
    """Index of the own member."""
    is_paired: bool = False
    """Another member may lead next: how long the kernel may still deliver a write is bounded."""


class VoterRequestRefused(msgspec.Struct, frozen=True):
    """A request to the voter's registers that did not come to what was asked."""

    reason: str
    must_close: bool
    """The connection is of no use any more: the request may still be under way, or came too late to be sent. Otherwise
    the device answered it with an exception, and nothing is under way."""


@runtime_checkable
class LedAdapter(Adapter, Protocol):
    """Abilities of an adapter beyond `Adapter` that sends to its device without an order, such as a master of a bus."""

    def led(self, tenure: WriteTenure | None, may_send: SendGuard) -> None:
        """This member acts under that tenure from now on; None: it stands by, and nothing leaves.

        `may_send` is asked right before whatever leaves. Called in the loop, before the first `connect` or later.
        """
        ...


@runtime_checkable
class PairAdapter(WatchedAdapter, Protocol):
    """Abilities of an adapter beyond `Adapter` for a member of a pair.

    An adapter without them stands by by polling slowly, guards its outputs by the lease alone, and owns no voter.
    """

    async def knock(self) -> None:
        """Ask the device for something small.

        Raises:
            DeviceLost: no answer.
        """
        ...

    async def lead(self, tenure: WriteTenure) -> str:
        """Prepare writing under `tenure`; returns at once when that was done on this connection already.

        Returns:
            why it can't be written now; GOES_ON when it can.
        """
        ...

    async def mend(self, may_send: SendGuard) -> None:
        """Set outputs again that a late order has overwritten. Each send is allowed by `may_send` right before."""
        ...

    @property
    def needs_mending(self) -> bool:
        """Outputs wait for `mend`."""
        ...

    async def read_voter(self) -> tuple[int, ...] | VoterRequestRefused:
        """Both blocks of the voter in one request, before the next block of a poll.

        Raises:
            DeviceLost: the connection is gone.
        """
        ...

    async def write_voter(
        self, member: int, register: int, words: Sequence[int], may_send: SendGuard
    ) -> VoterRequestRefused | None:
        """Write into the block of `member` in one request, before the next block of a poll. None: written.

        Raises:
            DeviceLost: the connection is gone.
        """
        ...

    async def hang_up(self) -> None:
        """Close by RST; returns when the socket is closed. Whoever waits for an answer on it learns that at once."""
        ...
