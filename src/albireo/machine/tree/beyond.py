"""Beyond: nodes outside the own subtree, whose states this node, or one below it, wants; followed at its parent.

    the parent's word on a link that this node dialled, each second --> a line to that member
    the member that acts --> on the one link its own state, and that of each other node, into mirrors

The parent serves them from what it holds itself: its own state, its mirrors of the nodes below it, and its mirrors of
nodes beyond it. It never has the own subtree back to this node. A mirror is not heard if the parent is not, whatever
becomes of the node itself.

Spec: design/tree.md, Links; ADR-0215.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from albireo.codec.message import AnyMessage, FeedAlive, FeedAnswer, FeedState, RoleTold
from albireo.machine.kernel.turn import Moment, Turn
from albireo.machine.tree.below import NO_MIRRORS
from albireo.machine.tree.followed_states import UNHEARD_NS, FollowedStates, Raw, StateWish
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.instant import Instant, soonest

PARENT_LINES: Final = (b"parent 0", b"parent 1")
"""Stand for the links for all that must not wait to each member of the node above: the shell knows them."""


class Beyond:
    """The machine; lives as long as a tenure."""

    def __init__(self, own_node: str, parent: str, mirrors: Mapping[str, NodeMirror]) -> None:
        """`mirrors`: of every node beyond that is wanted; they outlive the tenure."""
        self.parent = parent
        wishes = [StateWish("" if node == parent else node, mirror) for node, mirror in mirrors.items()]
        self._states = FollowedStates(own_node, parent, wishes) if wishes else None
        self._heard_at: dict[int, Instant] = {}
        """Instant at which each member of the parent was heard last; of those that count."""

    @property
    def refused(self) -> int:
        """Number of messages that could not be taken."""
        return 0 if self._states is None else self._states.refused

    @property
    def trouble(self) -> str:
        """Last reason why a state is not followed; empty: they are."""
        return "" if self._states is None else self._states.trouble

    def deadline(self) -> Instant | None:
        """When `time_passed` is due."""
        if self._states is None or not self._heard_at:
            return None
        return soonest(Instant(min(self._heard_at.values()) + UNHEARD_NS), self._states.deadline())

    def parent_there(self, member: int, moment: Moment, turn: Turn) -> None:
        """A member of the parent said hello."""
        if self._states is None or member >= len(PARENT_LINES):
            return
        is_new = member not in self._heard_at
        self._heard_at[member] = moment.now
        if is_new:
            self._states.line_up(member, PARENT_LINES[member], moment, turn)

    def hears(self, sender: bytes, message: AnyMessage, raw: Raw, moment: Moment, turn: Turn) -> None:
        """Take what a member of the parent says, beside its hello."""
        member = PARENT_LINES.index(sender)
        if self._states is None or member not in self._heard_at:
            return
        self._heard_at[member] = moment.now
        match message:
            case RoleTold():
                self._states.role_told(member, message, moment, turn)
            case FeedAnswer() | FeedState() | FeedAlive() if member == self._states.chosen:
                self._states.heard(message, raw, moment, turn)
            case _:
                pass  # Of a member that does not act any more, or nothing that a parent says.

    def time_passed(self, moment: Moment, turn: Turn) -> None:
        if self._states is None:
            return
        for member in [one for one, at in self._heard_at.items() if moment.now - at >= UNHEARD_NS]:
            del self._heard_at[member]
            self._states.line_down(member, moment, turn)
        self._states.time_passed(moment, turn)


def mirrors_beyond(
    nodes: Sequence[str], run: bytes, before: Mapping[str, NodeMirror] = NO_MIRRORS
) -> dict[str, NodeMirror]:
    """A mirror for each of these nodes, by its id: that of `before`, or one that knows nothing before the parent tells
    it."""
    return {node: before[node] if node in before else NodeMirror(node, run=run) for node in nodes}
