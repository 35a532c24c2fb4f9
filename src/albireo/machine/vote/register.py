"""Register voter: two blocks of plain holding registers in a PLC act as one acceptor (Disk Paxos).

Each member writes its own block only, so a PLC needs no logic to vote. This machine sits in the CORE of each member and
answers that member alone, in the words of the voter protocol; reads and writes of registers are effects, carried out by
the adapter that owns the PLC's connection.

Not decided here: which member is a candidate, and when (the member); how a register is read (the adapter).

The idea: a member that writes first and reads afterwards sees the other, or is seen. Write procedure W = sync the own
copy, one FC16, read back until equal, wait `settle`, read both blocks. If two members go through W, at least one
finds the other's ballot in that last read. A question is answered only from a read of both blocks after its W.

    CLOSED --connected--> SILENT --dead time over--> IDLE --question, watch--> LOOKING --nothing to write--> IDLE
       ^                                                                        |   ^
       |                                                           own block    v   | own block differs
       |                                                                     WRITING <----+
       |                                                                        |         | never equal: hang up
       +------- connection lost, anywhere: W starts anew                        v         |
                                                 JUDGING <--settled-- SETTLING <-- READING_BACK <--> PAUSED
                                                    | nothing left to write: answer
                                                    +----> IDLE, or WRITING again

Invariants
    CLOSED, SILENT: no request is under way; a write of a broken connection may still land until `silent_until`.
    WRITING .. JUDGING: `asked` or a restoration is under way; at most one write is, and its content is synced.
    always: `copy.ballot.promised`, `copy.ballot.rank` and `other_high` never fall; what this run read back (`landed`)
            is never found older again, or the PLC's memory is refused.

A lease here is a life-sign that moves. The holder renews it by W with the life-sign instead of the ballot, and counts
the lease from the time at which it sent its question. A candidate sees (record, life-sign) of the other member stand
still for lease + drift, writes its ballot by W, and looks again in the last read of that W.

Spec: design/pair.md, The voter protocol, exactly; The PLC register block; rules 4, 12. ADR-0096, ADR-0097.
"""

from collections.abc import Sequence
from typing import Any, Final, assert_never

import msgspec

from albireo.codec.pair_message import Accept, Install, Prepare, Question, Read, Release
from albireo.codec.register_block import (
    BLOCK_REGISTERS,
    COUNT_MODULUS,
    LIFE_REGISTERS,
    LIFE_START,
    RELEASED,
    Ballot,
    LifeSign,
    count_after,
    encode_ballot,
    encode_life,
    sign_after,
)
from albireo.machine.vote.events import (
    NOT_WATCHED,
    TAKES,
    Connected,
    ConnectionLost,
    Effect,
    Event,
    OwnCopy,
    Part,
    PersistCopy,
    ReadBlocks,
    RegisterConfig,
    RegisterPhase,
    RegisterRefusal,
    RegistersRead,
    RegisterState,
    RegistersWritten,
    ResetConnection,
    Watched,
    WriteBlock,
)
from albireo.machine.vote.look import (
    Look,
    admitted,
    fields_of,
    life_in,
    other_ballot,
    own_trouble,
    record_of,
    refusal_unseen,
    vote,
)
from albireo.machine.vote.voter import HolderGone, SendVote, VoteAsked, VoterRefusal
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.position import BEGINNING

WATCH_GAP_NS: Final = 10 * SECOND
"""Longest pause between two looks that prove a standstill: in more the life-sign might go once round its values."""
_REFUSALS_OF_A_SOUND_VOTER: Final = frozenset({"", *(refusal.value for refusal in VoterRefusal)})
"""Reasons of a voter whose blocks are sound; any other reason raises a case."""


class RegisterVoter:
    """The machine. Built at each start of CORE from what the disk holds.

    Args:
        copy: None: the disk holds none, and the machine votes for nobody until `Install` admits it.
        now: instant of the start; nothing is written for `dead_time_ns` from here.
    """

    def __init__(self, config: RegisterConfig, copy: OwnCopy | None, now: Instant) -> None:
        self.config = config
        self.refusals: dict[str, int] = {}
        """Refusals by reason, for `status`."""
        self.state = RegisterState(
            copy=copy,
            landed=copy.landed if copy else 0,
            silent_until=self._later(now, config.dead_time_ns),
            starts_until=self._later(now, config.lease_ns),
        )

    def step(self, event: Event, now: Instant) -> list[Effect]:
        if self.state.phase not in TAKES[type(event)]:
            return []
        match event:
            case VoteAsked(question):
                return self._asked(question, now)
            case Connected(connection):
                self._become(phase=RegisterPhase.SILENT, connection=connection)
                return []
            case ConnectionLost(connection):
                return self._lost(now) if connection == self.state.connection else []
            case RegistersRead(connection, words):
                return self._read(words, now) if connection == self.state.connection else []
            case RegistersWritten(connection):
                return self._read_blocks(RegisterPhase.READING_BACK) if connection == self.state.connection else []
            case HolderGone(run):
                self._become(is_holder_gone=self.state.watched[1] == run and self.state.watched[0] > (0, 0))
                return []
            case TimePassed():
                return self._time_passed(now)
            case _:
                assert_never(event)

    def deadline(self) -> Instant | None:
        """Instant at which `TimePassed` is due; None while only the PLC or the member can change anything."""
        match self.state.phase:
            case RegisterPhase.SILENT:
                return self.state.silent_until
            case RegisterPhase.IDLE | RegisterPhase.PAUSED | RegisterPhase.SETTLING:
                return self.state.wait_until
            case _:
                return None

    def _become(self, **changes: object) -> None:
        self.state = msgspec.structs.replace(self.state, **changes)

    def _later(self, now: Instant, duration_ns: int) -> Instant:
        return Instant(now + self.config.stretched(duration_ns))

    def _time_passed(self, now: Instant) -> list[Effect]:
        due = self.deadline()
        if due is None or now < due:
            return []
        match self.state.phase:
            case RegisterPhase.SILENT:
                self._become(phase=RegisterPhase.IDLE, wait_until=now)
                return self._take_next(now)
            case RegisterPhase.IDLE:
                return self._begin(None)
            case RegisterPhase.PAUSED:
                return self._read_blocks(RegisterPhase.READING_BACK)
            case _:
                self._become(is_settled=self.state.is_settled or self.state.part is Part.BALLOT)
                return self._read_blocks(RegisterPhase.JUDGING)

    def _lost(self, now: Instant) -> list[Effect]:
        """W starts anew: the question waits for the next connection, unless a newer question came."""
        self._become(
            phase=RegisterPhase.CLOSED,
            silent_until=self._later(now, self.config.dead_time_ns),
            waiting=self.state.waiting or self.state.asked,
            asked=None,
            is_settled=False,
        )
        return []

    def _asked(self, question: Question, now: Instant) -> list[Effect]:
        refusal = refusal_unseen(question, self.config, self.state.copy)
        if refusal:
            return [self._no(question, refusal.value)]
        self._become(waiting=question)
        return self._take_next(now) if self.state.phase is RegisterPhase.IDLE else []

    def _take_next(self, now: Instant) -> list[Effect]:
        if self.state.waiting is not None:
            return self._begin(self.state.waiting)
        self._become(phase=RegisterPhase.IDLE, asked=None, wait_until=Instant(now + self.config.watch_ns))
        return []

    def _begin(self, question: Question | None) -> list[Effect]:
        self._become(asked=question, waiting=None, has_moved=False, reads=0)
        return self._read_blocks(RegisterPhase.LOOKING)

    def _read_blocks(self, phase: RegisterPhase) -> list[Effect]:
        self._become(phase=phase)
        return [ReadBlocks(self.state.connection)]

    def _read(self, words: Sequence[int], now: Instant) -> list[Effect]:
        """Take a read of both blocks."""
        if self.state.phase is RegisterPhase.READING_BACK:
            return self._read_back(words, now)
        look = self._look(words, now)
        if self.state.copy is None:
            return self._install(words, now)
        own = own_trouble(words, self.config, self.state.copy, self.state.landed)
        if own is None:
            return self._rewrite(now)
        if own:
            return self._finish(own, look, now)
        self._become(landed=self._copy.ballot.count)
        if self.state.phase is RegisterPhase.JUDGING:
            self._become(has_moved=self.state.has_moved or self.state.is_moving, is_moving=False)
        return self._decide(look, now)

    def _read_back(self, words: Sequence[int], now: Instant) -> list[Effect]:
        """Begin to settle once the PLC shows the write; it may answer a write before it shows it."""
        state = self.state
        if self._is_shown(words):
            self._become(phase=RegisterPhase.SETTLING, wait_until=self._later(now, self.config.settle_ns))
            return []
        if state.reads < self.config.reads_max:
            self._become(
                phase=RegisterPhase.PAUSED, reads=state.reads + 1, wait_until=Instant(now + self.config.poll_ns)
            )
            return []
        effects = self._told(RegisterRefusal.NOT_KEPT.value, None, now)
        self._become(asked=None)
        self._lost(now)
        return [*effects, ResetConnection(state.connection)]

    def _is_shown(self, words: Sequence[int]) -> bool:
        """The registers hold the words of the W under way."""
        start, wanted = self._target()
        first = self.config.member * BLOCK_REGISTERS + start
        return tuple(words[first : first + len(wanted)]) == wanted

    def _target(self) -> tuple[int, tuple[int, ...]]:
        if self.state.part is Part.LIFE:
            return LIFE_START, encode_life(self.state.life)
        return 0, encode_ballot(self._copy.ballot)

    @property
    def _copy(self) -> OwnCopy:
        assert self.state.copy is not None
        return self.state.copy

    def _write(self, part: Part, *, is_moving: bool, now: Instant) -> list[Effect]:
        """Begin W. A block that goes on losing what is written ends the question."""
        state = self.state
        if state.reads > self.config.reads_max:
            return self._finish(RegisterRefusal.NOT_KEPT.value, None, now)
        self._become(
            phase=RegisterPhase.WRITING,
            part=part,
            is_moving=is_moving,
            is_settled=state.is_settled and part is Part.LIFE,
            reads=state.reads + 1,
        )
        start, words = self._target()
        return [WriteBlock(state.connection, start, words)]

    def _look(self, words: Sequence[int], now: Instant) -> Look:
        """Judge a read of both blocks, and remember what it shows."""
        own_start = self.config.member * BLOCK_REGISTERS
        other_start = BLOCK_REGISTERS - own_start
        look = Look(self._other(words), life_in(words, own_start), life_in(words, other_start))
        state = self.state
        if look.own_life is not None:
            floor = max(state.life.floor, look.own_life.floor)
            self._become(life=LifeSign(state.life.sign, floor), sign=state.sign or look.own_life.sign)
        watched: Watched = NOT_WATCHED
        if isinstance(look.other, Ballot):
            raw = tuple(words[other_start + LIFE_START : other_start + LIFE_START + LIFE_REGISTERS])
            watched = (look.other.rank, look.other.run, look.other.members, raw)
        if watched != state.watched or now - state.looked_at > WATCH_GAP_NS:
            self._become(watched=watched, changed_at=now, is_holder_gone=False)
        self._become(looked_at=now)
        return look

    def _other(self, words: Sequence[int]) -> Ballot | str:
        found = other_ballot(words, self.config, self.state.other_high)
        if isinstance(found, Ballot):
            self._become(other_high=(found.promised, *found.rank))
        return found

    def _decide(self, look: Look, now: Instant) -> list[Effect]:
        """The own block is as synced: write what the question still needs, or answer it from this look."""
        question, other = self.state.asked, look.other
        if question is None:
            self._become(trouble=other if isinstance(other, str) else "")
            return self._take_next(now)
        if isinstance(question, Install):
            return self._finish("", look, now)
        if isinstance(other, str) or isinstance(question, Read):
            return self._finish(other if isinstance(other, str) else "", look, now)
        match question:
            case Prepare():
                return self._prepare(question, other, look, now)
            case Accept():
                return self._accept(question, other, look, now)
            case Release():
                return self._release(question, look, now)
            case _:
                assert_never(question)

    def _prepare(self, question: Prepare, other: Ballot, look: Look, now: Instant) -> list[Effect]:
        ballot = self._copy.ballot
        if not self._is_open(question.epoch, question.run, other):
            return self._finish(VoterRefusal.PROMISED.value, look, now)
        if self._is_starting(question.run, now):
            return self._finish(VoterRefusal.STARTING.value, look, now)
        if self._is_lease_running(look, now):
            return self._finish(VoterRefusal.LEASED.value, look, now)
        if question.epoch > ballot.promised:
            return self._propose(question.run, {"promised": question.epoch}, is_moving=False, now=now)
        if not self.state.is_settled:
            return self._rewrite(now)
        return self._finish("", look, now)

    def _is_open(self, epoch: int, run: int, other: Ballot) -> bool:
        """Neither block promises a higher epoch, and the own one does not promise this epoch to an earlier run."""
        copy = self._copy
        if other.promised > epoch or copy.ballot.promised > epoch:
            return False
        return copy.ballot.promised < epoch or copy.promised_run == run

    def _is_starting(self, run: int, now: Instant) -> bool:
        ballot = self._copy.ballot
        return ballot.epoch > 0 and ballot.run != run and now < self.state.starts_until

    def _is_lease_running(self, look: Look, now: Instant) -> bool:
        return self._lease_left(look, now) > 0 and not self.state.is_holder_gone

    def _lease_left(self, look: Look, now: Instant) -> int:
        """Most time left to a lease of the other: its life-sign moved at the latest when that was first read."""
        has_lease = self.state.watched[0] > (0, 0) and (look.other_life is None or look.other_life.sign != RELEASED)
        return max(0, self._later(self.state.changed_at, self.config.lease_ns) - now) if has_lease else 0

    def _accept(self, question: Accept, other: Ballot, look: Look, now: Instant) -> list[Effect]:
        record, ballot = question.record, self._copy.ballot
        refusal = self._why_not(question, other, now)
        if refusal is not None:
            return self._finish(refusal.value, look, now)
        if record.rank > ballot.rank:
            is_moving = look.own_life is None or look.own_life.sign != RELEASED
            return self._propose(record.run, fields_of(record), is_moving=is_moving, now=now)
        if not self.state.is_settled:
            return self._rewrite(now)
        if self.state.has_moved:
            return self._finish("", look, now)
        sign = sign_after(self.state.sign)
        self._become(sign=sign, life=LifeSign(sign, max(self.state.life.floor, question.floor)))
        return self._write(Part.LIFE, is_moving=True, now=now)

    def _why_not(self, question: Accept, other: Ballot, now: Instant) -> VoterRefusal | None:
        record, ballot = question.record, self._copy.ballot
        if not self._is_open(record.epoch, record.run, other):
            return VoterRefusal.PROMISED
        if self._is_starting(record.run, now):
            return VoterRefusal.STARTING
        if record.rank < max(ballot.rank, other.rank):
            return VoterRefusal.SUPERSEDED
        is_same = record.rank != ballot.rank or all(
            getattr(ballot, field) == value for field, value in fields_of(record).items()
        )
        return None if is_same else VoterRefusal.MALFORMED

    def _release(self, question: Release, look: Look, now: Instant) -> list[Effect]:
        ballot = self._copy.ballot
        if (ballot.epoch, ballot.run) != (question.epoch, question.run):
            return self._finish(VoterRefusal.SUPERSEDED.value, look, now)
        if not self.state.is_settled:
            return self._rewrite(now)
        if look.own_life is not None and look.own_life.sign == RELEASED:
            return self._finish("", look, now)
        self._become(life=LifeSign(RELEASED, self.state.life.floor))
        return self._write(Part.LIFE, is_moving=True, now=now)

    def _propose(self, run: int, changes: dict[str, Any], *, is_moving: bool, now: Instant) -> list[Effect]:
        ballot = self._copy.ballot
        ballot = msgspec.structs.replace(ballot, count=count_after(ballot.count), **changes)
        return self._keep(OwnCopy(ballot=ballot, landed=self.state.landed, promised_run=run), is_moving, now)

    def _rewrite(self, now: Instant) -> list[Effect]:
        """Write the same ballot under a new count: reading back words that were there already would prove nothing."""
        return self._propose(self._copy.promised_run, {}, is_moving=False, now=now)

    def _keep(self, copy: OwnCopy, is_moving: bool, now: Instant) -> list[Effect]:
        self._become(copy=copy)
        return [PersistCopy(copy), *self._write(Part.BALLOT, is_moving=is_moving, now=now)]

    def _install(self, words: Sequence[int], now: Instant) -> list[Effect]:
        """Write the first record, or that of a member without copy: over zeros, or a block that promised no more."""
        question = self.state.asked
        if not isinstance(question, Install):
            return self._take_next(now)
        ballot = admitted(words, self.config, question)
        if isinstance(ballot, str):
            return self._finish(ballot, None, now)
        landed = (ballot.count - 1) % COUNT_MODULUS
        self._become(landed=landed, starts_until=self._later(now, self.config.lease_ns))
        return self._keep(OwnCopy(ballot=ballot, landed=landed, promised_run=question.record.run), False, now)

    def _finish(self, reason: str, look: Look | None, now: Instant) -> list[Effect]:
        """Answer the question under way, if there is one, and take the one that waits."""
        self._become(trouble=reason if reason not in _REFUSALS_OF_A_SOUND_VOTER else "")
        effects = self._told(reason, look, now)
        return [*effects, *self._take_next(now)]

    def _told(self, reason: str, look: Look | None, now: Instant) -> list[Effect]:
        question = self.state.asked
        if question is None:
            self._count(reason)
            return []
        if look is None or self.state.copy is None or isinstance(look.other, str):
            return [self._no(question, reason)] if reason else [SendVote(vote(self.config, question, ""))]
        own, other = self.state.copy.ballot, look.other
        self._count(reason)
        left = self._lease_left(look, now)
        if self._is_starting(question.run, now):
            left = max(left, self.state.starts_until - now)
        floor = look.other_life.floor if look.other_life else BEGINNING
        voted = msgspec.structs.replace(
            vote(self.config, question, reason),
            promised=max(own.promised, other.promised),
            record=record_of(self.config, max(own, other, key=lambda ballot: ballot.rank)),
            lease_left_ns=left,
            is_lease_running=self._is_starting(question.run, now) or self._is_lease_running(look, now),
            floor=max(self.state.life.floor, floor),
        )
        return [SendVote(voted)]

    def _no(self, question: Question, reason: str) -> SendVote:
        """Refusal that tells nothing of the blocks: a zero, torn or foreign block is no answer, never "empty"."""
        self._count(reason)
        answer = vote(self.config, question, reason)
        if isinstance(question, Install) and self.state.copy is not None:
            # An INSTALL that is given again must see that it was carried out.
            answer = msgspec.structs.replace(answer, record=record_of(self.config, self._copy.ballot))
        return SendVote(answer)

    def _count(self, reason: str) -> None:
        if reason:
            self.refusals[reason] = self.refusals.get(reason, 0) + 1
