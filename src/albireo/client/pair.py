"""PairClient: questions to a pair, and orders, from a program without a loop.

    with PairClient(members_of(node), keys) as client:
        client.ask("status")                   # of the member that acts
        client.ask_member(1, "status")         # of the backup, acting or not

A question that may be asked twice is asked again after a takeover. Any other ends with an error that says that nobody
knows whether it was done (machine/producer/asking.py). Nothing happens between two calls.
"""

from collections.abc import Sequence
from typing import Final

from albireo.client.errors import NodeRefused, NodeUnreachable
from albireo.client.members import OnLines
from albireo.codec.message import Answer, Ask
from albireo.machine.producer.asking import AnswerCame, GivenUp, PairAsker, QuestionAsked, Unanswered
from albireo.machine.producer.seeking import LineDown, LineUp, SeekConfig
from albireo.machine.producer.sending import Heard, SayTo
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.runtime.actor.clock import boot_ns
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.lines import LineTo

ANSWER_S: Final = 10.0
"""Time that a question waits by default, as long as some takeovers."""


class PairClient(OnLines):
    """Questions and orders to the member that acts, or to a named one."""

    def __init__(self, members: Sequence[LineTo], keys: Keys | None, *, timeout_s: float = ANSWER_S) -> None:
        super().__init__(members, keys)
        self._machine = PairAsker("client", SeekConfig(), boot_ns())
        self._timeout_s = timeout_s
        self._request_id = 0

    @property
    def acting(self) -> int | None:
        """Index of the member that is known to act: 0 the primary, 1 the backup; None: neither."""
        return self._machine.chosen

    def ask(self, what: str, *, timeout_s: float | None = None, **arguments: object) -> object:
        """The acting member's answer to one question; see docs/node-protocol.md for the questions.

        Raises:
            NodeUnreachable: no acting member answered in time; or the member that was asked is gone and the question
                may not be asked twice, so that nobody here knows whether it was done.
            NodeRefused: the member said no.
        """
        self._request_id += 1
        wait_s = self._timeout_s if timeout_s is None else timeout_s
        until = Instant(boot_ns() + int(wait_s * SECOND))
        self._perform_quietly(self._more(boot_ns()))
        effects = self._machine.step(
            QuestionAsked(Ask(request_id=self._request_id, what=what, arguments=arguments)), boot_ns()
        )
        while True:
            for effect in effects:
                match effect:
                    case SayTo(member, message, raw):
                        self._lines.send(member, message, raw)
                    case AnswerCame(answer=answer):
                        return _result(what, answer)
                    case Unanswered(member):
                        gone = self._members[member].endpoint
                        raise NodeUnreachable(f"{gone} is gone before it answered {what!r}: look whether it was done")
            if boot_ns() >= until:
                self._machine.step(GivenUp(), boot_ns())
                raise NodeUnreachable(f"nobody who acts answered within {wait_s:g} s at {self._endpoints()}")
            effects = self._more(until)

    def _perform_quietly(self, effects: Sequence[SayTo | AnswerCame | Unanswered]) -> None:
        """Perform effects while no question is open: they only ask for roles."""
        for effect in effects:
            if isinstance(effect, SayTo):
                self._lines.send(effect.member, effect.message, effect.raw)

    def _more(self, until: Instant) -> list[SayTo | AnswerCame | Unanswered]:
        effects: list[SayTo | AnswerCame | Unanswered] = []
        for news in self._news(self._machine.deadline(), until):
            if news.is_up is not None:
                effects += self._machine.step((LineUp if news.is_up else LineDown)(news.line), boot_ns())
            elif news.message is not None:
                effects += self._machine.step(Heard(news.line, news.message), boot_ns())
        return effects + self._machine.step(TimePassed(), boot_ns())

    def ask_member(self, member: int, what: str, *, timeout_s: float | None = None, **arguments: object) -> object:
        """The answer of this very member, acting or not: `status`, `pair_init`, `promote`, `stores`.

        Raises:
            NodeUnreachable, NodeRefused: as `ask`.
        """
        self._request_id += 1
        ask = Ask(request_id=self._request_id, what=what, arguments=arguments)
        wait_s = self._timeout_s if timeout_s is None else timeout_s
        until = Instant(boot_ns() + int(wait_s * SECOND))
        is_said = self._lines.send(member, ask)
        while boot_ns() < until:
            for news in self._lines.wait(max(0, until - boot_ns()) / SECOND):
                if news.line == member and isinstance(news.message, Answer):
                    if news.message.request_id == ask.request_id:
                        return _result(what, news.message)
                elif news.is_up is not None:
                    self._machine.step((LineUp if news.is_up else LineDown)(news.line), boot_ns())
                    if news.is_up and news.line == member and not is_said:
                        is_said = self._lines.send(member, ask)
        raise NodeUnreachable(f"{self._members[member].endpoint} did not answer within {wait_s:g} s")


def _result(what: str, answer: Answer) -> object:
    if answer.error:
        raise NodeRefused(what, answer.error)
    return answer.result
