"""Boot questions: CORE asks boot about the actors of its node while an adapter is not heard, and about its topology.

A topology is taken up by boot while the node runs; CORE asks for it every few seconds, so that a CORE that was started
anew learns it as well. No answer changes nothing: boot may be busy, and of a node in a test there is none.
"""

import contextlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from albireo.codec.message import Answer, Ask
from albireo.machine.kernel.events import ActorsTold, ActorTold, TopologyTold
from albireo.model.instant import SECOND, Instant
from albireo.runtime import ActorContext, Letter, Link

TOPOLOGY_EVERY_NS: Final = 2 * SECOND

Told = ActorsTold | TopologyTold


def _actors(result: Any) -> Told:
    return ActorsTold(msgspec.convert(result, list[ActorTold]))


def _topology(result: Any) -> Told:
    return msgspec.convert(result, TopologyTold)


_TAKEN: Final[dict[str, Callable[[Any], Told]]] = {"actors": _actors, "topology": _topology}


class BootQuestions:
    """The questions of one run of CORE."""

    def __init__(self, actor: ActorContext, tell: Callable[[Told], object]) -> None:
        """`tell`: takes boot's word."""
        self._actor = actor
        self._tell = tell
        self._link: Link | None = None
        """To boot; None: nothing was asked yet."""
        self._number = 0
        self._asked: dict[str, int] = {}
        """Number of the last question of each kind."""
        self._known: Told | None = None
        """The topology as boot told it last."""
        self._topology_at = Instant(0)

    def ask(self, what: str) -> None:
        if self._link is None:
            self._link = self._actor.connect("boot")
        self._number += 1
        self._asked[what] = self._number
        self._link.send(Ask(request_id=self._number, what=what))

    def ask_topology(self, now: Instant) -> None:
        """Ask for the topology, if it is time to."""
        if now >= self._topology_at:
            self._topology_at = Instant(now + TOPOLOGY_EVERY_NS)
            self.ask("topology")

    def hears(self, letter: Letter) -> bool:
        """True: the letter is boot's; it is told if it answers the last question, and is news."""
        if self._link is None or letter.link is not self._link:
            return False
        answer = letter.message
        if isinstance(answer, Answer) and answer.refusal is None:
            what = next((one for one, number in self._asked.items() if number == answer.request_id), "")
            with contextlib.suppress(KeyError, msgspec.ValidationError):
                self._take(_TAKEN[what](answer.result))
        return True

    def _take(self, told: Told) -> None:
        if isinstance(told, ActorsTold):
            self._tell(told)
        elif told != self._known:
            self._known = told
            self._tell(told)

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
