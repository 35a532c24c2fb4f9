"""Kind `case_action`: somebody does something about a case, at the node that has it.

Spec: docs/messages.md; ADR-0224.
"""

from typing import Protocol

import msgspec

from albireo.codec.questions.cases import CASE_ACTION, ActionAsked, CaseActionAsked
from albireo.codec.record import Audited, Stream
from albireo.machine.desk.roles import RoleNeeded
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.turn import NOBODY, NotAnswered, Question, Turn
from albireo.machine.orders.kind import OrderAtOwner, OrderDone, OrderKind
from albireo.machine.orders.places import Aim, Places
from albireo.model.bounded import Count
from albireo.model.case import Action, case_label
from albireo.model.item import Condition
from albireo.model.refusal import Refusal, RefusalCode


class CaseActBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Body of a message that acts on a case."""

    action: Action
    case_id: Count | None
    """None: a rule is named instead. Only whoever is at the node that has the cases may name neither."""
    activation: Count | None
    duration_ms: Count | None
    item_id: Count | None = None
    condition: Condition | None = None


class ActingRoot(Protocol):
    """The root machine, as far as actions on cases need it."""

    config: RootConfig
    folds: Folds


class ActOnCase(OrderKind[CaseActionAsked, CaseActBody]):
    """Each action needs its own role."""

    question = CASE_ACTION
    body = CaseActBody
    look = "`albireo cases list {node}`"
    after_stop = "look at the case before you act again"

    def __init__(self, root: ActingRoot) -> None:
        self._root = root

    def aim(self, asked: CaseActionAsked, places: Places) -> Aim:
        aim = places.of_node(asked.node)
        if not aim.is_here and not _is_named(asked):
            raise NotAnswered(_by_its_id(aim.node))
        return aim

    def needed(self, question: Question, asked: CaseActionAsked, aim: Aim) -> RoleNeeded | None:
        role = self.question.role_of({"action": asked.action})
        return RoleNeeded(aim.node, f"{self.name} {asked.action}", asked.user, role)

    def body_of(self, asked: CaseActionAsked, aim: Aim) -> CaseActBody:
        what = (asked.action, asked.case_id, asked.activation, asked.duration_ms)
        return CaseActBody(*what, asked.item_id, asked.condition)

    def subject(self, asked: CaseActionAsked, aim: Aim) -> str:
        return f"{asked.action} {subject_of(asked)} of {aim.node}"

    def do(self, order: OrderAtOwner[CaseActBody], turn: Turn) -> OrderDone | Refusal:
        body, asker = order.body, order.question
        if asker.sender == NOBODY and not _is_named(body):
            return _by_its_id(self._root.config.node)
        asked = ActionAsked(user=order.user, comment=order.reason, **msgspec.structs.asdict(body))
        changes = self._root.folds.act(asked, asker.moment.wall)
        if isinstance(changes, Refusal):
            return changes
        if changes:
            turn.record(Stream.CASES, changes)
        subject = subject_of(asked)
        audited = Audited(
            at_ns=asker.moment.wall,
            user=order.user,
            action=body.action,
            subject=subject,
            detail=order.reason,
            principal=asker.principal,
        )
        turn.record(Stream.AUDIT, [audited])
        return OrderDone([change.case for change in changes], f"{body.action.value} {subject}")

    def done_elsewhere(self, question: Question, asked: CaseActionAsked, aim: Aim, receipt: MessageReceipt) -> object:
        return []  # What changed is in that node's state.


def _is_named(asked: ActionAsked | CaseActBody) -> bool:
    """From afar one case or rule is meant; an acknowledgement is of the activation that was seen, so of a case."""
    is_rule = asked.item_id is not None and asked.condition is not None and asked.action is not Action.ACK
    return asked.action is not Action.ACK_ALL and (asked.case_id is not None or is_rule)


def _by_its_id(node: str) -> Refusal:
    cause = f"a case of {node} is acted upon by its id, or by item and condition what is no acknowledgement"
    return Refusal(RefusalCode.MALFORMED, cause, f"`albireo cases list {node}`")


def subject_of(asked: ActionAsked) -> str:
    """The case as the journal names it."""
    if asked.case_id is not None:
        return f"case {case_label(asked.case_id, asked.activation or 1)}"
    return f"item {asked.item_id} {asked.condition}" if asked.item_id is not None else "all cases"
