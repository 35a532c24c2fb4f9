"""Admin actions: people ask one member of a pair for them; docs/pair.md says what each one means.

    pair_init                      the first record                              voter_admission.py
    voter_reset                    a voter that lost its store votes again       voter_admission.py
    switchover, promote            who leads
    maintenance                    a member that never leads until it is over
    stop_hold, _level, _now        both members stop level                       joint_stop.py
    pair_seen                      somebody has looked at what was cut or lost

An action is answered when its outcome is known, at once or some time later; it is never given up in silence. A refusal
of the member machine comes back with a remedy. Who asked for the action, and how it ended, goes on record in the log
(audit_trail.py).

Spec: design/pair.md, rules 9, 11, 14; ADR-0117, 0118, 0123.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from albireo.codec.frame import Frame
from albireo.codec.message import Ask
from albireo.codec.pair_message import Heartbeat, Question, Voted
from albireo.codec.questions.kind import Handled, QuestionKind, ShapeT, UserAsked, by_name, taken
from albireo.codec.questions.pair import (
    MAINTENANCE,
    PAIR_INIT,
    PAIR_SEEN,
    PROMOTE,
    STOP_HOLD,
    STOP_LEVEL,
    STOP_NOW,
    SWITCHOVER,
    VOTER_RESET,
    MaintenanceAsked,
)
from albireo.codec.record import Audited
from albireo.machine.access.judge import RefusedAccess, speaking
from albireo.machine.kernel.turn import answer_to
from albireo.machine.pair.events import (
    HOLDING,
    Event,
    ForceAsked,
    HoldAsked,
    Objection,
    State,
    SwitchoverAsked,
    Untimely,
    Why,
)
from albireo.machine.pair.member import Member
from albireo.model.instant import MS, SECOND, Instant, WallTime, soonest
from albireo.model.log_view import LogView
from albireo.model.position import Position
from albireo.model.principal import UNKEYED, kind_of
from albireo.model.refusal import Refusal, RefusalCode
from albireo.node.member.action_replies import GIVEN_UP, Poll, Reply
from albireo.node.member.audit_trail import USER_CHARS_MAX, AuditTrail
from albireo.node.member.joint_stop import JointStop
from albireo.node.member.marks import Marks
from albireo.node.member.status import MemberStatus
from albireo.node.member.voter_admission import VoterAdmission
from albireo.runtime import Letter

REFUSED_NOTED_MAX: Final = 32
"""Entries that wait for the log above which refusals are not added to them: half of what is kept."""
WAITING_MAX: Final = 8
"""Most actions under way; one more is refused."""
POLL_NS: Final = 20 * MS
HANDOVER_NS: Final = 10 * SECOND
FORCE_NS: Final = 10 * SECOND
ACTIONS: Final = {
    "pair_init": "pair_init",
    "voter_reset": "voter_reset",
    "switchover": "switchover",
    "maintenance": "maintenance",
    "promote": "promote_force",
    "stop_level": "stop_all",
    "pair_seen": "pair_seen",
}
"""Names under which actions go on record. `stop_hold` and `stop_now` are steps of what `stop_level` stands for."""
NOT_DETAIL: Final = frozenset({"user", "is_on"})
"""Arguments that the record has elsewhere."""


class ActionContext(msgspec.Struct, frozen=True):
    """The part of the membership that admin actions use."""

    log: Callable[[], LogView]
    """Gives the own log as it is now."""
    step: Callable[[Event], list[Why]]
    """Takes one step of the member machine; returns the reasons of its refusals."""
    ask_voter: Callable[[str, Question], None]
    wall_ns: Callable[[], WallTime]
    stop_node: Callable[[], object]
    """Asks boot to stop this node."""
    journal: Callable[[str, str], object]
    """Keeps a line: which action, asked for by whom."""
    append: Callable[[Sequence[Audited]], int]
    """Appends to the own log, if this member may; returns the sequence of the last record, 0 if it may not."""
    refuse: Callable[[str, Ask], RefusedAccess | None]
    """Judges whether a principal may ask that here; None: it may."""


class GivenAction(msgspec.Struct, frozen=True):
    """An action, and where its answer goes."""

    letter: Letter
    ask: Ask

    @property
    def voices(self) -> tuple[str, str]:
        """Principal who asks, and the one who speaks if that is another."""
        return speaking(self.letter.principal, self.ask)

    @property
    def user(self) -> str:
        """Who asks, as it is claimed; cut, for it is kept before anybody has judged it."""
        principal, _ = self.voices
        by_key = "" if kind_of(principal) in UNKEYED else principal
        user = str(self.ask.arguments.get("user") or by_key or "a client on this machine")
        return user[:USER_CHARS_MAX]

    @property
    def action(self) -> str:
        """Name on record; empty for a step of another action."""
        is_over = self.ask.what == "maintenance" and self.ask.arguments.get("is_on") is False
        return "maintenance_end" if is_over else ACTIONS.get(self.ask.what, "")


Handler: TypeAlias = Callable[[Any, Instant], Reply | Poll]
"""Does an action, at once or in time."""


def handled(kind: QuestionKind[ShapeT, Any], handler: Callable[[ShapeT, Instant], Reply | Poll]) -> Handled[Handler]:
    """Bind a handler to an action."""
    return Handled(kind, handler)


class WaitingAction(msgspec.Struct):
    """An action whose outcome is not known yet."""

    given: GivenAction
    poll: Poll


class AdminActions:
    """Admin actions that this member is asked for; one per run of CORE."""

    def __init__(self, member: Member, status: MemberStatus, marks: Marks, context: ActionContext) -> None:
        self._member = member
        self._status = status
        self._marks = marks
        self._context = context
        self._waiting: list[WaitingAction] = []
        self._poll_at = Instant(0)
        seats, own = status.seats, member.own
        places = (seats.place(own.index), seats.place(own.other))
        self._place = places[0]
        self._trail = AuditTrail(context.log, marks, context.append, context.wall_ns, places)
        self.admission = VoterAdmission(member, context.log, status, context.ask_voter)
        self.joint_stop = JointStop(member, context.log, context.step, context.stop_node, self._hold)
        self.handlers = by_name(
            [
                handled(PAIR_INIT, self.admission.init),
                handled(VOTER_RESET, self.admission.reset),
                handled(SWITCHOVER, self._switchover),
                handled(MAINTENANCE, self._maintenance),
                handled(PROMOTE, self._promote),
                handled(STOP_HOLD, self.joint_stop.hold),
                handled(STOP_LEVEL, self.joint_stop.level),
                handled(STOP_NOW, self.joint_stop.now),
                handled(PAIR_SEEN, self._seen),
            ]
        )

    def begin(self, on_record: Iterable[tuple[Audited, Position]]) -> None:
        """Take up what outlives a restart: the audit trail, and maintenance, for which it was perhaps done.

        Args:
            on_record: entries at the end of the log, with where they stand.
        """
        self._trail.found(on_record)
        self._hold()

    def asked(self, letter: Letter, ask: Ask, now: Instant) -> bool:
        """Take a question that asks for an admin action; False: it asks for something else."""
        if ask.what not in self.handlers:
            return False
        given = GivenAction(letter, ask)
        if self._is_refused(given):
            return True
        if len(self._waiting) >= WAITING_MAX:
            cause = f"{WAITING_MAX} admin actions are under way"
            self._say(given, Refusal(RefusalCode.BUSY, cause, "wait for one to end"))
            return True
        self._context.journal(ask.what, given.user)
        self._note(given, "", _text({name: ask.arguments[name] for name in ask.arguments if name not in NOT_DETAIL}))
        found = taken(self.handlers, msgspec.structs.replace(ask, person=""))
        outcome = found if isinstance(found, Refusal) else found[0].handler(found[1], now)
        if callable(outcome):
            self._waiting.append(WaitingAction(given, outcome))
            self._poll_at = now
        else:
            self._end(given, outcome)
        return True

    def _is_refused(self, given: GivenAction) -> bool:
        """True: the asker lacks the role, and was told so. Refusals must not push orders out of the audit trail."""
        refused = self._context.refuse(given.letter.principal, given.ask)
        if refused is None:
            return False
        entry = refused.entry
        if entry is not None and len(self._marks.actions) < REFUSED_NOTED_MAX:
            detail = f"{entry.subject} {entry.detail}"
            self._trail.note(entry.user, entry.action, self._place, detail, (entry.principal, entry.speaker))
        self._say(given, refused.refusal)
        return True

    def voted(self, voted: Voted) -> None:
        """Take a voter's answer to some question."""
        self.admission.voted(voted)

    def heard(self, beat: Heartbeat) -> None:
        """Take the other member's last heartbeat, fresh."""
        self._trail.heard(beat)

    def followed(self, frames: Sequence[Frame]) -> None:
        """Take frames of the holder that stand in the log."""
        self._trail.followed(frames)

    def marked(self, beat: Heartbeat) -> Heartbeat:
        """The heartbeat, with what the other member should put on record, and show."""
        cases = self._status.carried()
        return self._trail.marked(msgspec.structs.replace(beat, cases=cases) if cases else beat)

    def deadline(self) -> Instant | None:
        poll_at = self._poll_at if self._waiting else None
        return soonest(self.admission.deadline(), self.joint_stop.deadline(), poll_at)

    def ticked(self, now: Instant) -> None:
        self.admission.ticked(now)
        self.joint_stop.ticked(now)
        self._trail.ticked()
        if not self._waiting or now < self._poll_at:
            return
        self._poll_at = Instant(now + POLL_NS)
        for one in list(self._waiting):
            reply = one.poll(now)
            if reply is not None:
                self._waiting.remove(one)
                self._end(one.given, reply)

    def _end(self, given: GivenAction, reply: Reply) -> None:
        if isinstance(reply, Refusal):
            self._note(given, "_refused", reply.cause)
        else:
            self._note(given, "_done", _text(reply))
        self._say(given, reply)

    def _note(self, given: GivenAction, ending: str, detail: str) -> None:
        if given.action:
            self._trail.note(given.user, given.action + ending, self._place, detail, given.voices)

    def _say(self, given: GivenAction, reply: Reply) -> None:
        outcome = reply if isinstance(reply, Refusal) else reply | {"state": self._member.state.value}
        given.letter.link.send(answer_to(given.ask.request_id, outcome), to=given.letter.sender)

    def _hold(self) -> None:
        """Keep the member from standing while there is a reason to, or let it stand again."""
        self._context.step(HoldAsked(self._marks.maintenance_since_ns > 0 or self.joint_stop.is_holding))

    def _seen(self, asked: UserAsked, now: Instant) -> Reply | Poll:
        """End the cases of what was cut here, or may be lost: somebody has looked at them."""
        return {"ended": self._status.seen()}

    def _switchover(self, asked: UserAsked, now: Instant) -> Reply | Poll:
        return self._hand_over(SwitchoverAsked("operator", is_patient=True), now)

    def _hand_over(self, order: SwitchoverAsked, now: Instant) -> Reply | Poll:
        refused = self._context.step(order)
        if refused:
            return refusal_of(refused, _SWITCHOVER)
        member, until = self._member, Instant(now + HANDOVER_NS)
        holder = member.holder
        assert holder is not None, "only a holder hands over"

        def outcome(now: Instant) -> Reply | None:
            if member.holder is not holder and member.peer.is_led_by(now, member.config):
                heard = member.peer.last
                assert heard is not None
                return {"active": self._status.seats.place(member.own.other), "epoch": heard.epoch}
            if member.handover.given_up is not None:
                return GIVEN_UP[member.handover.given_up]
            is_over = member.holder is holder and member.handover.until is None and not holder.has_yielded
            if is_over or now >= until:
                return _NOT_TAKEN
            return None

        return outcome

    def _maintenance(self, asked: MaintenanceAsked, now: Instant) -> Reply | Poll:
        """Hand over if this member leads; open no candidacy until the maintenance is over."""
        if not asked.is_on:
            return self._end_maintenance()
        state = self._member.state
        if state in HOLDING and state is not State.ACTIVE:
            cause = f"this member is {state.value} and the other member could not take over"
            return Refusal(RefusalCode.OTHER_MEMBER, cause, _WAIT_FOR_OTHER)
        try:
            self._marks.maintenance(self._marks.maintenance_since_ns or self._context.wall_ns())
        except OSError as error:
            cause = f"the maintenance can't be kept over a restart: {error.strerror}"
            return Refusal(RefusalCode.DISK_FAILED, cause, _DISK)
        self._hold()
        since: dict[str, object] = {"maintenance_since_ns": self._marks.maintenance_since_ns}
        outcome = self._hand_over(SwitchoverAsked("maintenance"), now) if state is State.ACTIVE else since
        if not callable(outcome):
            return self._in_maintenance(outcome, since)
        waited = outcome

        def then(now: Instant) -> Reply | None:
            reply = waited(now)
            return None if reply is None else self._in_maintenance(reply, since)

        return then

    def _in_maintenance(self, reply: Reply, since: dict[str, object]) -> Reply:
        """End a maintenance that could not hand over: somebody has to lead."""
        if not isinstance(reply, Refusal):
            return reply | since
        undone = self._end_maintenance()
        return undone if isinstance(undone, Refusal) else reply

    def _end_maintenance(self) -> Reply:
        try:
            self._marks.maintenance(0)
        except OSError as error:
            cause = f"the end of the maintenance can't be written: {error.strerror}"
            return Refusal(RefusalCode.DISK_FAILED, cause, _DISK)
        self._hold()
        return {"maintenance_since_ns": 0}

    def _promote(self, asked: UserAsked, now: Instant) -> Reply | Poll:
        """Lead by force: rule 9."""
        member, until = self._member, Instant(now + FORCE_NS)
        refused = self._context.step(ForceAsked())
        if refused:
            return refusal_of(refused, _PROMOTE)

        def outcome(now: Instant) -> Reply | None:
            if member.state in HOLDING and member.holder is not None:
                epoch, is_forced = member.holder.epoch, member.holder.grant.is_forced
                return {"epoch": epoch, "end": self._context.log().end.sequence, "is_forced": is_forced}
            if member.handover.is_force_given_up:
                return refusal_of([Objection.OTHER_IS_ALIVE], _PROMOTE)
            late = Refusal(
                RefusalCode.NOT_POSSIBLE, "it did not begin to lead", "`albireo status` shows its state and why"
            )
            return late if now >= until else None

        return outcome


def _text(said: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in said.items())


def refusal_of(refused: Sequence[Why], known: Mapping[Why, Refusal]) -> Refusal:
    """Objections of the member machine as one refusal, with the remedy where there is one."""
    found = [known[one] for one in refused if one in known]
    if not found:
        cause = "; ".join(map(str, refused))
        return Refusal(RefusalCode.NOT_POSSIBLE, cause, "`albireo status` shows the state of both members")
    return msgspec.structs.replace(found[0], cause="; ".join(one.cause for one in found))


_DISK: Final = "make room on this disk, or replace it, then try again"
_WAIT_FOR_OTHER: Final = "wait until `albireo status` shows the other member ready, or stop this one: albireo node stop"
_NOT_TAKEN: Final = Refusal(
    RefusalCode.OTHER_MEMBER,
    "the other member did not take over, so this one leads on",
    "see with `albireo status` whether the other member is in maintenance, or its log far behind; then try again",
)
_NOT_IN_SET: Final = Refusal(RefusalCode.OTHER_MEMBER, "the other member is not in the set", _WAIT_FOR_OTHER)
_SWITCHOVER: Final[Mapping[Why, Refusal]] = {
    Objection.OTHER_NOT_IN_SET: _NOT_IN_SET,
    Objection.OTHER_IS_HELD: Refusal(
        RefusalCode.OTHER_MEMBER,
        "the other member is in maintenance",
        "end that first, on its machine: albireo maintenance --end",
    ),
    Objection.OTHER_STARTS: Refusal(
        RefusalCode.OTHER_MEMBER,
        "adapters of the other member still start, so its devices would be left alone meanwhile",
        "try again in some seconds; if one can't start there, albireo maintenance here hands over all the same",
    ),
    Untimely(SwitchoverAsked, State.SOLO): _NOT_IN_SET,
    **{
        Untimely(SwitchoverAsked, state): Refusal(
            RefusalCode.NOT_HOLDER,
            f"only the active member hands over; this one is {state.value}",
            "ask the active member, with its --data",
        )
        for state in State
        if state is not State.SOLO
    },
}
_PROMOTE: Final[Mapping[Why, Refusal]] = {
    Objection.OTHER_IS_ALIVE: Refusal(
        RefusalCode.OTHER_MEMBER,
        "the other member shows signs of life, so nothing was forced",
        "switch its machine off, or let it lead; `albireo status` shows what it says",
    ),
    **{
        Untimely(ForceAsked, state): Refusal(
            RefusalCode.NOT_POSSIBLE,
            f"this member is {state.value}: it leads, or can never lead in this run",
            "nothing, if it leads; start it again if it is fenced",
        )
        for state in (State.RECOVERING, State.ACTIVE, State.SOLO, State.FENCED)
    },
}
