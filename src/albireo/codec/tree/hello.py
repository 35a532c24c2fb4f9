"""Hellos between a node and its parent, on the links that the node dialled."""

import msgspec

from albireo.model import bounded


class ChildHello(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="child_hello"):
    """A node to each member of its parent, each second, on each of the two links that it dialled: follow me here."""

    node: bounded.Name
    log_id: bounded.LogId
    feature_level: bounded.Count
    member: bounded.Seat = 0
    """Index of the member that speaks; 0 for a node that stands alone."""
    is_bulk: bool = False
    """True: this is the link for the log, which may be full; the other one is for all that must not wait."""
    topology_hash: bounded.Name = ""
    """Hash of the topology that this node runs."""
    wall_ns: bounded.Signed = 0
    """Wall clock of the node."""
    run: bounded.LogId = b""
    """Random number of the run of its process."""


class ParentHello(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="parent_hello"):
    """A member of the parent to a node below: the answer to each hello on the link for all that must not wait."""

    node: bounded.Name
    """Id of the parent."""
    member: bounded.Seat = 0
    topology_hash: bounded.Name = ""
    """Hash of the topology that the parent runs."""
    wall_ns: bounded.Signed = 0
    """Wall clock of the parent."""
