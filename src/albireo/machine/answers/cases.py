"""Answers about cases: those of this node, and those of the nodes below."""

from typing import Final, Protocol

import msgspec

from albireo.codec.questions.cases import CASE_ACTION, CASES, FLOOD, CaseActionAsked, CasesAsked
from albireo.codec.questions.kind import Nothing
from albireo.machine.answers.below import AnswersBelow, RoleNeeded, check_role, not_done
from albireo.machine.answers.forces import ForcingRoot, check_open
from albireo.machine.fold.alarms.cases import CASES as CASE_TABLE
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.items.dim import Dim
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import NotAnswered, Question, Turn, answer_to, granted
from albireo.machine.message.events import SendAsked
from albireo.machine.orders.case.acting import CaseActing, encode_act, subject_of
from albireo.model.case import Case
from albireo.model.instant import MS, LogTime
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.tree.message import CASE_ACTION as CASE_ORDER

ACT_EXPIRES_MS: Final = 10_000
"""Time within which a case of a node below may be acted upon there; people wait for it."""


class CaseRoot(ForcingRoot, Protocol):
    """The root machine, as far as these answers need it."""

    folds: Folds


class CaseAnswers:
    """The part of the answers that is about cases."""

    def __init__(self, root: CaseRoot, below: AnswersBelow) -> None:
        self._root = root
        self._below = below
        self.handlers = (
            handled(CASES, self._cases),
            handled(FLOOD, self._flood),
            handled(CASE_ACTION, self._act),
        )

    def _cases(self, question: Question, asked: CasesAsked, turn: Turn) -> None:
        folds, mirror, dim = self._root.folds, self._below.mirror(asked.node), self._below.dim(asked.node)
        closed = folds.cases.closed() if asked.include_closed and mirror is None else ()
        cases = [*closed, *(folds.cases if mirror is None else mirror.table(CASE_TABLE))]
        after = asked.after
        behind = sorted((one for one in cases if one.case_id > after), key=lambda one: one.case_id)
        turn.answer(question, asked.told((one.case_id, _row_of(one, dim)) for one in behind))

    def _flood(self, question: Question, _: Nothing, turn: Turn) -> None:
        folds = self._root.folds
        turn.answer(question, folds.cases.metrics(LogTime(folds.log_time_ms * MS)))

    def _act(self, question: Question, asked: CaseActionAsked, turn: Turn) -> None:
        root = self._root
        check_open(root)
        mirror = self._below.mirror(asked.node)
        if mirror is not None:
            self._act_below(question, asked, mirror.node, turn)
            return
        done = granted(CaseActing(root.folds).act(asked, question.principal, question.moment.wall, turn))
        result = [change.case for change in done]
        root.after(turn.end, question.sender, answer_to(question.request_id, result), turn)

    def _act_below(self, question: Question, asked: CaseActionAsked, owner: str, turn: Turn) -> None:
        """Have the case acted upon at its node; the role is judged here, for that node."""
        if asked.case_id is None:
            cause = f"a case of {owner} is acted upon by its id"
            raise NotAnswered(Refusal(RefusalCode.MALFORMED, cause, f"`albireo cases list {owner}`"))
        role = CASE_ACTION.role_of({"action": asked.action})
        needed = RoleNeeded(owner, f"case_action {asked.action}", asked.user, role)
        check_role(self._root.access, question, needed, turn)
        tree = self._root.tree
        sent = SendAsked(
            command_id=tree.draw_id(CASE_ORDER),
            owner=owner,
            kind=CASE_ORDER,
            body=encode_act(asked, asked.case_id),
            expires_ms=ACT_EXPIRES_MS,
            user=asked.user,
            principal=question.principal,
            reason=asked.comment,
            subject=f"{asked.action} {subject_of(asked)} of {owner}",
        )

        def told(receipt: MessageReceipt) -> object:
            return not_done(receipt, f"`albireo cases list {owner}`") or []  # What changed is in that node's state.

        granted(tree.send(question, sent, turn, told))


def _row_of(case: Case, dim: Dim) -> dict[str, object]:
    known = dim.by_id(case.item_id)
    row: dict[str, object] = msgspec.to_builtins(case)
    return row | {"item": "" if known is None else known.full_name}
