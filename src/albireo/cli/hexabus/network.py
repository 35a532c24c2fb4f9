"""`albireo hexabus listen`, `trace`, `query`, `info`: a look at the network. Nothing is written to devices."""

import asyncio
import contextlib
import itertools
import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from ipaddress import IPv6Address, IPv6Interface
from pathlib import Path
from random import SystemRandom
from typing import Any, Final, TypeVar

import click
import msgspec

from albireo.cli.display import time_text
from albireo.cli.hexabus.houses import house_options, load_house
from albireo.cli.output import ExitCode, Failure, Output, TextTable, printed, progress, say, tell, until_interrupted
from albireo.cli.timespan import SecondsType, WholeNumber
from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.packets import (
    ALL_NEEDED,
    CONN_RESET,
    GROUP,
    OTHERS,
    PORT,
    RELIABLE,
    WANT_ACK,
    WANT_UL_ACK,
    EndpointQueryPacket,
    ErrorPacket,
    HexDatagram,
    HexError,
    HexPacket,
    PropertyQueryPacket,
    QueryPacket,
    ReportPacket,
    decode,
)
from albireo.codec.hexabus.values import HexType, HexValue
from albireo.codec.topology.text import FirstAdapter, table_text
from albireo.field.hexabus.sockets import Came, HexSocket, open_socket
from albireo.field.hexabus.survey import FoundDevice, FoundEndpoint, HexSurvey
from albireo.machine.hexabus.device import HexAddress
from albireo.machine.hexabus.endpoints import (
    CONTROL,
    DEFAULT,
    FAILED,
    LOCAL_TIME,
    MAXIMUM,
    MINIMUM,
    NAME,
    PROGRAM,
    PROGRAM_ID,
    RECOVERY,
    RELAY,
)
from albireo.machine.hexabus.tracing import HouseTrace, TracedEvent, value_of
from albireo.runtime.clock import boot_ns, wall_ns

_Result = TypeVar("_Result")
LOOK_S: Final = 0.1
REPEATS_KEPT: Final = 1_000
"""Datagrams among which a repeat is looked for."""
_PACKETS: Final = {
    0x00: "ERROR", 0x01: "INFO", 0x02: "QUERY", 0x03: "REPORT", 0x04: "WRITE", 0x09: "EPINFO", 0x0A: "EPQUERY",
    0x0B: "EPREPORT", 0x10: "ACK", 0x11: "PINFO",
    0x13: "EP_PROP_QUERY", 0x14: "EP_PROP_REPORT", 0x15: "EP_PROP_WRITE",
}  # fmt: skip
_FLAGS: Final = {"WANT_ACK": WANT_ACK, "WANT_UL_ACK": WANT_UL_ACK, "RELIABLE": RELIABLE, "CONN_RESET": CONN_RESET}
_PROPERTIES: Final = {NAME: "name", MINIMUM: "minimum", MAXIMUM: "maximum", DEFAULT: "default"}
_COLUMNS: Final = ("name", "device", "address", "endpoint", "eid", "type", "writable")
_SERVICES: Final = frozenset({CONTROL, PROGRAM, 11, PROGRAM_ID, LOCAL_TIME, FAILED, RECOVERY})
"""Endpoints by which devices are run; 11 is how the original acknowledges pieces of programs."""
_WRITABLE: Final = frozenset({RELAY, 80, 81})
"""By convention relays and dimmers: devices do not tell what can be written."""
_LEFT_OUT: Final = (("needs", ALL_NEEDED), ("place", 0), ("parts", 1))
_QUESTIONS: Final = (QueryPacket, EndpointQueryPacket, PropertyQueryPacket)
_INTERFACE = click.argument("interface")
_HOSTS = click.argument("hosts", metavar="[HOST]...", nargs=-1)
_SECONDS = click.option("--seconds", type=SecondsType(), default=None, help="End after so many; else at Ctrl-C.")


@contextlib.contextmanager
def interface_used(interface: str) -> Iterator[None]:
    """An interface that can't be used is a failure of the command."""
    try:
        yield
    except OSError as error:
        remedy = "name the interface behind which the devices are: ip -6 addr"
        raise Failure(f"{interface}: {error.strerror}", remedy, ExitCode.USAGE) from error


def asked(interface: str, ask: Callable[[HexSurvey], Awaitable[_Result]]) -> _Result:
    """The result of questions on an interface. Raises Failure: it can't be used."""

    async def run() -> _Result:
        asking = HexSurvey(interface, SystemRandom())
        try:
            return await ask(asking)
        finally:
            asking.close()

    with interface_used(interface):
        return asyncio.run(run())


async def _group(interface: str, seconds: float | None) -> AsyncIterator[tuple[HexAddress, bytes] | None]:
    """Datagrams to the group as they come, and None now and then."""
    came: asyncio.Queue[tuple[HexAddress, bytes]] = asyncio.Queue()  # What one turn of the loop reads.

    def heard(news: Came, _: bool) -> None:
        for one in news:
            came.put_nowait(one)

    with interface_used(interface):
        made = HexSocket(open_socket(interface, GROUP, PORT), heard)
    loop = asyncio.get_running_loop()
    ends = None if seconds is None else loop.time() + seconds
    try:
        while ends is None or loop.time() < ends:
            try:
                async with asyncio.timeout(LOOK_S):
                    datagram = await came.get()
            except TimeoutError:
                yield None
            else:
                yield datagram
    finally:
        made.close()


class DatagramHeard(msgspec.Struct, frozen=True, omit_defaults=True):
    """A datagram, for JSON and for people."""

    at_ns: int
    source: str
    port: int
    packet: str
    """Name of its type; `malformed`, or that of another wire."""
    number: int = 0
    flags: tuple[str, ...] = ()
    fields: Mapping[str, object] = {}
    reason: str = ""
    """Why it is malformed."""
    is_repeat: bool = False

    def __str__(self) -> str:
        told = ", ".join(f"{name} {value}" for name, value in self.fields.items()) or self.reason
        row = f"  number {self.number} {' '.join(self.flags)}".rstrip() if not self.reason else ""
        again = "  AGAIN" if self.is_repeat else ""
        return f"{time_text(self.at_ns)}  [{self.source}]:{self.port}  {self.packet} {told}{row}{again}"


class DatagramsHeard:
    """Datagrams one after another: what each is, and whether it is a repeat of one before."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._recent: deque[tuple[HexAddress, bytes]] = deque(maxlen=REPEATS_KEPT)

    def take(self, source: HexAddress, data: bytes, at_ns: int) -> DatagramHeard:
        try:
            datagram = decode(data)
        except DecodeError as error:
            kind = data[:4].decode() if data[:4] in OTHERS else "malformed"
            self.counts[kind] += 1
            return DatagramHeard(at_ns, source.host, source.port, kind, reason=f"{error} ({data[:32].hex()})")
        kind = name_of(datagram.packet)
        is_repeat = self._is_repeat(source, datagram, data)
        self.counts.update((kind, *(("repeats",) if is_repeat else ())))
        flags = tuple(name for name, bit in _FLAGS.items() if datagram.flags & bit)
        fields, number = _fields(datagram.packet), datagram.number
        return DatagramHeard(at_ns, source.host, source.port, kind, number, flags, fields, is_repeat=is_repeat)

    def _is_repeat(self, source: HexAddress, datagram: HexDatagram, data: bytes) -> bool:
        """The number says nothing of other packets: a value that is told twice is no repeat."""
        if not (datagram.flags & RELIABLE or isinstance(datagram.packet, _QUESTIONS)):
            return False
        is_repeat = (source, data) in self._recent
        self._recent.append((source, data))
        return is_repeat


def name_of(packet: HexPacket) -> str:
    tag = packet.__struct_config__.tag
    assert isinstance(tag, int)
    return _PACKETS[tag]


def _fields(packet: HexPacket) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in msgspec.structs.asdict(packet).items():
        if isinstance(value, HexValue):
            found |= {"value": value_of(value.value), "type": value.datatype.name}
        elif isinstance(value, HexType):
            found["type"] = value.name
        elif name == "origin":
            found[name] = str(IPv6Address(value))
        elif (name, value) not in _LEFT_OUT:
            found[name] = value
    return found


@click.command()
@_INTERFACE
@_SECONDS
@printed
def listen(interface: str, seconds: float | None) -> None:
    """Show every datagram to the group on INTERFACE: source, packet, number; repeats of one packet are marked.

    Other wires (HX0B, HX0C) and malformed datagrams are named. Counts of all come last, on standard error.
    """
    heard = DatagramsHeard()

    async def run() -> None:
        async for one in _group(interface, seconds):
            if one is not None:
                told = heard.take(*one, wall_ns())
                tell(Output(told, str(told)))

    with until_interrupted(True):
        asyncio.run(run())
    say(", ".join(f"{name} {count}" for name, count in sorted(heard.counts.items())) or "nothing was heard")


@click.command()
@house_options
@_INTERFACE
@_SECONDS
@printed
def trace(house: Path, items: Path | None, master: str | None, interface: str, seconds: float | None) -> None:
    """Show the events of the order on INTERFACE by the names of HOUSE, with the states that each changed.

    Repeats are left out and counted. States are marked with ? until a reset is heard, and after a gap: they are told as
    if the machines had begun when the trace did.
    """
    traced = HouseTrace(load_house(house, items, master), boot_ns())

    def shown(one: TracedEvent) -> None:
        gap = [f"      {one.missed} events were missed"] if one.missed else []
        states = [f"       {'' if one.is_sure else '? '}{state}" for state in one.states]
        tell(Output(one, [*gap, f"{one.number:5}  {one.event}", *states]))

    async def run() -> None:
        async for one in _group(interface, seconds):
            for event in traced.time_passed(boot_ns()) if one is None else traced.heard(*one, boot_ns()):
                shown(event)

    with until_interrupted(True):
        asyncio.run(run())
    say(f"{traced.repeated} repeats are left out")


@click.command()
@_INTERFACE
@click.argument("eid", type=WholeNumber(0, 0xFFFF_FFFF))
@_HOSTS
@printed
def query(interface: str, eid: int, hosts: tuple[str, ...]) -> Output:
    """Ask each HOST, or without any the group on INTERFACE, for the value of the endpoint EID.

    A host is asked again until it answers; the group three times. Exit code 1 if an answer is missing.
    """
    wanted = addresses(hosts)
    answers = asked(interface, lambda asking: asking.ask(QueryPacket(eid), wanted))
    rows: list[tuple[str, str, str]] = []
    for host in wanted or sorted(answers, key=IPv6Address):
        match answers.get(host):
            case ReportPacket(value=value):
                rows.append((host, value_of(value.value), value.datatype.name))
            case ErrorPacket(code=code):
                rows.append((host, "", HexError(code).name if code in list(HexError) else f"error {code}"))
            case _:
                rows.append((host, "", "no answer"))
    told = [dict(zip(("host", "value", "type"), row, strict=True)) for row in rows]
    are_all = bool(answers) and all(isinstance(answers.get(row[0]), ReportPacket) for row in rows)
    table = TextTable(("host", "value", "type"), rows, empty="nobody answered")
    return Output({"eid": eid, "answers": told}, table, exit_code=ExitCode.GOOD if are_all else ExitCode.FAILED)


@click.command()
@_INTERFACE
@_HOSTS
@printed
def info(interface: str, hosts: tuple[str, ...]) -> Output:
    """List the endpoints of each HOST, or without any of all devices on INTERFACE, with their properties."""
    devices = surveyed(interface, addresses(hosts))
    rows = [
        (one.host, one.name, str(told.eid), told.name, told.datatype.name, _properties(told.properties))
        for one in devices
        for told in one.endpoints
    ]
    for one in devices:
        if one.trouble:
            say(f"{one.host} {one.name}: {one.trouble}")
    columns = ("host", "device", "eid", "endpoint", "type", "properties")
    are_all = bool(devices) and not any(one.trouble for one in devices)
    table = TextTable(columns, rows, empty="nobody answered")
    value = [
        {"host": one.host, "name": one.name, "trouble": one.trouble, "endpoints": list(map(_told, one.endpoints))}
        for one in devices
    ]
    return Output({"devices": value}, table, exit_code=ExitCode.GOOD if are_all else ExitCode.FAILED)


def _told(one: FoundEndpoint) -> dict[str, object]:
    properties = {_property(number): value_of(value) for number, value in one.properties.items()}
    return {"eid": one.eid, "name": one.name, "type": one.datatype.name, "properties": properties}


def surveyed(interface: str, hosts: list[str]) -> list[FoundDevice]:
    """Devices and their endpoints. Raises Failure: the interface can't be used."""
    with progress(f"Asking {', '.join(hosts) or f'all devices on {interface}'}", None):
        return asked(interface, lambda asking: asking.survey(hosts))


def first_adapter(interface: str, devices: list[FoundDevice]) -> tuple[FirstAdapter, str, int]:
    """An adapter of these devices, its item table, and how many items that has. Raises Failure: nobody is there."""
    if not devices:
        remedy = "are the devices on, and has the interface an address of their network? ip -6 addr"
        raise Failure(f"no Hexabus device answers on {interface}", remedy, ExitCode.UNREACHABLE)
    rows: list[dict[str, str]] = []
    names: set[str] = set()
    taken: set[str] = set()
    for device in devices:
        name = _fresh(device.name or "device", names)
        own: set[str] = set()
        for one in device.endpoints:
            if one.eid in _SERVICES or one.datatype in (HexType.BYTES16, HexType.BYTES65):
                continue
            endpoint = _fresh(one.name or f"endpoint_{one.eid}", own)
            is_writable = one.eid in _WRITABLE or DEFAULT in one.properties
            row = (
                _fresh(f"{name}_{endpoint}", taken, 60),
                name,
                device.host,
                endpoint,
                str(one.eid),
                one.datatype.name.lower(),
            )
            rows.append(dict(zip(_COLUMNS, (*row, "true" if is_writable else ""), strict=True)))
    network = IPv6Interface(f"{devices[0].host}/64").network
    keys = {"interface": interface, "master": f"{network.network_address + 1}/64"}
    return (
        FirstAdapter(name="hexabus", kind="hexabus", keys=keys, items="hexabus.csv"),
        table_text(rows, _COLUMNS),
        len(rows),
    )


def _fresh(text: str, taken: set[str], chars_max: int = 28) -> str:
    """A name made of a text, which is taken then."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_") or "x"
    name = (name if name[0].isalpha() else f"x_{name}")[:chars_max]
    found = next(
        one for number in itertools.count(1) if (one := name if number == 1 else f"{name}_{number}") not in taken
    )
    taken.add(found)
    return found


def addresses(hosts: tuple[str, ...]) -> list[str]:
    """Addresses as datagrams come from them. Raises Failure: one is none."""
    try:
        return list(dict.fromkeys(str(IPv6Address(one)) for one in hosts))
    except ValueError as error:
        raise Failure(str(error), "name devices by IPv6 address, such as fd00::11", ExitCode.USAGE) from error


def _properties(properties: Mapping[int, Any]) -> str:
    return ", ".join(f"{_property(one)} {value_of(value)}" for one, value in properties.items() if one != NAME)


def _property(number: int) -> str:
    return _PROPERTIES.get(number, f"property {number}")
