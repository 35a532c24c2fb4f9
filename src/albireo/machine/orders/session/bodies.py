"""Bodies of kind `session_end`: a message ends a session at this node, whose client is told so.

The end of the message is drafted behind the record of the session's end, so a log that has the one has the other too.

Spec: docs/messages.md; ADR-0207.
"""

import msgspec

from albireo.codec.message_records import MessageEnd
from albireo.machine.kernel.turn import Moment, Turn
from albireo.machine.message.events import ExecuteBody, RecoverBody, no_body, rejected
from albireo.machine.orders.session.sessions import EndOrder, Sessions
from albireo.model.bounded import Count
from albireo.model.refusal import Refusal
from albireo.model.tree.message import AddCause, MessageOutcome
from albireo.model.tree.session import who_text


class SessionEndBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a message that ends a session."""

    session_id: Count


def encode_session_end(session_id: int) -> bytes:
    return msgspec.msgpack.encode(SessionEndBody(session_id))


class MessageSessions:
    """Ends of sessions that messages order; it keeps nothing."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def execute(self, order: ExecuteBody, moment: Moment, turn: Turn) -> MessageEnd:
        """End the session; the end of the message says whose it was."""
        try:
            body = msgspec.msgpack.decode(order.body, type=SessionEndBody)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return no_body(order.kind, error)
        if moment.now >= order.not_after:
            return MessageEnd(outcome=MessageOutcome.EXPIRED, cause=AddCause.TIME_LIMIT_OVER, detail="never begun")
        wanted = EndOrder(session_id=body.session_id, user=order.user, principal=order.principal, reason=order.reason)
        done = self._sessions.end(wanted, moment, turn)
        if isinstance(done, Refusal):
            return rejected(done)
        return MessageEnd(outcome=MessageOutcome.EXECUTED, detail=f"ended the session of {who_text(done)}")

    def recover(self, asked: RecoverBody) -> MessageEnd:
        """End of a message that an earlier tenure accepted, whose own word about it is not in the log."""
        detail = "this node stopped in between; what to do: look at `albireo sessions list` before you order again"
        return MessageEnd(outcome=MessageOutcome.UNKNOWN, cause=AddCause.UNKNOWN, detail=detail)
