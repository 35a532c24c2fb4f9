"""Boot questions: CORE asks boot about the actors of its node while an adapter is not heard.

No answer changes nothing: boot may be busy, and of a node in a test there is none.
"""

import contextlib
from collections.abc import Callable

import msgspec

from albireo.codec.message import Answer, Ask
from albireo.machine.node.events import ActorsTold, ActorTold
from albireo.runtime import ActorContext, Letter, Link


class BootQuestions:
    """The questions of one run of CORE."""

    def __init__(self, actor: ActorContext, tell: Callable[[ActorsTold], object]) -> None:
        """`tell`: takes boot's word."""
        self._actor = actor
        self._tell = tell
        self._link: Link | None = None
        """To boot; None: nothing was asked yet."""
        self._number = 0

    def ask(self) -> None:
        if self._link is None:
            self._link = self._actor.connect("boot")
        self._number += 1
        self._link.send(Ask(request_id=self._number, what="actors"))

    def hears(self, letter: Letter) -> bool:
        """True: the letter is boot's; it is told if it answers the last question."""
        if self._link is None or letter.link is not self._link:
            return False
        answer = letter.message
        if isinstance(answer, Answer) and answer.request_id == self._number and not answer.error:
            with contextlib.suppress(msgspec.ValidationError):
                self._tell(ActorsTold(msgspec.convert(answer.result, list[ActorTold])))
        return True

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
