"""Transitions: what becomes of one case at one event.

What it does not do: judge conditions (`conditions`), keep the table or the order of records (`cases`).

The idea: a case is a frozen value and every transition gives the next one, as it will stand in the record. A case is
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

Invariants (of every case that leaves here)
    closed       <=>  inactive, acked, not latched, unshelved, in service, not chattering
    one_shot or timed  <=>  unshelve_at is set
    case_id, item_id, condition and raised_ns never change

Spec: OPC UA Part 9, 5.5 (acknowledge), 5.8 (active, shelved, suppressed, out of service, latched, reset); ISA-18.2
state diagram (from shelved, suppressed and out of service a case returns to "unacknowledged" or "normal" by its
condition). ASSUMED, the text of the standards is not open: ISA-18.2's return path; that Part 9 refuses to reset an
active or unacked case. The experiment: the same sequence against a certified server.
"""

from typing import Final, assert_never

import msgspec

from albireo.codec.record import CaseChanged
from albireo.model.case import Action, Case, Cause, LifecycleStatus, Shelving
from albireo.model.instant import LogTime, WallTime
from albireo.model.item import Condition
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


class Cleared(msgspec.Struct, frozen=True):
    """The condition is gone."""


class SuppressionBegan(msgspec.Struct, frozen=True):
    pass


class SuppressionEnded(msgspec.Struct, frozen=True):
    pass


class ChatterBegan(msgspec.Struct, frozen=True):
    pass


class ChatterEnded(msgspec.Struct, frozen=True):
    pass


class ShelveEnded(msgspec.Struct, frozen=True):
    """Its time is over."""


class OperatorAsked(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's action, already checked for its rights and its text."""

    action: Action
    user: str
    comment: str = ""
    unshelve_at: LogTime | None = None
    """SHELVE and SHELVE_ONCE: when the shelve ends at the latest."""


Event = (
    Activated
    | Cleared
    | SuppressionBegan
    | SuppressionEnded
    | ChatterBegan
    | ChatterEnded
    | ShelveEnded
    | OperatorAsked
)


class Refused(msgspec.Struct, frozen=True):
    """An operator's action that can't be done, and what to do instead."""

    reason: str
    remedy: str


class InvalidTransition(Exception):
    """Our bug: an event that this case can't have."""

    def __init__(self, case: Case, event: Event) -> None:
        super().__init__(f"{event} at {case}")
        self.case = case
        self.event = event


def is_silent(case: Case) -> bool:
    """Asks nobody for anything now."""
    return case.shelving is not Shelving.UNSHELVED or case.is_suppressed or case.is_out_of_service


def is_closable(case: Case) -> bool:
    return not (
        case.is_active
        or not case.is_acked
        or case.is_latched
        or case.shelving is not Shelving.UNSHELVED
        or case.is_out_of_service
        or case.is_chattering
    )


def raised(
    item_id: int, condition: Condition, event: Activated, *, is_suppressed: bool, at_ns: WallTime
) -> CaseChanged:
    """A new case. One raised while suppressed was shown to nobody, so there is nothing to acknowledge."""
    case = Case(
        case_id=0,
        item_id=item_id,
        condition=condition,
        severity=event.severity,
        is_acked=is_suppressed,
        is_latched=event.is_latched,
        is_suppressed=is_suppressed,
        is_chattering=event.is_chattering,
        raised_ns=at_ns,
        changed_ns=at_ns,
        value=event.value,
    )
    return CaseChanged(case=case, cause=Cause.RAISED)


def reserved(item_id: int, condition: Condition, severity: int, *, is_suppressed: bool, at_ns: WallTime) -> Case:
    """An inactive case that no record holds yet: what an operator shelves or takes out before anything is wrong."""
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


def step(case: Case, event: Event, at_ns: WallTime) -> CaseChanged | Refused:
    """Take one event at an open case.

    Returns:
        The case as it stands then, and why; a refusal only to an operator.
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
        case OperatorAsked():
            return True
        case _:
            assert_never(event)


Changes = dict[str, object]
_UNSHELVED: Final[Changes] = {"shelving": Shelving.UNSHELVED, "unshelve_at": None}


def _followed(case: Case, event: Event) -> tuple[Cause, Changes]:
    """What the node's own event changes."""
    match event:
        case Activated():
            return Cause.ACTIVATED, {
                "is_active": True,
                "is_acked": case.is_acked and is_silent(case),
                "is_latched": case.is_latched or event.is_latched,
                "activations": case.activations + 1,
                "severity": event.severity,
                "value": event.value,
            }
        case Cleared():
            shelf = _UNSHELVED if case.shelving is Shelving.ONE_SHOT else {}
            return Cause.CLEARED, {"is_active": False, **shelf}
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
        case OperatorAsked():
            raise InvalidTransition(case, event)
        case _:
            assert_never(event)


def _obeyed(case: Case, event: OperatorAsked) -> tuple[Cause, Changes]:
    """What an operator's action changes."""
    signed: Changes = {"actor": event.user, "comment": event.comment or case.comment}
    match event.action:
        case Action.ACK | Action.ACK_ALL:
            return Cause.ACKED, {"is_acked": True, **signed}
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
    """The next case: asks again when a silence has ended over a condition that holds, closes when nothing keeps it."""
    after = msgspec.structs.replace(case, **changes, changed_ns=at_ns, lifecycle_status=LifecycleStatus.UPDATED)
    if is_silent(case) and not is_silent(after) and after.is_active:
        after = msgspec.structs.replace(after, is_acked=False)
    if is_closable(after):
        after = msgspec.structs.replace(after, lifecycle_status=LifecycleStatus.CLOSED)
    return CaseChanged(case=after, cause=cause)


def refusal_of(case: Case, action: Action) -> Refused | None:
    """Why an operator can't do this to this case now; None when it can be done."""
    match action:
        case Action.ACK | Action.ACK_ALL:
            return Refused("it is acknowledged already", _NOTHING_LEFT) if case.is_acked else None
        case Action.RESET:
            return _reset_refusal(case)
        case Action.SHELVE | Action.SHELVE_ONCE:
            # Shelving what is shelved sets its time anew (Part 9, 5.8.17).
            return Refused("it is out of service", "put it back in service first") if case.is_out_of_service else None
        case Action.UNSHELVE:
            return Refused("it is not shelved", _NOTHING_LEFT) if case.shelving is Shelving.UNSHELVED else None
        case Action.OUT_OF_SERVICE:
            return Refused("it is out of service already", _NOTHING_LEFT) if case.is_out_of_service else None
        case Action.IN_SERVICE:
            return None if case.is_out_of_service else Refused("it is in service", _NOTHING_LEFT)
        case Action.COMMENT:
            return None
        case _:
            assert_never(action)


def _reset_refusal(case: Case) -> Refused | None:
    if not case.is_latched:
        return Refused("it is not latched", _NOTHING_LEFT)
    if case.is_active:
        return Refused("its condition still holds", "remove the cause, then reset")
    if not case.is_acked:
        return Refused("it is not acknowledged", "acknowledge it, then reset")
    return None
