"""Questions of programs to another actor of the node, which CORE hands on and whose answers it hands back.

    program --Ask(of="history")--> door, CORE --Ask--> history --Answer, raw parts--> CORE --> program

CORE looks into neither. Every question ends: with the actor's answer, or with an error when the actor is not there,
does not answer in time, or has enough to do. Nothing is kept for an actor that comes back, since whoever asks may ask
again, here or at the other member.
"""

from typing import Final

import msgspec

from albireo.codec.message import Answer, Ask
from albireo.codec.questions.declared import asked_of
from albireo.codec.questions.kind import Answerer
from albireo.machine.access.judge import AccessJudge
from albireo.machine.kernel.turn import Moment
from albireo.model.bounded import NAME_CHARS_MAX
from albireo.model.instant import SECOND, Instant
from albireo.model.refusal import Refusal, RefusalCode, unknown_question
from albireo.model.status import HandedOn
from albireo.node.core.peer_links import PeerLinks
from albireo.runtime import Letter, Link
from albireo.runtime.link.link import LinkLimits

HISTORY: Final = Answerer.HANDED_ON.part
HANDED_ON: Final = {one.part: asked_of(one) for one in (Answerer.HANDED_ON, Answerer.TOPICS)}
"""Questions that are handed on, by actor: their answers are short enough for CORE's turns."""
UNDER_WAY_MAX: Final = 16
UNDER_WAY_OF_ONE_MAX: Final = 4
"""Most questions under way, of all programs and of one."""
ANSWER_NS: Final = 4 * SECOND
"""Time for an answer, shorter than programs wait by default."""
LIMITS: Final = LinkLimits(holds_for_peer=False)
"""Limits of CORE's link to an actor: a question is refused at once while that is not there."""


class UnderWay(msgspec.Struct, frozen=True):
    """Question that is under way."""

    asker: bytes
    request_id: int
    until: Instant


class PartQuestions:
    """The questions under way of one run of CORE to one actor."""

    def __init__(self, link: Link, peers: PeerLinks) -> None:
        """
        Args:
            link: to the actor, named as that is.
            peers: way back to programs.
        """
        self.link = link
        self.handed_on = self.refused = self.late = 0
        """Numbers of questions handed on, refused, and not answered in time."""
        self._peers = peers
        self._number = 0
        self._open: dict[int, UnderWay] = {}

    def asked(self, letter: Letter, ask: Ask, access: AccessJudge, moment: Moment) -> None:
        """Hand a question on, or refuse it."""
        self._number += 1
        asker = self._peers.sender_of(letter)
        refusal = self._refusal(asker, ask)
        if access.lacks(letter.principal, ask):
            refusal = access.refused(letter.principal, ask, moment.now, moment.wall).refusal
        if refusal is None:
            forwarded = Ask(request_id=self._number, what=ask.what, arguments=ask.arguments)
            if self.link.send(forwarded):
                self.handed_on += 1
                self._open[self._number] = UnderWay(asker, ask.request_id, Instant(moment.now + ANSWER_NS))
                return
            cause = f"the {self.link.name} of this node is not there: it starts, or starts again"
            refusal = Refusal(RefusalCode.NO_ANSWER, cause, "ask again soon")
        self.refused += 1
        self._peers.send(asker, Answer(request_id=ask.request_id, refusal=refusal), ())

    def _refusal(self, asker: bytes, ask: Ask) -> Refusal | None:
        if ask.of != self.link.name:
            cause = f"{ask.of[:NAME_CHARS_MAX]!r} is nobody who can be asked here"
            return Refusal(RefusalCode.UNKNOWN_QUESTION, cause, f"leave `of` out, or ask one of {', '.join(HANDED_ON)}")
        if ask.what not in HANDED_ON[ask.of]:
            return unknown_question(ask.what, HANDED_ON[ask.of])
        own = sum(one.asker == asker for one in self._open.values())
        if len(self._open) >= UNDER_WAY_MAX or own >= UNDER_WAY_OF_ONE_MAX:
            cause = f"{own} questions of yours to the {self.link.name} and {len(self._open)} of all are under way"
            return Refusal(RefusalCode.BUSY, cause, "ask again soon")
        return None

    def answered(self, letter: Letter) -> None:
        """Hand an answer back; one that comes too late is dropped."""
        answer = letter.message
        one = self._open.pop(answer.request_id, None) if isinstance(answer, Answer) else None
        if one is not None:
            self._peers.send(one.asker, msgspec.structs.replace(answer, request_id=one.request_id), letter.raw)

    def ticked(self, now: Instant) -> None:
        """End questions whose time is over; the oldest stands first."""
        while self._open:
            number, one = next(iter(self._open.items()))
            if one.until > now:
                return
            del self._open[number]
            self.late += 1
            cause = f"the {self.link.name} of this node did not answer within {ANSWER_NS // SECOND} s"
            refusal = Refusal(RefusalCode.NO_ANSWER, cause, "ask again")
            self._peers.send(one.asker, Answer(request_id=one.request_id, refusal=refusal), ())

    def deadline(self) -> Instant | None:
        return next((one.until for one in self._open.values()), None)

    def describe(self) -> HandedOn:
        """Figures for `status`."""
        return HandedOn(handed_on=self.handed_on, refused=self.refused, late=self.late, under_way=len(self._open))
