"""Leader: serves one log to many followers, each at its own pace.

A follower pulls: it gives credit in bytes and acknowledges the records that it made durable. A follower that stops
reading costs the leader nothing but retained segments, and a limit ends even that. The leader keeps no frames: it says
what to read from the log (`Pull`), the shell reads the committed bytes, sends them as they stand and tells the leader
how far it got. A follower that was just sent a piece rests, for `REST_LEAST_NS` or as long as it says, so that many
small commits become one piece; a follower that lacks more than that piece does not rest. A follower that may wait and
is far behind gets old records at a pace (`machine.feed.pace`) while the loop is busy: reading gigabytes for a history
must not delay commits.

A follower whose records are not all part of this log is told FORK: a new branch begins where both parted, and the
follower starts over from there. That happens after a forced promotion, or when a disk forgot; never because this node
has not heard yet which records are committed. This feed tells nobody TRUNCATE: the one follower that can cut its log,
the other member of a pair, has messages of its own.

Not decided here: what is committed (CORE), how `state` deltas are encoded (`machine.feed.state`).

Spec: design/log-and-feed.md, Feed.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.codec.frame import HEADER_BYTES, NeedMore, decode_header, last_of
from albireo.codec.message import FeedAck, FeedAlive, FeedAnswer, FeedData, FeedHello
from albireo.machine.feed.beat import Beat
from albireo.machine.feed.credit import Credit
from albireo.machine.feed.pace import Pace, Seen
from albireo.machine.kernel.named import HISTORY, NamedFollower
from albireo.machine.kernel.pull import Given, Pull
from albireo.model.bounded import NAME_CHARS_MAX
from albireo.model.instant import MS, SECOND, Instant, soonest
from albireo.model.position import ENDLESS, EpochHistory, Position
from albireo.model.principal import ANYBODY, UNKEYED, kind_of
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.settings import LimitSettings

FOLLOWERS_MAX: Final = LimitSettings().followers_max
"""Most followers, where the topology says nothing."""
FOLLOWERS_OF_ONE_MAX: Final = 16
"""Most followers of one key, in each mode: no key shuts others out. Whoever has none may all (docs/access.md)."""
PULL_BYTES: Final = 256 << 10
"""Largest chunk of one DATA message; a turn of CORE sends at most one per follower."""
PIECE_LEAST: Final = 4 << 10
"""Least piece of a frame for a follower that takes pieces."""
PULL_FRAMES: Final = PULL_BYTES // HEADER_BYTES
"""Most frames of a chunk; to read and to check that many takes some 6 ms."""
FRAMES_PER_TURN: Final = 2 * PULL_FRAMES
"""Frames at which a turn leaves the other followers to the next: two that catch up, or all that lack little."""
PULLS_PER_TURN: Final = 64
"""Most followers that a turn gives a chunk, however little they lack."""
REST_LEAST_NS: Final = 5 * MS
"""Shortest rest between two pieces for a follower while little is new."""
BEHIND_RECORDS: Final = 4_096
"""Lag from which there is no longer little new, in records."""
FAR_RECORDS: Final = 1 << 20
"""Lag from which a follower that may wait gets old records at a pace. It is one second of the largest load: a history
may be that late now and then."""
WAIT_MS_MAX: Final = 1_000
"""Longest rest of a follower."""
GONE_NS: Final = 60 * SECOND
"""A follower that says nothing for this long is forgotten, save a named one."""


class LogFacts(msgspec.Struct, frozen=True):
    """Facts of the log that the leader needs to answer a hello."""

    log_id: bytes
    history: EpochHistory
    first_sequence: int
    """Oldest record still in the log."""
    committed: Position
    is_acting: bool = True
    """This node acts: it may say FORK and SNAPSHOT to any follower. A passive member may have an old branch, so it says
    them only to a follower that belongs to this very store (a named one)."""


class Followed:
    """Knowledge of the leader about one follower."""

    __slots__ = (
        *("credit", "durable", "heard_at", "hello", "is_far", "named", "pace", "previous", "principal"),
        *("bytes_per_s", "offset", "paced_to", "piece", "pull", "rest_ns", "rests_to", "scanned", "to"),
    )

    def __init__(
        self,
        to: bytes,
        hello: FeedHello,
        position: Position,
        now: Instant,
        principal: str,
        named: NamedFollower | None = None,
    ) -> None:
        """`named`: its declaration, if records stay for it."""
        self.to = to
        self.named = named
        self.hello = hello
        self.principal = principal
        self.previous = position
        """Last position sent through the filter."""
        self.scanned = position.sequence
        """Every record up to here was sent, or lies outside the filter."""
        self.durable = Position()
        self.offset = self.piece = 0
        """Bytes, and pieces, of the next frame that went already."""
        self.credit = Credit(hello.credit_bytes)
        self.heard_at = now
        self.is_far = False
        """The follower was far behind when last looked at: `pace` limits it."""
        self.pace = Pace()
        self.pull = 0
        """Number of the last pull."""
        self.rest_ns = max(REST_LEAST_NS, min(hello.max_wait_ms, WAIT_MS_MAX) * MS)
        self.rests_to = self.paced_to = now
        self.bytes_per_s = 0 if named is None else named.bytes_per_s

    def wants(self, committed: Position) -> bool:
        """Records are new for this follower, and there is room for them."""
        return self.scanned < committed.sequence and self.credit.left > 0 and self.hello.mode == "log"

    @property
    def may_wait(self) -> bool:
        """The follower said in its hello that it may wait."""
        return self.rest_ns > REST_LEAST_NS

    def passed(self, seen: Seen, now: Instant, *, is_anew: bool) -> None:
        """Time has passed: judge how far behind the follower is, and give its pace more.

        Args:
            is_anew: the gain so far says nothing about the future; the pace begins anew.
        """
        was_far, self.is_far = self.is_far, seen.committed - seen.sent >= FAR_RECORDS
        if self.is_far:
            if is_anew or not was_far:
                self.pace = Pace()
            self.pace.passed(seen, now)

    def had_its_share(self, *, much_may_wait: bool) -> bool:
        """More records are there, and the follower has to wait for them."""
        return self.may_wait and (much_may_wait or (self.is_far and not self.pace.allows))

    def rests(self, committed: Position, now: Instant, *, much_may_wait: bool) -> bool:
        """The follower rests: little is new, or it had its share of much."""
        if now < self.paced_to and not self._lacks_little(committed):
            return True
        lacks_share = self._lacks_little(committed) or self.had_its_share(much_may_wait=much_may_wait)
        return now < self.rests_to and lacks_share

    def _lacks_little(self, committed: Position) -> bool:
        return committed.sequence - self.scanned < BEHIND_RECORDS

    def rest_ends(self, committed: Position) -> Instant:
        return self.rests_to if self._lacks_little(committed) else max(self.rests_to, self.paced_to)

    def next_pull(self) -> Pull:
        """The next piece for this follower."""
        wanted = (self.to, self.scanned, min(PULL_BYTES, self.credit.left), self.hello.streams, self.previous)
        if not self.hello.in_pieces:
            return Pull(*wanted)
        pull = Pull(*wanted, self.offset, self.piece, in_pieces=True)
        return msgspec.structs.replace(pull, bytes_max=self.credit.piece(PIECE_LEAST, PULL_BYTES))

    def takes(self, size_bytes: int, now: Instant) -> None:
        """The follower is given up to so many bytes now, and rests."""
        self.rests_to = Instant(now + self.rest_ns)
        if self.bytes_per_s:
            self.paced_to = Instant(max(now, self.paced_to) + size_bytes * SECOND // self.bytes_per_s)

    def is_quiet(self, committed: Position, now: Instant) -> bool:
        """True: `passed` changes nothing that is used, and the follower is not to be given anything."""
        if self.is_far or not self._lacks_little(committed):
            return self.hello.mode != "log"
        return now < self.rests_to or not self.wants(committed)

    @property
    def holds_from(self) -> int:
        """Records above this sequence are still wanted by this follower."""
        return self.scanned if self.durable >= self.previous else self.durable.sequence


def crowded(served: Sequence[str], principal: str, followers_max: int) -> Refusal | None:
    """Reason why no more followers of a principal are served; None: there is room.

    Args:
        served: principals of those that are served already.
    """
    if len(served) >= followers_max:
        remedy = "stop one of them, or raise followers_max in [limits]"
        return Refusal(RefusalCode.FULL, f"{followers_max} followers are served already", remedy)
    if kind_of(principal) not in UNKEYED and served.count(principal) >= FOLLOWERS_OF_ONE_MAX:
        cause = f"{FOLLOWERS_OF_ONE_MAX} followers of {principal} are served already"
        return Refusal(RefusalCode.FULL, cause, "stop one of them")
    return None


def bad_follower(hello: FeedHello) -> Refusal | None:
    """Reason why nobody follows under this name; None: somebody may."""
    if 0 < len(hello.follower) <= NAME_CHARS_MAX:
        return None
    return Refusal(RefusalCode.MALFORMED, f"a name of {len(hello.follower)} characters, not 1..{NAME_CHARS_MAX}")


class Leader:
    """The machine. Methods are its events; they return what has to be sent."""

    def __init__(self, *, is_catching_up: bool = False, named: Sequence[NamedFollower] = (HISTORY,)) -> None:
        """`named`: the followers for which records stay; they never have to give way to others."""
        self.followers: dict[bytes, Followed] = {}
        self.followers_max = FOLLOWERS_MAX
        self.is_catching_up = is_catching_up
        """This log itself is far behind the holder's. A follower that may wait must not take the CPU from that: it gets
        one chunk per rest, however much is new."""
        self._beat: Beat[bytes] = Beat()
        self._pulls = 0
        self._named = {one.name: one for one in named}
        self._named_durable = dict.fromkeys(self._named, 0)
        """Durable sequence by name, kept while a named follower is away; 0: it was never here."""
        self.credit_cut = 0
        """Number of times that a follower gave credit out of bounds."""

    def hello(self, to: bytes, hello: FeedHello, facts: LogFacts, now: Instant, principal: str = ANYBODY) -> FeedAnswer:
        """Answer a hello; from then on the follower is served, unless the verdict is refused or behind. It takes the
        place of the same principal's follower of that name."""
        named = self._named.get(hello.follower)
        verdict, position, refusal = verdict_of(hello, facts, may_rewind=facts.is_acting or named is not None)
        if verdict not in ("refused", "behind"):
            who = (principal, hello.follower)
            for other in [f.to for f in self.followers.values() if (f.principal, f.hello.follower) == who]:
                del self.followers[other]
            others = [one.principal for one in self.followers.values()]
            refusal = crowded(others, principal, self.followers_max) if named is None else None
            if refusal is not None:
                verdict = "refused"
            else:
                self.followers[to] = followed = Followed(to, hello, position, now, principal, named)
                self.credit_cut += followed.credit.given != hello.credit_bytes
                self._beat.added(to, now)
        return FeedAnswer(
            verdict=verdict, position=position, log_id=facts.log_id, history=facts.history.entries, refusal=refusal
        )

    def ack(self, to: bytes, ack: FeedAck, now: Instant) -> bool:
        """Take an acknowledgement; False: unknown follower, it will say hello again when it hears nothing."""
        followed = self.followers.get(to)
        if followed is None:
            return False
        followed.heard_at = now
        followed.durable = max(followed.durable, min(ack.durable, followed.previous))
        self.credit_cut += not followed.credit.give(ack.credit_bytes)
        followed.credit.received(ack.received, ack.pieces)
        if followed.named is not None:
            self._named_durable[followed.named.name] = followed.holds_from
        return True

    def passed(self, end: int, committed: int, busy_ns: int, now: Instant) -> None:
        """Time has passed: a follower that may wait and is far behind gets more.

        Args:
            end: last record of the log; records that are not committed yet need the disk.
            busy_ns: time spent in turns of the loop since the start.
        """
        for f in self.followers.values():
            if f.may_wait:
                f.passed(Seen(end, committed, f.scanned, busy_ns), now, is_anew=self.is_catching_up)

    def pulls(self, committed: Position, now: Instant) -> list[Pull]:
        """Chunks to read and send now: at most one for each `log` follower that has credit, lags and does not rest.

        The follower rests from now on, unless `pulled` says that there is more. Of many that lag far, those whose turn
        was longest ago have theirs.
        """
        found: list[Pull] = []
        frames = 0
        for f in sorted(self._ready(committed, now), key=lambda one: one.pull):
            if frames >= FRAMES_PER_TURN or len(found) >= PULLS_PER_TURN:
                break
            frames += min(PULL_FRAMES, committed.sequence - f.scanned)
            self._pulls += 1
            f.pull = self._pulls
            found.append(f.next_pull())
            f.takes(found[-1].bytes_max, now)
        return found

    def is_quiet(self, committed: Position, now: Instant) -> bool:
        """True: `passed` and `pulls` may be left out, because they would do nothing."""
        return all(f.is_quiet(committed, now) for f in self.followers.values())

    def ready_count(self, committed: Position, now: Instant) -> int:
        """Number of followers that `pulls` would give a chunk now."""
        return len(self._ready(committed, now))

    def _ready(self, committed: Position, now: Instant) -> list[Followed]:
        much_may_wait = self.is_catching_up
        return [f for f in self._lagging(committed) if not f.rests(committed, now, much_may_wait=much_may_wait)]

    def _lagging(self, committed: Position) -> list[Followed]:
        return [f for f in self.followers.values() if f.wants(committed)]

    def rest_ends(self, committed: Position) -> Instant | None:
        """When the rest of the first lagging follower ends; None: none lags."""
        return soonest(*(f.rest_ends(committed) for f in self._lagging(committed)))

    def pulled(
        self,
        pull: Pull,
        scanned: int,
        last: Position | None,
        size_bytes: int,
        *,
        is_all: bool = True,
        offset: int = 0,
    ) -> None:
        """The shell sent frames up to `last` (None: no frame matched) and has looked at every record up to `scanned`.

        Args:
            is_all: nothing more is committed. A follower that lacks more is not kept waiting.
            offset: bytes of the frame up to `last` that went, if it is not whole yet.
        """
        followed = self.followers.get(pull.to)
        if followed is None:
            return
        followed.pace.took(scanned - followed.scanned)
        followed.scanned = scanned
        if not is_all and not followed.had_its_share(much_may_wait=self.is_catching_up):
            followed.rests_to = Instant(0)
        if last is not None:
            followed.credit.sent(last, size_bytes, pull.piece)
            followed.offset, followed.piece = offset, pull.piece + 1 if offset else 0
            followed.previous = followed.previous if offset else last

    def served(self, given: Sequence[Given]) -> None:
        """Take the outcome of pulls."""
        for one in given:
            if one.is_lost:
                self.lost(one.pull.to)
            else:
                self.pulled(one.pull, one.scanned, one.last, one.size_bytes, is_all=one.is_all, offset=one.offset)

    def lost(self, to: bytes) -> None:
        """A send found no such peer."""
        self.followers.pop(to, None)

    def alive(
        self, epoch: int, committed: Position, end: Position, now: Instant, *, is_acting: bool = True
    ) -> list[tuple[bytes, FeedAlive]]:
        """ALIVE messages to send now; none between two beats."""
        told = self._beat.due(now, self.followers)
        silent = [f for f in self.followers.values() if now - f.heard_at > GONE_NS] if told else []
        for gone in silent:
            if gone.named is None:
                del self.followers[gone.to]
        return [
            (f.to, FeedAlive(epoch, is_acting, committed, end, sent=f.previous, scanned=f.scanned))
            for f in map(self.followers.get, told)
            if f is not None
        ]

    def deadline(self) -> Instant | None:
        return self._beat.at if self.followers else None

    def wanted_from(self, name: str) -> int:
        """Sequence above which records must stay for the named follower (0: it was never here)."""
        return self._named_durable[name]


def verdict_of(hello: FeedHello, facts: LogFacts, *, may_rewind: bool) -> tuple[str, Position, Refusal | None]:
    if (bad := bad_follower(hello)) is not None:
        return "refused", Position(), bad
    if hello.mode not in ("log", "state"):
        return "refused", Position(), Refusal(RefusalCode.MALFORMED, f"mode {hello.mode!r} is neither log nor state")
    fresh = not hello.log_id and hello.position.sequence == 0
    if hello.mode == "state":
        return ("resume" if fresh else "snapshot"), Position(), None
    if not fresh and hello.log_id and hello.log_id != facts.log_id:
        return "refused", Position(), _OTHER_LOG
    try:
        shared = _shared(hello, facts.history)
    except ValueError as error:
        return "refused", Position(), Refusal(RefusalCode.MALFORMED, str(error))
    held = hello.position
    if held.sequence > shared and may_rewind:
        return "fork", facts.history.position(shared), None  # Records above it are not part of this log.
    if held.sequence > min(shared, facts.committed.sequence):
        return "behind", facts.committed, _BEHIND
    if held.sequence + 1 >= facts.first_sequence:
        return "resume", held, None
    if not may_rewind:
        return "behind", facts.committed, _PRUNED
    return "snapshot", facts.history.position(facts.first_sequence - 1), None


_OTHER_LOG: Final = Refusal(
    RefusalCode.NOT_POSSIBLE, "another log: this follower belongs to another node or its store was replaced"
)
_BEHIND: Final = Refusal(RefusalCode.BEHIND, "the follower knows more than this leader has committed")
_PRUNED: Final = Refusal(RefusalCode.BEHIND, "those records are pruned here, and only who leads gives a snapshot")


def _shared(hello: FeedHello, history: EpochHistory) -> int:
    """Last sequence that the follower holds and that is proven to be part of the log with this history.

    The end of that log does not matter: records that it lacks may still come.

    Raises:
        ValueError: the follower's epoch history goes backwards.
    """
    held, theirs = hello.position, EpochHistory(hello.history)
    if theirs.epoch >= held.epoch:
        return theirs.common_point(history, held.sequence, ENDLESS)
    end = history.end_of(held.epoch)
    if end:  # The follower does not name its epochs: the one that it holds must do.
        return min(held.sequence, end)
    # This log never had that epoch, and nobody says where it began: only records before the last named one are proven.
    before = theirs.entries[-1].first_sequence - 1 if theirs.entries else 0
    return theirs.common_point(history, min(held.sequence, before), ENDLESS)


class SentPiece(msgspec.Struct, frozen=True):
    """Message and bytes that are sent for a pull."""

    message: FeedData
    data: bytes
    offset: int = 0
    """Bytes of the first frame that went with it, if that is not whole yet."""
    scanned: int | None = None
    """Last sequence that is looked at by now; None: all that was read."""


def piece_of(chunk: bytes, pull: Pull, epoch: int) -> SentPiece:
    """The part that goes of the frames that `pull` asked for: all of them, or a piece of the first.

    Args:
        chunk: whole committed frames of its streams end to end, at least one, as the log gave them.
    """
    begin, (header, _) = decode_header(chunk), last_of(chunk)
    assert not isinstance(begin, NeedMore), "the log hands out whole frames"
    first = Position(begin.epoch, begin.first_sequence)
    if not pull.in_pieces or (not pull.offset and len(chunk) <= pull.bytes_max):
        return SentPiece(FeedData(epoch, first, header.last, pull.previous), chunk)
    end = min(pull.offset + pull.bytes_max, begin.frame_bytes)
    goes_on = end < begin.frame_bytes
    message = FeedData(epoch, first, begin.last, pull.previous, pull.piece, goes_on)
    scanned = pull.after if goes_on else begin.last.sequence
    return SentPiece(message, chunk[pull.offset : end], end if goes_on else 0, scanned)
