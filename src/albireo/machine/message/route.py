"""Route: the node to which a letter goes next on its way through the tree.

Node ids are paths, `root/north/pump`, so the way is known from the two ids alone: up to the common ancestor, then down.
"""

_STEP = "/"


def way_of(origin: str, owner: str) -> tuple[str, ...]:
    """Every node on the way, both ends included; one that leads nowhere ends where it does."""
    way = [origin]
    while way[-1] != owner and (step := next_hop(way[-1], owner)):
        way.append(step)
    return tuple(way)


def next_hop(here: str, to: str) -> str:
    """The neighbour of `here` on the way to `to`; `here` itself: the letter has arrived; empty: no way leads there."""
    if here == to:
        return here
    if to.startswith(here + _STEP):
        return _STEP.join(to.split(_STEP)[: here.count(_STEP) + 2])
    parent, step, _ = here.rpartition(_STEP)
    return parent if step and here.split(_STEP)[0] == to.split(_STEP)[0] else ""
