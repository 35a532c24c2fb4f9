"""Feeds of one log: frames for whoever stores them, the latest state for whoever looks.

Followers are given what is folded, and never more. Between the folds of two logs there is nothing to serve: a hello is
left unanswered then and comes again, because what it would be told is wrong a moment later.

Spec: design/log-and-feed.md, Feed.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from albireo.codec.message import FeedAck, FeedAnswer, FeedHello
from albireo.machine.desk.owners import reserved_follower
from albireo.machine.feed.leader import Leader, LogFacts
from albireo.machine.feed.state import StateFeed
from albireo.machine.fold.declared import followed, upward
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.state_piece import PIECE_BYTES
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import LettersDrained, OneLetter
from albireo.machine.kernel.part import Footing, RootPart
from albireo.machine.kernel.turn import Moment, Turn
from albireo.machine.tree.mirror import HISTORY, NodeMirror
from albireo.model.instant import Instant, soonest
from albireo.model.position import Position
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.tree.nodes import is_below

STATE_BYTES: Final = 2 * PIECE_BYTES
"""Bytes of state, encoded and sent, at which a turn leaves the rest to the next one."""


class Feeds(RootPart):
    """Both feeds of one log: `leader` serves the frames, the other feed the latest state; and that of other nodes."""

    def __init__(self, config: RootConfig, folds: Folds, let_go: Callable[[Turn], None], *, is_complete: bool) -> None:
        """
        Args:
            let_go: the parent lacks records that are gone.
            is_complete: False: `folds` is no state to serve from, the holder will give another.
        """
        self.leader = Leader(named=config.named)
        self._config = config
        self._followers_max = config.limits.followers_max
        self._let_go = let_go
        self._others: dict[str, tuple[NodeMirror, StateFeed]] = {}
        self._served_first = 0
        self._begin(folds, is_complete=is_complete)

    def show(self, mirrors: Mapping[str, NodeMirror]) -> None:
        """Serve the state of these other nodes too, and of no more."""
        served = self._others
        self._others = {node: served.get(node) or (mirror, StateFeed(mirror)) for node, mirror in mirrors.items()}
        self.limit(self._followers_max)

    def limit(self, followers_max: int) -> None:
        """Serve so many followers of the log, and of each state."""
        self._followers_max = followers_max
        self.leader.followers_max = followers_max
        for feed in (self._state, *(feed for _, feed in self._others.values())):
            feed.followers_max = followers_max

    def _begin(self, folds: Folds, *, is_complete: bool) -> None:
        self._state = StateFeed(folds)
        self._is_complete = is_complete
        self.limit(self._followers_max)

    def restored(self, folds: Folds, *, is_complete: bool) -> None:
        """Begin both feeds anew, for the log is another now: whoever followed it says hello again."""
        self.leader = Leader(is_catching_up=self.leader.is_catching_up, named=self._config.named)
        self._begin(folds, is_complete=is_complete)

    def hears(self, letter: OneLetter, among: LettersDrained, now: Footing, turn: Turn) -> bool:
        sender, message, _, principal = letter
        if isinstance(message, FeedHello):
            at = (now.folded_to, now.moment.now, turn)
            if self.hello(sender, message, principal, *at, is_serving=now.is_serving):
                self._let_go(turn)
        elif isinstance(message, FeedAck):
            self.ack(sender, message, now.moment.now)
        else:
            return False
        return True

    def hello(
        self,
        sender: bytes,
        hello: FeedHello,
        principal: str,
        folded_to: Position,
        now: Instant,
        turn: Turn,
        *,
        is_serving: bool,
    ) -> bool:
        """Answer a hello; True: the parent lacks records that are gone."""
        if not self._is_complete:
            return False
        config = self._config
        names = {one.name for one in config.named}
        refusal = reserved_follower(hello.follower, principal, names, config.parent, config.parent_places)
        if hello.mode == "log":
            # Naming no stream means all of them, but for those that are secret, or above that do not go up.
            is_above = hello.follower == config.parent or principal in config.parent_places
            streams = tuple(
                one for one in (upward() if is_above else followed()) if not hello.streams or one in hello.streams
            )
            hello = msgspec.structs.replace(hello, streams=streams)
            refusal = refusal or (
                None if streams else Refusal(RefusalCode.ACCESS, "none of these streams is given away")
            )
        refusal = refusal or self._refusal_of(hello)
        if refusal is not None:
            turn.send(sender, FeedAnswer(verdict="refused", refusal=refusal))
            return False
        feed, facts = self._asked_for(hello, folded_to, turn, is_serving=is_serving)
        answer = feed.hello(sender, hello, facts, now, principal)
        turn.send(sender, answer)
        lacks_some = hello.follower in names and feed is self.leader and answer.verdict == "snapshot"
        if lacks_some:
            turn.note("limited", "records_let_go", key=hello.follower, follower=hello.follower, to=str(answer.position))
        return lacks_some and hello.follower == config.parent

    def _refusal_of(self, hello: FeedHello) -> Refusal | None:
        """Reason why the state of another node is not followed here; None: it is, or none is asked for."""
        if not hello.of:
            return None
        is_its_own = hello.of == hello.follower or is_below(hello.of, hello.follower)
        if is_its_own and is_below(hello.follower, self._config.node):
            cause = f"{hello.of!r} is part of the own subtree of {hello.follower!r}"
            return Refusal(RefusalCode.NOT_POSSIBLE, cause)
        if hello.mode == "state" and hello.of in self._others:
            return None
        cause = f"nothing is known of {hello.of!r} at {self._config.node}; only states of other nodes are followed here"
        return Refusal(RefusalCode.UNKNOWN_NODE, cause)

    def _asked_for(
        self, hello: FeedHello, folded_to: Position, turn: Turn, *, is_serving: bool
    ) -> tuple[StateFeed | Leader, LogFacts]:
        """The feed that a hello asks for, and what it tells of its log."""
        log = turn.log
        if hello.of:
            mirror, state = self._others[hello.of]
            return state, LogFacts(mirror.run, HISTORY, 1, mirror.position, is_serving)
        # The folds have still to take some of what is committed, or are ahead of a log that begins anew.
        known = folded_to if hello.mode == "state" else max(log.committed, folded_to)
        facts = LogFacts(self._config.log_id, log.history, log.first_sequence, known, is_serving)
        return self._state if hello.mode == "state" else self.leader, facts

    @property
    def credit_cut(self) -> int:
        """Number of times that a follower gave credit out of bounds, since the folds were given."""
        return self.leader.credit_cut + sum(one.credit_cut for one in self._states())

    def ack(self, sender: bytes, ack: FeedAck, now: Instant) -> None:
        if not self.leader.ack(sender, ack, now):
            any(one.ack(sender, ack, now) for one in self._states())

    def _states(self) -> list[StateFeed]:
        return [self._state, *(feed for _, feed in self._others.values())]

    def lost(self, sender: bytes, moment: Moment, turn: Turn) -> None:
        self.leader.lost(sender)
        for one in self._states():
            one.lost(sender)

    def pull(self, readable: Position, busy_ns: int, now: Instant, turn: Turn) -> None:
        """Have every follower that lags and has room given what is readable."""
        self.leader.passed(turn.log.end.sequence, readable.sequence, busy_ns, now)
        turn.pulls = self.leader.pulls(readable, now)

    def time_passed(self, now: Footing, turn: Turn) -> None:
        self._tell(now.folded_to, now.moment.now, turn, is_acting=now.is_serving)

    def _tell(self, folded_to: Position, now: Instant, turn: Turn, *, is_acting: bool) -> None:
        end = turn.log.end
        for to, alive in self.leader.alive(turn.epoch, folded_to, end, now, is_acting=is_acting):
            turn.send(to, alive)
        left = STATE_BYTES - self._state.time_passed(
            turn.epoch, folded_to, end, now, turn, is_acting=is_acting, room_bytes=STATE_BYTES
        )
        for node in self._in_turns():
            mirror, feed = self._others[node]
            at = mirror.position
            left -= feed.time_passed(at.epoch, at, at, now, turn, is_acting=is_acting, room_bytes=left)

    def _in_turns(self) -> list[str]:
        """Other nodes, each time beginning with another: what one turn gives of their states is bounded."""
        nodes = list(self._others)
        self._served_first = (self._served_first + 1) % max(1, len(nodes))
        return nodes[self._served_first :] + nodes[: self._served_first]

    def deadline(self, folded_to: Position) -> Instant | None:
        below = (feed.deadline(mirror.position) for mirror, feed in self._others.values())
        return soonest(self.leader.deadline(), self._state.deadline(folded_to), *below)
