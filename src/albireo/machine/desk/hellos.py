"""Hellos: producers that open, one after another, and what is refused of them.

A hello with many items is worked off in slices, so that a node with 100,000 items starts in many short turns. Adapters
that this node's topology has no longer leave the same way: their items are retired as if each said a hello without any.

Spec: design/log-and-feed.md, Producers; ADR-0161.
"""

from collections import deque
from collections.abc import Callable, Collection
from typing import Final

from albireo.codec.message import AnyMessage, Append, AppendRefused, ProducerHello, ProducerWelcome
from albireo.machine.desk.admission import CREDIT_BYTES, Admission, superseded
from albireo.machine.desk.owners import NAME_CHARS_MAX
from albireo.machine.desk.registry import Declaring, Registry
from albireo.machine.fold.producers import Standing
from albireo.machine.kernel.events import LettersDrained, OneLetter
from albireo.machine.kernel.part import Footing
from albireo.machine.kernel.turn import Moment, Turn
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.settings import LimitSettings

DECLARING_MAX: Final = 64
"""Most hellos being worked off; the sender of one too many says hello again."""
_NOBODY: Final = b""


SaidAfter = Callable[[int, bytes, AnyMessage, Turn], None]


class Hellos:
    """Producers of one tenure that open, one after another, their items declared in slices; a welcome ends each."""

    def __init__(self, registry: Registry, admission: Admission, limits: LimitSettings, after: SaidAfter) -> None:
        """
        Args:
            after: says something once everything up to a sequence is committed.
        """
        self._after = after
        self._registry = registry
        self._admission = admission
        self.limits = limits
        self._declaring: deque[Declaring] = deque()

    def __bool__(self) -> bool:
        return bool(self._declaring)

    def leave(self, adapters: Collection[str]) -> None:
        """Have the items of adapters retired that this node's topology has no longer; it has these. None: not known."""
        producers = self._admission.producers
        for name in self._registry.leave_behind(adapters) if adapters else ():
            last = producers.present(name)
            hello = ProducerHello(producer=name, items=(), run=0)
            producer_id = 0 if last is None else last.producer_id
            self._declaring.append(Declaring(sender=_NOBODY, producer_id=producer_id, hello=hello, principal=""))

    def hears(self, letter: OneLetter, among: LettersDrained, now: Footing, turn: Turn) -> bool:
        """Take a batch of a producer, or its hello."""
        sender, message, raw, principal = letter
        if isinstance(message, Append):
            self._registry.heard(sender, now.moment.now)
            self._admission.append(sender, message, raw, turn)
            return True
        if not isinstance(message, ProducerHello):
            return False
        if (told := self.take(sender, message, principal, now.moment, turn)) is not None:
            self._after(turn.end, *told, turn)
        self.declare_more(now.moment, turn)
        return True

    def declare_more(self, moment: Moment, turn: Turn) -> None:
        """Go on with the hello that is worked off."""
        if (welcome := self.more(moment, turn)) is not None:
            self._after(turn.end, *welcome, turn)

    def take(
        self, sender: bytes, hello: ProducerHello, principal: str, moment: Moment, turn: Turn
    ) -> tuple[bytes, AppendRefused] | None:
        """Refuse a hello, or put it in the queue; `more` works it off.

        Returns:
            Word to a program that is superseded, to be said once `turn.end` commits: its successor may be cut before.
        """
        producers = self._admission.producers
        known = producers.present(hello.producer)
        if (closed := self._admission.refusal) is not None:
            turn.send(sender, AppendRefused(producer_id=0, producer_sequence=0, refusal=closed))
            return None
        if producers.is_being_forgotten(hello.producer):
            return None  # What is true of it depends on a record that may be cut; it says hello again.
        refusal = self._refusal(hello, principal)
        if refusal is not None:
            refused = AppendRefused(producer_id=0, producer_sequence=0, refusal=refusal, is_final=True, run=hello.run)
            turn.send(sender, refused)
            name = hello.producer[:NAME_CHARS_MAX]
            turn.note("limited", "hello_refused", key=name, producer=name, reason=str(refusal))
            return None
        if any(one.sender == sender and one.hello == hello for one in self._declaring):
            return None  # Asked again out of impatience: its welcome is on the way.
        standing = producers.standing(hello.producer, hello.run, hello.life)
        is_late = self._registry.starts.is_late(hello.producer, hello.run)
        if known is not None and (standing is Standing.SUPERSEDED or is_late):
            self._admission.counters.superseded += 1
            return sender, superseded(hello.life, hello.run, known)
        if len(self._declaring) >= DECLARING_MAX:
            return None
        self._registry.starts.heard(hello.producer, hello.run, moment.now)
        self._declaring.append(self._registry.hello(sender, hello, principal, moment, turn))
        by = producers.present(hello.producer)
        before = None if known is None or standing is Standing.PRESENT else self._registry.sender_of(known.producer_id)
        if known is None or by is None or before is None or before == sender:
            return None
        turn.note("warning", "producer_superseded", producer=by.name, life=known.producer_id, by=by.producer_id)
        return before, superseded(known.producer_id, known.run, by)

    def _refusal(self, hello: ProducerHello, principal: str) -> Refusal | None:
        """Refusal of this hello, for good; None: it may be taken."""
        producers = self._admission.producers
        if producers.standing(hello.producer, hello.run, hello.life) is Standing.FORGOTTEN:
            return Refusal(
                RefusalCode.FORGOTTEN,
                f"{hello.producer!r} was forgotten with this program, by age or by order; of what the program has "
                "under way a first part may be recorded",
                "start it again",
            )
        if objection := self._registry.objection(hello):
            return Refusal(RefusalCode.MALFORMED, objection)
        return self._registry.too_much(hello, self.limits) or self._registry.not_owner(hello, principal)

    def more(self, moment: Moment, turn: Turn) -> tuple[bytes, ProducerWelcome] | None:
        """Declare a slice of the first hello; the last returns the welcome, to be said once `turn.end` commits."""
        while self._declaring and self._is_superseded(self._declaring[0]):
            self._declaring.popleft()
        if not self._declaring:
            return None
        declaring = self._declaring[0]
        self._registry.declare_more(declaring, moment, turn)
        if not declaring.is_done:
            return None
        self._declaring.popleft()
        if declaring.sender == _NOBODY:
            return None
        welcome = ProducerWelcome(
            producer_id=declaring.producer_id,
            last_sequence=self._admission.producers.last_appended(declaring.producer_id) or 0,
            item_ids=tuple(declaring.item_ids),
            epoch=turn.epoch,
            credit_bytes=CREDIT_BYTES,
            run=declaring.hello.run,
        )
        return declaring.sender, welcome

    def _is_superseded(self, declaring: Declaring) -> bool:
        by = self._admission.producers.present(declaring.hello.producer)
        return by is not None and by.producer_id != declaring.producer_id
