"""`albireo topology`: write a first topology out of a device, or check one."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from albireo.cli.display import counted
from albireo.cli.output import ExitCode, Failure, Output, printed, say
from albireo.cli.place import DIRECTORY, data_option, find_data
from albireo.cli.target import Place, far_node, node_client
from albireo.cli.timespan import WholeNumber
from albireo.cli.topology_file import load_again, read_topology, refusal
from albireo.codec.topology.meaning import topology_hash
from albireo.codec.topology.topology import LoadedTopology

if TYPE_CHECKING:
    from albireo.cli.node.page import StatusAnswer
    from albireo.field.modbus.survey import Survey
    from albireo.model.tree.node_row import NodeRow

APPLY_S = 60.0
"""Time that boot may take to read and judge the files of a large site."""


@click.group("topology")
def command() -> None:
    """Write or check a topology file."""


@command.command()
@click.option(
    "--modbus", metavar="HOST:PORT", help="Modbus TCP device to read; without it only this machine is watched."
)
@click.option("--device-id", type=WholeNumber(0, 255), help="Modbus unit [default: the first of 1, 255, 0 to answer].")
@click.option("--hexabus", metavar="INTERFACE", help="Interface behind which Hexabus devices are; they are asked.")
@click.option("--out", type=DIRECTORY, default=Path(), help="Directory [default: .].")
@click.option("--address-max", type=WholeNumber(0, 65_535), default=2_000, show_default=True, help="Last one tried.")
@click.option("--every", is_flag=True, help="Try every address: slower, and no short run of them is missed.")
@click.option("--zeros", is_flag=True, help="Keep long rows of zeros: by default they count as unused.")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@printed
def new(
    modbus: str | None,
    device_id: int | None,
    hexabus: str | None,
    out: Path,
    address_max: int,
    every: bool,
    zeros: bool,
    force: bool,
) -> Output:
    """Write a first topology.toml and, read from a device or all devices of a Hexabus network, the item table.

    Devices are only read, one request at a time. Types of Modbus registers are guessed from a few looks at them and
    marked as guesses: check them against the manual. Hexabus devices tell theirs, but not which endpoints can be
    written: those of relays and dimmers, and whatever has a default.
    """
    from albireo.cli.site.survey import modbus_adapter, survey_device, write_files
    from albireo.field.modbus.survey import SurveyLimits

    if (out / "topology.toml").exists() and not force:
        raise Failure(f"{out / 'topology.toml'} is there already", "name another directory with --out, or say --force")
    limits = SurveyLimits.every(address_max) if every else SurveyLimits(address_max=address_max)
    found = survey_device(modbus, device_id, limits, keeps_zeros=zeros) if modbus is not None else None
    adapters = [modbus_adapter(found)] if found else []
    items = len(found.survey.guesses) if found else 0
    troubles: list[str] = []
    if hexabus is not None:
        from albireo.cli.hexabus.network import first_adapter, surveyed

        devices = surveyed(hexabus, [])
        adapter, table, count = first_adapter(hexabus, devices)
        adapters.append((adapter, table))
        items += count
        troubles = [f"{one.name or one.host}: {one.trouble}" for one in devices if one.trouble]
    written = write_files(out, adapters, overwrites=force)
    read_topology(out / "topology.toml")
    hints = [*troubles, *(_told(found.survey) if found else []), *_next(out / "topology.toml")]
    is_complete = not troubles and (found is None or found.survey.is_complete)
    device = {"device_id": found.device_id, **found.survey.told()} if found else {}
    value = {"files": [str(path) for path in written], "items": items, "complete": is_complete, **device}
    return Output(value, [f"wrote {path}" for path in written], hints)


def _next(file: Path) -> list[str]:
    return [
        "Next: look through the item table (names, types, units, limits), then",
        f"  albireo topology check {file}",
        f"  albireo node run --topology {file}",
    ]


def _told(survey: "Survey") -> list[str]:
    """Result of the survey, and of each table."""
    text = f"{counted(len(survey.guesses), 'item')} out of {counted(survey.requests, 'request')}"
    if survey.skipped:
        text += f"; {survey.skipped} addresses held nothing but zeros (--zeros keeps them)"
    doubtful = sum(one.is_doubtful for one in survey.guesses)
    text += f"; {doubtful} of the types are doubtful" if doubtful else ""
    text += "" if survey.is_complete else "; the table may not be complete"
    return [text, *(f"  {one.kind.value}: {one.found} found; {one.ended}" for one in survey.tables)]


@command.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("topology.toml"))
@printed
def check(file: Path) -> Output:
    """Judge FILE (topology.toml) and its item tables; exit code 78 when something must be changed."""
    from albireo.cli.site.names import names_here

    loaded = load_again(file)
    if not isinstance(loaded, LoadedTopology):
        raise refusal(file, loaded)
    for warning in loaded.warnings:
        say(str(warning))
    items = {node: sum(len(one["items"]) for one in adapters) for node, adapters in loaded.arguments.items()}
    adapters = sum(len(node.adapter) for node in loaded.topology.node)
    hashed = topology_hash(loaded)
    value = {"file": str(file), "valid": True, "hash": hashed, "nodes": items, "adapters": adapters}
    counts = ", ".join(map(counted, (len(items), adapters, sum(items.values())), ("node", "adapter", "item")))
    names = names_here(loaded.topology)
    text = [f"{file}: good. {counts}, hash {hashed[:12]}.", *(one.text(host) for host, one in names.items())]
    return Output(value | {"mistakes": loaded.warnings, "names": names}, text)


@command.command()
def schema() -> None:
    """Print the JSON Schema of topology.toml, for editors that complete and check TOML."""
    import inspect

    from albireo.codec.topology.schema import schema_text
    from albireo.field.offered import KnownKinds
    from albireo.model import settings, topology

    kinds = {name: kind.settings for name, kind in KnownKinds().items()}
    modules = dict.fromkeys((topology, settings, *(inspect.getmodule(one) for one in kinds.values())))
    click.echo(schema_text(kinds, [inspect.getsource(one) for one in modules if one is not None]), nl=False)


@command.command("show")
@click.argument("file", type=click.Path(path_type=Path), default=Path("topology.toml"))
@click.option("--data", type=DIRECTORY, help="Ask the node of this data directory.")
@click.option("--at", help="Ask the node at these endpoints: tcp://HOST:PORT, of a pair two with a comma.")
@click.option("--id", "node_id", help="Ask this node at its endpoints in FILE.")
@click.option("--keys", type=DIRECTORY, help="Directory of your keys.")
@printed
def show_tree(file: Path, data: Path | None, at: str | None, node_id: str | None, keys: Path | None) -> Output:
    """Draw the tree of nodes in FILE (topology.toml).

    If a node is asked, its health stands there, and that of the others as it sees them.
    """
    from albireo.cli.site.tree import health_of, seen_health, tree_of
    from albireo.runtime.clock import wall_ns

    loaded = read_topology(file)
    asked, health = None, {}
    place = _asked(file, data, at, node_id, keys)
    if place is not None:
        status, rows, trouble = _status_of(place)
        known = [node.id for node in loaded.topology.node]
        if status is not None and status.node not in known:
            trouble = f"{place} is {status.node}, which {file} does not have"
        elif status is not None:
            file_hash = topology_hash(loaded)
            health = seen_health(status.node, status.stats, rows, wall_ns(), file_hash)
            health[status.node] = health_of(status, status.topology_hash, file_hash)
        asked = {"place": str(place), "node": status.node if status else None, "trouble": trouble}
        if trouble:
            say(trouble)
    tree = tree_of(str(file), loaded, health)
    return Output(msgspec.to_builtins(tree) | {"asked": asked}, tree.lines())


def _asked(file: Path, data: Path | None, at: str | None, node_id: str | None, keys: Path | None) -> Place | None:
    """The node that is to be asked; None: nobody."""
    if sum(one is not None for one in (data, at, node_id)) > 1:
        raise Failure("--data, --at and --id each name a node", "give one of them", ExitCode.USAGE)
    if data is not None:
        return find_data(data)
    return far_node(at, file, node_id, keys) if at is not None or node_id is not None else None


def _status_of(place: Place) -> tuple["StatusAnswer | None", "list[NodeRow]", str]:
    """Status of the node and the other nodes as it sees them; or no status, and why there is none."""
    from albireo.cli.node.status import gather
    from albireo.client import ClientError

    try:
        with node_client(place) as client:
            status = gather(client, place)
            if isinstance(place, Path):
                with contextlib.suppress(ClientError):
                    told: Any = client.ask("topology", of="boot", timeout_s=2.0)
                    status = msgspec.structs.replace(status, topology_hash=told["hash"])
            return status, client.tree(), ""
    except Failure as failure:
        return None, [], failure.message


@command.command()
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@printed
def diff(old: Path, new: Path) -> Output:
    """Tell what NEW says that OLD does not, and what takes a restart.

    Files that were only written otherwise do not differ.
    """
    from albireo.cli.site.tree import change_text
    from albireo.codec.topology.changes import changes_of

    before, after = read_topology(old), read_topology(new)
    changes = changes_of(before, after)
    restart = list(dict.fromkeys(place for one in changes for place in one.restart))
    last = f"To restart: {', '.join(restart)}." if restart else "Nothing has to be restarted."
    said = f"{len(changes)} changes. {last}" if changes else "No change: the two files mean the same."
    value = {
        "hash": {"old": topology_hash(before), "new": topology_hash(after)},
        "changes": [msgspec.to_builtins(one) | {"live": one.is_live} for one in changes],
        "restart": restart,
    }
    return Output(value, [*map(change_text, changes), said])


@command.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("topology.toml"))
@data_option
@click.option("--dry-run", "is_trial", is_flag=True, help="Tell what would be done, and do nothing.")
@printed
def apply(file: Path, data: Path | None, is_trial: bool) -> Output:
    """Let a running node of this machine take up FILE without a restart.

    All that concerns the node is taken up, or nothing: what takes a restart is refused by name. Give the file that the
    node is started with; each member of a pair takes it up by itself.
    """
    from albireo.cli.site.tree import change_text
    from albireo.codec.topology.changes import TopologyChange

    read_topology(file)
    directory = find_data(data)
    with node_client(directory) as client:
        answer: Any = client.ask("apply", of="boot", timeout_s=APPLY_S, file=str(file.absolute()), trial=is_trial)
    plan = {part: msgspec.convert(answer[part], list[TopologyChange]) for part in ("taken", "refused", "elsewhere")}
    if plan["refused"]:
        names = "\n".join(f"  {change_text(one)}" for one in plan["refused"])
        raise Failure(
            f"{answer['place']} takes up nothing of {file}, because of\n{names}",
            "restart what is named there with the new file, or leave these changes out",
            details=answer,
        )
    anew = f", {', '.join(answer['started_anew'])} started anew" if answer["started_anew"] else ""
    verb = "would take" if is_trial else "took"
    elsewhere = f"; {len(plan['elsewhere'])} concern other nodes" if plan["elsewhere"] else ""
    hashed = answer["hash"]["new"][:12]
    said = f"{answer['place']} {verb} up {len(plan['taken'])} changes{anew}{elsewhere}. Hash {hashed}."
    return Output(answer, [*map(change_text, plan["taken"]), said])
