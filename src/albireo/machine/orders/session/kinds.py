"""Kind `session_end`: a session is ended at the node that has it, and its client is told so.

Spec: docs/messages.md; ADR-0207.
"""

from typing import Protocol

import msgspec

from albireo.codec.questions.people import SESSION_END, SessionEndAsked
from albireo.machine.desk.roles import RoleNeeded
from albireo.machine.fold.people.sessions import SESSIONS
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.turn import Question, Turn
from albireo.machine.message.post import ReceiptTold
from albireo.machine.orders.kind import OrderAtOwner, OrderDone, OrderKind, not_done
from albireo.machine.orders.places import Aim, Places
from albireo.machine.orders.session.sessions import SessionEndBody, Sessions
from albireo.model.access import AccessRole
from albireo.model.refusal import Refusal
from albireo.model.tree.session import Session, SessionRow, who_text


class EndingRoot(Protocol):
    """The root machine, as far as ends of sessions need it."""

    config: RootConfig
    sessions: Sessions


class EndSession(OrderKind[SessionEndAsked, SessionEndBody]):
    """Everybody may end a session of his own, and an admin each."""

    question = SESSION_END
    body = SessionEndBody
    role = AccessRole.ADMIN
    look = "`albireo sessions list`"
    after_stop = "look at `albireo sessions list` before you order again"

    def __init__(self, root: EndingRoot) -> None:
        self._root = root

    def aim(self, asked: SessionEndAsked, places: Places) -> Aim:
        return places.of_node(asked.node)

    def needed(self, question: Question, asked: SessionEndAsked, aim: Aim) -> RoleNeeded | None:
        if aim.is_here and self._root.sessions.owner_of(asked.session_id) == question.principal:
            return None
        subject = f"session_end {asked.session_id} of another principal"
        return RoleNeeded(aim.node, subject, asked.user, self.role)

    def body_of(self, asked: SessionEndAsked, aim: Aim) -> SessionEndBody:
        return SessionEndBody(asked.session_id)

    def subject(self, asked: SessionEndAsked, aim: Aim) -> str:
        known = _known(asked, aim)
        return f"session {aim.node}:{asked.session_id}{'' if known is None else f' of {who_text(known)}'}"

    def teller(self, question: Question, asked: SessionEndAsked, aim: Aim) -> ReceiptTold:
        known = _known(asked, aim)  # By the time of the receipt the state of its node has it no more.
        row = {"session_id": asked.session_id, "node": aim.node} if known is None else session_row(known, aim.node)
        return lambda receipt: not_done(receipt, self.look) or row

    def do(self, order: OrderAtOwner[SessionEndBody], turn: Turn) -> OrderDone | Refusal:
        ended = self._root.sessions.end(order, turn)
        if isinstance(ended, Refusal):
            return ended
        return OrderDone(session_row(ended, self._root.config.node), f"ended the session of {who_text(ended)}")


def _known(asked: SessionEndAsked, aim: Aim) -> Session | None:
    """The session as the state of its node tells it; None: it is over already, or its beginning has not come yet."""
    return None if aim.mirror is None else aim.mirror.table(SESSIONS).get(asked.session_id)


def session_row(session: Session, node: str, stale_since_ns: int | None = None) -> SessionRow:
    return SessionRow(**msgspec.structs.asdict(session), node=node, stale_since_ns=stale_since_ns)
