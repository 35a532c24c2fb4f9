"""A kind of order of the tests' own: a word is chalked on an item, at the node that owns it."""

from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

from albireo.codec.questions.kind import Answerer, Asked, QuestionKind
from albireo.codec.record import Audited, Stream
from albireo.machine.desk.registry import Registry
from albireo.machine.kernel.turn import Turn
from albireo.machine.orders.kind import ItemOrder, OrderAtOwner, OrderDone
from albireo.machine.orders.places import Aim
from albireo.model.access import AccessRole
from albireo.model.order_text import OrderText
from albireo.model.refusal import Refusal, no_item


class ChalkAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `chalk`."""

    item: OrderText
    word: OrderText
    command_id: OrderText = ""
    user: OrderText = "unknown"
    reason: OrderText = ""


CHALK: Final = QuestionKind(
    name="chalk",
    shape=ChalkAsked,
    answer=dict[str, str],
    answerer=Answerer.ACTING,
    role=AccessRole.OPERATE,
    meaning="chalk a word on an item",
)


class ChalkBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a message that chalks a word on an item."""

    item: Annotated[OrderText, Meta(min_length=1)]
    word: OrderText


class ChalkRoot(Protocol):
    """The root machine, as far as chalk needs it."""

    registry: Registry


class Chalk(ItemOrder[ChalkAsked, ChalkBody]):
    """The word stands in the event journal."""

    question = CHALK
    body = ChalkBody
    look = "the event journal"
    after_stop = "look at the event journal before you chalk again"

    def __init__(self, root: ChalkRoot) -> None:
        self._root = root

    def id_of(self, asked: ChalkAsked) -> str:
        return asked.command_id

    def body_of(self, asked: ChalkAsked, aim: Aim) -> ChalkBody:
        return ChalkBody(aim.name, asked.word)

    def do(self, order: OrderAtOwner[ChalkBody], turn: Turn) -> OrderDone | Refusal:
        body, asker = order.body, order.question
        known = self._root.registry.item(body.item)
        if known is None:
            return no_item(body.item)
        entry = Audited(
            at_ns=asker.moment.wall,
            user=order.user,
            action="chalked",
            subject=known.full_name,
            detail=body.word,
            principal=asker.principal,
        )
        turn.record(Stream.AUDIT, [entry])
        return OrderDone({"item": known.full_name}, f"chalked {body.word}")
