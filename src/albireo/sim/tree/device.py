"""Device of a node of the simulated tree: one item that can be written, and its adapter, which CORE knows.

The adapter is made of the real machines: the producer, the role that CORE tells it, the orders that it takes. One runs
on each member of a pair, and both reach the same device. The device counts what is done to it; it forgets nothing, also
if every disk of its node is exchanged.
"""

from collections import Counter
from functools import partial
from typing import Final

import numpy as np

from albireo.codec.message import (
    AnyMessage,
    Appended,
    AppendRefused,
    ProducerWelcome,
    RoleAsked,
    RoleTold,
    WriteDone,
    WriteOrder,
    WritesEnded,
)
from albireo.field.contract import Written
from albireo.field.orders import WriteOrders
from albireo.field.role import AdapterRole
from albireo.machine.producer.config import ProducerConfig
from albireo.machine.producer.producer import Event, LinkOpened, Offered, Producer
from albireo.model.command import Outcome
from albireo.model.instant import SECOND, Instant, TimePassed, WallTime, soonest
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import Value, ValueType
from albireo.runtime.link.link import DEFAULT_LIMITS
from albireo.sim.nodes.actor import WALL_NS
from albireo.sim.nodes.clients import SimulatedClient
from albireo.sim.nodes.network import Host, Parts, StagedLink
from albireo.sim.nodes.stage import NodeStage
from albireo.sim.tree.swarm import TreeSwarm

NAME: Final = "valve"
ITEM: Final = "valve_set"
ROLE_EVERY_NS: Final = SECOND


class TreeDevice:
    """Device of one node, with all that was done to it."""

    def __init__(self) -> None:
        self.done: Counter[float] = Counter()
        """How often each value was written."""


class DeviceAdapter(SimulatedClient):
    """Adapter on one machine."""

    def __init__(self, stage: NodeStage, host: Host, core: str, device: TreeDevice, *, is_paired: bool) -> None:
        """`core`: endpoint of CORE on this machine."""
        super().__init__(stage, host, f"comm.{NAME}")
        assert isinstance(stage.swarm, TreeSwarm)
        self._reaches = stage.swarm.reaches_on_standby
        self._device = device
        self._role = AdapterRole(is_acting=not is_paired)
        self._orders = WriteOrders()
        self._is_busy = False
        self._greetings = 0
        self._role_due = Instant(0)
        self._stand_down = 0
        self._begin_run()
        self._core = self.dial(core, DEFAULT_LIMITS)
        self._core.on_connection = self._connected

    @property
    def is_acting(self) -> bool:
        return self._role.is_acting

    def _begin_run(self) -> None:
        item = DataItem(name=ITEM, value_type=ValueType.FLOAT64, is_writable=True)
        run = self.stage.chance.getrandbits(31) + 1
        self._producer = Producer(NAME, (item,), run=run, config=ProducerConfig(), takes_orders=True)
        self._greetings = 0

    def _connected(self, is_up: bool) -> None:
        if is_up and self._role.is_acting:
            self._step(LinkOpened())
        elif is_up:
            self._ask_role()

    def post(self, link: StagedLink, sender: bytes, message: AnyMessage, raw: Parts) -> None:
        match message:
            case ProducerWelcome() | Appended() | AppendRefused():
                if self._role.is_acting:
                    self._step(message)
            case WriteOrder():
                receipt = self._orders.put(message)
                if receipt is not None:
                    self._core.send(WriteDone(receipt=receipt))
                self._go_on()
            case RoleTold():
                self._told(message)
            case _:
                pass
        if self._producer.greetings > self._greetings:
            self._greetings = self._producer.greetings
            for one in self._orders.recent(self.now()):
                self._core.send(WriteDone(receipt=one))

    def _told(self, told: RoleTold) -> None:
        before, self._role = self._role, self._role.told(told)
        if before.is_acting != self._role.is_acting:
            self._begin_run()
        if self._role.is_acting and not self._producer.is_streaming:
            self._step(LinkOpened())
        self._stand_down = told.stand_down
        self._say_ended()
        self._arm()

    def _say_ended(self) -> None:
        """Say that nothing is written any more, once that is so; an orderly handover waits for it."""
        if not self._role.is_acting and not self._is_busy:
            self._core.send(WritesEnded(stand_down=self._stand_down, lands_until=0))

    def _ask_role(self) -> None:
        self._role_due = Instant(self.now() + ROLE_EVERY_NS)
        self._core.send(RoleAsked(adapter=NAME, reaches=self._reaches))
        self._arm()

    def pass_time(self) -> None:
        if not self._role.is_acting and self.now() >= self._role_due:
            self._ask_role()
        self._step(TimePassed())

    def _step(self, event: Event) -> None:
        for send in self._producer.step(event, self.now()):
            self._core.send(send.message, send.raw)
        if self._producer.last_word is not None:
            self._begin_run()
            self.stage.agenda.after_ms(100, self._begin_again)
        self._arm()

    def _begin_again(self) -> None:
        if self.is_alive:
            self._step(LinkOpened())

    def _arm(self) -> None:
        self.arm(soonest(self._producer.deadline(), None if self._role.is_acting else self._role_due))

    def _go_on(self) -> None:
        """Carry out the next order, which takes the device some time."""
        order = None if self._is_busy else self._orders.take()
        if order is not None:
            self._is_busy = True
            self.stage.agenda.after_ms(self.stage.chance.uniform(0, 30), partial(self._reach, order))

    def _reach(self, order: WriteOrder) -> None:
        """The order reaches the device, if it still may."""
        if not self.is_alive:
            return
        why = self._role.objection(order, self._producer.epoch, self.now(), 0)
        if why:
            self._finish(order, Written(outcome=Outcome.REJECTED, detail=f"never sent: {why}"))
            return
        assert isinstance(order.value, float)
        self._device.done[order.value] += 1
        self.stage.tell(self.host.name, f"{order.value} is written, {order.command_id}")
        written = Written(outcome=Outcome.VERIFIED, read_back=order.value)
        self.stage.agenda.after_ms(self.stage.chance.uniform(0, 30), partial(self._finish, order, written))

    def _finish(self, order: WriteOrder, written: Written) -> None:
        if not self.is_alive:
            return
        guid = f"{self.stage.chance.getrandbits(64):016x}"
        receipt = self._orders.finish(order, written, guid, self.now(), WallTime(WALL_NS + self.stage.agenda.at))
        self._core.send(WriteDone(receipt=receipt))
        if written.read_back is not None and self._role.is_acting:
            self.measure(written.read_back)
        self._is_busy = False
        self._say_ended()
        self._go_on()

    def measure(self, value: Value) -> None:
        """Say what the device has now. An adapter that says nothing for long counts as gone."""
        times = np.full(1, WALL_NS + self.stage.agenda.at, np.int64)
        batch = SampleBatch(
            value_type=ValueType.FLOAT64,
            item_id=np.zeros(1, np.uint32),
            source_ns=times,
            node_ns=times,
            value=np.array([value], np.float64),
            quality=np.zeros(1, np.uint32),
        )
        self._step(Offered(batches=(batch,)))
