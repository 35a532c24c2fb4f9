"""Settings of a Modbus adapter: the keys of its `[[node.adapter]]`."""

from typing import Annotated, ClassVar, Final

from msgspec import Meta

from albireo.model.topology import AdapterConfig, Guard, PlcWaits

VOTER_REGISTERS: Final = 64
"""Two blocks of `codec.register_block`, one per member."""
MAILBOX_AREA_REGISTERS: Final = 28
"""Two mailboxes and the guard's status of `machine.output.mailbox`."""
_REGISTERS: Final = 65_536


class ModbusConfig(AdapterConfig, frozen=True):
    """`[[node.adapter]]` of kind `modbus`."""

    KNOWN_ELSEWHERE: ClassVar[frozenset[str]] = AdapterConfig.KNOWN_ELSEWHERE | frozenset(
        ("mailbox_address", "gated_url", "voter_address", "settle_ms", "dead_time_ms")
    )

    device_id: Annotated[int, Meta(ge=0, le=255)] = 1
    """Modbus unit; most devices with one unit answer to 1."""
    timeout_ms: Annotated[int, Meta(ge=10, le=600_000)] = 1_000
    """Longest wait for one answer."""
    retries: Annotated[int, Meta(ge=0, le=10)] = 1
    """Repeats of one read before the device counts as lost."""
    read_gap_max: Annotated[int, Meta(ge=0, le=100)] = 8
    """Unused registers that one block read may span."""
    read_count_max: Annotated[int, Meta(ge=1, le=2_000)] = 120
    """Registers of one block read; Modbus allows 125, some devices less. Bits are sixteen times as many."""
    read_back_ms: Annotated[int, Meta(ge=0, le=60_000)] = 2_000
    """Longest time until the device shows what was written to it; a shorter one tells sooner that it does not."""
    mailbox_address: Annotated[int, Meta(ge=0, le=_REGISTERS - MAILBOX_AREA_REGISTERS)] | None = None
    """First of the 28 holding registers of the output mailboxes; `guard = "plc"` needs it, and `albireo gate`."""
    gated_url: Annotated[str, Meta(max_length=512)] = ""
    """The PLC behind `albireo gate`, as the gate reaches it; `url` is then the address of the gate."""
    voter_address: Annotated[int, Meta(ge=0, le=_REGISTERS - VOTER_REGISTERS)] | None = None
    """First of the 64 holding registers of the voter's two blocks; a voter `plc:NAME` needs it."""
    voter_timeout_ms: Annotated[int, Meta(ge=10, le=60_000)] = 250
    """Longest wait for one answer of the voter's registers: a lease is renewed several times a second."""
    settle_ms: Annotated[int, Meta(ge=0, le=10_000)] = 50
    """Time until the PLC's other connections see a write; measured by `albireo doctor plc-voter`."""
    dead_time_ms: Annotated[int, Meta(ge=0, le=60_000)] = 2_000
    """Time until a write of a broken connection has landed or never will: `timeout_ms` and the PLC's queue."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.guard is Guard.PLC and self.mailbox_address is None:
            raise ValueError('guard = "plc" needs mailbox_address: where the PLC has its mailboxes')
        self._check_gate()
        if self.voter_address is not None and self.mailbox_address is not None:
            distance = self.mailbox_address - self.voter_address
            if -MAILBOX_AREA_REGISTERS < distance < VOTER_REGISTERS:
                raise ValueError("voter_address and mailbox_address overlap: 64 and 28 registers")

    def _check_gate(self) -> None:
        if self.guard is Guard.GATE and (self.mailbox_address is None) is not (not self.gated_url):
            raise ValueError(
                'guard = "gate" with a gate of ours needs both: gated_url, where it finds the PLC, and '
                "mailbox_address, where it shows its mailboxes; a gate of others needs neither"
            )
        if self.gated_url and self.guard is not Guard.GATE:
            raise ValueError(f'gated_url names the PLC behind a gate, and guard is "{self.guard.value}"')
        if self.gated_url and self.voter_address is not None:
            raise ValueError(
                "gated_url and voter_address: a PLC behind a gate can't vote, for the gate refuses plain writes"
            )

    @property
    def device(self) -> tuple[str, int]:
        return self.url, self.device_id

    @property
    def voter_waits(self) -> PlcWaits | None:
        if self.voter_address is None:
            return None
        return PlcWaits(settle_ms=self.settle_ms, dead_time_ms=self.dead_time_ms)

    @property
    def device_behind_gate(self) -> str:
        return self.gated_url
