"""Feeds of one log: frames for whoever stores them, the latest state for whoever looks.

Followers are given what is folded, and never more. Between the folds of two logs there is nothing to serve: a hello is
left unanswered then and comes again, because what it would be told is wrong a moment later.

Spec: design/log-and-feed.md, Feed.
"""

from collections.abc import Mapping

from albireo.codec.message import FeedAck, FeedAnswer, FeedHello
from albireo.machine.feed.leader import Leader, LogFacts
from albireo.machine.feed.state import StateFeed
from albireo.machine.fold.folds import Folds
from albireo.machine.node.owners import reserved_follower
from albireo.machine.node.role import RootConfig
from albireo.machine.node.turn import Turn
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.instant import Instant, soonest
from albireo.model.position import Position


class Feeds:
    """Both feeds of one log: `leader` serves the frames, the other feed the latest state; and that of nodes below."""

    def __init__(self, config: RootConfig, folds: Folds, *, is_complete: bool) -> None:
        """
        Args:
            is_complete: False: `folds` is no state to serve from, the holder will give another.
        """
        self.leader = Leader()
        self._config = config
        self._below: dict[str, tuple[NodeMirror, StateFeed]] = {}
        self._begin(folds, is_complete=is_complete)

    def show(self, mirrors: Mapping[str, NodeMirror]) -> None:
        """Serve the state of these nodes below too."""
        for node, mirror in mirrors.items():
            if node not in self._below:
                self._below[node] = mirror, StateFeed(mirror)

    def _begin(self, folds: Folds, *, is_complete: bool) -> None:
        self._state = StateFeed(folds)
        self._is_complete = is_complete

    def restored(self, folds: Folds, *, is_complete: bool) -> None:
        """Begin both feeds anew, for the log is another now: whoever followed it says hello again."""
        self.leader = Leader(is_catching_up=self.leader.is_catching_up)
        self._begin(folds, is_complete=is_complete)

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
        above = (self._config.parent, self._config.parent_places)
        objection = reserved_follower(hello.follower, principal, *above, is_named=hello.is_named)
        if not objection and hello.of and (hello.mode != "state" or hello.of not in self._below):
            objection = (
                f"{hello.of!r} is no node below {self._config.node}; only the state of such nodes is followed here"
            )
        if objection:
            turn.send(sender, FeedAnswer(verdict="refused", reason=objection))
            return False
        log = turn.log
        # The folds have still to take some of what is committed, or are ahead of a log that begins anew.
        known = max(log.committed, folded_to)
        facts = LogFacts(self._config.log_id, log.history, log.first_sequence, known, is_serving)
        feed: StateFeed | Leader = self._state if hello.mode == "state" else self.leader
        if hello.of:
            feed = self._below[hello.of][1]
        answer = feed.hello(sender, hello, facts, now, principal)
        turn.send(sender, answer)
        is_of_parent = hello.is_named and hello.follower == self._config.parent
        return is_of_parent and feed is self.leader and answer.verdict == "snapshot"

    @property
    def credit_cut(self) -> int:
        """Number of times that a follower gave credit out of bounds, since the folds were given."""
        return self.leader.credit_cut + sum(one.credit_cut for one in self._states())

    def ack(self, sender: bytes, ack: FeedAck, now: Instant) -> None:
        if not self.leader.ack(sender, ack, now):
            any(one.ack(sender, ack, now) for one in self._states())

    def _states(self) -> list[StateFeed]:
        return [self._state, *(feed for _, feed in self._below.values())]

    def lost(self, sender: bytes) -> None:
        self.leader.lost(sender)
        for one in self._states():
            one.lost(sender)

    def pull(self, readable: Position, busy_ns: int, now: Instant, turn: Turn) -> None:
        """Have every follower that lags and has room given what is readable."""
        self.leader.passed(turn.log.end.sequence, readable.sequence, busy_ns, now)
        turn.pulls = self.leader.pulls(readable, now)

    def time_passed(self, folded_to: Position, now: Instant, turn: Turn, *, is_acting: bool) -> None:
        end = turn.log.end
        for to, alive in self.leader.alive(turn.epoch, folded_to, end, now, is_acting=is_acting):
            turn.send(to, alive)
        self._state.time_passed(turn.epoch, folded_to, end, now, turn, is_acting=is_acting)
        for mirror, feed in self._below.values():
            feed.time_passed(turn.epoch, mirror.position, mirror.position, now, turn, is_acting=is_acting)

    def deadline(self, folded_to: Position) -> Instant | None:
        below = (feed.deadline(mirror.position) for mirror, feed in self._below.values())
        return soonest(self.leader.deadline(), self._state.deadline(folded_to), *below)
