"""Parts that tests share: select before operate at the root machine."""

from typing import Any

from albireo.codec.message import Answer, Ask, ProducerHello, ProducerWelcome
from albireo.codec.record import SelectionEnded
from albireo.model.item import Control, DataItem
from albireo.model.value import ValueType
from tests.parts.refusals import code, refused_with
from tests.parts.root import World

BARRIER = DataItem(name="barrier", value_type=ValueType.BOOL, is_writable=True, control=Control.SELECT)


SIGN = DataItem(
    name="sign", value_type=ValueType.FLOAT64, is_writable=True, maximum=100.0, control=Control.SELECT, unit="km/h"
)


FAN = DataItem(name="fan", value_type=ValueType.FLOAT64, is_writable=True)


LAMP = DataItem(name="lamp", value_type=ValueType.BOOL, control=Control.SELECT)


ITEMS = (BARRIER, SIGN, FAN, LAMP)


ANN, BOB = "ann@desk", "bob@desk"


def hello(one: World, items: tuple[DataItem, ...] = ITEMS, run: int = 1) -> ProducerWelcome:
    one.letter(b"plc", ProducerHello(producer="p1", items=items, run=run, takes_orders=True))
    one.sync()
    (welcome,) = one.take(ProducerWelcome)
    assert isinstance(welcome, ProducerWelcome)
    return welcome


def up(**more: Any) -> World:
    """A node with items that ask to be selected, and two people who may operate them."""
    one = World(**more)
    hello(one)
    for who in (ANN, BOB):
        answer = one.ask("access_grant", principal=who, role="operate", node="", user="root")
        assert refused_with(answer) == "", refused_with(answer)
    return one


def ask(one: World, what: str, principal: str = ANN, *, synced: bool = True, **arguments: object) -> str:
    """Word of the refusal, `ok`, or empty: no answer yet."""
    one.take(Answer)
    number = one.end.sequence
    one.letter(b"desk", Ask(request_id=number, what=what, arguments=arguments), principal=principal)
    if synced:
        one.sync()
    answers = [found for found in one.take(Answer) if isinstance(found, Answer) and found.request_id == number]
    if not answers:
        return ""
    (answer,) = answers
    return code(answer) or "ok"


def select(one: World, selection_id: str = "s1", principal: str = ANN, item: str = "barrier", **more: Any) -> str:
    return ask(one, "select", principal, item=item, selection_id=selection_id, user=principal, **more)


def deselect(one: World, selection_id: str = "s1", principal: str = ANN, item: str = "barrier") -> str:
    return ask(one, "deselect", principal, item=item, selection_id=selection_id, user=principal)


def write(one: World, selection: str = "s1", principal: str = ANN, item: str = "barrier", **more: Any) -> str:
    """`taken`, or the word of the refusal."""
    more = {"value": True, "command_id": f"c{one.end.sequence}", "user": principal, **more}
    found = ask(one, "write", principal, item=item, selection=selection, **more)
    return found or "taken"


def ends(one: World) -> list[str]:
    return [record.cause for record in one.records(SelectionEnded) if isinstance(record, SelectionEnded)]


def selected() -> World:
    one = up()
    assert select(one) == "ok"
    return one
