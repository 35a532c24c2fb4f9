"""The trees that are drilled: chains of nodes, each below the one before it, of which some are pairs.

Two levels have one witness for all pairs. Three levels are the topologies of `examples/`, with the voters that stand
there; a test compares them.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

ROOT: Final = "root"
WITNESS: Final = "w1"
ADAPTER: Final = "p1"
"""Adapter of the last node: the PLC with the output, which votes where its pair lists it."""
_VOTED: Final = (f"witness:{WITNESS}",)
_SITE: Final = "root/north"
_TUNNEL: Final = "root/tunnel"
_HALL: Final = "root/tunnel/hall"
_THREE: Final = (ROOT, _TUNNEL, _HALL)


class TreeShape(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes of a tree."""

    what: str
    """Words for the fault."""
    levels: tuple[str, ...]
    """Ids, topmost first."""
    voters: Mapping[str, tuple[str, ...]]
    """Voters of each node that is a pair; the others are lone."""
    kills: tuple[tuple[str, ...], ...] = ()
    """Pairs whose active members are killed in one moment, by round in turn. Never along with the only voter of one."""

    @property
    def site(self) -> str:
        """The node at the bottom: with the load, and the output."""
        return self.levels[-1]


SHAPES: Final[Mapping[str, TreeShape]] = {
    "stale-parent": TreeShape(
        what="the active member of a root pair stands still, its mate takes over, and it wakes again",
        levels=(ROOT, _SITE),
        voters={ROOT: _VOTED},
    ),
    "stale-child": TreeShape(
        what="the same with the active member of a site that is a pair", levels=(ROOT, _SITE), voters={_SITE: _VOTED}
    ),
    "pair-under-pair": TreeShape(
        what="`kill -9` of who acts in a root pair and in a site pair: both at once, then in turn",
        levels=(ROOT, _SITE),
        voters={ROOT: _VOTED, _SITE: _VOTED},
        kills=((ROOT, _SITE), (ROOT,), (_SITE,)),
    ),
    "pair-at-root": TreeShape(
        what="three levels, a pair at the root that nodes below vote for: `kill -9` of who acts there",
        levels=_THREE,
        voters={ROOT: (*_VOTED, f"node:{_TUNNEL}", f"node:{_HALL}")},
        kills=((ROOT,),),
    ),
    "pair-in-middle": TreeShape(
        what="three levels, a pair in the middle that the node below votes for: `kill -9` of who acts there",
        levels=_THREE,
        voters={_TUNNEL: (f"node:{_HALL}",)},
        kills=((_TUNNEL,),),
    ),
    "pair-at-bottom": TreeShape(
        what="three levels, a pair at the bottom that its PLC votes for: `kill -9` of who acts there",
        levels=_THREE,
        voters={_HALL: (f"plc:{ADAPTER}",)},
        kills=((_HALL,),),
    ),
    "pairs-everywhere": TreeShape(
        what="three levels of pairs that vote upward: `kill -9` of who acts in two of them at once, then in the third",
        levels=_THREE,
        voters={
            ROOT: (*_VOTED, f"node:{_TUNNEL}[primary]", f"node:{_HALL}[backup]"),
            _TUNNEL: (f"node:{_HALL}[primary]",),
            _HALL: (f"plc:{ADAPTER}",),
        },
        kills=((ROOT, _HALL), (_TUNNEL,), (ROOT, _TUNNEL)),
    ),
}
