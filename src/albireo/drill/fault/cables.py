"""Faults of cables."""

from collections.abc import Callable

from albireo.drill.fault.fault import Fault
from albireo.drill.fault.network import NetworkGround
from albireo.drill.pair import MEMBERS, Pair


class CutCables(Fault):
    """Packets of one member are dropped without a word."""

    def __init__(
        self, network: NetworkGround, whom: Callable[[str], tuple[str, str]], *, goes_in: bool, goes_out: bool
    ) -> None:
        """`whom`: from the member that leads to (whose cable, towards whom only; empty: everybody)."""
        self._network = network
        self._whom = whom
        self._goes_in = goes_in
        self._goes_out = goes_out

    def strike(self, pair: Pair, active: str) -> None:
        name, only = self._whom(active)
        self._network.drop(name, goes_in=self._goes_in, goes_out=self._goes_out, only=only)

    def heal(self, pair: Pair, active: str) -> None:
        for name in MEMBERS:
            self._network.mend(name)


class CutPlcs(Fault):
    """The active member reaches no PLC any more, the other does: it should lead, without a takeover."""

    felt_s = 90.0
    """A member hands over for this reason at most once a minute: the third round waits for that."""

    def __init__(self, network: NetworkGround) -> None:
        self._network = network

    def strike(self, pair: Pair, active: str) -> None:
        for port in pair.device_ports:
            self._network.drop_to_port(active, port)

    def is_felt(self, pair: Pair, active: str) -> bool:
        """Whether the other member leads."""
        acting = pair.acting()
        return acting is not None and acting[0] != active

    def heal(self, pair: Pair, active: str) -> None:
        self._network.mend(active)
