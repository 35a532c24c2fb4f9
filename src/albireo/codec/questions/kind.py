"""Question kind: all that follows from the name of a question, said once.

Whoever judges a question, asks it, hands it on or prints it goes by its kind; who answers it binds a handler to the
kind. Shapes of the arguments and of the answer are part of the protocol, which is why they stand here and not where the
question is answered.

Spec: ADR-0240.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final, Generic, TypeVar

import msgspec

from albireo.codec.message import Ask
from albireo.model.access import AccessRole
from albireo.model.bounded import Text
from albireo.model.refusal import Refusal, RefusalCode, unknown_question

ShapeT = TypeVar("ShapeT", bound=msgspec.Struct)
AnswerT = TypeVar("AnswerT")
HandlerT = TypeVar("HandlerT")
SUBJECT_CHARS_MAX: Final = 100
NO_PERSONS: Final = Refusal(RefusalCode.ACCESS, "only CORE is asked for a person", "ask it, or ask in your own name")


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Arguments of a question. A default is left out on the wire: a node without the argument takes the question."""


class Nothing(Asked, frozen=True):
    """A question without arguments."""


class UserAsked(Asked, frozen=True, kw_only=True):
    """Arguments of a question that needs none but who is claimed to ask it."""

    user: Text = ""


class Answerer(Enum):
    """Who answers a question: *here or elsewhere*, decided once."""

    CORE = "`core`"
    """CORE of the member that is asked, of what it knows, also of nodes below it."""
    ACTING = "`core` that acts"
    """CORE of the member that acts, while it records; of what a node below owns that node, by an order to it."""
    MEMBER = "`core` of a member"
    """The member of a pair that is asked, and no other one."""
    HISTORY = "`history`"
    """History of this machine, which programs beside it ask."""
    HANDED_ON = "`history`, by `core`"
    """History of the member that acts; CORE hands the question on, and the answer back."""
    TOPICS = "`topics`, by `core`"
    """Actor `topics` of the member that acts; CORE hands the question on, and the answer back."""
    BOOT = "`boot`"
    """Boot of this machine."""

    @property
    def part(self) -> str:
        """Part of a node that answers, as a client names it."""
        return _PARTS.get(self, "core")


_PARTS = {
    Answerer.HISTORY: "history",
    Answerer.HANDED_ON: "history",
    Answerer.TOPICS: "topics",
    Answerer.BOOT: "boot",
}


class QuestionKind(msgspec.Struct, Generic[ShapeT, AnswerT], frozen=True, kw_only=True, eq=False):
    """One question. Two kinds are the same only if they are one object."""

    name: str
    shape: type[ShapeT]
    """Arguments, with their bounds."""
    answer: type[AnswerT]
    """Form of the answer; of a question in pieces that of all rows together."""
    answerer: Answerer
    role: AccessRole = AccessRole.VIEW
    """Role that it needs at the node that is asked."""
    meaning: str
    """Words for people: what it is for."""
    told: str = ""
    """Words for programs: what the answer is."""
    is_reading: bool = False
    """True: it changes nothing, so nothing is lost if its answer is."""
    is_known_again: bool = False
    """True: it carries an id by which the node knows it again, so that it may be asked twice."""
    is_for_persons: bool = True
    """False: it is refused if a person is named."""
    subject: str = ""
    """Argument that a refusal names beside the question; empty: none."""
    roles: Mapping[str, AccessRole] = {}
    """Roles that words of the subject need, where they need a higher one."""

    @property
    def is_repeatable(self) -> bool:
        """True: asked once more it does the same."""
        return self.is_reading or self.is_known_again

    @property
    def is_order(self) -> bool:
        """True: the member that acts is to do something."""
        return self.answerer is Answerer.ACTING and not self.is_reading

    def role_of(self, arguments: Mapping[str, object]) -> AccessRole:
        """Role that the question needs with these arguments, which nobody has checked."""
        word = arguments.get(self.subject)
        return max(self.role, self.roles.get(word, self.role)) if isinstance(word, str) else self.role

    def subject_of(self, arguments: Mapping[str, object]) -> str:
        """The question with its subject, for people; arguments which nobody has checked."""
        word = arguments.get(self.subject)
        return f"{self.name} {word[:SUBJECT_CHARS_MAX]}" if isinstance(word, str) else self.name

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the arguments."""
        return self.shape.__struct_fields__


class Handled(msgspec.Struct, Generic[HandlerT], frozen=True):
    """A question, and whatever answers it at one place."""

    kind: QuestionKind[Any, Any]
    handler: HandlerT


def by_name(handled: Iterable[Handled[HandlerT]]) -> dict[str, Handled[HandlerT]]:
    """The questions that are answered at one place, by name; each has one handler there."""
    listed = list(handled)
    found = {one.kind.name: one for one in listed}
    assert len(found) == len(listed), sorted(one.kind.name for one in listed)
    return found


def taken(handlers: Mapping[str, Handled[HandlerT]], ask: Ask) -> tuple[Handled[HandlerT], Any] | Refusal:
    """A question with its handler, and its arguments once they are checked.

    Whoever knows persons takes the name of one out before: nobody else answers with another's rights.
    """
    if ask.person:
        return NO_PERSONS
    found = handlers.get(ask.what)
    if found is None:
        return unknown_question(ask.what, handlers)
    try:
        return found, msgspec.convert(ask.arguments, found.kind.shape)
    except msgspec.ValidationError as error:
        return Refusal(RefusalCode.MALFORMED, f"{ask.what}: {error}")


def arguments_of(asked: msgspec.Struct) -> dict[str, Any]:
    """Arguments as they go on the wire."""
    found: dict[str, Any] = msgspec.to_builtins(asked, builtin_types=(bytes,))
    return found
