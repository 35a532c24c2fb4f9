"""Conversations of the original's own tools with our device, recorded: its `hexasend` and `hexaupload` of 2015.

Each line is what the tool sent, and what the device answered, which the tool took. `0*N` stands for N bytes of zeros.
"""

from typing import Final

from albireo.codec.hexabus.values import HexType
from albireo.machine.hexabus.acting import ActingDevice
from albireo.machine.hexabus.device import HexAddress, HexDevice, SendDatagram
from albireo.machine.hexabus.endpoints import RELAY, Endpoint, Endpoints
from albireo.model.instant import Instant

TOOL, NOW = HexAddress("::1", 40_000), Instant(0)
RECORDED: Final = {
    "query": ("48583044020d01b200000001", "485830440300000000000001000001b2"),
    "query a float": ("48583044020d4f1f00000003", "4858304403000000000000030941ac00004f1f"),
    "epquery": ("485830440a0dedc800000003", "485830440b000000000000030974656d7065726174757265 0*117 edc8"),
    "write": ("48583044040d8fbd000000010001", "48583044100000008fbd"),
    "write a text": ("48583044040dfaf7000000200a68616c6c 0*124", "4858304410000000faf7"),
    "write another datatype": ("48583044040d9664000000010101", "4858304400000000049664"),
    "write what is read only": ("48583044040de65200000003093fc00000", "485830440000000002e652"),
    "query what is not there": ("48583044020d20710000004d", "4858304400000000012071"),
    "propquery": ("48583044130d5be70000000100000001", "4858304414000000000000010a0000000072656c6179 0*123 5be7"),
    "propquery for the next endpoint": (
        "48583044130dbd440000000000000000",
        "485830441400000000000000030000000100000001bd44",
    ),
    "propwrite": ("48583044150d270f00000001030000000200000005", "485830440000000002270f"),
    "upload: stop": ("48583044040db035000000090100", "4858304410000000b035"),
    "upload: name": ("485830440405b0360000000a0b 0*65", "4858304410000000b036"),
    "upload: first piece": ("485830440405b0370000000a0b01 41*64", "4858304410000000b037"),
    "upload: last piece": ("485830440405b0380000000a0b02414141414141 0*58", "4858304410000000b038"),
    "upload: start": ("485830440405b039000000090101", "4858304410000007b039"),
}
"""By what was asked, in this order."""


def spelled(said: str) -> bytes:
    """Bytes of a recorded datagram."""
    parts = [one.partition("*") for one in said.split()]
    return b"".join(bytes.fromhex(one.zfill(2)) * int(times or 1) for one, _, times in parts)


def test_the_device_answers_the_originals_tools_as_they_were_answered() -> None:
    relay = Endpoint(RELAY, "relay", HexType.BOOL, False, is_writable=True)
    temperature = Endpoint(3, "temperature", HexType.FLOAT, 21.5)
    label = Endpoint(32, "label", HexType.STRING, "", is_writable=True)
    core = HexDevice(Endpoints("lamp", (relay, temperature, label)), HexAddress("fd00::1"), lambda _: 7)
    device = ActingDevice(core)
    for name, (asked, answered) in RECORDED.items():
        effects = device.heard(TOOL, spelled(asked), NOW)
        told = [one.data for one in effects if isinstance(one, SendDatagram) and one.to == TOOL]
        assert told == [spelled(answered)], name
    assert (relay.value, label.value, temperature.value) == (True, "hall", 21.5)
    assert device.store.data[:70] == b"A" * 70, "the program is stored"
