"""Settings of a Modbus adapter: its part of `[[node.adapter]]`, JSON from boot."""

import msgspec

from albireo.field.contract import WRITE_MAX_MS
from albireo.model.topology import Guard


class ModbusConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The adapter's part of `[[node.adapter]]`; what it does not know (poll_ms, ...) is COMM's."""

    name: str
    url: str
    items: list[dict[str, str]]
    """Rows of the item table."""
    device_id: int = 1
    timeout_ms: int = 1_000
    retries: int = 1
    read_gap_max: int = 8
    read_count_max: int = 120
    """Registers of one read; bits are sixteen times as many, up to the protocol's limit."""
    guard: Guard = Guard.LEASE
    mailbox_address: int | None = None
    """Address of the guard in the PLC, or of our own gate in front of it."""
    voter_address: int | None = None
    voter_timeout_ms: int = 250
    """Longest wait for one answer of the voter's registers: a lease is renewed several times a second."""
    dead_time_ms: int = 2_000
    write_max_ms: int = WRITE_MAX_MS
    """Time after which, in a pair, bytes that the device has not taken are never delivered."""

    def __post_init__(self) -> None:
        if self.guard is Guard.PLC and self.mailbox_address is None:
            raise ValueError('guard = "plc" needs mailbox_address')
        if not 0 < self.voter_timeout_ms or not 0 < self.write_max_ms:
            raise ValueError("voter_timeout_ms and write_max_ms must be above 0")
