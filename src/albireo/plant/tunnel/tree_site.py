"""Writes the topology of a tree of nodes over several tunnels: a centre without PLCs, and a site at each tunnel."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from albireo.model.settings import Placement
from albireo.model.topology import Guard
from albireo.plant.tunnel.site import CLUSTER, HOST_ADAPTER, adapters_text, write_files

WITNESS: Final = "w1"
POLL_MS: Final = 100
PICTURES: Final = "pictures"
"""Directory of the pictures, beside the topology."""
DRAWN: Final = Path(__file__).parent / "drawn"


class PlantNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the tree, with the addresses of this machine that it has."""

    id: str
    label: str
    clients: tuple[str, ...]
    """Endpoint of a lone node, or of the primary and the backup."""
    peers: tuple[str, ...] = ()
    """Endpoints of the members of a pair for each other; empty for a lone node."""
    voters: tuple[str, ...] = ()
    ports: Mapping[str, int] = {}
    """Modbus TCP port of each of its PLCs."""
    guard: Guard = Guard.LEASE
    """Guard of the outputs of its PLCs."""
    dial: tuple[str, ...] = ()
    """Addresses at which it reaches its parent, where they are not the parent's own."""
    placement: Placement = Placement.PROCESS
    pages: tuple[str, ...] = ()
    """Where the page of each member is, or of the lone node; none: it has no page."""

    @property
    def is_pair(self) -> bool:
        return len(self.clients) > 1


def write_tree(directory: Path, nodes: Sequence[PlantNode], witness: str) -> Path:
    """Writes topology and item tables, and gives the path of the topology.

    Args:
        nodes: the root first.
        witness: endpoint of the witness.
    """
    head = f"""# The tunnels of `albireo demo`, and the control centre above them.
cluster = "{CLUSTER}"

[[witness]]
name = "{WITNESS}"
endpoint = "{witness}"
"""
    _draw(directory / PICTURES, nodes)
    return write_files(directory, head + "".join(map(_node, nodes)))


def _draw(directory: Path, nodes: Sequence[PlantNode]) -> None:
    """Writes the picture of each tunnel, which all have the same drawing."""
    directory.mkdir(parents=True, exist_ok=True)
    for node in nodes:
        if node.ports:
            name = node.id.rpartition("/")[2]
            bound = f'title = "{node.label}"\nnode = "{node.id}"\n\n{(DRAWN / "tunnel.toml").read_text("utf-8")}'
            (directory / f"{name}.toml").write_text(bound, "utf-8")
            (directory / f"{name}.svg").write_bytes((DRAWN / "tunnel.svg").read_bytes())


def _node(node: PlantNode) -> str:
    lines = ["", "[[node]]", f'id = "{node.id}"', f'label = "{node.label}"']
    if node.is_pair:
        lines.append(f"voters = {_list(node.voters)}")
        for member, client, peer in zip(("primary", "backup"), node.clients, node.peers, strict=True):
            lines.append(f'{member} = {{ client = "{client}", peer = ["{peer}"] }}')
    else:
        lines.append(f'endpoint = "{node.clients[0]}"')
    if node.placement is not Placement.PROCESS:
        lines += ["", "  [node.runtime]", f'  placement = "{node.placement.value}"']
    if node.dial:
        lines += ["", "  [node.uplink]", f"  dial = {_list(node.dial)}"]
    guards = dict.fromkeys(node.ports, node.guard)
    adapters = adapters_text(node.ports, "127.0.0.1", POLL_MS, guards, are_voters=bool(node.voters))
    return "\n".join(lines) + f"\n{adapters}{HOST_ADAPTER}" + "".join(_pages(node))


def _pages(node: PlantNode) -> Iterator[str]:
    """A face beside each member: on one machine each needs an address of its own."""
    members = ("primary", "backup") if node.is_pair else ("",)
    for url, member in zip(node.pages, members, strict=False):
        yield f"""
  [[node.face]]
  name = "page{f"_{member}" if member else ""}"
  kind = "web"
  bind = "{url}"
  urls = {_list(node.pages)}
  pictures = "{PICTURES}"
"""
        if member:
            yield f'  member = "{member}"\n'


def _list(words: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{one}"' for one in words) + "]"
