"""Admission of voters: first record of a pair, re-admission of a voter that lost its store, a PLC's own block.

All three are INSTALL, which only an empty voter takes. It brings a record and a promise, and both must be at least as
high as those that the voter held before; otherwise two members could be told yes (ADR-0118). That is certain

- when the other member has just promised the lease (rule 4b), so no candidacy of it is open; or
- when a majority of the list, the lost voter not counted, was heard since: every candidacy that could succeed has asked
  a voter of that majority.

A candidate that had asked the voter before it lost its store has given up by then: the wait of lease + drift is longer
than an attempt.

A PLC's registers are two blocks, one per member, and each member admits its own: the primary with `pair init`, the
backup as soon as it follows.

Spec: design/pair.md, Parts (voters), rule 14; ADR-0118.
"""

from collections.abc import Callable
from typing import Final

from albireo.codec.pair_message import Install, Question, Read, Record, Voted
from albireo.codec.questions.kind import UserAsked
from albireo.codec.questions.pair import ResetAsked
from albireo.machine.pair.config import PairConfig
from albireo.machine.pair.events import ACTING, State
from albireo.machine.pair.member import Member
from albireo.machine.vote.voter import VoterRefusal
from albireo.model.instant import SECOND, Instant
from albireo.model.log_view import LogView
from albireo.model.refusal import Refusal, RefusalCode
from albireo.node.member.action_replies import Poll, Reply
from albireo.node.member.status import MemberStatus, VoterSeen

INIT_WAIT_NS: Final = 3 * SECOND
"""Longest wait for answers to `pair init`; voters without one are reported as silent, and it can be given again."""
FIRST_EPOCH: Final = 2
"""Lowest epoch of the primary that is not 0."""
PROBE_NS: Final = SECOND
"""Time without an answer after which a voter is read: the status of a passive member has to say whom it reaches."""
HEARD_NS: Final = 3 * SECOND
ANSWER_NS: Final = 2 * SECOND
PLC: Final = "plc:"
NO_ROUND: Final = 0
"""Round of these questions: the member machine counts its own from 1 on, and takes no answer of another round."""


class VoterAdmission:
    """Admission of voters by one member; one per run of CORE."""

    def __init__(
        self,
        member: Member,
        log: Callable[[], LogView],
        status: MemberStatus,
        ask_voter: Callable[[str, Question], None],
    ) -> None:
        self._member = member
        self._log = log
        self._status = status
        self._ask_voter = ask_voter
        self._installed: dict[str, Voted] = {}
        """Last answer to an INSTALL, by voter."""
        self._probe_at: Instant | None = None

    def voted(self, voted: Voted) -> None:
        if voted.question == "pair_install" and voted.voter in self._member.config.voters:
            self._installed[voted.voter] = voted

    def init(self, asked: UserAsked, now: Instant) -> Reply | Poll:
        own, config, log = self._member.own, self._member.config, self._log()
        if own.index != 0:
            primary = self._status.seats.place(0)
            remedy = f"ask {primary}, with --data of its directory"
            return Refusal(RefusalCode.NOT_POSSIBLE, "only the primary begins a pair", remedy)
        if log.end.sequence or log.history.epoch:
            cause = "this log is not empty, so the pair is not new; nothing was done"
            return Refusal(RefusalCode.NOT_NEW, cause, _NOT_NEW)
        if not config.voters:
            return Refusal(RefusalCode.VOTERS, "this pair has no voters", "begin it with: albireo promote --force")
        record = _first_record(config)
        self._installed.clear()
        for voter in config.voters:
            self._install(voter, record, FIRST_EPOCH)
        until = Instant(now + INIT_WAIT_NS)

        def outcome(now: Instant) -> Reply | None:
            return self._initialised(record) if len(self._installed) == len(config.voters) or now >= until else None

        return outcome

    def _initialised(self, record: Record) -> Reply:
        answers: dict[str, object] = {}
        took = 0
        for voter in self._member.config.voters:
            voted = self._installed.get(voter)
            has_it = voted is not None and voted.record == record
            took += has_it or (voted is not None and voted.is_granted)
            if voted is None:
                answers[voter] = "silent"
            elif voted.is_granted:
                answers[voter] = "took it"
            else:
                answers[voter] = "has it already" if has_it else voted.reason
        if took >= self._member.config.majority:
            return {"voters": answers}
        listed = ", ".join(f"{voter}: {answer}" for voter, answer in answers.items())
        cause = f"{took} of {len(answers)} voters took the first record ({listed})"
        return Refusal(RefusalCode.VOTERS, cause, _ASK_ANEW)

    def reset(self, asked: ResetAsked, now: Instant) -> Reply | Poll:
        """Admit a voter again that says it is empty; only the active member does."""
        config = self._member.config
        names = [one for one in config.voters if asked.voter in (one, one.partition(":")[2])]
        if len(names) != 1:
            remedy = f"name one of {', '.join(config.voters) or 'none'}"
            return Refusal(RefusalCode.UNKNOWN_NAME, f"no voter {asked.voter!r}", remedy)
        voter = names[0]
        if voter.startswith(PLC):
            remedy = "nothing: each member restores its own block there once it leads or follows"
            return Refusal(RefusalCode.NOT_POSSIBLE, f"{voter} needs no reset", remedy)
        why_not = self._why_not(voter, now)
        if why_not is not None:
            return why_not
        ready_at = Instant(now + config.lease_and_drift)
        sent_at: Instant | None = None
        self._installed.pop(voter, None)

        def outcome(now: Instant) -> Reply | None:
            nonlocal sent_at
            if sent_at is not None:
                return self._readmitted(voter, now, Instant(sent_at + ANSWER_NS))
            if now < ready_at:
                return None
            why_not = self._why_not(voter, now) or self._admit_again(voter, ready_at, now)
            if why_not is None:
                sent_at = now
            return why_not if now >= ready_at + ANSWER_NS else None

        return outcome

    def _why_not(self, voter: str, now: Instant) -> Refusal | None:
        """Reason against a re-admission, looked for before and after the wait; None: there is none."""
        member, seen = self._member, self._status.voters[voter]
        if member.state not in ACTING or member.holder is None:
            cause = f"only the active member admits a voter; this one is {member.state.value}"
            return Refusal(RefusalCode.NOT_HOLDER, cause, "ask the active member, with its --data")
        if seen.last is None or now - seen.at > HEARD_NS:
            remedy = "start it first: albireo witness --name NAME"
            return Refusal(RefusalCode.NO_ANSWER, f"{voter} does not answer", remedy)
        if seen.last.reason != VoterRefusal.EMPTY.value:
            reason = f" ({seen.last.reason})" if seen.last.reason else ""
            cause = f"{voter} has its store{reason}"
            return Refusal(RefusalCode.NOT_POSSIBLE, cause, "nothing: only an empty voter is reset")
        return None

    def _admit_again(self, voter: str, since: Instant, now: Instant) -> Refusal | None:
        """Send INSTALL if the highest possible promise of the voter is certain; else say what is missing."""
        member, own = self._member, self._member.own
        holder = member.holder
        assert holder is not None, "checked by `_why_not`"
        others = [seen for name, seen in self._status.voters.items() if name != voter]
        told = [seen.last for seen in others if seen.last is not None]
        if any(one.record is not None and one.record.epoch > holder.epoch for one in told):
            cause = "the other member was given a higher epoch"
            return Refusal(RefusalCode.NOT_HOLDER, cause, "ask that one, with its --data")
        heard_since = sum(_is_known(seen, since) for seen in others)
        if holder.lease.from_peer <= now and heard_since < member.config.majority:
            return Refusal(RefusalCode.VOTERS, "it is not certain what this voter had promised", _NOT_CERTAIN)
        heard = member.peer.last
        promised = max(
            holder.epoch,
            own.tried_epoch,
            own.accepted_epoch,
            0 if heard is None else heard.accepted_epoch,
            *[one.promised for one in told],
        )
        self._install(voter, holder.record, promised)
        return None

    def _readmitted(self, voter: str, now: Instant, until: Instant) -> Reply | None:
        voted = self._installed.get(voter)
        if voted is None:
            late = Refusal(RefusalCode.NO_ANSWER, f"{voter} did not answer", "try again")
            return late if now >= until else None
        if not voted.is_granted:
            remedy = "its topology file must list the same pair and voters"
            return Refusal(RefusalCode.VOTERS, f"{voter} refused: {voted.reason}", remedy)
        return {"voter": voter, "promised": voted.promised}

    def deadline(self) -> Instant | None:
        return self._probe_at

    def ticked(self, now: Instant) -> None:
        """Read voters that have not answered lately, and admit the own block of a PLC where it is empty."""
        if self._probe_at is not None and now < self._probe_at:
            return
        self._probe_at = Instant(now + PROBE_NS)
        own = self._member.own
        for voter, seen in self._status.voters.items():
            if voter.startswith(PLC) and seen.last is not None and seen.last.reason == VoterRefusal.EMPTY.value:
                self._admit_own_block(voter)
            if now - seen.at >= PROBE_NS:
                self._ask_voter(voter, Read(**own.voter_head, round=NO_ROUND))

    def _admit_own_block(self, voter: str) -> None:
        """Admit the own block: this member's promises there are in its store header, so its own word is enough."""
        member, own, log = self._member, self._member.own, self._log()
        record = None
        if member.holder is not None and member.state in ACTING:
            record = member.holder.record
        elif member.following is not None and member.state is State.READY:
            seen = (one.last.record for one in self._status.voters.values() if one.last is not None)
            followed = [one for one in seen if one is not None and one.epoch == member.following.epoch]
            record = max(followed, key=lambda one: one.rank, default=None)
        elif own.index == 1 and not log.end.sequence and not log.history.epoch:
            # A new pair's PLC has no vote before both blocks are there, and nobody to follow before it has. This member
            # has promised nothing and is in no set, so the first record in its own block gives nobody a vote too much.
            record = _first_record(member.config)
        if record is not None:
            self._install(voter, record, max(record.epoch, own.tried_epoch, own.accepted_epoch))

    def _install(self, voter: str, record: Record, promised: int) -> None:
        own = self._member.own
        question = Install(**own.voter_head, round=NO_ROUND, record=record, promised=promised)
        self._ask_voter(voter, question)


def _first_record(config: PairConfig) -> Record:
    """First record of a new pair: nobody's run, and only the primary in the set."""
    return Record(
        cluster=config.cluster,
        voters=config.voters,
        generation=config.generation,
        epoch=FIRST_EPOCH,
        version=1,
        holder=0,
        run=0,
        members=(0,),
        lease_ns=config.lease_ns,
    )


def _is_known(seen: VoterSeen, since: Instant) -> bool:
    """True: the voter has its store, and has told its promises since then."""
    return seen.at >= since and seen.last is not None and seen.last.record is not None


_NOT_NEW: Final = (
    "nothing, if `albireo status` shows who is active; if nobody is, "
    "`albireo stores DIR DIR` tells which store is newer"
)
_ASK_ANEW: Final = "start those that are silent and try again; docs/pair.md explains the other words"
_NOT_CERTAIN: Final = "start the other member and wait until it is ready, or start the other voters; then try again"
