"""`albireo doctor plc-voter`: the commissioning test of a PLC that is to vote."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from albireo.cli.output import ExitCode, Failure, Output, Shown, TextTable, printed, progress, say
from albireo.cli.place import FILE
from albireo.cli.timespan import WholeNumber
from albireo.model.topology import AdapterConfig, Guard, NodeConfig, Topology

if TYPE_CHECKING:
    from albireo.field.modbus.voter.check import VoterReport, VoterSettings

_SIGNS: Final = {"pass": "PASS", "fail": "FAIL", "skipped": "skipped"}
STEPS: Final = 260
"""Steps of the progress bar, about."""


@click.command("plc-voter")
@click.option("--topology", "file", type=FILE, required=True, help="Names the PLC, its registers and the pair.")
@click.option("--plc", "name", required=True, help="Adapter of the PLC, or NODE:ADAPTER.")
@click.option(
    "--power-cycle/--no-power-cycle",
    "cycles_power",
    default=True,
    help="Whether to ask you to switch the PLC off and on. Without it the test stays incomplete.",
)
@click.option("--rounds", type=WholeNumber(4, 10_000), default=100, show_default=True, help="Writes per member.")
@printed
def command(file: Path, name: str, cycles_power: bool, rounds: int) -> Output:
    """Test whether a PLC's registers may vote.

    It writes the voter's 64 registers only, and leaves them as they were found. Both members must be stopped. Run it
    from the machine of each member. Exit code 0 when nothing failed, else 1.
    """
    from albireo.cli.topology_file import read_topology

    topology = read_topology(file).topology
    settings = settings_of(topology, name)
    return _told(name, _run(name, settings, cycles_power=cycles_power, rounds=rounds))


def _run(name: str, settings: "VoterSettings", *, cycles_power: bool, rounds: int) -> "VoterReport":
    from albireo.field.contract import DeviceLost
    from albireo.field.modbus.voter.bench import BenchLimits
    from albireo.field.modbus.voter.check import NotTested, VoterCheck

    address = settings.place.address
    try:
        with progress(f"Testing {name} at {address.host}:{address.port}:", STEPS) as advance:
            limits = BenchLimits(rounds=rounds)
            check = VoterCheck(settings, limits, lambda text: advance(1, text), say)
            return asyncio.run(check.run(cycles_power=cycles_power))
    except NotTested as refusal:
        raise Failure(f"not tested: {refusal}", refusal.remedy) from refusal
    except DeviceLost as lost:
        remedy = f"is the PLC on, and Modbus TCP enabled? Try: nc -vz {address.host} {address.port}"
        raise Failure(f"{name}: {lost.reason}", remedy, ExitCode.UNREACHABLE) from lost


def _told(name: str, report: "VoterReport") -> Output:
    suggested = {"settle_ms": report.settle_ms, "dead_time_ms": report.dead_time_ms}
    text: list[Shown] = [
        TextTable(("result", "what", "found"), ((_SIGNS[one.status], one.name, one.found) for one in report.lines)),
        *(f"{one.name}: {one.remedy}" for one in report.lines if one.remedy),
        f"{name}: {_VERDICTS[report.verdict]}",
    ]
    code = ExitCode.FAILED if report.verdict == "fail" else ExitCode.GOOD
    return Output({"plc": name, "verdict": report.verdict, **suggested, "checks": report.lines}, text, exit_code=code)


_VERDICTS: Final = {
    "pass": "it may vote",
    "fail": "it must not vote",
    "incomplete": "nothing speaks against it so far, but not everything was tested",
}


def settings_of(topology: Topology, name: str) -> "VoterSettings":
    """Settings of the voter `name` in the topology.

    Raises:
        Failure: no such adapter, several, or none that could vote.
    """
    from albireo.field.contract import ConfigurationError
    from albireo.field.modbus.config import ModbusConfig
    from albireo.field.modbus.voter.check import VoterSettings
    from albireo.field.modbus.voter.line import VoterPlace
    from albireo.field.modbus.wire import parse_url
    from albireo.machine.output.mailbox import MAILBOX_REGISTERS, MEMBERS

    node, adapter = _adapter(topology, name)
    if not isinstance(adapter, ModbusConfig) or adapter.voter_address is None:
        raise Failure(
            f"{name} has no registers that could vote",
            "name them in its [[node.adapter]]: voter_address = the first of 64 holding registers",
            ExitCode.BAD_CONFIGURATION,
        )
    try:
        address = parse_url(adapter.url)
    except ConfigurationError as error:
        raise Failure(f"{name}: {error}", exit_code=ExitCode.BAD_CONFIGURATION) from error
    guard_status = None
    if adapter.guard is Guard.PLC and adapter.mailbox_address is not None:
        guard_status = adapter.mailbox_address + MEMBERS * MAILBOX_REGISTERS
    return VoterSettings(
        place=VoterPlace(
            address=address,
            device_id=adapter.device_id,
            first=adapter.voter_address,
            timeout_ns=adapter.timeout_ms * 1_000_000,
        ),
        cluster=f"{topology.cluster}/{_pair(topology, node, adapter).id}",
        settle_ms=adapter.settle_ms,
        dead_time_ms=adapter.dead_time_ms,
        guard_status=guard_status,
    )


def _adapter(topology: Topology, name: str) -> tuple[NodeConfig, AdapterConfig]:
    every = [(node, adapter) for node in topology.node for adapter in node.adapter]
    found = [(node, one) for node, one in every if name in (one.name, f"{node.id}:{one.name}")]
    if len(found) == 1:
        return found[0]
    known = [f"{node.id}:{adapter.name}" for node, adapter in (found or every)]
    what = "stands at several nodes" if found else "is not in the topology"
    raise Failure(f"the PLC {name} {what}", f"name one of {', '.join(known) or 'none'}", ExitCode.USAGE)


def _pair(topology: Topology, node: NodeConfig, adapter: AdapterConfig) -> NodeConfig:
    """The pair that lets this PLC vote; while none does, the node that reads it."""
    for one in topology.node:
        if f"plc:{adapter.name}" in one.voters:
            return one
    return node
