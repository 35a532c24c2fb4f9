"""The planned handover of a pair of real processes while an output write is under way at a PLC.

The PLC holds a write back, the switchover is asked for, and the new holder writes as soon as it leads, to a PLC that is
quick again: a lead that was given away too early shows as an old write behind a new one.
"""

import signal
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from albireo.client import ClientError, connect
from albireo.drill.ground import Ground
from albireo.drill.pair import HEALTHY_S, Pair, other_of
from albireo.drill.plcs import Plcs
from albireo.plant.tunnel.plc.orders import CarriedOrder
from albireo.plant.tunnel.plc.wire import PlcFaults
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

ANSWER_S = 20.0
WRITE_MS = 250
"""Within `write_max_ms` of the adapters, so that what the PLC holds back lands before the lease ends."""
PLC_OF = {"plc": "p1", "stamp": "p2", "lease": "p2"}
VALUES = {"plc": (40, 50), "stamp": (7, 8), "lease": (7, 8)}


class Site:
    """A pair and its PLCs."""

    def __init__(self, pair: Pair, plcs: Plcs) -> None:
        self.pair = pair
        self.plcs = plcs

    def active(self) -> str:
        self.pair.wait_healthy()
        acting = self.pair.acting()
        assert acting is not None
        return acting[0]

    def write(self, member: str, level: str, value: int) -> str:
        """The outcome of an order that was given on the member's machine; empty if it was not taken."""
        number = str(uuid.uuid4())
        try:
            with connect(self.pair.data[member], timeout_s=ANSWER_S, is_pinned=True) as client:
                answer: Any = client.ask("write", item=f"out_{level}", value=value, command_id=number, user="test")
        except ClientError:
            return ""
        return str(answer["outcome"])

    def writes(self, member: str, level: str, value: int) -> None:
        """As soon as the member takes orders for this output."""
        self.pair.until("an output is written", lambda: self.write(member, level, value) == "verified", HEALTHY_S)

    def switch_over(self, member: str) -> None:
        """Ordered again while it is refused: a member that stood still for a moment is out of the set just then."""

        def is_passed() -> bool:
            acting = self.pair.acting()
            if acting is None or acting[0] == member:
                self.pair.ask(member, "switchover", timeout_s=ANSWER_S)
            return True

        self.pair.until("the lead is passed", is_passed, HEALTHY_S)

    def carried(self, level: str) -> list[CarriedOrder]:
        way = "mailbox" if level == "plc" else "plain"
        return [one for one in list(self.plcs.carried[PLC_OF[level]]) if one.way == way]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    ground = Ground(tmp_path_factory.mktemp("pair"))
    plcs = Plcs(ground.own_address)
    plcs.begin()
    pair = Pair(ground, plcs.ports)
    try:
        pair.start()
        yield Site(pair, plcs)
    finally:
        pair.end()
        plcs.end()


class UnderWay(threading.Thread):
    """An order whose write the PLC holds back."""

    def __init__(self, site: Site, member: str, level: str, value: int) -> None:
        super().__init__(daemon=True)
        self._site, self._order = site, (member, level, value)
        self.outcome = ""

    def run(self) -> None:
        self.outcome = self._site.write(*self._order)


def begin(site: Site, level: str, faults: PlcFaults) -> tuple[str, UnderWay]:
    """The member that leads, and its order whose write is at the PLC.

    Ordered again where no write came: a poll that the PLC left unanswered was first, and the adapter dials anew."""
    while (begun := begun_once(site, level, faults)) is None:
        site.plcs.apply(PLC_OF[level], PlcFaults())
    return begun


def begun_once(site: Site, level: str, faults: PlcFaults) -> tuple[str, UnderWay] | None:
    """The output was written before, so nothing is new about it; None: the order ended without a write."""
    active, last = site.active(), VALUES[level][1]
    site.writes(active, level, last)
    server = site.plcs.servers[PLC_OF[level]]
    writes = server.writes
    site.plcs.apply(PLC_OF[level], faults)
    order = UnderWay(site, active, level, VALUES[level][0])
    order.start()
    site.pair.until("the write came, or won't", lambda: server.writes > writes or not order.is_alive(), HEALTHY_S)
    return (active, order) if server.writes > writes else None


@pytest.mark.parametrize("level", sorted(PLC_OF))
def test_what_the_old_holder_wrote_lands_first_and_its_outcome_is_known(site: Site, level: str) -> None:
    """Where nothing stands still: a PLC that does so for longer than an adapter waits leaves the outcome unknown, and
    all is done again. A lead that is given away too early never leaves another one."""

    def is_shown() -> bool:
        active, order = begin(site, level, PlcFaults(write_delay_ms=WRITE_MS))
        before = len(site.carried(level))
        site.switch_over(active)
        site.plcs.apply(PLC_OF[level], PlcFaults())
        site.writes(other_of(active), level, VALUES[level][1])
        order.join(PATIENCE_S)
        if order.outcome != "verified":
            return False
        carried = site.carried(level)[before:]
        found = [one.value if level == "plc" else one.words[0] for one in carried]
        assert found == list(VALUES[level]), "recorded before the lead was given away"
        return True

    site.pair.until("the outcome of the old holder's write is known", is_shown, PATIENCE_S)


@pytest.mark.parametrize("level", ["lease"])
def test_an_outcome_that_never_comes_does_not_keep_the_lead_where_it_is(site: Site, level: str) -> None:
    active, order = begin(site, level, PlcFaults(is_half_open=True))
    site.switch_over(active)
    site.plcs.apply(PLC_OF[level], PlcFaults())
    order.join(PATIENCE_S)
    assert order.outcome == "unknown"
    assert site.active() == other_of(active)


def test_an_adapter_that_stands_still_keeps_the_lead_where_it_is_until_it_goes_on(site: Site) -> None:
    """It might stand right before a send; nobody can tell."""
    active = site.active()
    found: list[psutil.Process] = []

    def is_there() -> bool:
        below = psutil.Process(site.pair.groups[active].pid).children(recursive=True)
        found[:] = [one for one in below if _is_p2(one)]
        return len(found) == 1

    site.pair.until("one process is the adapter", is_there, HEALTHY_S)  # A silent one is replaced meanwhile.
    (adapter,) = found
    adapter.send_signal(signal.SIGSTOP)
    switched = threading.Thread(target=site.switch_over, args=(active,), daemon=True)
    try:
        switched.start()

        def is_handing_over() -> bool:
            view = site.pair.view(active)
            return view is not None and view.state == "active" and view.cause == "in charge"

        site.pair.until("the active one still leads", is_handing_over, HEALTHY_S)
        assert switched.is_alive()
    finally:
        adapter.send_signal(signal.SIGCONT)
    switched.join(PATIENCE_S)
    assert site.active() == other_of(active)


def _is_p2(process: psutil.Process) -> bool:
    return "comm.p2" in process.cmdline()
