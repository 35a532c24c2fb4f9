"""Parts that tests share: another topology at a node that runs."""

from typing import Any

import msgspec

from albireo.codec.message import Answer, Ask, FeedAnswer, FeedHello, RoleTold
from albireo.codec.tree.hello import ChildHello
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import Measured, TopologyTold
from albireo.machine.tree.mirror import HISTORY
from albireo.model.instant import TimePassed
from albireo.model.settings import LimitSettings
from albireo.model.tree.nodes import ChildConfig
from albireo.model.value import ItemId
from tests.parts.beyond import RUN, state_of
from tests.parts.refusals import refused_with
from tests.parts.root_roles import LOG, Side

ROOT, NORTH, SOUTH = "root", "root/north", "root/south"


HASH = "a" * 64


MEASURED = Measured(turn_ms=1.0, log_bytes=1, corrupt_ranges=0, room_bytes=1 << 40)


def child(node: str, *below: str) -> ChildConfig:
    return ChildConfig(node=node, places=(node,), nodes=below)


class Above(Side):
    """A node that serves, and reads what it is told to have below and beyond."""

    def __init__(self, *children: ChildConfig, parent: str = "") -> None:
        places = frozenset({parent} if parent else ())
        super().__init__(RootConfig(node=ROOT, log_id=LOG, children=children, parent=parent, parent_places=places))
        self.lead()
        self.step(TimePassed())
        self.commit()

    def told(self, *children: ChildConfig, beyond: tuple[str, ...] = ()) -> None:
        """Boot tells what the node runs by now."""
        self.step(TopologyTold(HASH, LimitSettings(), children, beyond))
        self.commit()

    def hear(self, node: str) -> None:
        """A child says hello, on the link that must not wait, and that it acts."""
        wall = self.moment().wall
        hello = ChildHello(node=node, log_id=b"S" * 16, feature_level=1, topology_hash="b" * 64, wall_ns=wall)
        self.letter(hello, sender=link(node))
        self.letter(RoleTold(is_acting=True, epoch=1, member=0), sender=link(node))

    def give(self, node: str, value: float) -> None:
        """Its whole state, with one item."""
        state, raw = state_of(node, 9, value)
        state = msgspec.structs.replace(state, channel=0)
        answer = FeedAnswer(verdict="snapshot", log_id=RUN, history=HISTORY.entries, position=state.previous)
        self.letter(answer, sender=link(node))
        self.letter(state, raw, sender=link(node))

    def asked(self, what: str, **arguments: Any) -> Any:
        self.letter(Ask(request_id=1, what=what, arguments=arguments), sender=b"cli")
        *_, answer = self.take(Answer)
        assert isinstance(answer, Answer)
        return refused_with(answer) or answer.result

    def below(self) -> list[str]:
        return [one["node"] for one in self.asked("tree")]

    def value(self, node: str) -> tuple[object, int]:
        mirror = self.root.tree.all_mirrors[node]
        index = mirror.dim.index_of(ItemId(1))
        assert index is not None
        reading = mirror.dim.reading_at(index)
        return reading.value, reading.quality

    def follows(self, node: str) -> str:
        """What somebody is told who wants to follow the state of this node here."""
        self.letter(FeedHello(follower="desk", mode="state", of=node, in_pieces=True), sender=b"desk")
        (answer,) = self.take(FeedAnswer)
        assert isinstance(answer, FeedAnswer)
        return answer.verdict


def link(node: str) -> bytes:
    return node.encode()
