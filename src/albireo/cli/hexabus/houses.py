"""A house as commands read it: a file of `compile`, or the user's program with the item table of the adapter."""

import runpy
import sys
from collections.abc import Callable
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any, TypeVar

import click

from albireo.cli.output import ExitCode, Failure
from albireo.cli.place import FILE
from albireo.cli.topology_file import refusal
from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.house import House, HouseDevice, HouseEndpoint, HouseMachine, decode_house, encode_house
from albireo.codec.hexabus.journal import HOUSE_BYTES_MAX
from albireo.codec.topology.item_table import check_row, read_rows
from albireo.codec.topology.mistakes import Findings
from albireo.field.hexabus.items import HexItem, parse_row, table_of
from albireo.field.hexabus.kind import KIND
from albireo.machine.hexabus.compiler import compiled
from albireo.machine.hexabus.meaning import CompileError
from albireo.machine.hexabus.silent import SilentMachine
from albireo.model.instant import Instant
from albireo.runtime.text_reader import TextReader

_Command = TypeVar("_Command", bound=Callable[..., Any])


def house_options(command: _Command) -> _Command:
    """Give a command the argument HOUSE and what a program needs, handed in to `load_house`."""
    options = (
        click.argument("house", type=FILE),
        click.option("--items", type=FILE, help="Item table of the adapter, for a program."),
        click.option("--master", help="Address of the master, for a program  [default: fd00::1]."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def load_house(house: Path, items: Path | None, master: str | None) -> House:
    """The house in a file, of which all programs can be compiled.

    Raises:
        Failure: it is none, or means nothing (78).
    """
    if house.suffix == ".py":
        if items is None:
            raise Failure(f"{house} does not say which devices there are", "name their table: --items", ExitCode.USAGE)
        try:
            address = IPv6Address((master or "fd00::1").partition("/")[0])
        except ValueError as error:
            raise Failure(f"--master: {error}", "write an IPv6 address, such as fd00::1", ExitCode.USAGE) from error
        found = House(devices_of(items), machines_of(house), address.packed)
    elif items is not None or master is not None:
        raise Failure(f"{house} has its devices and its master", "leave out --items and --master", ExitCode.USAGE)
    else:
        try:
            found = decode_house(_text(house).encode())
        except DecodeError as error:
            remedy = "write it with: albireo hexabus compile HOUSE.py --items TABLE.csv -o house.json"
            raise Failure(f"{house} is no house: {error}", remedy, ExitCode.BAD_CONFIGURATION) from error
    programs_of(found)
    return found


def programs_of(house: House) -> dict[str, bytes]:
    """The program of each device. Raises Failure: there is none, or the node would not take the house (78)."""
    try:
        SilentMachine(house, Instant(0), lambda _: 0)
        programs = {name: compiled(house, name) for name in house.devices}
    except CompileError as error:
        raise Failure(str(error), "change it in the program of the house", ExitCode.BAD_CONFIGURATION) from error
    if (size := len(encode_house(house))) > HOUSE_BYTES_MAX:
        text = f"the house has {size:,} bytes, and a node takes {HOUSE_BYTES_MAX:,}"
        raise Failure(text, "say it with fewer transitions", ExitCode.BAD_CONFIGURATION)
    return programs


def machines_of(path: Path) -> list[HouseMachine]:
    """All machines that a program binds at its module level, alone or in lists. It is run.

    Raises:
        Failure: it ends with an error, or binds none.
    """
    _text(path)
    sys.path.insert(0, str(path.parent))
    try:
        bound = runpy.run_path(str(path), run_name="albireo_house")
    except Exception as error:  # It is the user's program: whatever it raises is told to him.
        lines = [str(at.tb_lineno) for at in _frames(error) if at.tb_frame.f_code.co_filename == str(path)]
        where = f"{path}:{lines[-1]}" if lines else str(path)
        raise Failure(f"{where}: {type(error).__name__}: {error}", "mend it", ExitCode.BAD_CONFIGURATION) from error
    finally:
        sys.path.remove(str(path.parent))
    values = [one for value in bound.values() for one in (value if isinstance(value, list | tuple) else [value])]
    found = list({id(one): one for one in values if isinstance(one, HouseMachine)}.values())
    if not found:
        remedy = 'bind one: stairs = Machine("stairs", state="dark")'
        raise Failure(f"{path} binds no Machine at its module level", remedy, ExitCode.BAD_CONFIGURATION)
    return found


def _frames(error: BaseException) -> list[Any]:
    found, at = [], error.__traceback__
    while at is not None:
        found.append(at)
        at = at.tb_next
    return found


def devices_of(path: Path) -> dict[str, HouseDevice]:
    """Devices and endpoints of an item table. Raises Failure: it has mistakes; all of them stand in the message."""
    findings = Findings(path.name)
    rows = [row for row in read_rows(_text(path), findings) if check_row(row, KIND, findings)]
    items = [one for row in rows if isinstance(one := parse_row(row.cells), HexItem)]
    for text in table_of(items):
        findings.add((), text, "Give each device one address, and each endpoint one row.")
    if any(not one.is_warning for one in findings.mistakes()):
        raise refusal(path, findings.mistakes())
    endpoints: dict[str, dict[str, HouseEndpoint]] = {}
    for one in items:
        endpoints.setdefault(one.device, {})[one.endpoint] = HouseEndpoint(one.eid, one.datatype)
    hosts = {one.device: IPv6Address(one.host).packed for one in items}
    groups = {name: frozenset().union(*(one.groups for one in items if one.device == name)) for name in endpoints}
    return {name: HouseDevice(hosts[name], own, groups[name]) for name, own in endpoints.items()}


def _text(path: Path) -> str:
    """Raises Failure."""
    try:
        return TextReader(path.parent)(path.name)
    except (OSError, ValueError) as error:
        raise Failure(f"cannot read {path}: {error}", "name a file that can be read", ExitCode.USAGE) from error
