"""Two member machines and their voters on one table: messages arrive at once, the clock is moved by hand.

Real machines, a log that is two numbers, and no faults but those a test makes: who wants these looks at
`sim.machines.world`.
"""

import random
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from albireo.codec.frame import Frame, FrameHeader, body_crc
from albireo.codec.pair_message import Frames, Heartbeat, PeerMessage, Question, Voted
from albireo.codec.record import Audited, Kind, Stream, encode_records
from albireo.machine.pair.config import PairConfig
from albireo.machine.pair.events import (
    ACTING,
    Appended,
    AppendFrames,
    AppendNoOp,
    AskVoter,
    CaseTold,
    CloseAdmission,
    Commit,
    Effect,
    Event,
    FromPeer,
    FromVoter,
    OutputsEnded,
    RaiseLevel,
    Refused,
    Replicate,
    Started,
    State,
    StopNow,
    Synced,
    TellPeer,
    TimePassed,
    Transitioned,
)
from albireo.machine.pair.member import Member
from albireo.machine.pair.party import MemberFacts
from albireo.machine.vote.voter import Answer, Asked, Voter
from albireo.model.instant import MS, SECOND, Instant, WallTime
from albireo.model.position import BEGINNING, EpochHistory, Position
from albireo.node.member.marks import Marks
from albireo.node.member.orders import Orders, PairOrders
from albireo.node.member.status import MemberStatus, Seats

CLUSTER = "3f0c/root"
STEP_NS = 20 * MS
WALL = 1_800_000_000 * SECOND


class Side:
    """One member with what surrounds it in its process."""

    def __init__(self, table: "Table", index: int, data: Path) -> None:
        self.table = table
        self.index = index
        self.data = data
        self.is_up = True
        self.has_stopped = False
        self.stop_asked = 0
        self.writes_for_ns: int | None = 0
        """How long after the stand-down its last output write lands; None: an adapter does not say."""
        self.raised_to: set[int] = set()
        """Feature levels that its log was to be raised to."""
        self.journal: list[str] = []
        self.audits: list[tuple[int, Audited]] = []
        """Appended here, with their sequence."""
        facts = MemberFacts(
            index=index,
            run=10 + index,
            store=f"store {index}",
            history=EpochHistory(),
            end=BEGINNING,
            durable=BEGINNING,
            committed=BEGINNING,
        )
        seats = Seats(
            node="root",
            member=index,
            clients=("tcp://127.0.0.1:1", "tcp://127.0.0.1:2"),
            peers=(("tcp://127.0.0.1:3",), ("tcp://127.0.0.1:4",)),
        )
        self.member = Member(table.config, facts, random.Random(index), table.now)
        self.seats = seats
        self.open_books()

    def open_books(self) -> None:
        """What stands around the machine, from the disk."""
        self.marks = Marks(self.data)
        self.status = MemberStatus(self.seats, self.table.config.voters, self.marks)
        records = (self.note, self.append_audit)
        orders = Orders(self.ordered, self.table.asks(self), lambda: WallTime(WALL), self.stop_node, *records)
        self.orders = PairOrders(self.member, self.status, self.marks, orders)

    def on_record(self) -> list[tuple[Audited, Position]]:
        """What its log has, with where it stands."""
        return [(one, self.member.own.position(sequence)) for sequence, one in self.audits]

    def stop_node(self) -> None:
        self.stop_asked += 1

    def note(self, what: str, user: str) -> None:
        self.journal.append(f"{what} by {user}")

    def append_audit(self, records: Sequence[Audited]) -> int:
        if self.member.state not in ACTING:
            return 0
        own = self.member.own
        end = Position(own.history.epoch, own.end.sequence + len(records))
        self.audits += [(end.sequence - len(records) + number, one) for number, one in enumerate(records, 1)]
        self.step(Appended(end))
        self.table.post(self, Synced(end))
        return end.sequence

    def ordered(self, event: Event) -> list[str]:
        before = self.status.refused.copy()
        self.step(event)
        return list(self.status.refused - before)

    def step(self, event: Event) -> None:
        for effect in self.member.step(event, self.table.now):
            self._do(effect)

    def _do(self, effect: Effect) -> None:
        own = self.member.own
        match effect:
            case AskVoter(voter, question):
                self.table.ask(self, voter, question)
            case TellPeer(path, Heartbeat() as message):
                self.table.tell(1 - self.index, FromPeer(self.orders.marked(message), path))
            case TellPeer(path, message):
                self.table.tell(1 - self.index, FromPeer(message, path))
            case AppendNoOp(epoch):
                self.append(epoch)
            case Replicate(session, to_run, epoch, after):
                self.table.tell(1 - self.index, FromPeer(self._frames(session, to_run, epoch, after)))
            case AppendFrames(_, last):
                self.orders.followed(self.table.audit_frames(1 - self.index, last))
                self.table.post(self, Synced(last))
            case Transitioned(_, new, cause):
                self.status.moved(new, cause, WALL)
            case CaseTold():
                self.status.told(effect, WALL)
            case RaiseLevel(level):
                self.raised_to.add(level)
            case Refused(reason):
                self.status.refused[reason] += 1
            case StopNow():
                self.has_stopped = True
            case CloseAdmission() if self.writes_for_ns is not None:
                self.table.post(self, OutputsEnded(Instant(self.table.now + self.writes_for_ns)))
            case Commit():
                assert own.committed.sequence <= own.end.sequence
            case _:
                pass

    def append(self, epoch: int) -> None:
        """One record of its own, and its sync."""
        end = Position(epoch, self.member.own.end.sequence + 1)
        self.table.post(self, Appended(end))
        self.table.post(self, Synced(end))

    def _frames(self, session: int, to_run: int, epoch: int, after: int) -> Frames:
        own = self.member.own
        return Frames(
            cluster=CLUSTER,
            member=own.index,
            run=own.run,
            store=own.store,
            to_run=to_run,
            epoch=epoch,
            session=session,
            previous=after,
            last=own.end,
            committed=own.committed,
            payload=b"",
        )


class Table:
    """The whole pair."""

    def __init__(self, data: Path, voters: tuple[str, ...] = ("witness:w1", "witness:w2", "witness:w3")) -> None:
        self.now = Instant(SECOND)
        self.config = PairConfig(cluster=CLUSTER, voters=voters)
        self._posted: deque[tuple[Side, Event]] = deque()
        self.voters = {name: self._voter(name) for name in voters}
        self.silent: set[str] = set()
        """Voters that nobody reaches."""
        self.asked: list[Question] = []
        self.told: list[PeerMessage] = []
        """All that was ever sent."""
        self.sides = [Side(self, index, data / str(index)) for index in (0, 1)]
        for side in self.sides:
            side.data.mkdir()
            side.step(Started())
            side.orders.begin(())

    def _voter(self, name: str) -> Voter:
        return Voter(name, CLUSTER, None, self.now, self.config.drift, self.config.voters)

    def lose_store(self, name: str) -> None:
        self.voters[name] = self._voter(name)

    def asks(self, side: Side) -> "AskVoterOf":
        return AskVoterOf(self, side)

    def ask(self, side: Side, name: str, question: Question) -> None:
        if name in self.silent or not side.is_up:
            return
        self.asked.append(question)
        for effect in self.voters[name].step(Asked(question), self.now):
            if isinstance(effect, Answer):
                self.post(side, FromVoter(effect.message))

    def tell(self, index: int, event: FromPeer) -> None:
        self.told.append(event.message)
        if self.sides[index].is_up and self.sides[1 - index].is_up:
            self.post(self.sides[index], event)

    def post(self, side: Side, event: Event) -> None:
        self._posted.append((side, event))

    def audit_frames(self, index: int, last: Position) -> list[Frame]:
        """What that member put on record, up to there."""
        found = []
        for sequence, one in self.sides[index].audits:
            body = encode_records(0, 0, [one])
            epoch = self.sides[index].member.own.history.epoch_of(sequence)
            header = FrameHeader(b"", epoch, sequence, 1, Stream.AUDIT, Kind.RECORDS, len(body), body_crc(body))
            found += [Frame(header, body)] if sequence <= last.sequence else []
        return found

    def forget(self) -> None:
        """Everything that is on its way is lost."""
        self._posted.clear()

    def deliver(self) -> None:
        """Everything that is on its way, and what follows from it."""
        while self._posted:
            side, event = self._posted.popleft()
            if not side.is_up:
                continue
            if isinstance(event, FromVoter):
                self._voted(side, event.message)
            if isinstance(event, FromPeer):
                side.status.heard(event.path, event.message, self.now)
            side.step(event)
            if isinstance(event, FromPeer) and event.message is side.member.peer.last:
                side.orders.heard(side.member.peer.last)

    def _voted(self, side: Side, voted: Voted) -> None:
        side.status.voted(voted, self.now)
        side.orders.voted(voted)

    def pass_time(self, duration_ns: int) -> None:
        until = self.now + duration_ns
        while self.now < until:
            self.now = Instant(self.now + STEP_NS)
            for side in self.sides:
                if side.is_up:
                    side.step(TimePassed())
                    side.orders.ticked(self.now)
            self.deliver()

    def states(self) -> tuple[State, State]:
        first, second = (side.member.state for side in self.sides)
        return first, second

    def wait_for(self, first: State, second: State, within_ns: int = 40 * SECOND) -> None:
        until = self.now + within_ns
        while self.states() != (first, second):
            assert self.now < until, f"{self.states()}, wanted {(first, second)}"
            self.pass_time(STEP_NS)


class AskVoterOf:
    """How the orders of one member reach a voter."""

    def __init__(self, table: Table, side: Side) -> None:
        self._table = table
        self._side = side

    def __call__(self, voter: str, question: Question) -> None:
        self._table.ask(self._side, voter, question)
