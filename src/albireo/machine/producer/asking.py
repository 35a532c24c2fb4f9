"""PairAsker: one question at a time to whichever member of a pair acts.

A question that changes nothing, or that carries an id by which the node knows it again (`write`), is asked once more
whenever the member that had it is gone: its answer is then the same. Any other question is asked once; if its answer
does not come, `Unanswered` says so: whether the action was done cannot be known from here.

    asked --> waiting for a member that acts --sent--> waiting for the answer --Answer of this id--> done
                        ^                                  |
                        +---- member gone, repeatable -----+--- not repeatable --> unanswered

Answers to a question that was given up, or from a member that was left, are dropped.

Spec: docs/node-protocol.md; design/pair.md, Parts.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.codec.message import Answer, Ask, RoleAsked, RoleTold
from albireo.machine.producer.seeking import AskRole, Chose, Effect, LineDown, LineUp, RoleHeard, SeekConfig, Seeker
from albireo.machine.producer.sending import Heard, SayTo
from albireo.model.instant import Instant, TimePassed

REPEATABLE: Final = frozenset({"status", "items", "read", "write", "cases", "flood", "stores", "quarantine"})
"""Questions that do the same when they are asked twice. A `write` is known by its command id."""


class QuestionAsked(msgspec.Struct, frozen=True):
    """A new question; the question before it is given up."""

    ask: Ask


class GivenUp(msgspec.Struct, frozen=True):
    """Nobody waits for the answer any more."""


class AnswerCame(msgspec.Struct, frozen=True):
    """Effect: the answer, as the node gave it."""

    member: int
    answer: Answer


class Unanswered(msgspec.Struct, frozen=True):
    """Effect: the member that had the question is gone, and the question must not be asked twice."""

    member: int


Event = LineUp | LineDown | Heard | QuestionAsked | GivenUp | TimePassed
Effects = list[SayTo | AnswerCame | Unanswered]


class PairAsker:
    """The machine."""

    def __init__(self, name: str, seek: SeekConfig, now: Instant) -> None:
        self._name = name
        self._seeker = Seeker(seek, now)
        self._asked: Ask | None = None
        self._said_to: int | None = None

    @property
    def chosen(self) -> int | None:
        """The member that acts, as far as is known."""
        return self._seeker.chosen

    @property
    def is_waiting(self) -> bool:
        """A question has no answer yet."""
        return self._asked is not None

    def deadline(self) -> Instant | None:
        """When `TimePassed` is due."""
        return self._seeker.deadline()

    def step(self, event: Event, now: Instant) -> Effects:
        match event:
            case QuestionAsked(ask):
                self._asked, self._said_to = ask, None
                return self._say()
            case GivenUp():
                self._asked = self._said_to = None
                return []
            case Heard(member, RoleTold() as role):
                return self._sought(self._seeker.step(RoleHeard(member, role), now))
            case Heard(member, Answer() as answer):
                return self._answered(member, answer)
            case Heard():
                return []
            case _:
                return self._sought(self._seeker.step(event, now))

    def _answered(self, member: int, answer: Answer) -> Effects:
        if self._asked is None or answer.request_id != self._asked.request_id or member != self._said_to:
            return []
        self._asked = self._said_to = None
        return [AnswerCame(member, answer)]

    def _sought(self, effects: Sequence[Effect]) -> Effects:
        done: Effects = []
        for effect in effects:
            match effect:
                case AskRole(member):
                    done.append(SayTo(member, RoleAsked(adapter=self._name)))
                case Chose(None):
                    done += self._gone()
                case Chose():
                    done += self._gone() + self._say()
        return done

    def _gone(self) -> Effects:
        """The member that had the question does not act any more."""
        said_to, self._said_to = self._said_to, None
        if self._asked is None or said_to is None or self._asked.what in REPEATABLE:
            return []
        self._asked = None
        return [Unanswered(said_to)]

    def _say(self) -> Effects:
        chosen = self._seeker.chosen
        if chosen is None or self._asked is None:
            return []
        self._said_to = chosen
        return [SayTo(chosen, self._asked)]
