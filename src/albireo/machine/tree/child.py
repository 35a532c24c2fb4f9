"""Child: a node directly below, followed on the links that it dialled.

    its hello, each second, on both of its links --> asked whether it acts, for a pair has two members --> chosen
    chosen --> on the one link its state, and that of each node below it, into mirrors
           --> on the other link its log, into envelopes, while this node serves

State never waits behind the log, because each has a link of its own. A child of which nothing is heard for `UNHEARD_NS`
is unreachable: its items are stale, and its log goes on where it stopped once it is back.

Not decided here: what is taken of a log (copier.py), what is shown (mirror.py).
Spec: design/tree.md, Links.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from albireo.codec.frame import FRAME_BYTES_MAX
from albireo.codec.message import (
    AnyMessage,
    FeedAlive,
    FeedAnswer,
    FeedData,
    FeedState,
    RoleAsked,
    RoleTold,
)
from albireo.codec.tree.hello import ChildHello
from albireo.machine.feed.follower import (
    CutBack,
    Deliver,
    Digested,
    Effect,
    Follower,
    FollowerConfig,
    LinkDown,
    LinkUp,
    MadeDurable,
    Noted,
    Received,
    TakeSnapshot,
    TellLeader,
)
from albireo.machine.fold.declared import upward
from albireo.machine.kernel.turn import Moment, Turn
from albireo.machine.tree.copier import Copier
from albireo.machine.tree.followed_states import UNHEARD_NS, WINDOW_BYTES, FollowedStates, Raw, StateWish
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.instant import Instant, TimePassed, soonest
from albireo.model.position import Position
from albireo.model.tree.nodes import ChildConfig


class ChildLine(msgspec.Struct):
    """One of the links that a child dialled."""

    member: int
    is_bulk: bool
    heard_at: Instant
    log_id: bytes
    run: bytes
    """Run of the child's process that speaks on it."""
    earlier: bytes = b""
    """Run that spoke before it; it is over, unless it speaks again."""
    rival: bytes | None = None
    """Run that came while this one went on: that of a copy of the child's store."""


class Child:
    """The machine of one child; lives as long as a tenure."""

    def __init__(self, config: ChildConfig, own_node: str, mirrors: Mapping[str, NodeMirror], copier: Copier) -> None:
        """
        Args:
            mirrors: of the child and of the nodes below it, the child's first.
        """
        self.config = config
        self.hello: ChildHello | None = None
        """Its last hello; None: none came in this tenure."""
        self._refused = 0
        """Number of deliveries of its log that were not taken whole."""
        self._trouble = ""
        """Last reason why its log could not be followed; empty: it is."""
        self._own_node = own_node
        self._copier = copier
        self._lines: dict[bytes, ChildLine] = {}
        wishes = [
            StateWish("" if node == config.node else node, mirror, partial(copier.items_of, node))
            for node, mirror in mirrors.items()
        ]
        self._states = FollowedStates(own_node, config.node, wishes)
        self._log: Follower | None = None
        self._is_log_wanted = False
        self._pieces = bytearray()
        """Bytes that have come of a frame in pieces."""
        self._under_way: deque[tuple[int, Position]] = deque()
        """Own sequence behind each delivery of the log, and the delivery's last position."""

    @property
    def refused(self) -> int:
        """Number of deliveries that were not taken whole."""
        return self._refused + self._states.refused

    @property
    def trouble(self) -> str:
        """Last reason why its log, or a state, could not be followed; empty: they are."""
        return self._trouble or self._states.trouble

    @property
    def behind(self) -> int:
        """Number of records that the child has committed and this node has not taken; -1: not known."""
        return -1 if self._log is None else max(0, self._log.committed.sequence - self._log.position.sequence)

    @property
    def leads(self) -> str:
        """Place of the member of a pair that acts; empty: it is no pair, or none is known to."""
        chosen, places = self._states.chosen, self.config.places
        return "" if chosen is None or len(places) < 2 else places[chosen]

    @property
    def line(self) -> bytes | None:
        """The link to the member that acts, for what must not wait; None: there is none."""
        return self._states.line

    @property
    def log_line(self) -> bytes | None:
        """The link to the member that acts, for what may wait; None: there is none."""
        return None if self._states.chosen is None else self._line_to(self._states.chosen, is_bulk=True)

    def knows(self, sender: bytes) -> bool:
        return sender in self._lines

    def deadline(self) -> Instant | None:
        """When `time_passed` is due."""
        if not self._lines:
            return None
        silent = min(one.heard_at for one in self._lines.values()) + UNHEARD_NS
        log = None if self._log is None else self._log.deadline()
        return soonest(Instant(silent), self._states.deadline(), log)

    def _line_to(self, member: int, *, is_bulk: bool) -> bytes | None:
        found = (to for to, one in self._lines.items() if (one.member, one.is_bulk) == (member, is_bulk))
        return next(found, None)

    def said_hello(self, sender: bytes, hello: ChildHello, moment: Moment, turn: Turn) -> None:
        if self._is_rival(sender, hello, moment.now):
            self._refuse("two nodes say that they are this one; the one that was there first is heard", turn)
            return
        is_new_log = self.hello is not None and hello.log_id != self.hello.log_id
        for other in [to for to, one in self._lines.items() if _is_of_another(one, hello)]:
            self.lost(other, moment, turn)  # Not heard any more, so that both links are of one node.
        self.hello = hello
        known = self._lines.get(sender)
        if known is not None:
            known.heard_at = moment.now
        else:
            self._lines[sender] = self._new_line(hello, moment.now)
            if not hello.is_bulk:
                self._moved(moment, turn, is_moved=self._states.line_up(hello.member, sender, moment, turn))
        if known is None or is_new_log or (self._log is None and self._is_log_wanted):
            self._follow_log(moment, turn)
        if hello.is_bulk and (self._log is None or sender != self.log_line):
            turn.send(sender, RoleAsked(adapter=self._own_node))  # The child dials a link anew that says nothing.

    def _is_rival(self, sender: bytes, hello: ChildHello, now: Instant) -> bool:
        """Whether another node says that it is this child, while the one that was there first is still heard."""
        heard = {to: one for to, one in self._lines.items() if now - one.heard_at < UNHEARD_NS}
        before = self._line_to(hello.member, is_bulk=hello.is_bulk)
        is_copy = before in heard.keys() - {sender} and hello.run == heard[before].rival
        return is_copy or any(_is_of_another(one, hello) for one in heard.values())

    def _new_line(self, hello: ChildHello, now: Instant) -> ChildLine:
        """The line of a hello, in the place of the one before.

        A process that starts anew with the same log speaks on a new link, and its run before speaks no more. If that
        one does, there are two, and the one that came later is the rival.
        """
        line = ChildLine(hello.member, hello.is_bulk, now, hello.log_id, hello.run)
        sender = self._line_to(hello.member, is_bulk=hello.is_bulk)
        if sender is not None:
            before = self._lines.pop(sender)
            if hello.run == before.run:
                line.earlier, line.rival = before.earlier, before.rival
            elif hello.run == before.earlier:
                line.rival = before.run
            else:
                line.earlier = before.run
        return line

    def follow_log(self, moment: Moment, turn: Turn) -> None:
        """Follow the log from now on, whenever the child is there: this node serves."""
        self._is_log_wanted = True
        self._follow_log(moment, turn)

    def leave_log(self) -> None:
        """Follow the log no more, until `follow_log`: what it gives could not be recorded."""
        self._is_log_wanted = False
        self._log = None
        self._under_way.clear()

    def _follow_log(self, moment: Moment, turn: Turn) -> None:
        """Follow the log from the end of the copy, or wait for the link to be there."""
        if not self._is_log_wanted or self.hello is None or self.log_line is None:
            return
        log_id = self.hello.log_id
        config = FollowerConfig(name=self._own_node, streams=upward(), window_bytes=WINDOW_BYTES, in_pieces=True)
        self._log = Follower(config, self._copier.end_of(log_id), log_id)
        self._log.durable = self._copier.safe_of(log_id)
        self._log.epoch = 0  # As with states: who acts was chosen already.
        self._log.history = self._copier.epochs_of(log_id)
        self._under_way.clear()
        self._followed(self._log, self._log.step(LinkUp(), moment.now), (), moment, turn)

    def heard(self, sender: bytes, message: AnyMessage, raw: Raw, moment: Moment, turn: Turn) -> None:
        """Take what the child says on a link on which it said hello."""
        line = self._lines[sender]
        line.heard_at = moment.now
        match message:
            case RoleTold():
                self._moved(moment, turn, is_moved=self._states.role_told(line.member, message, moment, turn))
            case FeedAnswer() | FeedState() | FeedAlive() if sender == self._states.line:
                self._states.heard(message, raw, moment, turn)
            case FeedAnswer() | FeedData() | FeedAlive() if sender == self.log_line and self._log is not None:
                received = Received(message, sum(len(part) for part in raw))
                self._followed(self._log, self._log.step(received, moment.now), raw, moment, turn)
            case _:
                pass  # Of a member that does not act any more, or under way since before.

    def committed(self, sequence: int, moment: Moment, turn: Turn) -> None:
        """The own log is committed up to `sequence`: what lies there of the child is durable."""
        last: Position | None = None
        while self._under_way and self._under_way[0][0] <= sequence:
            last = self._under_way.popleft()[1]
        if last is not None and self._log is not None:
            for event in (MadeDurable(last), Digested(last)):
                self._followed(self._log, self._log.step(event, moment.now), (), moment, turn)

    def time_passed(self, moment: Moment, turn: Turn) -> None:
        now = moment.now
        for sender in [to for to, one in self._lines.items() if now - one.heard_at >= UNHEARD_NS]:
            self.lost(sender, moment, turn)
        self._moved(moment, turn, is_moved=self._states.time_passed(moment, turn))
        if self._log is not None:
            self._followed(self._log, self._log.step(TimePassed(), now), (), moment, turn)

    def lost(self, sender: bytes, moment: Moment, turn: Turn) -> None:
        """A link of the child has ended, or is silent."""
        line = self._lines.pop(sender)
        if not line.is_bulk:
            self._moved(moment, turn, is_moved=self._states.line_down(line.member, moment, turn))
        elif self._log is not None and line.member == self._states.chosen:
            self._log.step(LinkDown(), moment.now)

    def _moved(self, moment: Moment, turn: Turn, *, is_moved: bool) -> None:
        """Follow the log at the member that acts now, if that is another one than before; at none if nobody acts."""
        if is_moved and self._states.chosen is not None:
            self._follow_log(moment, turn)
        elif is_moved and self._log is not None:
            self._log.step(LinkDown(), moment.now)

    def _followed(self, follower: Follower, effects: Sequence[Effect], raw: Raw, moment: Moment, turn: Turn) -> None:
        for effect in effects:
            match effect:
                case TellLeader(message):
                    if self.log_line is not None:
                        turn.send(self.log_line, message)
                case Deliver(FeedData() as data):
                    self._take_log(data, raw, moment, turn)
                case CutBack(position, _):
                    self._copier.forked(follower.log_id, position, turn)
                    turn.note("error", "child_log_went_another_way", node=self.config.node, at=str(position))
                case TakeSnapshot(position):
                    self._copier.let_go(self.config.node, follower.log_id, turn)
                    turn.note("error", "child_log_pruned", node=self.config.node, pruned_to=str(position))
                case Noted(event="refused" | "behind" as event, detail=detail):
                    self._trouble = f"{event}: {detail}"
                    turn.note("limited", "child_not_followed", key=self.config.node, node=self.config.node, why=detail)
                case _:
                    pass

    def _take_log(self, data: FeedData, raw: Raw, moment: Moment, turn: Turn) -> None:
        assert self._log is not None
        log_id = self._log.log_id
        if data.piece or data.goes_on:
            self._pieces = self._pieces if data.piece else bytearray()
            self._pieces += b"".join(raw)
            if data.goes_on and len(self._pieces) < FRAME_BYTES_MAX:
                return
            raw = [bytes(self._pieces)]
        faults = [fault for part in raw if (fault := self._copier.take(self.config.node, log_id, part, turn))]
        if faults:
            self._refuse(faults[0], turn)
            self._follow_log(moment, turn)
            return
        self._trouble = ""
        self._under_way.append((turn.end, data.last))

    def _refuse(self, why: str, turn: Turn) -> None:
        self._refused += 1
        self._trouble = why
        turn.note("limited", "child_refused", key=self.config.node, node=self.config.node, why=why)


def _is_of_another(line: ChildLine, hello: ChildHello) -> bool:
    """Whether a link belongs to another node than the hello of the same child, or of the same member of it."""
    return line.member == hello.member and line.log_id != hello.log_id
