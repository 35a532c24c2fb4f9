"""Settings of a CHP server: its keys in `[[node.face]]`, and the options of `albireo chp`."""

from typing import Final

import msgspec

from albireo.codec.chp import is_subtree
from albireo.face.kinds import FaceKind, made_of
from albireo.runtime.errors import EndpointRefused
from albireo.runtime.link.curve import host_and_port
from albireo.runtime.link.plain import check_open_to

PORTS: Final = 3
PORT_MAX: Final = 65_536 - PORTS


class ChpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A CHP server, as its user wants it."""

    bind: str = "tcp://127.0.0.1:5556"
    """tcp://ADDRESS:P; P + 1 and P + 2 are taken too."""
    of: str = ""
    """Another node whose items are served, of those that the node knows; empty: the node's own."""
    subtrees: tuple[str, ...] = ()
    """Subtrees that are served; none: everything."""
    peers: tuple[str, ...] = ()
    """Addresses or networks that may connect; none: this machine, and only at a loopback address."""
    allow_set: bool = False
    """True: a KVSET of a client is an order to the node."""

    def __post_init__(self) -> None:
        for one in self.subtrees:
            if not one or not is_subtree(one.encode()):
                raise ValueError(f"{one!r} is no subtree: it begins and ends with a slash, such as /root/")
        try:
            for one in ports_of(self.bind):
                check_open_to(one, self.peers)
        except EndpointRefused as error:
            raise ValueError(str(error)) from error


def ports_of(endpoint: str) -> list[str]:
    """Endpoints of the snapshot, the publisher and the collector port.

    Raises:
        EndpointRefused: it is none, or has no room for three ports.
    """
    _, port = host_and_port(endpoint)
    if not 0 < port <= PORT_MAX:
        raise EndpointRefused(endpoint, f"its port, and the two behind it, must be within 1..65535: at most {PORT_MAX}")
    address = endpoint.rpartition(":")[0]
    return [f"{address}:{port + offset}" for offset in range(PORTS)]


KIND: Final = FaceKind(settings=ChpSettings, create=made_of("albireo.face.chp.actor:ChpActor"))
