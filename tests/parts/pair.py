"""Two member machines and their voters on one table: messages arrive at once, the clock is moved by hand.

Real machines, a log that is its own view, and no faults but those a test makes: who wants these looks at
`sim.machines.world`.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from albireo.codec.frame import Frame, FrameHeader, body_crc
from albireo.codec.message import Ask
from albireo.codec.pair_message import Frames, Heartbeat, PeerMessage, Question, Voted
from albireo.codec.record import Audited, Kind, Stream, encode_records
from albireo.machine.access.judge import AccessJudge, RefusedAccess
from albireo.machine.fold.people.access import AccessFold
from albireo.machine.pair.config import PairConfig
from albireo.machine.pair.events import (
    ACTING,
    AppendFrames,
    AppendNoOp,
    AskVoter,
    CaseTold,
    CloseAdmission,
    Commit,
    CutTo,
    Effect,
    Event,
    FromPeer,
    FromVoter,
    GrantEpoch,
    LogChanged,
    MemberStarted,
    OutputsEnded,
    PersistStore,
    RaiseLevel,
    Refused,
    Replicate,
    State,
    StopNow,
    TellPeer,
    Transitioned,
    Why,
)
from albireo.machine.pair.member import Member
from albireo.machine.pair.party import MemberFacts
from albireo.machine.vote.voter import SendVote, VoteAsked, Voter
from albireo.model.access import AccessRole, RoleGrant
from albireo.model.instant import MS, SECOND, Instant, TimePassed, WallTime
from albireo.model.log_view import LogView
from albireo.model.position import Position
from albireo.node.member.admin_actions import ActionContext, AdminActions
from albireo.node.member.marks import Marks
from albireo.node.member.status import MemberStatus
from albireo.node.membership.pair_arguments import Seats

CLUSTER = "3f0c/root"
STEP_NS = 20 * MS
WALL = 1_800_000_000 * SECOND

OPERATOR = "operator@desk"
"""Principal of whoever asks the members for admin actions; an admin by its key."""


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
        self.log = LogView()
        facts = MemberFacts(index=index, run=10 + index, store=f"store {index}")
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
        self.access = AccessJudge("root", AccessFold())
        self.access.told({OPERATOR: RoleGrant(AccessRole.ADMIN)})
        self.status = MemberStatus(self.seats, self.table.config.voters, self.marks)
        context = ActionContext(
            log=lambda: self.log,
            step=self.ask_machine,
            ask_voter=self.table.asks(self),
            wall_ns=lambda: WallTime(WALL),
            stop_node=self.stop_node,
            journal=self.note,
            refuse=self.judge_access,
            append=self.append_audit,
        )
        self.actions = AdminActions(self.member, self.status, self.marks, context)

    def judge_access(self, principal: str, ask: Ask) -> RefusedAccess | None:
        if not self.access.lacks(principal, ask):
            return None
        return self.access.refused(principal, ask, self.table.now, WallTime(WALL))

    def on_record(self) -> list[tuple[Audited, Position]]:
        """What its log has, with where it stands."""
        return [(one, self.log.history.position(sequence)) for sequence, one in self.audits]

    def stop_node(self) -> None:
        self.stop_asked += 1

    def note(self, what: str, user: str) -> None:
        self.journal.append(f"{what} by {user}")

    def append_audit(self, records: Sequence[Audited]) -> int:
        if self.member.state not in ACTING:
            return 0
        last = self.log.end.sequence
        self.audits += [(last + number, one) for number, one in enumerate(records, 1)]
        self.append(self.log.history.epoch, len(records))
        return self.log.end.sequence

    def ask_machine(self, event: Event) -> list[Why]:
        return [effect.why for effect in self.step(event) if isinstance(effect, Refused)]

    def stepped(self, event: Event, now: Instant | None = None) -> list[Effect]:
        """What the machine wants done; none of it is done."""
        return self.member.step(event, self.log, self.table.now if now is None else now)

    def step(self, event: Event) -> list[Effect]:
        effects = self.stepped(event)
        for effect in effects:
            self._do(effect)
        return effects

    def changed(self, **positions: object) -> None:
        """The log is another now; whoever changed it tells the machine."""
        self.log = msgspec.structs.replace(self.log, **positions)

    def synced(self) -> None:
        """Everything is on the disk."""
        self.changed(durable=self.log.end, committed=self.log.told)
        self.step(LogChanged())

    def _do(self, effect: Effect) -> None:
        match effect:
            case AskVoter(voter, question):
                self.table.ask(self, voter, question)
            case TellPeer(path, Heartbeat() as message):
                self.table.tell(1 - self.index, FromPeer(self.actions.marked(message), path))
            case TellPeer(path, message):
                self.table.tell(1 - self.index, FromPeer(message, path))
            case AppendNoOp(epoch):
                self.append(epoch)
            case Replicate(session, to_run, epoch, after):
                self.table.tell(1 - self.index, FromPeer(self._frames(session, to_run, epoch, after)))
            case AppendFrames(_, last):
                self.actions.followed(self.table.audit_frames(1 - self.index, last))
                self.changed(end=last)
                self.table.call(self, self.synced)
            case GrantEpoch(entry):
                self.changed(history=self.log.history.granted(entry))
            case CutTo(sequence):
                at = self.log.history.position(sequence)
                self.changed(end=at, durable=min(self.log.durable, at), told=min(self.log.told, at))
            case PersistStore(history=history) if history is not None:
                self.changed(history=history)
                self.table.call(self, self.synced)
            case Transitioned(_, new, cause):
                self.status.moved(new, cause, WALL)
            case CaseTold():
                self.status.told(effect, WALL)
            case RaiseLevel(level):
                self.raised_to.add(level)
            case Refused(why):
                self.status.refused[str(why)] += 1
            case StopNow():
                self.has_stopped = True
            case CloseAdmission() if self.writes_for_ns is not None:
                self.table.post(self, OutputsEnded(Instant(self.table.now + self.writes_for_ns)))
            case Commit(position):
                assert position.sequence <= self.log.end.sequence
                self.changed(told=position, committed=min(position, self.log.durable))
            case _:
                pass

    def append(self, epoch: int, count: int = 1) -> None:
        """Records of its own, and their sync."""
        self.changed(end=Position(epoch, self.log.end.sequence + count))
        self.table.post(self, LogChanged())
        self.table.call(self, self.synced)

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
            last=self.log.end,
            committed=self.log.told,
            payload=b"",
        )


class Table:
    """The whole pair."""

    def __init__(self, data: Path, voters: tuple[str, ...] = ("witness:w1", "witness:w2", "witness:w3")) -> None:
        self.now = Instant(SECOND)
        self.config = PairConfig(cluster=CLUSTER, voters=voters)
        self._posted: deque[tuple[Side, Callable[[], object]]] = deque()
        self.voters = {name: self._voter(name) for name in voters}
        self.silent: set[str] = set()
        """Voters that nobody reaches."""
        self.asked: list[Question] = []
        self.told: list[PeerMessage] = []
        """All that was ever sent."""
        self.sides = [Side(self, index, data / str(index)) for index in (0, 1)]
        for side in self.sides:
            side.data.mkdir()
            side.step(MemberStarted())
            side.actions.begin(())

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
        for effect in self.voters[name].step(VoteAsked(question), self.now):
            if isinstance(effect, SendVote):
                self.post(side, FromVoter(effect.message))

    def tell(self, index: int, event: FromPeer) -> None:
        self.told.append(event.message)
        if self.sides[index].is_up and self.sides[1 - index].is_up:
            self.post(self.sides[index], event)

    def post(self, side: Side, event: Event) -> None:
        self.call(side, partial(self._take, side, event))

    def call(self, side: Side, what: Callable[[], object]) -> None:
        """Something happens there, in its turn."""
        self._posted.append((side, what))

    def audit_frames(self, index: int, last: Position) -> list[Frame]:
        """What that member put on record, up to there."""
        found = []
        for sequence, one in self.sides[index].audits:
            body = encode_records(0, 0, [one])
            epoch = self.sides[index].log.history.epoch_of(sequence)
            header = FrameHeader(b"", epoch, sequence, 1, Stream.AUDIT, Kind.RECORDS, len(body), body_crc(body))
            found += [Frame(header, body)] if sequence <= last.sequence else []
        return found

    def forget(self) -> None:
        """Everything that is on its way is lost."""
        self._posted.clear()

    def deliver(self) -> None:
        """Everything that is on its way, and what follows from it."""
        while self._posted:
            side, what = self._posted.popleft()
            if side.is_up:
                what()

    def _take(self, side: Side, event: Event) -> None:
        if isinstance(event, FromVoter):
            self._voted(side, event.message)
        if isinstance(event, FromPeer):
            side.status.heard(event.path, event.message, self.now)
        side.step(event)
        if isinstance(event, FromPeer) and event.message is side.member.peer.last:
            side.status.beat(event.message, WallTime(WALL), side.member, side.log.history)
            side.actions.heard(side.member.peer.last)

    def _voted(self, side: Side, voted: Voted) -> None:
        side.status.voted(voted, self.now)
        side.actions.voted(voted)

    def pass_time(self, duration_ns: int) -> None:
        until = self.now + duration_ns
        while self.now < until:
            self.now = Instant(self.now + STEP_NS)
            for side in self.sides:
                if side.is_up:
                    side.step(TimePassed())
                    side.actions.ticked(self.now)
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
