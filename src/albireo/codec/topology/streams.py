"""Checks of the streams of a pair in a topology: their durability and their replication.

Spec: ADR-0122, ADR-0130.
"""

from typing import Final

from albireo.codec.topology.mistakes import Findings
from albireo.model.settings import StreamReplication
from albireo.model.topology import Topology

_ALWAYS_BOTH: Final = {
    "cases": "what an operator has acknowledged must not stand open again after a takeover",
    "state": "item ids are allotted in it, and one that was cut would be given to another item",
    "command": "an order is accepted in it before it is sent, and a takeover must not forget that it may have been",
    "audit": "what somebody did must not be undone",
    "control": "the pair itself decides by it",
}
"""Streams that can't be `local`, each with the reason."""


def check_durability(topology: Topology, found: Findings) -> None:
    """Check that only streams that producers append are answered early, and only in a pair."""
    for index, node in enumerate(topology.node):
        path = ("node", index, "durability")
        for stream in node.durability.local_streams:
            if stream in _ALWAYS_BOTH:
                text = f"{stream} can't be local: {_ALWAYS_BOTH[stream]}"
                found.add((*path, stream), text, "Take it away; samples may be local.")
        if node.durability.local_streams and not node.is_pair:
            text = f"{node.id} is no pair: what is on its disk is everywhere it will ever be"
            found.add(path, text, "It changes nothing until the node is a pair.", is_warning=True)


def check_replication(topology: Topology, found: Findings) -> None:
    """Check that only values of samples stay with one member; the pair needs, or promised, everything else."""
    for index, node in enumerate(topology.node):
        path = ("node", index, "replication")
        for stream in node.replication.private_streams:
            if stream in _ALWAYS_BOTH:
                text = f"{stream} can't stay with one member: {_ALWAYS_BOTH[stream]}"
                found.add((*path, stream), text, "Take it away; samples and own_puts may be configuration.")
        if node.replication.topics is not StreamReplication.ALL and "own_puts" not in node.replication.private_streams:
            text = "topics can't stay with one member as long as no stream does"
            found.add((*path, "topics"), text, 'Write own_puts = "configuration" beside it.')
        for stream in ("samples", "own_puts"):
            if getattr(node.replication, stream) is not StreamReplication.NONE:
                continue
            text = (
                f"{stream} can't be none: whoever takes over must know which items there are and which batches "
                "were taken, or it would give an id to another item and a number to another batch"
            )
            found.add((*path, stream), text, 'Write "configuration": the values stay with the member then.')
        if node.replication.private_streams and not node.is_pair:
            text = f"{node.id} is no pair: there is no other member that anything could be kept from"
            found.add(path, text, "It changes nothing until the node is a pair.", is_warning=True)
