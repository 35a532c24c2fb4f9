"""Boot of a gate, from a topology: one process, LOGGER and GATE as two threads under boot.

The gate is supervised like a witness, without restart: a gate that failed lets no order pass, and the service manager
or an operator starts it again.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from albireo.codec.topology.topology import LoadedTopology
from albireo.field.contract import ConfigurationError
from albireo.field.modbus.config import ModbusConfig
from albireo.field.modbus.gate.gate import GateActor, GateArguments
from albireo.log import OsFileSystem, WrongStore
from albireo.model.topology import AdapterConfig, NodeConfig
from albireo.node.gate.store import GateDisk
from albireo.node.lone import run_alone
from albireo.runtime import ActorSpec, ConfigurationRefused


class NoSuchGate(LookupError):
    """No adapter of that name has a gate of its own."""


def gates_of(loaded: LoadedTopology) -> dict[str, tuple[NodeConfig, AdapterConfig]]:
    """Every gate of the topology, by NODE:ADAPTER."""
    return {
        f"{node.id}:{one.name}": (node, one)
        for node in loaded.topology.node
        for one in node.adapter
        if one.device_behind_gate
    }


def arguments_of(loaded: LoadedTopology, name: str, listen: str = "") -> GateArguments:
    """Arguments of the gate `name`.

    Args:
        name: name of its adapter, or NODE:ADAPTER.
        listen: address at which it listens; empty: the address that the members are told.
    Raises:
        NoSuchGate: the topology has no such gate, or several.
    """
    gates = gates_of(loaded)
    found = [one for one in gates if name in (one, one.rpartition(":")[2])]
    if len(found) != 1:
        what = "stands at several nodes" if found else "is no adapter with a gate"
        raise NoSuchGate(f"{name} {what}; the topology has {', '.join(found or gates) or 'none'}")
    node, adapter = gates[found[0]]
    if not isinstance(adapter, ModbusConfig):
        raise NoSuchGate(f"{name} is of kind {adapter.kind}; a gate speaks Modbus")
    return GateArguments(
        name=found[0],
        cluster=loaded.topology.cluster,
        listen=listen or adapter.url,
        device=adapter.gated_url,
        items=loaded.arguments[node.id][node.adapter.index(adapter)]["items"],
        device_id=adapter.device_id,
        mailbox_address=adapter.mailbox_address or 0,
        timeout_ms=adapter.timeout_ms,
        dead_time_ms=adapter.dead_time_ms,
        write_max_ms=adapter.write_max_ms,
        backoff_min_ms=adapter.backoff_min_ms,
        backoff_max_ms=adapter.backoff_max_ms,
    )


def run(loaded: LoadedTopology, name: str, data: Path, listen: str = "") -> int:
    """Run a gate in this process until a signal stops it.

    Returns:
        The exit code, as `run_node` says; 1 after a disk error.
    Raises:
        NoSuchGate, ConfigurationError: before anything was started.
        DataLocked, DirectoryUnsafe: so does `run_node`.
    """
    arguments = msgspec.to_builtins(arguments_of(loaded, name, listen))
    _made(arguments)
    spec = ActorSpec("gate", "albireo.node.gate.boot:create", arguments, stage=1)
    return run_alone(spec, data, loaded.topology.runtime)


def create(arguments: Mapping[str, object]) -> GateActor:
    """Factory for the runtime.

    Raises:
        ConfigurationRefused: the arguments can't work.
    """
    try:
        return _made(arguments)
    except ConfigurationError as error:
        raise ConfigurationRefused(f"gate {arguments.get('name', '?')}: {error}") from error


def _made(arguments: Mapping[str, object]) -> GateActor:
    told = msgspec.convert(arguments, GateArguments)

    def remembers(data: Path) -> GateDisk:
        try:
            return GateDisk(OsFileSystem(), data, told.cluster, told.name)
        except WrongStore as error:
            remedy = "" if error.remedy else ": give --data the right directory, or move that one away"
            raise ConfigurationRefused(f"{error}{remedy}") from error

    return GateActor(told, remembers)
