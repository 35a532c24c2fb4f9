"""`albireo topology`: write a first topology out of a device, or check one."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from albireo.cli.output import ExitCode, Failure, emit, json_option, say, show
from albireo.cli.place import data_option, find_data
from albireo.cli.site.adapters import adapter_kinds
from albireo.cli.target import Place, far_node, node_client
from albireo.codec.topology.meaning import topology_hash
from albireo.codec.topology.mistakes import Mistake
from albireo.codec.topology.topology import FILE_CHARS_MAX, LoadedTopology, load_topology

if TYPE_CHECKING:
    from albireo.client.requests import TreeRow
    from albireo.field.modbus.survey import Survey

APPLY_S = 60.0
"""Time that boot may take to read and judge the files of a large site."""
SHOWN_MAX = 50
"""Mistakes on the screen; `--json` gives them all."""


class TextReader:
    """Text of a file below a directory, bounded before it is read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __call__(self, name: str) -> str:
        """The text. Raises OSError, UnicodeDecodeError, or ValueError for what is too long to be meant."""
        path = self._directory / name
        if not path.is_file():
            # A directory, a pipe or a device named by mistake must not be read to its end.
            raise FileNotFoundError(2, "no such file" if not path.exists() else "not a regular file", name)
        if path.stat().st_size > 4 * FILE_CHARS_MAX:
            raise ValueError(f"longer than {FILE_CHARS_MAX} characters")
        return path.read_bytes().decode("utf-8")


def load_again(path: Path) -> LoadedTopology | list[Mistake]:
    """The topology in `path`, or all mistakes in it."""
    return load_topology(path.name, TextReader(path.parent), adapter_kinds())


def read_topology(path: Path) -> LoadedTopology:
    """The topology in `path`; warnings are told on standard error.

    Raises:
        Failure: it has mistakes (exit code 78); all of them stand in the message.
    """
    loaded = load_again(path)
    if isinstance(loaded, LoadedTopology):
        for warning in loaded.warnings:
            say(str(warning))
        return loaded
    raise refusal(path, loaded)


def refusal(path: Path, mistakes: list[Mistake]) -> Failure:
    """The failure that names every mistake."""
    lines = [f"  {mistake}" for mistake in mistakes[:SHOWN_MAX]]
    if len(mistakes) > SHOWN_MAX:
        lines.append(f"  ... and {len(mistakes) - SHOWN_MAX} more (--json gives all)")
    errors = sum(not one.is_warning for one in mistakes)
    head = f"{path}: {errors} mistake{'s' if errors != 1 else ''}"
    return Failure(
        "\n".join([head, *lines]),
        f"change the lines named, then: albireo topology check {path}",
        ExitCode.BAD_CONFIGURATION,
        {"error": head, "file": str(path), "valid": False, "mistakes": msgspec.to_builtins(mistakes)},
    )


@click.group("topology")
def command() -> None:
    """Write or check a topology file."""


@command.command()
@click.option(
    "--modbus", metavar="HOST:PORT", help="Modbus TCP device to read; without it only this machine is watched."
)
@click.option(
    "--device-id", type=click.IntRange(0, 255), help="Modbus unit [default: the first of 1, 255, 0 to answer]."
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path(), help="Directory [default: .].")
@click.option("--address-max", type=click.IntRange(0, 65_535), default=2_000, show_default=True, help="Last one tried.")
@click.option("--zeros", is_flag=True, help="Keep long rows of zeros: by default they count as unused.")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@json_option
def new(
    modbus: str | None,
    device_id: int | None,
    out: Path,
    address_max: int,
    zeros: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write a first topology.toml and, read from a device, its item table.

    The device is only read, one request at a time. Types are guessed from a few looks at the registers and marked as
    guesses: check them against the manual.
    """
    from albireo.cli.site.survey import survey_device, write_files
    from albireo.field.modbus.survey import SurveyLimits

    if (out / "topology.toml").exists() and not force:
        raise Failure(f"{out / 'topology.toml'} is there already", "name another directory with --out, or say --force")
    limits = SurveyLimits(address_max=address_max)
    found = survey_device(modbus, device_id, limits, keeps_zeros=zeros) if modbus is not None else None
    written = write_files(out, found, overwrites=force)
    read_topology(out / "topology.toml")
    items = len(found.survey.guesses) if found else 0
    for path in () if as_json else written:
        show(f"wrote {path}")
    if found:
        say(_told(found.survey))
    say("Next: look through the item table (names, types, units, limits), then")
    say(f"  albireo topology check {out / 'topology.toml'}")
    say(f"  albireo node run --topology {out / 'topology.toml'}")
    if as_json:
        device = {"device_id": found.device_id, "requests": found.survey.requests} if found else {}
        is_complete = found.survey.is_complete if found else True
        emit({"files": [str(path) for path in written], "items": items, "complete": is_complete, **device})


def _told(survey: "Survey") -> str:
    """Result of the survey, in one line."""
    text = f"{len(survey.guesses)} items out of {survey.requests} requests"
    if survey.skipped:
        text += f"; {survey.skipped} addresses held nothing but zeros (--zeros keeps them)"
    if not survey.is_complete:
        text += "; a limit ended it early: the table is not complete"
    return text


@command.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("topology.toml"))
@json_option
def check(file: Path, as_json: bool) -> None:
    """Judge FILE (topology.toml) and its item tables; exit code 78 when something must be changed."""
    loaded = load_again(file)
    if not isinstance(loaded, LoadedTopology):
        raise refusal(file, loaded)
    for warning in loaded.warnings:
        say(str(warning))
    items = {node: sum(len(one["items"]) for one in adapters) for node, adapters in loaded.arguments.items()}
    adapters = sum(len(node.adapter) for node in loaded.topology.node)
    hashed = topology_hash(loaded)
    if as_json:
        warnings = msgspec.to_builtins(loaded.warnings)
        answer = {"file": str(file), "valid": True, "hash": hashed, "nodes": items, "adapters": adapters}
        emit(answer | {"mistakes": warnings})
    else:
        show(f"{file}: good. {len(items)} nodes, {adapters} adapters, {sum(items.values())} items, hash {hashed[:12]}.")


@command.command()
def schema() -> None:
    """Print the JSON Schema of topology.toml, for editors that complete and check TOML."""
    import inspect

    from albireo.codec.topology.schema import schema_text
    from albireo.model import settings, topology

    click.echo(schema_text(inspect.getsource(topology), inspect.getsource(settings)), nl=False)


@command.command("show")
@click.argument("file", type=click.Path(path_type=Path), default=Path("topology.toml"))
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Ask the node of this data directory.")
@click.option("--at", help="Ask the node at these endpoints: tcp://HOST:PORT, of a pair two with a comma.")
@click.option("--id", "node_id", help="Ask this node at its endpoints in FILE.")
@click.option("--keys", type=click.Path(path_type=Path, file_okay=False), help="Directory of your keys.")
@json_option
def show_tree(
    file: Path, data: Path | None, at: str | None, node_id: str | None, keys: Path | None, as_json: bool
) -> None:
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
        if status is not None and status["node"] not in known:
            trouble = f"{place} is {status['node']}, which {file} does not have"
        elif status is not None:
            file_hash = topology_hash(loaded)
            health = seen_health(status, rows, wall_ns(), file_hash)
            health[status["node"]] = health_of(status, status.get("topology_hash", ""), file_hash)
        asked = {"place": str(place), "node": status["node"] if status else None, "trouble": trouble}
        if trouble:
            say(trouble)
    tree = tree_of(str(file), loaded, health)
    if as_json:
        emit(msgspec.to_builtins(tree) | {"asked": asked})
    else:
        for line in tree.lines():
            show(line)


def _asked(file: Path, data: Path | None, at: str | None, node_id: str | None, keys: Path | None) -> Place | None:
    """The node that is to be asked; None: nobody."""
    if sum(one is not None for one in (data, at, node_id)) > 1:
        raise Failure("--data, --at and --id each name a node", "give one of them", ExitCode.USAGE)
    if data is not None:
        return find_data(data)
    return far_node(at, file, node_id, keys) if at is not None or node_id is not None else None


def _status_of(place: Place) -> tuple[dict[str, Any] | None, "list[TreeRow]", str]:
    """Status of the node and the other nodes as it sees them; or no status, and why there is none."""
    from albireo.cli.node.status import gather
    from albireo.client import ClientError

    try:
        with node_client(place) as client:
            status = gather(client, place)
            if isinstance(place, Path):
                with contextlib.suppress(ClientError):  # A boot of another version does not know the question.
                    told: Any = client.ask("topology", of="boot", timeout_s=2.0)
                    status["topology_hash"] = told.get("hash", "")
            return status, client.tree(), ""
    except Failure as failure:
        return None, [], failure.message


@command.command()
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@json_option
def diff(old: Path, new: Path, as_json: bool) -> None:
    """Tell what NEW says that OLD does not, and what takes a restart.

    Files that were only written otherwise do not differ.
    """
    from albireo.cli.site.tree import change_text
    from albireo.codec.topology.changes import changes_of

    before, after = read_topology(old), read_topology(new)
    changes = changes_of(before, after)
    restart = list(dict.fromkeys(place for one in changes for place in one.restart))
    if as_json:
        hashes = {"old": topology_hash(before), "new": topology_hash(after)}
        told = [msgspec.to_builtins(one) | {"live": one.is_live} for one in changes]
        emit({"hash": hashes, "changes": told, "restart": restart})
        return
    for one in changes:
        show(change_text(one))
    last = f"To restart: {', '.join(restart)}." if restart else "Nothing has to be restarted."
    show(f"{len(changes)} changes. {last}" if changes else "No change: the two files mean the same.")


@command.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("topology.toml"))
@data_option
@click.option("--dry-run", "is_trial", is_flag=True, help="Tell what would be done, and do nothing.")
@json_option
def apply(file: Path, data: Path | None, is_trial: bool, as_json: bool) -> None:
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
    if as_json:
        emit(answer)
        return
    for one in plan["taken"]:
        show(change_text(one))
    anew = f", {', '.join(answer['started_anew'])} started anew" if answer["started_anew"] else ""
    verb = "would take" if is_trial else "took"
    elsewhere = f"; {len(plan['elsewhere'])} concern other nodes" if plan["elsewhere"] else ""
    hashed = answer["hash"]["new"][:12]
    show(f"{answer['place']} {verb} up {len(plan['taken'])} changes{anew}{elsewhere}. Hash {hashed}.")
