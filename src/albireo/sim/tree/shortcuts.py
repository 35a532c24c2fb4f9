"""Shortcuts that a world of trees must be caught taking: the product with one rule left out.

They test the world, as `sim/nodes/shortcuts.py` tests the world of whole nodes (ADR-0094).
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from albireo.codec.frame import FrameHeader
from albireo.codec.message import FeedHello, FeedState
from albireo.codec.record import ItemDeclared
from albireo.codec.tree.hello import ChildHello
from albireo.machine.desk.feeds import Feeds
from albireo.machine.fold.contents import Content
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.origins import Enveloped
from albireo.machine.kernel.turn import Turn
from albireo.machine.message.messages import NodeMessages
from albireo.machine.tree.child import Child
from albireo.machine.tree.copier import Copier, _Run
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.position import BEGINNING, EpochHistory, Position
from albireo.model.tree.nodes import is_below
from albireo.sim.engine.stage import first_caught, taken
from albireo.sim.message import shortcuts as broken
from albireo.sim.tree.swarm import TreeSwarm
from albireo.sim.tree.world import TreeWorld

_draft, _said_hello, _fold, _end_of = _Run._draft, Child.said_hello, Folds.fold, Copier.end_of
_asked_for, _take = Feeds._asked_for, NodeMirror.take


def _end_as_folded(self: _Run, data: memoryview, turn: Turn) -> None:
    before = self._end.last, self._end.last_crc
    _draft(self, data, turn)
    self._end.last, self._end.last_crc = before


def _same_log_for_ever(self: Child, sender: bytes, hello: ChildHello, *more: Any) -> None:
    if self.hello is not None:
        hello = msgspec.structs.replace(hello, log_id=self.hello.log_id)
    _said_hello(self, sender, hello, *more)


def _folded_as_own(self: Folds, header: FrameHeader, content: Content) -> None:
    _fold(self, header, content)
    for one in content.told if isinstance(content, Enveloped) else ():
        if isinstance(one, ItemDeclared):
            self.dim.fold_item(one, header.last_sequence)


def _one_further(self: Copier, log_id: bytes) -> Position:
    end = _end_of(self, log_id)
    return msgspec.structs.replace(end, sequence=end.sequence + 1) if end.sequence else end


def _own_of_the_follower(self: Feeds, hello: FeedHello, *more: Any, **named: Any) -> Any:
    is_child = hello.of and is_below(hello.follower, self._config.node)
    of = hello.follower if is_child else hello.of
    return _asked_for(self, msgspec.structs.replace(hello, of=of), *more, **named)


def _live_if_the_neighbour_is(self: NodeMirror, state: FeedState, *more: Any) -> None:
    _take(self, msgspec.structs.replace(state, stale_since_ns=None), *more)


def _nothing(*_: Any) -> None:
    """Leave it out."""


_ORDERED: Final = TreeSwarm(
    voters=1, pairs=("root/north/pump",), order_every_ms=60.0, expires_ms=(300, 800), delay_ms=20.0, sync_ms=5.0,
    faults=("cut", "take_over", "switchover", "kill"), fault_every_ms=500.0, faults_for_ms=8_000, batch_every_ms=400.0,
    segment_bytes=65_536,
)  # fmt: skip
"""Mix that is full of orders; the lowest node is a pair."""

ORDER_SHORTCUTS: Final[Mapping[str, tuple[str, type, TreeSwarm]]] = {
    "expired said after a body left": ("origin_type", broken.ExpiresAfterBody, _ORDERED),
    "silence taken for never": ("origin_type", broken.TakesSilenceForNever, _ORDERED),
    "nothing asked at the deadline": ("origin_type", broken.AsksNothingAtTheDeadline, _ORDERED),
    "carried out before it is on record": ("owner_type", broken.ExecutesBeforeCommit, _ORDERED),
    "carried out again after a takeover": ("owner_type", broken.CarriesOutAgain, _ORDERED),
}
"""Shortcuts of messages between nodes, taken on the way of orders to devices: the side of each, and what finds it."""

SHORTCUTS: Final[Mapping[str, tuple[type, str, Any]]] = {
    "repeats are taken": (_Run, "_last_taken", property(lambda self: BEGINNING)),
    "a copy ends where the folds say": (_Run, "_draft", _end_as_folded),
    "a fork is not marked": (Copier, "forked", _nothing),
    "the epochs of a copy are not told": (Copier, "epochs_of", lambda self, log_id: EpochHistory()),
    "a branch that nobody tells of is not noticed": (_Run, "_look_for_branch", _nothing),
    "what lies below a child is left out": (Copier, "_take_nested", _nothing),
    "another log of a child is not noticed": (Child, "said_hello", _same_log_for_ever),
    "values of a child that is away stay good": (NodeMirror, "unheard", _nothing),
    "a child has its own subtree back": (Feeds, "_asked_for", _own_of_the_follower),
    "what is stale at a neighbour looks live": (NodeMirror, "take", _live_if_the_neighbour_is),
    "an envelope is folded as own": (Folds, "fold", _folded_as_own),
    "a copy is followed from one further": (Copier, "end_of", _one_further),
}


def catch(name: str, seeds: range) -> tuple[int, str] | None:
    """Return the first seed that catches the shortcut, and what was seen; None if none of them does."""
    if name in ORDER_SHORTCUTS:
        side, instead, swarm = ORDER_SHORTCUTS[name]
        with taken((NodeMessages, side, instead)):
            return first_caught(lambda seed: TreeWorld(seed, swarm).play(), seeds)
    with taken(SHORTCUTS[name]):
        return first_caught(lambda seed: TreeWorld(seed).play(), seeds)
