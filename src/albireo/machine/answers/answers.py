"""Answers: what a client may ask CORE, and what it is told.

Every question is a name with arguments, described in docs/node-protocol.md. An unknown question, a wrong argument or a
refusal is an answer with a reason, never a silence.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from albireo.codec.message import AnyMessage, Ask
from albireo.codec.questions.kind import Answerer, Handled, by_name, taken
from albireo.codec.questions.pieces import NoCursor
from albireo.machine.access.judge import speaking
from albireo.machine.access.refusals import refusal_of
from albireo.machine.answers.items import ItemAnswers, ItemsRoot
from albireo.machine.answers.orders import OrderAnswers, OrderingRoot
from albireo.machine.answers.people import PeopleAnswers, PeopleRoot
from albireo.machine.answers.posts import PostAnswers, PostingRoot
from albireo.machine.answers.rows import RowAnswers, RowsRoot
from albireo.machine.answers.status import StatusAnswers, StatusRoot
from albireo.machine.answers.tickets import TicketAnswers, TicketRoot
from albireo.machine.answers.topics import TopicAnswers, TopicRoot
from albireo.machine.desk.roles import put_on_record
from albireo.machine.kernel.events import LettersDrained, OneLetter
from albireo.machine.kernel.handling import Handler
from albireo.machine.kernel.part import Footing
from albireo.machine.kernel.turn import Moment, NotAnswered, Question, Turn, granted
from albireo.machine.orders.places import Places
from albireo.model.refusal import Refusal, RefusalCode


class AnsweringRoot(
    StatusRoot, ItemsRoot, PeopleRoot, RowsRoot, OrderingRoot, PostingRoot, TicketRoot, TopicRoot, Protocol
):
    """The root machine, as far as all answers together need it."""


class AnswerPart(Protocol):
    """The part of the answers that is about one subject."""

    @property
    def handlers(self) -> Sequence[Handled[Handler]]:
        """Questions that it answers."""


PARTS: tuple[Callable[[AnsweringRoot, Places], AnswerPart], ...] = (
    StatusAnswers,
    ItemAnswers,
    PeopleAnswers,
    RowAnswers,
    OrderAnswers,
    PostAnswers,
    TicketAnswers,
    TopicAnswers,
)


class Answers:
    """Dispatch by name; every handler either answers now or leaves the answer to a later commit."""

    def __init__(self, root: AnsweringRoot) -> None:
        self._root = root
        places = Places(root)
        self.handlers = by_name([one for part in PARTS for one in part(root, places).handlers])

    def judges(self, letter: OneLetter, among: LettersDrained, now: Footing, turn: Turn) -> bool:
        """Refuse a message whose sender lacks the role."""
        sender, message, _, principal = letter
        if not self._root.access.lacks(principal, message):
            return False
        self.refuse(sender, message, principal, now.moment, turn)
        return True

    def hears(self, letter: OneLetter, among: LettersDrained, now: Footing, turn: Turn) -> bool:
        sender, message, _, principal = letter
        if isinstance(message, Ask):
            who, speaker = speaking(principal, message)
            asker = Question(sender, message.request_id, now.moment, who, among.pair, among.door, speaker)
            if message.person:
                message = replace(message, person="")
                self._root.sessions.spoken_for(who, among.addresses.get(sender), now, turn)
            turn.speaker = speaker
            self.ask(asker, message, turn)
            turn.speaker = ""
        else:
            turn.note("warning", "unexpected_message", kind=type(message).__name__)
        return True

    def ask(self, question: Question, ask: Ask, turn: Turn) -> None:
        try:
            found, asked = granted(taken(self.handlers, ask))
            if found.kind.answerer is Answerer.ACTING:
                self._root.admission.check_open()
            found.handler(question, asked, turn)
        except NotAnswered as refused:
            turn.answer(question, refused.refusal)
        except NoCursor as error:
            turn.answer(question, Refusal(RefusalCode.MALFORMED, str(error)))

    def refuse(self, sender: bytes, message: AnyMessage, principal: str, moment: Moment, turn: Turn) -> None:
        """Refuse a message whose sender lacks the role, in the words of its kind, and put an order on record."""
        refused = self._root.access.refused(principal, message, moment.now, moment.wall)
        answer = refusal_of(message, refused.refusal)
        if answer is not None:
            turn.send(sender, answer)
        put_on_record(refused.entry, turn, is_open=not self._root.admission.closed_because)
