"""Hellos: producers that open, one after another, their items declared in slices; a welcome ends each.

Not decided here: what a producer may append (admission), whose an item is (registry).
Spec: design/log-and-feed.md, Producers.
"""

from collections import deque
from typing import Final

from albireo.codec.message import AppendRefused, ProducerHello, ProducerWelcome
from albireo.machine.node.admission import CREDIT_BYTES, Admission
from albireo.machine.node.registry import Declaring, Registry
from albireo.machine.node.turn import Moment, Turn

DECLARING_MAX: Final = 64
"""Hellos being worked off; who is one too many says hello again."""


class Hellos:
    """The queue of hellos of one tenure."""

    def __init__(self, registry: Registry, admission: Admission) -> None:
        self._registry = registry
        self._admission = admission
        self._declaring: deque[Declaring] = deque()

    def __bool__(self) -> bool:
        return bool(self._declaring)

    def take(self, sender: bytes, hello: ProducerHello, epoch: int, moment: Moment, turn: Turn) -> None:
        """Refuse it, or put it in the queue; `more` works it off."""
        producers = self._admission.producers
        is_one_too_many = producers.is_full and producers.find(hello.producer) is None
        if self._admission.closed_because or is_one_too_many:
            turn.send(sender, AppendRefused(producer_id=0, producer_sequence=0, reason="admission"))
            return
        objection = self._registry.objection(hello)
        if objection:
            turn.send(sender, AppendRefused(producer_id=0, producer_sequence=0, reason="malformed"))
            turn.note("warning", "hello_refused", reason=objection)
            return
        if any(one.sender == sender and one.hello == hello for one in self._declaring):
            return  # Asked again out of impatience: its welcome is on the way.
        if len(self._declaring) < DECLARING_MAX:
            self._declaring.append(self._registry.hello(sender, hello, moment, epoch, turn))

    def more(self, epoch: int, moment: Moment, turn: Turn) -> tuple[bytes, ProducerWelcome] | None:
        """Declare one slice of the first hello; its welcome once it is through, to be said after `turn.end` commits."""
        if not self._declaring:
            return None
        declaring = self._declaring[0]
        self._registry.declare_more(declaring, moment, turn)
        if not declaring.is_done:
            return None
        self._declaring.popleft()
        welcome = ProducerWelcome(
            producer_id=declaring.producer_id,
            last_sequence=self._admission.producers.last_appended(declaring.producer_id) or 0,
            item_ids=tuple(declaring.item_ids),
            epoch=epoch,
            credit_bytes=CREDIT_BYTES,
        )
        return declaring.sender, welcome
