"""Settings of a Hexabus adapter: the keys of its `[[node.adapter]]`."""

from ipaddress import IPv6Interface
from typing import Annotated, Literal

from msgspec import Meta

from albireo.model.topology import AdapterConfig


class HexabusConfig(AdapterConfig, frozen=True):
    """`[[node.adapter]]` of kind `hexabus`."""

    interface: Annotated[str, Meta(min_length=1, max_length=15)] = "eth0"
    """Network interface behind which the devices are."""
    master: Annotated[str, Meta(max_length=64)] = "fd00::1/64"
    """Address of the master with the length of its prefix, which devices obey; whoever leads has it."""
    has_address: bool = False
    """True: the interface has the address already, and keeps it; for a node that stands alone."""
    original_resets: Literal["alone", "all"] = "alone"
    """Who begins anew when a device of the original firmware joins: it alone, or all devices with it."""
    write_max_ms: Annotated[int, Meta(ge=1, le=60_000)] = 50
    """As for every adapter; a datagram has a short way."""

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            address = IPv6Interface(self.master)
        except ValueError as error:
            raise ValueError(
                f"master is {self.master!r}: write an IPv6 address and its prefix, as fd00::1/64"
            ) from error
        if address.ip.is_multicast or address.ip.is_unspecified:
            raise ValueError(f"master is {self.master!r}, which is no address of a host")

    @property
    def device(self) -> tuple[str, int]:
        return f"{self.interface} {self.master}", 0
