"""The cable between a site and the root: relays in the demo's own process, which can be cut.

While it is cut nothing passes and no end is told; mended, the site's links are made anew.
"""

from collections.abc import Mapping

from albireo.drill.relay import Relay


class Cable:
    """Relays to both members of the root."""

    def __init__(self, ports: Mapping[int, int]) -> None:
        """`ports`: the root's ports by those that the site dials."""
        self._relays = [Relay(port, to) for port, to in ports.items()]

    def begin(self) -> None:
        """Raises DrillError: a port can't be opened."""
        for relay in self._relays:
            relay.begin()

    def cut(self) -> None:
        for relay in self._relays:
            relay.carry_out(relay.cut())

    def mend(self) -> None:
        for relay in self._relays:
            relay.carry_out(relay.mend())

    def end(self) -> None:
        for relay in self._relays:
            relay.end()
