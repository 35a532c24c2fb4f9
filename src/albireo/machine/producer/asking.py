"""NodeAsker: questions to whichever member of a node acts, or to one named line, many at a time.

A question that changes nothing, or that carries an id by which the node knows it again (`write`), is asked once more
whenever the line that had it is gone, or its member leads no more: its answer is then the same. Any other question is
asked once; if its answer does not come, `Unanswered` says so: whether the action was done cannot be known from here.

    asked --> waiting for a line --said--> waiting for the answer --Answer of this id on that line--> done
                    ^                          |
                    +--- line gone, or tells nothing: repeatable --+--- not repeatable --> unanswered

A refusal is the answer to an order only if nothing of the order was done, and nothing will be. One that tells nothing
of that is none: `moved` never, and of an order that was said before also those that look at the moment, or at who asks,
before they look whether the order is known.

Lines below `members` are those of the members, of which the seeker chooses one; others lead to parts of a member that
have a link of their own. Answers to a question that was given up, or from a line that was left, are dropped.

A client that has asked something is present at the node (machine/orders/session): while it goes on it says so to the
member that acts, by the question `session`, whose answer nobody waits for.

Spec: docs/node-protocol.md; design/pair.md, Parts; ADR-0156, ADR-0206.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.codec.message import Answer, Ask, RoleAsked, RoleTold
from albireo.codec.questions.messages import WITHDRAW
from albireo.codec.questions.people import SESSION
from albireo.machine.producer.seeking import AskRole, Chose, Effect, LineDown, LineUp, RoleHeard, SeekConfig, Seeker
from albireo.machine.producer.sending import Heard, SayTo
from albireo.model.instant import MS, SECOND, Instant, TimePassed, soonest
from albireo.model.refusal import Refusal, RefusalCode, kind_of_code

KEEP_NS: Final = 10 * SECOND
"""Time between two words of a client that has nothing to ask; a node waits three times as long for one."""
UNASKED: Final = 0
"""Request id of these words, and of what a node says to a client that asked nothing; no question has it."""
PRESENT: Final = Ask(request_id=UNASKED, what=SESSION.name)
AGAIN_NS: Final = 100 * MS
"""Pause before an order is asked for again, because the answer told nothing of it."""
NOW: Final = Instant(0)
_OF_THE_MOMENT: Final = (RefusalCode.NOT_HOLDER, RefusalCode.NOT_RECORDING)
_OF_WHO_ASKS: Final = (RefusalCode.ACCESS, RefusalCode.TICKET, RefusalCode.SESSION_OVER)


class QuestionAsked(msgspec.Struct, frozen=True):
    """A new question."""

    ask: Ask
    line: int | None = None
    """Line that it goes to; None: that of the member that acts."""
    is_repeatable: bool = False
    """True: asked twice it does the same."""
    is_order: bool = False
    """True: the member that acts is to do something."""


class GivenUp(msgspec.Struct, frozen=True):
    """Nobody waits for this answer any more."""

    request_id: int


class NotSaid(msgspec.Struct, frozen=True):
    """The question could not be sent: its line takes nothing now."""

    request_id: int


class AnswerCame(msgspec.Struct, frozen=True):
    """Effect: the answer, as the node gave it."""

    line: int
    answer: Answer


class Unanswered(msgspec.Struct, frozen=True):
    """Effect: the line that had the question is gone, or told nothing of it, and it can't be asked again."""

    line: int
    request_id: int
    refusal: Refusal | None = None
    """Words of who had it; None: it is gone."""


Event = LineUp | LineDown | Heard | QuestionAsked | GivenUp | NotSaid | TimePassed
Effects = list[SayTo | AnswerCame | Unanswered]


class _OpenQuestion(msgspec.Struct):
    """A question without an answer."""

    asked: QuestionAsked
    said_to: int | None = None
    said: int = 0
    """How often it was said to somebody."""
    again_at: Instant = NOW
    """Instant from which it is said again."""

    def is_ended_by(self, refusal: Refusal) -> bool:
        """False: the refusal tells nothing of this order."""
        if not self.asked.is_order or refusal.code == RefusalCode.OUTCOME_UNKNOWN:
            return True
        tells_nothing = refusal.code in (*_OF_THE_MOMENT, *_OF_WHO_ASKS) or kind_of_code(refusal.code).may_pass
        return refusal.code != RefusalCode.MOVED and not (self.said > 1 and tells_nothing)


class NodeAsker:
    """The machine."""

    def __init__(self, name: str, seek: SeekConfig, now: Instant, members: int = 2) -> None:
        """`members`: number of lines of which the seeker chooses one."""
        self.members = members
        self._name = name
        self._seeker = Seeker(seek, now)
        self._open: dict[int, _OpenQuestion] = {}
        self._up: set[int] = set()
        self._again_at: Instant | None = None
        """Instant at which a question is said again; None: at none."""
        self._keep_at: Instant | None = None
        """Instant at which the member that acts is told that this client is there; None: it has asked nothing yet."""

    @property
    def chosen(self) -> int | None:
        """The member that acts, as far as is known."""
        return self._seeker.chosen

    @property
    def up(self) -> frozenset[int]:
        """Lines that are up."""
        return frozenset(self._up)

    @property
    def waiting(self) -> int:
        """Number of questions without an answer."""
        return len(self._open)

    def was_said(self, request_id: int) -> bool:
        """True: some line has taken the question, so it may have been carried out."""
        found = self._open.get(request_id)
        return found is not None and found.said > 0

    def deadline(self) -> Instant | None:
        """When `TimePassed` is due."""
        return soonest(self._seeker.deadline(), self._keep_at, self._again_at)

    def step(self, event: Event, now: Instant) -> Effects:
        match event:
            case QuestionAsked():
                self._open[event.ask.request_id] = _OpenQuestion(event)
                self._keep_at = self._keep_at or Instant(now + KEEP_NS)
                return self._say(now)
            case GivenUp(request_id):
                return self._withdraw(request_id, self._open.pop(request_id, None))
            case NotSaid(request_id):
                found = self._open.get(request_id)
                if found is not None:
                    found.said_to, found.said = None, found.said - 1
                return []
            case Heard(line, RoleTold() as role):
                return self._sought(self._seeker.step(RoleHeard(line, role), now), now)
            case Heard(line, Answer() as answer):
                return self._answered(line, answer, now)
            case Heard():
                return []
            case TimePassed():
                return [*self._sought(self._seeker.step(event, now), now), *self._say(now), *self._keep(now)]
            case LineUp(line) | LineDown(line):
                return self._changed(event, line, now)

    def _changed(self, event: LineUp | LineDown, line: int, now: Instant) -> Effects:
        """A line that comes up anew has lost what was on it."""
        (self._up.add if isinstance(event, LineUp) else self._up.discard)(line)
        gone = self._gone(line)
        sought = self._sought(self._seeker.step(event, now), now) if line < self.members else []
        return [*gone, *sought, *self._say(now)]

    def _answered(self, line: int, answer: Answer, now: Instant) -> Effects:
        found, refusal = self._open.get(answer.request_id), answer.refusal
        if found is None or found.said_to != line:
            return []
        is_end = refusal is None or found.is_ended_by(refusal)
        if not is_end and refusal is not None and found.asked.is_repeatable and refusal.code not in _OF_WHO_ASKS:
            found.said_to, found.again_at = None, Instant(now + AGAIN_NS)
            self._again_at = soonest(self._again_at, found.again_at)
            return []
        del self._open[answer.request_id]
        return [AnswerCame(line, answer) if is_end else Unanswered(line, answer.request_id, refusal)]

    def _withdraw(self, request_id: int, one: _OpenQuestion | None) -> Effects:
        """Tell who has the question, or has answered it, that nobody takes the answer; `one`: None: it has come."""
        line = self._seeker.chosen if one is None else one.said_to
        if line is None or line not in self._up or line >= self.members:
            return []
        return [SayTo(line, Ask(request_id=UNASKED, what=WITHDRAW.name, arguments={"request_id": request_id}))]

    def _keep(self, now: Instant) -> Effects:
        """Say that this client is there, if that is due and anybody acts."""
        if self._keep_at is None or now < self._keep_at:
            return []
        self._keep_at = Instant(now + KEEP_NS)
        line = self._seeker.chosen
        return [SayTo(line, PRESENT)] if line is not None and line in self._up else []

    def _sought(self, effects: Sequence[Effect], now: Instant) -> Effects:
        done: Effects = []
        for effect in effects:
            match effect:
                case AskRole(member):
                    done.append(SayTo(member, RoleAsked(adapter=self._name)))
                case Chose(member):
                    for line in range(self.members):
                        if line != member:
                            done += self._gone(line, is_named=False)
                    done += self._say(now)
        return done

    def _gone(self, line: int, *, is_named: bool = True) -> Effects:
        """Nobody at the end of this line answers what it was asked; `is_named`: nor what only it was to be asked."""
        done: Effects = []
        for request_id, one in list(self._open.items()):
            if one.said_to != line or (one.asked.line is not None and not is_named):
                continue
            one.said_to = None
            if not one.asked.is_repeatable:
                del self._open[request_id]
                done.append(Unanswered(line, request_id))
        return done

    def _say(self, now: Instant) -> Effects:
        """Say every question that waits for a line which is there now."""
        done: Effects = []
        self._again_at = None
        for one in self._open.values():
            line = self._seeker.chosen if one.asked.line is None else one.asked.line
            if now >= one.again_at:
                one.again_at = NOW
            else:
                self._again_at = soonest(self._again_at, one.again_at)
            if one.said_to is None and line is not None and line in self._up and not one.again_at:
                one.said_to, one.said = line, one.said + 1
                done.append(SayTo(line, one.asked.ask))
        return done
