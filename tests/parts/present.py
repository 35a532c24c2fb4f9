"""Programs that are present at a root machine, each from an address of its own."""

from typing import Any

from albireo.codec.message import Answer, AnyMessage, Ask
from albireo.codec.record import Record, SessionBegan, SessionEnded
from albireo.machine.fold.people.sessions import SessionFold
from albireo.machine.kernel.events import LettersDrained
from tests.parts.refusals import refused_with
from tests.parts.root import World

ANNA, MES = "anna@desk", "mes-1"
DESK, PLANT = "10.0.0.4", "10.0.0.9"


def said(world: World, message: AnyMessage, sender: bytes = b"a1", principal: str = ANNA, address: str = DESK) -> None:
    """A link says something; nothing of what follows is durable."""
    world.step(LettersDrained([(sender, message, (), principal)], addresses={sender: address}))


def asked(
    world: World,
    what: str = "items",
    sender: bytes = b"a1",
    principal: str = ANNA,
    address: str = DESK,
    **arguments: object,
) -> Answer:
    """The answer to a question, all that follows from it being committed."""
    said(world, Ask(request_id=9, what=what, arguments=arguments), sender, principal, address)
    world.sync()
    found = [one for to, one in world.sent if to == sender and isinstance(one, Answer) and one.request_id == 9]
    world.sent.clear()
    (answer,) = found
    return answer


def present(world: World) -> list[tuple[int, str, str]]:
    """Who is present: id, principal, address."""
    return [(one.session_id, one.principal, one.address) for one in world.root.folds.of(SessionFold)]


def rows(world: World, **arguments: object) -> Any:
    """Sessions as an actor of the node is told them, which is not present itself."""
    answer = world.ask("sessions", **arguments)
    assert refused_with(answer) == "", refused_with(answer)
    return answer.result


def facts(world: World) -> list[Record]:
    """Beginnings and ends in the log."""
    found: list[Record] = []
    for kind in (SessionBegan, SessionEnded):
        found += world.records(kind)
    return found


def causes(world: World) -> list[str]:
    return [one.cause for one in world.records(SessionEnded) if isinstance(one, SessionEnded)]
