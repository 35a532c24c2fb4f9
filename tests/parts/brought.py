"""Orders of any kind as a message brings them to the node that owns what they are about."""

from typing import Any

from albireo.codec.message_records import MessageEnd
from albireo.machine.kernel.turn import Moment, Turn
from albireo.machine.message.events import ExecuteBody, RecoverBody
from albireo.machine.orders.kind import AnyKind
from albireo.model.instant import SECOND, Instant, WallTime
from albireo.model.position import EpochEntry, EpochHistory
from albireo.model.tree.message import Life, MessageName
from tests.parts.drafted import view_of

NAME = MessageName("root", "root/north", Life(1, 2), 3)
NOW = Moment(Instant(0), WallTime(1_000 * SECOND))


def executed(
    kind: AnyKind,
    body: bytes,
    not_after: int = SECOND,
    principal: str = "chief",
    reason: str = "seen",
    speaker: str = "",
) -> tuple[MessageEnd, list[Any]]:
    """The end of a message, and the records that carrying it out drafts."""
    history = EpochHistory((EpochEntry(1, 1, 1),))
    turn = Turn(view_of([], history, history.position(0)), 3)
    order = ExecuteBody(
        name=NAME,
        kind=kind.name,
        body=body,
        not_after=Instant(not_after),
        user="ann",
        principal=principal,
        reason=reason,
        speaker=speaker,
    )
    end = kind.execute(order, NOW, turn)
    assert end is not None
    return end, [record for draft in turn.drafts if isinstance(draft.content, tuple) for record in draft.content]


def recovered(kind: AnyKind) -> MessageEnd:
    """The end of a message that an earlier tenure accepted."""
    end = kind.recover(RecoverBody(NAME, kind.name, is_proven=True))
    assert end is not None
    return end
