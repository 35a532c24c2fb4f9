"""Parts that tests share: guard levels of outputs against a PLC over TCP."""

from collections.abc import Sequence
from pathlib import Path

from albireo.codec.message import RoleAsked, RoleTold
from albireo.field.contract import GOES_ON, PairAdapter, WriteTenure, Written
from albireo.field.kinds import Surroundings, create_adapter
from albireo.model.instant import MS
from albireo.model.value import Value
from albireo.plant.tunnel.plc.pair_area import MAILBOX_ADDRESS
from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.runtime.clock import boot_ns
from albireo.runtime.link.sockets import Letter
from tests.parts.field import LONG_MS, RecordingCore

P1 = PLCS["p1"]


TARGETS = {one.name: number for number, one in enumerate(P1.writable, 1)}


BY_NAME = {one.name: one for one in P1.writable}


NAMES = ["speed_limit", "co_setpoint", "opacity_setpoint", "barrier_close"]


OLD, NEW = WriteTenure(epoch=4, member=0, is_paired=True), WriteTenure(epoch=5, member=1, is_paired=True)


def yes() -> str:
    return GOES_ON


def row_of(name: str) -> dict[str, str]:
    register = BY_NAME[name]
    return {
        "name": name,
        "kind": register.row.kind.value,
        "address": str(register.address),
        "type": register.row.type.value,
        "word_order": register.row.word_order,
        "writable": "true",
        "target": str(TARGETS[name]),
    }


def modbus(port: int, rows: Sequence[dict[str, str]], **more: object) -> PairAdapter:
    arguments = {
        "name": "p1", "kind": "modbus", "url": f"tcp://127.0.0.1:{port}", "items": list(rows), "timeout_ms": LONG_MS,
        "mailbox_address": MAILBOX_ADDRESS, "dead_time_ms": 100, **more,
    }  # fmt: skip
    made = create_adapter(arguments, Surroundings(Path(), boot_ns))
    assert isinstance(made, PairAdapter)
    return made


async def write(adapter: PairAdapter, name: str, value: Value) -> Written:
    return await adapter.write([one.name for one in adapter.items].index(name), value, yes)


class LeadingCore(RecordingCore):
    """A holder's CORE: tells the role with a permit when asked."""

    def __init__(self, epoch: int) -> None:
        super().__init__(epoch)
        self.asked: list[RoleAsked] = []
        self.permit_ms = 1_000

    def _take(self, letter: Letter) -> None:
        if isinstance(letter.message, RoleAsked):
            self.asked.append(letter.message)
            not_after = self.actor.now() + self.permit_ms * MS
            told = RoleTold(is_acting=True, epoch=self.epoch, member=1, not_after=not_after)
            self.link.send(told, to=letter.sender)
        else:
            super()._take(letter)

    def tell(self, told: RoleTold) -> None:
        self.link.send(told, to=self._sender)
