"""NodeAsker: questions to whichever member of a node acts, or to one named line, many at a time.

A question that changes nothing, or that carries an id by which the node knows it again (`write`), is asked once more
whenever the line that had it is gone: its answer is then the same. Any other question is asked once; if its answer
does not come, `Unanswered` says so: whether the action was done cannot be known from here.

    asked --> waiting for a line --said--> waiting for the answer --Answer of this id on that line--> done
                    ^                          |
                    +----- line gone, repeatable, or not sent -----+--- gone, not repeatable --> unanswered

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
from albireo.model.instant import SECOND, Instant, TimePassed, soonest

KEEP_NS: Final = 10 * SECOND
"""Time between two words of a client that has nothing to ask; a node waits three times as long for one."""
UNASKED: Final = 0
"""Request id of these words, and of what a node says to a client that asked nothing; no question has it."""
PRESENT: Final = Ask(request_id=UNASKED, what=SESSION.name)


class QuestionAsked(msgspec.Struct, frozen=True):
    """A new question."""

    ask: Ask
    line: int | None = None
    """Line that it goes to; None: that of the member that acts."""
    is_repeatable: bool = False
    """True: asked twice it does the same."""


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
    """Effect: the line that had the question is gone, and the question must not be asked twice."""

    line: int
    request_id: int


Event = LineUp | LineDown | Heard | QuestionAsked | GivenUp | NotSaid | TimePassed
Effects = list[SayTo | AnswerCame | Unanswered]


class _OpenQuestion(msgspec.Struct):
    """A question without an answer."""

    ask: Ask
    line: int | None
    is_repeatable: bool
    said_to: int | None = None
    was_said: bool = False


class NodeAsker:
    """The machine."""

    def __init__(self, name: str, seek: SeekConfig, now: Instant, members: int = 2) -> None:
        """`members`: number of lines of which the seeker chooses one."""
        self.members = members
        self._name = name
        self._seeker = Seeker(seek, now)
        self._open: dict[int, _OpenQuestion] = {}
        self._up: set[int] = set()
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
        return found is not None and found.was_said

    def deadline(self) -> Instant | None:
        """When `TimePassed` is due."""
        return soonest(self._seeker.deadline(), self._keep_at)

    def step(self, event: Event, now: Instant) -> Effects:
        match event:
            case QuestionAsked(ask, line, is_repeatable):
                self._open[ask.request_id] = _OpenQuestion(ask, line, is_repeatable)
                self._keep_at = self._keep_at or Instant(now + KEEP_NS)
                return self._say()
            case GivenUp(request_id):
                return self._withdraw(request_id, self._open.pop(request_id, None))
            case NotSaid(request_id):
                found = self._open.get(request_id)
                if found is not None:
                    found.said_to, found.was_said = None, False
                return []
            case Heard(line, RoleTold() as role):
                return self._sought(self._seeker.step(RoleHeard(line, role), now))
            case Heard(line, Answer() as answer):
                return self._answered(line, answer)
            case Heard():
                return []
            case TimePassed():
                return [*self._sought(self._seeker.step(event, now)), *self._say(), *self._keep(now)]
            case LineUp(line) | LineDown(line):
                return self._changed(event, line, now)

    def _changed(self, event: LineUp | LineDown, line: int, now: Instant) -> Effects:
        """A line that comes up anew has lost what was on it."""
        (self._up.add if isinstance(event, LineUp) else self._up.discard)(line)
        gone = self._gone(line)
        sought = self._sought(self._seeker.step(event, now)) if line < self.members else []
        return [*gone, *sought, *self._say()]

    def _answered(self, line: int, answer: Answer) -> Effects:
        found = self._open.get(answer.request_id)
        if found is None or found.said_to != line:
            return []
        del self._open[answer.request_id]
        return [AnswerCame(line, answer)]

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

    def _sought(self, effects: Sequence[Effect]) -> Effects:
        done: Effects = []
        for effect in effects:
            match effect:
                case AskRole(member):
                    done.append(SayTo(member, RoleAsked(adapter=self._name)))
                case Chose(member):
                    for line in range(self.members):
                        if line != member:
                            done += self._gone(line, is_named=False)
                    done += self._say()
        return done

    def _gone(self, line: int, *, is_named: bool = True) -> Effects:
        """Nobody at the end of this line answers what it was asked; `is_named`: nor what only it was to be asked."""
        done: Effects = []
        for request_id, one in list(self._open.items()):
            if one.said_to != line or (one.line is not None and not is_named):
                continue
            one.said_to = None
            if not one.is_repeatable:
                del self._open[request_id]
                done.append(Unanswered(line, request_id))
        return done

    def _say(self) -> Effects:
        """Say every question that waits for a line which is there now."""
        done: Effects = []
        for one in self._open.values():
            line = self._seeker.chosen if one.line is None else one.line
            if one.said_to is None and line is not None and line in self._up:
                one.said_to, one.was_said = line, True
                done.append(SayTo(line, one.ask))
        return done
