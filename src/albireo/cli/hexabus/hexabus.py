"""`albireo hexabus`: compile, simulate and upload the machines of a house, and look at its network."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import click
import msgspec

from albireo.cli.hexabus.houses import house_options, load_house, programs_of
from albireo.cli.hexabus.network import info, listen, query, trace
from albireo.cli.output import ExitCode, Failure, Output, Shown, TextTable, json_asked, printed, progress, say, show
from albireo.cli.place import FILE
from albireo.cli.target import Place, node_client, place_option, user_option
from albireo.cli.timespan import SecondsType
from albireo.codec.hexabus.disassembly import disassembled
from albireo.codec.hexabus.house import encode_house
from albireo.codec.hexabus.journal import BY_HAND, HouseTaken, JournalRecord, ResetOrdered, encode_record
from albireo.codec.hexabus.program import PROGRAM_BYTES_MAX, decode_program
from albireo.machine.hexabus.meaning import conflicts_of
from albireo.machine.hexabus.simulation import HouseSimulation, SimulatedEvent
from albireo.model.item import name_parts

if TYPE_CHECKING:
    from albireo.client import Client

LOOK_S: Final = 0.2

_ADAPTER = click.option("--adapter", required=True, help="Name of the adapter, of kind hexabus.")


@click.group("hexabus")
def command() -> None:
    """State machines of a Hexabus house, and a look at the network of its devices.

    HOUSE is a program that binds a Machine or several, with --items, or what `compile` wrote. Endpoints are written
    through the node: albireo write.
    """


for one in (trace, listen, query, info):
    command.add_command(one)


@command.command("compile")
@house_options
@click.option("-o", "--output", type=FILE, help="File for the house, which `upload` takes.")
@click.option("--listing", is_flag=True, help="Print the instructions of each program, too.")
@printed
def compile_house(house: Path, items: Path | None, master: str | None, output: Path | None, listing: bool) -> Output:
    """Compile a program for each device, and tell how much of its room that takes."""
    found = load_house(house, items, master)
    programs, conflicts = programs_of(found), conflicts_of(found)
    for one in conflicts:
        say(f"warning: {one.device}.{one.endpoint} is written by {' and '.join(one.machines)}: the last one counts")
    if output is not None:
        try:
            output.write_bytes(encode_house(found))
        except OSError as error:
            raise Failure(f"cannot write {output}: {error.strerror}", "name another file with -o") from error
    sizes = {name: len(program) for name, program in programs.items()}
    rows = [(name, f"{size:,}", f"{size / PROGRAM_BYTES_MAX:.0%}") for name, size in sizes.items()]
    text: list[Shown] = [TextTable(("device", f"bytes of {PROGRAM_BYTES_MAX:,}", "used"), rows)]
    listings = {name: _listing(program) for name, program in programs.items()} if listing else {}
    text += [line for name, lines in listings.items() for line in (f"{name}:", *lines)]
    names = [one.name for one in found.machines]
    value = {"machines": names, "bytes": sizes, "conflicts": conflicts, "file": str(output) if output else None}
    hints = [f"wrote {output}; next: albireo hexabus upload {output} --adapter NAME"] if output else []
    return Output(value | ({"listings": listings} if listing else {}), text, hints)


def _listing(program: bytes) -> list[str]:
    decoded = decode_program(program)
    assert decoded is not None, "a compiled program is one"
    return disassembled(decoded)


@command.command()
@house_options
@_ADAPTER
@click.option("--wait", "seconds", type=SecondsType(), default=60.0, show_default=True, help="Longest wait, seconds.")
@user_option
@place_option
@printed
def upload(
    house: Path, items: Path | None, master: str | None, adapter: str, seconds: float, user: str, place: Place
) -> Output:
    """Give the machines of HOUSE to the node, which uploads the programs, and wait until all devices have theirs.

    All machines begin with their first states. The node goes on with devices that are missing when the wait is over.
    """
    found = load_house(house, items, master)
    with node_client(place, user) as client:
        _, lost, since_ns = _look(client, adapter)
        if strange := sorted(found.devices.keys() - lost.keys()):
            raise Failure(f"{adapter} has no {', '.join(strange)}", "compile with the item table of the adapter")
        _put(client, adapter, HouseTaken(encode_house(found)))
        missing = _waited(client, adapter, since_ns, seconds)
    value = {"adapter": adapter, "devices": len(lost), "missing": missing or []}
    if missing is not None:
        text = f"{len(missing)} of {len(lost)} devices do not have the machines: {', '.join(missing)}"
        text = text if missing else f"{adapter} has not told in {seconds:g} s that its devices have the machines"
        remedy = f"the node tries on; are they on? Look: albireo items '{adapter}/lost_*'"
        return Output(value, failure=Failure(text, remedy, details=value))
    return Output(value, f"{len(lost)} devices run {len(found.machines)} machines")


@command.command()
@_ADAPTER
@click.option("--reason", default="", help="Why; it stands in the journal of the adapter.")
@user_option
@place_option
@printed
def reset(adapter: str, reason: str, user: str, place: Place) -> Output:
    """Have all machines begin anew with their first states. Events that not all devices have are dropped."""
    with node_client(place, user) as client:
        _look(client, adapter)
        _put(client, adapter, ResetOrdered(reason))
    return Output({"adapter": adapter, "reason": reason}, f"the machines of {adapter} begin anew")


def _put(client: "Client", adapter: str, entry: HouseTaken | ResetOrdered) -> None:
    from albireo.field.journal import JOURNAL_PREFIX

    client.topics.put(f"{JOURNAL_PREFIX}{adapter}", encode_record(JournalRecord(BY_HAND, entry)))


def _look(client: "Client", adapter: str) -> tuple[int, dict[str, bool], int]:
    """Number of members, whether each device is lost, and when that was told. Raises Failure: nobody tells it."""
    members, start = f"{adapter}/members", f"{adapter}/lost_"
    told = {name_parts(one.name)[1]: one.reading for one in client.items((members, f"{start}*"))}
    lost = {name.removeprefix(start): bool(one.value) for name, one in told.items() if name != members}
    if members not in told or not lost:
        text = f"{adapter} is no adapter of kind hexabus here"
        raise Failure(text, "list them: albireo items '*/members'", ExitCode.USAGE)
    return int(told[members].value or 0), lost, told[members].source_ns


def _waited(client: "Client", adapter: str, since_ns: int, seconds: float) -> list[str] | None:
    """Wait until all devices are members again; None: they are. Else those that are none when the wait is over."""
    ends, looks, done, was_less = time.monotonic() + seconds, set[int](), 0, False
    _, known, _ = _look(client, adapter)
    with progress(f"Uploading to {len(known)} devices:", len(known)) as told:
        while time.monotonic() < ends:
            members, lost, at_ns = _look(client, adapter)
            looks |= {at_ns} - {since_ns}
            was_less |= members < len(lost) and bool(looks)
            # The first word after the order may have been on its way before it; the second one was not.
            if members == len(lost) and not any(lost.values()) and (was_less or len(looks) > 1):
                return None
            if was_less:
                told(members - done, ", ".join(name for name, is_lost in lost.items() if is_lost)[:40])
                done = members
            time.sleep(LOOK_S)
        _, lost, _ = _look(client, adapter)
    return [name for name, is_lost in lost.items() if is_lost]


@command.command()
@house_options
@click.argument("script", type=click.File(), default="-")
@printed
def simulate(house: Path, items: Path | None, master: str | None, script: TextIO) -> Output | None:
    """Run all programs of HOUSE here, in simulated time, by the lines of SCRIPT or standard input.

    \b
    button_1.button = 1     a device tells of a value
    wait 90                 so many seconds pass
    clock 06:30             time passes until then; clock sat 06:30: until Saturday
    refuse lamp_1.relay     the device can't write this endpoint any more
    reset                   all machines begin anew

    It begins on a Monday at midnight.
    """
    simulation = HouseSimulation(load_house(house, items, master))
    if script is sys.stdin and script.isatty():
        say("a line such as: button_1.button = 1, or: wait 90; Ctrl-D ends")
    found: list[SimulatedEvent] = []
    for number, line in enumerate(script, 1):
        try:
            events = simulation.line(line)
        except ValueError as error:
            details = {"events": msgspec.to_builtins(found)}
            raise Failure(f"line {number}: {error}", "change it", ExitCode.USAGE, details) from error
        if json_asked():
            found += events
        for one in () if json_asked() else events:
            show(f"{one.at_s:9.0f} s  {one.event}")
            for what in (*one.states, *one.writes):
                show(f"{'':13}{what}")
    return Output({"events": found}) if json_asked() else None
