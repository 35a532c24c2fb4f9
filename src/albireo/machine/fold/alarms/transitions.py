"""Transitions: the next state of one case after one event.

Not done here: judging conditions (`conditions`), the table of cases and the sequence of their records (`cases`).

The idea: a case is a frozen value and every transition gives the next value, as the record will hold it. A case is
*silent* while it is shelved, suppressed or out of service. Silent cases follow their condition, but ask nobody to
acknowledge; when the silence ends and the condition holds, the case asks again.

                       condition                    acknowledged
    (none) --raised--> active, unacked ---------------------------------> active, acked
       ^               |          ^                                       |        ^
       |       cleared |          | activated                     cleared |        | activated: unacked again
       |               v          |                                       v        | (stays acked while silent)
       |               inactive, unacked ----acknowledged----> inactive, acked ----+
       |                                                               |
       +--------------------- closed ----------------------------------+
                              unless latched (until reset), shelved, out of service or chattering

A case that became active while it was suppressed is *unasked*: nobody acknowledged it, and nobody had to. It asks when
the suppression ends before its condition does, and closes by itself otherwise. The case of a retired item closes as it
stands: there is nothing left to ask.

Invariants (of every case that leaves here)
    closed       <=>  inactive, acked or unasked, not latched, unshelved, in service, not chattering; or just retired
    unasked       =>  not acked
    one_shot or timed  <=>  unshelve_at is set
    case_id, item_id, condition and raised_ns never change

Spec: OPC UA Part 9, 5.5 (acknowledge), 5.8 (active, shelved, suppressed, out of service, latched, reset); ISA-18.2
state diagram (from shelved, suppressed and out of service a case returns to "unacknowledged" or "normal" by its
condition). ASSUMED, the text of the standards is not open: ISA-18.2's return path; that Part 9 refuses to reset an
active or unacked case. The experiment: the same sequence against a certified server.
"""

from typing import Final, assert_never

import msgspec

from albireo.codec.questions.cases import ActionAsked
from albireo.codec.record import CaseChanged
from albireo.model.case import Action, Case, Cause, LifecycleStatus, Shelving, case_label
from albireo.model.instant import MS, LogTime, WallTime
from albireo.model.item import AlarmSettings, Condition
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.value import Value

COMMENT_CHARS_MAX: Final = 1_000
USER_CHARS_MAX: Final = 100
_NOTHING_LEFT: Final = "nothing is left to do"


class Activated(msgspec.Struct, frozen=True):
    """The condition holds (after its delay), or chatters."""

    value: Value | None
    severity: int
    is_latched: bool
    is_chattering: bool
    message: str = ""
    """Text of the node on it."""
    is_forced: bool = False
    """True: the value that was judged is one to which the item was forced."""


class Cleared(msgspec.Struct, frozen=True):
    """The condition holds no longer."""

    is_forced: bool = False
    """As of `Activated`."""


class SuppressionBegan(msgspec.Struct, frozen=True):
    pass


class SuppressionEnded(msgspec.Struct, frozen=True):
    pass


class ChatterBegan(msgspec.Struct, frozen=True):
    pass


class ChatterEnded(msgspec.Struct, frozen=True):
    pass


class ShelveEnded(msgspec.Struct, frozen=True):
    """The time of the shelve is over."""


class Redefined(msgspec.Struct, frozen=True):
    """The settings of the rule have changed."""

    severity: int
    is_latched: bool


class ItemRetired(msgspec.Struct, frozen=True):
    """The item is retired: nobody declares it any more, so nothing judges it."""


class OperatorAsked(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's action, already checked for its rights and its text."""

    action: Action
    user: str
    comment: str = ""
    unshelve_at: LogTime | None = None
    """SHELVE and SHELVE_ONCE: log time at which the shelve ends at the latest."""


Event = (
    Activated
    | Cleared
    | SuppressionBegan
    | SuppressionEnded
    | ChatterBegan
    | ChatterEnded
    | ShelveEnded
    | Redefined
    | ItemRetired
    | OperatorAsked
)


class InvalidTransition(Exception):
    """Our bug: an event that this case can't have."""

    def __init__(self, case: Case, event: Event) -> None:
        super().__init__(f"{event} at {case}")
        self.case = case
        self.event = event


def is_silent(case: Case) -> bool:
    """The case asks no operator for anything now."""
    return case.shelving is not Shelving.UNSHELVED or case.is_suppressed or case.is_out_of_service


def asks(case: Case) -> bool:
    """True: the present activation waits for an acknowledgement."""
    return not case.is_acked and not case.is_unasked


def is_closable(case: Case) -> bool:
    return not (
        case.is_active
        or asks(case)
        or case.is_latched
        or case.shelving is not Shelving.UNSHELVED
        or case.is_out_of_service
        or case.is_chattering
    )


def raised(
    item_id: int, condition: Condition, event: Activated, *, is_suppressed: bool, at_ns: WallTime
) -> CaseChanged:
    """Record of a new case. One that is raised while suppressed is shown to nobody: it is unasked, not acknowledged."""
    case = Case(
        case_id=0,
        item_id=item_id,
        condition=condition,
        severity=event.severity,
        is_unasked=is_suppressed,
        is_latched=event.is_latched,
        is_suppressed=is_suppressed,
        is_chattering=event.is_chattering,
        raised_ns=at_ns,
        changed_ns=at_ns,
        value=event.value,
        message=event.message,
        is_forced=event.is_forced,
    )
    return CaseChanged(case=case, cause=Cause.RAISED)


def reserved(item_id: int, condition: Condition, severity: int, *, is_suppressed: bool, at_ns: WallTime) -> Case:
    """Inactive case that no record holds yet: an operator shelves a rule or takes it out of service beforehand."""
    return Case(
        case_id=0,
        item_id=item_id,
        condition=condition,
        severity=severity,
        is_active=False,
        is_acked=True,
        is_suppressed=is_suppressed,
        activations=0,
        raised_ns=at_ns,
        changed_ns=at_ns,
    )


def step(case: Case, event: Event, at_ns: WallTime) -> CaseChanged | Refusal:
    """Take one event at an open case.

    Returns:
        The next case and its cause; a refusal only to an operator.
    Raises:
        InvalidTransition: an event of the node itself that contradicts the case.
    """
    if isinstance(event, OperatorAsked):
        refusal = refusal_of(case, event.action)
        return refusal if refusal is not None else _settled(case, *_obeyed(case, event), at_ns)
    if not _can_happen(case, event):
        raise InvalidTransition(case, event)
    return _settled(case, *_followed(case, event), at_ns)


def _can_happen(case: Case, event: Event) -> bool:
    match event:
        case Activated():
            return not case.is_active
        case Cleared():
            return case.is_active
        case SuppressionBegan():
            return not case.is_suppressed
        case SuppressionEnded():
            return case.is_suppressed
        case ChatterBegan():
            return not case.is_chattering
        case ChatterEnded():
            return case.is_chattering
        case ShelveEnded():
            return case.shelving is not Shelving.UNSHELVED
        case Redefined() | ItemRetired() | OperatorAsked():
            return True
        case _:
            assert_never(event)


Changes = dict[str, object]
_UNSHELVED: Final[Changes] = {"shelving": Shelving.UNSHELVED, "unshelve_at": None}


def _followed(case: Case, event: Event) -> tuple[Cause, Changes]:
    """Cause and changes of an event of the node itself."""
    match event:
        case Activated():
            is_kept_silent = case.shelving is not Shelving.UNSHELVED or case.is_out_of_service
            return Cause.ACTIVATED, {
                "is_active": True,
                "is_acked": case.is_acked and is_kept_silent,
                "is_unasked": (case.is_acked and case.is_suppressed and not is_kept_silent)
                or (case.is_unasked and is_silent(case)),
                "is_latched": case.is_latched or event.is_latched,
                "activations": case.activations + 1,
                "severity": event.severity,
                "value": event.value,
                "message": event.message,
                "is_forced": event.is_forced,
            }
        case Cleared():
            shelf = _UNSHELVED if case.shelving is Shelving.ONE_SHOT else {}
            return Cause.CLEARED, {"is_active": False, "is_forced": event.is_forced, **shelf}
        case SuppressionBegan():
            return Cause.SUPPRESSED, {"is_suppressed": True}
        case SuppressionEnded():
            return Cause.UNSUPPRESSED, {"is_suppressed": False}
        case ChatterBegan():
            return Cause.CHATTERING, {"is_chattering": True}
        case ChatterEnded():
            return Cause.CALMED, {"is_chattering": False}
        case ShelveEnded():
            return Cause.SHELVE_ENDED, _UNSHELVED
        case Redefined():
            return Cause.REDEFINED, {"severity": event.severity, "is_latched": event.is_latched}
        case ItemRetired():
            return Cause.RETIRED, {"is_active": False}
        case OperatorAsked():
            raise InvalidTransition(case, event)
        case _:
            assert_never(event)


def _obeyed(case: Case, event: OperatorAsked) -> tuple[Cause, Changes]:
    """Cause and changes of an operator's action."""
    signed: Changes = {"actor": event.user, "comment": event.comment or case.comment}
    match event.action:
        case Action.ACK | Action.ACK_ALL:
            return Cause.ACKED, {"is_acked": True, "is_unasked": False, **signed}
        case Action.RESET:
            return Cause.RESET, {"is_latched": False, **signed}
        case Action.SHELVE:
            return Cause.SHELVED, {"shelving": Shelving.TIMED, "unshelve_at": event.unshelve_at, **signed}
        case Action.SHELVE_ONCE:
            return Cause.SHELVED, {"shelving": Shelving.ONE_SHOT, "unshelve_at": event.unshelve_at, **signed}
        case Action.UNSHELVE:
            return Cause.UNSHELVED, {**_UNSHELVED, **signed}
        case Action.OUT_OF_SERVICE:
            return Cause.TAKEN_OUT, {"is_out_of_service": True, **signed}
        case Action.IN_SERVICE:
            return Cause.PUT_BACK, {"is_out_of_service": False, **signed}
        case Action.COMMENT:
            return Cause.COMMENTED, signed
        case _:
            assert_never(event.action)


def _settled(case: Case, cause: Cause, changes: Changes, at_ns: WallTime) -> CaseChanged:
    """The next case: it asks again if the condition holds after a silence, and closes when nothing keeps it."""
    after = msgspec.structs.replace(case, **changes, changed_ns=at_ns, lifecycle_status=LifecycleStatus.UPDATED)
    if is_silent(case) and not is_silent(after) and after.is_active:
        after = msgspec.structs.replace(after, is_acked=False, is_unasked=False)
    if cause is Cause.RETIRED or is_closable(after):
        after = msgspec.structs.replace(after, lifecycle_status=LifecycleStatus.CLOSED)
    return CaseChanged(case=after, cause=cause)


def edit_of(case: Case, settings: AlarmSettings | None, *, is_retired: bool) -> Redefined | ItemRetired | None:
    """Event that brings an open case to what is declared of its item; None: none is needed.

    Args:
        settings: of the item; None: they do not ask for the rule any more, so its condition is gone.
    """
    if is_retired:
        return ItemRetired()
    if settings is None:
        return None
    # A reset has ended the latch of an inactive case; only an activation sets it again.
    is_latched = settings.is_latched and (case.is_latched or case.is_active)
    is_same = (settings.severity, is_latched) == (case.severity, case.is_latched)
    return None if is_same else Redefined(settings.severity, is_latched)


def not_possible(cause: str, remedy: str) -> Refusal:
    """Refusal of an action that the state of a case does not allow."""
    return Refusal(RefusalCode.NOT_POSSIBLE, cause, remedy)


def refusal_of(case: Case, action: Action) -> Refusal | None:
    """Why an operator can't do this to this case now; None when it can be done."""
    match action:
        case Action.ACK | Action.ACK_ALL:
            return not_possible("it is acknowledged already", _NOTHING_LEFT) if case.is_acked else None
        case Action.RESET:
            return _reset_refusal(case)
        case Action.SHELVE | Action.SHELVE_ONCE:
            # Shelving what is shelved sets its time anew (Part 9, 5.8.17).
            refusal = not_possible("it is out of service", "put it back in service first")
            return refusal if case.is_out_of_service else None
        case Action.UNSHELVE:
            return not_possible("it is not shelved", _NOTHING_LEFT) if case.shelving is Shelving.UNSHELVED else None
        case Action.OUT_OF_SERVICE:
            return not_possible("it is out of service already", _NOTHING_LEFT) if case.is_out_of_service else None
        case Action.IN_SERVICE:
            return None if case.is_out_of_service else not_possible("it is in service", _NOTHING_LEFT)
        case Action.COMMENT:
            return None
        case _:
            assert_never(action)


def _reset_refusal(case: Case) -> Refusal | None:
    if not case.is_latched:
        return not_possible("it is not latched", _NOTHING_LEFT)
    if case.is_active:
        return not_possible("its condition still holds", "remove the cause, then reset")
    if asks(case):
        return not_possible("it is not acknowledged", "acknowledge it, then reset")
    return None


def text_refused(asked: ActionAsked) -> Refusal | None:
    """Why the texts of an action can't be recorded; None: they can."""
    if not asked.user or len(asked.user) > USER_CHARS_MAX:
        return Refusal(
            RefusalCode.BAD_VALUE, "no user, or too long a name", f"give a name of 1..{USER_CHARS_MAX} characters"
        )
    if len(asked.comment) > COMMENT_CHARS_MAX:
        return Refusal(RefusalCode.BAD_VALUE, "the comment is too long", f"at most {COMMENT_CHARS_MAX} characters")
    if asked.action is Action.COMMENT and not asked.comment:
        return Refusal(RefusalCode.BAD_VALUE, "the comment is empty", "say something")
    return None


def activation_passed(case: Case, asked: ActionAsked) -> Refusal | None:
    """Why an acknowledgement is none of the present activation: whoever acknowledges the one before has not seen it.

    None: it is, or another action is asked for.
    """
    seen = 1 if asked.activation is None else asked.activation
    if asked.action is not Action.ACK or seen == max(case.activations, 1):
        return None
    state = f"{'active' if case.is_active else 'normal again'}, {'acknowledged' if case.is_acked else 'unacknowledged'}"
    label = case_label(case.case_id, case.activations)
    return not_possible(
        f"activation {seen} of case {case.case_id} is not the present one: it has become active "
        f"{case.activations} times (value {case.value}), and is {state}",
        f"look at it, then acknowledge {label}",
    )


def unshelve_time(asked: ActionAsked, longest_ms: int, log_time: LogTime) -> LogTime | Refusal | None:
    """Log time at which the shelve asked for ends; None: another action is asked for."""
    if asked.action is Action.SHELVE_ONCE:
        duration_ms = longest_ms if asked.duration_ms is None else asked.duration_ms
    elif asked.action is Action.SHELVE:
        if asked.duration_ms is None:
            return Refusal(
                RefusalCode.BAD_VALUE, "a timed shelve needs a duration", f"give one of at most {longest_ms} ms"
            )
        duration_ms = asked.duration_ms
    else:
        return None
    if not 0 < duration_ms <= longest_ms:
        return Refusal(RefusalCode.BAD_VALUE, f"{duration_ms} ms is no time to shelve", f"give 1..{longest_ms} ms")
    return LogTime(log_time + duration_ms * MS)
