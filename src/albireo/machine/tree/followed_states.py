"""Followed states: those of the nodes behind one neighbour, each in a mirror, from the member of it that acts.

    member's line is up --> asked whether it acts, for a pair has two members --> chosen: each state is followed there
    nobody acts         --> no state looks live any more

A mirror that has taken a state goes on from there on a new line, if the neighbour still runs, and behind the pieces
that it has of the next one; else it takes the whole. A state that is on its way for longer than `UNHEARD_NS` is not
live, because it may tell of that long ago; the next one will be.

Not decided here: which lines there are (child.py, beyond.py), what is shown (mirror.py).
Spec: design/tree.md, Links.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from albireo.codec.errors import DecodeError
from albireo.codec.message import FeedAlive, FeedAnswer, FeedState, RoleAsked, RoleTold
from albireo.machine.feed.follower import (
    Deliver,
    Digested,
    Effect,
    Follower,
    FollowerConfig,
    LinkDown,
    LinkUp,
    Noted,
    Received,
    TakeSnapshot,
    TellLeader,
)
from albireo.machine.fold.state_piece import PIECE_BYTES
from albireo.machine.kernel.turn import Moment, Turn
from albireo.machine.producer.seeking import AskRole, Chose, LineDown, LineUp, RoleHeard, SeekConfig, Seeker
from albireo.machine.producer.seeking import Effect as SeekerEffect
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.instant import SECOND, Instant, TimePassed, soonest
from albireo.model.item import KnownItem

UNHEARD_NS: Final = 3 * SECOND
"""Silence of a neighbour's line after which it counts no more; a neighbour says hello each second."""
WINDOW_BYTES: Final = 8 << 10
"""Bytes on the way at first: less than a second's on each link of a cable that carries 16 kB/s."""
ITEM_BYTES: Final = 100
"""Usual size of a declaration, which is no raw part of its message."""

Raw = Sequence[bytes | memoryview]


class StateWish(msgspec.Struct, frozen=True):
    """One state that is followed, and where it goes."""

    of: str
    """Node below or beyond the neighbour; empty: the neighbour itself."""
    mirror: NodeMirror
    declared: Callable[[], Mapping[int, KnownItem]] = dict
    """Items of the node as its log tells, by id; none of a node whose log is not copied."""


class FollowedStates:
    """The machine of one neighbour; lives as long as a tenure."""

    def __init__(self, own_node: str, neighbour: str, wishes: Sequence[StateWish]) -> None:
        self.refused = 0
        """Number of messages that could not be taken."""
        self.trouble = ""
        """Last reason why a state is not followed; empty: they are."""
        self._own_node = own_node
        self._neighbour = neighbour
        self._wishes = list(wishes)
        self._lines: dict[int, bytes] = {}
        """Link to each member that is up."""
        self._seeker = Seeker(SeekConfig(), Instant(0))
        self._begun: dict[int, Moment] = {}
        """Moment at which the first piece came of each delta that is on its way, by the channel of its feed."""
        self._absent_since: Instant | None = None
        """Instant since which nobody is known to act; None: somebody is, or it was not looked yet."""
        self._followers = [
            Follower(
                FollowerConfig(
                    name=own_node,
                    mode="state",
                    of=one.of,
                    channel=channel,
                    capacity_bytes=PIECE_BYTES,
                    window_bytes=max(1, WINDOW_BYTES // len(wishes)),
                )
            )
            for channel, one in enumerate(wishes)
        ]

    @property
    def chosen(self) -> int | None:
        """Member that acts, as it says itself; None: none is known to."""
        return self._seeker.chosen

    @property
    def line(self) -> bytes | None:
        """Link to that member."""
        return None if self.chosen is None else self._lines.get(self.chosen)

    def deadline(self) -> Instant | None:
        """When `time_passed` is due."""
        late = (Instant(at.now + UNHEARD_NS) for number, at in self._begun.items() if self._looks_live(number))
        return soonest(self._seeker.deadline(), *(one.deadline() for one in self._followers), *late)

    def _looks_live(self, channel: int) -> bool:
        return self._wishes[channel].mirror.stale_since_ns is None

    def line_up(self, member: int, to: bytes, moment: Moment, turn: Turn) -> bool:
        """A link to a member is there, maybe in the place of another one; True: another member is chosen, or none."""
        self._lines[member] = to
        return self._sought(self._seeker.step(LineUp(member), moment.now), moment, turn)

    def line_down(self, member: int, moment: Moment, turn: Turn) -> bool:
        """The link to a member has ended, or is silent; returns as `line_up`."""
        self._lines.pop(member, None)
        return self._sought(self._seeker.step(LineDown(member), moment.now), moment, turn)

    def role_told(self, member: int, role: RoleTold, moment: Moment, turn: Turn) -> bool:
        """A member said whether it acts; returns as `line_up`."""
        return self._sought(self._seeker.step(RoleHeard(member, role), moment.now), moment, turn)

    def heard(self, message: FeedAnswer | FeedState | FeedAlive, raw: Raw, moment: Moment, turn: Turn) -> None:
        """Take what the member that acts says of a state."""
        if message.channel < len(self._followers):
            size_bytes = sum(len(part) for part in raw)
            size_bytes += ITEM_BYTES * len(message.items) if isinstance(message, FeedState) else 0
            follower = self._followers[message.channel]
            self._followed(follower, follower.step(Received(message, size_bytes), moment.now), raw, moment, turn)

    def time_passed(self, moment: Moment, turn: Turn) -> bool:
        """Returns as `line_up`."""
        is_moved = self._sought(self._seeker.step(TimePassed(), moment.now), moment, turn)
        self._notice_absence(moment)
        for channel, begun in self._begun.items():
            if moment.now - begun.now >= UNHEARD_NS:
                self._wishes[channel].mirror.unheard(begun.wall)
        for follower in self._followers:
            self._followed(follower, follower.step(TimePassed(), moment.now), (), moment, turn)
        return is_moved

    def _notice_absence(self, moment: Moment) -> None:
        """Let nothing look live while nobody speaks for it, also if this tenure never heard of it."""
        if self.chosen is not None:
            self._absent_since = None
        elif self._absent_since is None:
            self._absent_since = moment.now
        elif moment.now - self._absent_since >= UNHEARD_NS:
            self._unheard(moment)

    def _unheard(self, moment: Moment) -> None:
        for one in self._wishes:
            one.mirror.unheard(moment.wall)

    def _sought(self, effects: Sequence[SeekerEffect], moment: Moment, turn: Turn) -> bool:
        is_moved = False
        for effect in effects:
            match effect:
                case AskRole(member):
                    if member in self._lines:
                        turn.send(self._lines[member], RoleAsked(adapter=self._own_node))
                case Chose(None):
                    is_moved = True
                    for follower in self._followers:
                        follower.step(LinkDown(), moment.now)
                    self._unheard(moment)
                case Chose():
                    is_moved = True
                    for follower in self._followers:
                        follower.epoch = 0  # That of a member which was restored is lower; who acts was chosen already.
                        self._followed(follower, follower.step(LinkUp(), moment.now), (), moment, turn)
        return is_moved

    def _followed(self, follower: Follower, effects: Sequence[Effect], raw: Raw, moment: Moment, turn: Turn) -> None:
        for effect in effects:
            match effect:
                case TellLeader(message):
                    if self.line is not None:
                        turn.send(self.line, message)
                case Deliver(FeedState() as state):
                    self._take(follower, state, raw, moment, turn)
                case TakeSnapshot():  # What is shown is of another run, or branch; the state may be long on its way.
                    self._wishes[follower.config.channel].mirror.unheard(moment.wall)
                case Noted(event="refused" | "behind" as event, detail=detail):
                    self._tell_trouble(f"{event}: {detail}", turn)
                case Noted(event="stale_epoch"):  # The member was restored while its line stayed: it is asked again.
                    follower.epoch = 0
                case _:
                    pass

    def _take(self, follower: Follower, state: FeedState, raw: Raw, moment: Moment, turn: Turn) -> None:
        channel = follower.config.channel
        if state.piece == 0:
            self._begun[channel] = moment
        begun = self._begun[channel]
        if not state.goes_on:
            del self._begun[channel]
        is_late = moment.now - begun.now >= UNHEARD_NS
        try:
            wish = self._wishes[channel]
            wish.mirror.take(state, raw, wish.declared().get, begun.wall if is_late else None)
        except DecodeError as error:
            self.refused += 1
            self._tell_trouble(f"state: {error}", turn)
            self._followed(follower, follower.step(LinkUp(), moment.now), (), moment, turn)
            return
        self.trouble = ""
        if wish.mirror.trouble:
            self._tell_trouble(f"state: {wish.mirror.trouble}", turn)
        self._followed(follower, follower.step(Digested(state.position), moment.now), (), moment, turn)

    def _tell_trouble(self, why: str, turn: Turn) -> None:
        self.trouble = why
        turn.note("limited", "state_not_followed", key=self._neighbour, node=self._neighbour, why=why)
