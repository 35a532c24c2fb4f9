"""Feeding: reads what CORE's followers pull from its log, and sends it.

    end of a wake-up --> root machine --> pulls --> log read, sent --> root machine: what became of them

Spec: design/log-and-feed.md, Feed.
"""

from collections.abc import Callable, Sequence

from albireo.codec.message import AnyMessage
from albireo.log import Corrupted, Pruned, ReadFailed
from albireo.machine.feed.leader import piece_of
from albireo.machine.kernel.events import DamagePassed, FollowersServed, WakeUpEnded
from albireo.machine.kernel.pull import Given, Pull
from albireo.model.instant import Instant
from albireo.model.position import Position
from albireo.node.membership.membership import LogAndFolds
from albireo.runtime import ActorContext


class Feeding:
    """The feeding of one run of CORE; its state is the root machine's, but for the turn that is posted."""

    def __init__(
        self,
        actor: ActorContext,
        core: LogAndFolds,
        send: Callable[[bytes, AnyMessage, bytes], bool],
        arm: Callable[[], None],
    ) -> None:
        """
        Args:
            send: sends on the link where this peer is heard; False: the peer is gone.
            arm: has `deadline` looked at again.
        """
        self._actor = actor
        self._core = core
        self._send = send
        self._arm = arm
        self._is_posted = False

    @property
    def _readable(self) -> Position:
        return self._core.root.readable(self._core.log.committed)

    def deadline(self) -> Instant | None:
        """When the first lagging follower has rested; None: none lags, or a turn is posted, which sees to it before."""
        return None if self._is_posted else self._core.root.feeds.leader.rest_ends(self._readable)

    def look(self) -> None:
        """Tell the root machine that a wake-up has brought all it had, unless nothing follows from that."""
        if not self._core.root.feeds.leader.is_quiet(self._readable, self._actor.now()):
            self._core.tell(WakeUpEnded(self._actor.turns.total_ns))

    def give(self, pulls: Sequence[Pull], now: Instant) -> None:
        """Send one chunk for each pull; what is ready beyond that goes in a turn of its own."""
        readable = self._readable
        given = [one for pull in pulls if (one := self._given(pull, readable)) is not None]
        self._core.tell(FollowersServed(given))
        waiting = len(pulls) - len(given)
        if not self._is_posted and self._core.root.feeds.leader.ready_count(readable, now) > waiting:
            self._is_posted = True
            self._actor.call(self._look_again)

    def _look_again(self) -> None:
        self._is_posted = False
        self.look()
        self._arm()  # A follower that had its share is not ready, and no other wake-up may come.

    def _given(self, pull: Pull, readable: Position) -> Given | None:
        """Read and send a chunk; None: it is damaged here, and the holder, which has it, gives it soon."""
        try:
            log = self._core.private or self._core.log
            chunk, looked_to = log.select(pull.after, pull.bytes_max, pull.streams)
        except Pruned:
            return Given(pull, is_lost=True)  # The follower says hello again, and is told SNAPSHOT.
        except ReadFailed as error:
            self._actor.log.limited("log_unreadable", "feed", reason=str(error))
            return Given(pull, is_lost=True)  # The disk is asked again when the follower says hello.
        except Corrupted as damage:
            return self._pass_damage(pull, damage) if self._core.root.role.holds else None
        is_all = looked_to >= readable.sequence
        if not chunk:
            return Given(pull, looked_to, is_all=is_all)
        piece = piece_of(chunk, pull, self._core.log.history.epoch)
        is_lost = not self._send(pull.to, piece.message, piece.data)
        if piece.scanned is not None:
            looked_to, is_all = piece.scanned, piece.scanned >= readable.sequence
        return Given(pull, looked_to, piece.message.last, len(piece.data), piece.offset, is_all, is_lost)

    def _pass_damage(self, pull: Pull, damage: Corrupted) -> Given:
        """Go on behind records that can't be read. For a named follower, the history, they become a gap."""
        self._actor.log.limited("log_corrupt", "feed", reason=str(damage))
        followed = self._core.root.feeds.leader.followers.get(pull.to)
        if followed is None:  # It left since this was pulled: what was given to those before it can do that.
            return Given(pull, is_lost=True)
        if followed.named is not None:
            wall = self._actor.wall_ns()
            from_ns = self._node_ns_at(damage.first_sequence - 1, wall)
            self._core.tell(DamagePassed(from_ns, self._node_ns_at(damage.last_sequence + 1, wall)))
        return Given(pull, damage.last_sequence)

    def _node_ns_at(self, sequence: int, otherwise: int) -> int:
        """Node time of a record beside a damaged range; `otherwise` if that can't be read either."""
        try:
            return self._core.log.header_at(sequence).node_ns
        except (Corrupted, Pruned, ReadFailed, ValueError):
            return otherwise
