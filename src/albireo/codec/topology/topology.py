"""Topology file and item tables -> `Topology` with the arguments of every adapter, or every mistake in them.

Not here: the disk and the network. `read` hands in the text of a file; `albireo doctor` tells what must be tried to be
known (a port in use, a device that answers).

    topology.toml = cluster, [log], [history], [limits], [alarms], [runtime], [[witness]]*, [[group]]*, [[node]]+
    [[node]]      = id, (endpoint | primary, backup, voters), items?, [node.log]?, ..., [[node.adapter]]*,
                    [[node.face]]*, [[node.object]]*
    items         = a CSV table (codec/topology/item_table.py)

The keys are the fields of `model/topology.py`, of which docs/topology.schema.json is made too.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from albireo.codec.topology.adapter_kind import AdapterKind, Judged
from albireo.codec.topology.faces import FaceKinds, check_faces
from albireo.codec.topology.host_name import host_mistake
from albireo.codec.topology.item_table import (
    OWNER_COLUMN,
    ItemRow,
    cells_of,
    check_alarms,
    check_columns,
    check_doubts,
    check_former_name,
    check_row,
    check_spans,
    check_suppression,
    read_rows,
)
from albireo.codec.topology.mistakes import Findings, KeyPath, Mistake, Variants, build, did_you_mean, shown
from albireo.codec.topology.navigation import KnownItems, check_navigation
from albireo.codec.topology.streams import check_durability, check_replication
from albireo.codec.topology.toml_lines import key_lines
from albireo.codec.topology.tree import WILDCARDS, check_tree, check_uplinks, check_voters
from albireo.codec.topology.zone import check_zone
from albireo.model.topology import AdapterConfig, MemberEndpoints, NodeConfig, Topology

FILE_CHARS_MAX: Final = 32 * 1024 * 1024
"""Characters of one file; a table of 100,000 items has about 10 million."""
_HOST: Final = "host"
"""Kind of the adapter for the node's machine, whose items all begin with its name."""
_FOR_PEOPLE: Final = frozenset({"label", "description"})
SECTIONS: Final = ("log", "history", "limits", "alarms", "runtime")
"""Sections of the whole file, each of which a node may have too."""
_AT_LINE = re.compile(r" \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")
_ENDPOINT = re.compile(
    r"^(?P<scheme>[a-z][a-z0-9+.\-]*)://(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.\-_*]+):(?P<port>[0-9]{1,5})$"
)
_NO_CLUSTER: Final = "00000000-0000-0000-0000-000000000000"
_PORT_MAX: Final = 65_535
_LOOPBACK: Final = re.compile(r"tcp://(127(?:\.[0-9]{1,3}){3}|\[::1\]):")

Read = Callable[[str], str]
"""Text of a file named relative to the topology file. Raises OSError or UnicodeDecodeError."""


class LoadedTopology(msgspec.Struct, frozen=True, kw_only=True):
    """A topology without mistakes."""

    topology: Topology
    arguments: dict[str, tuple[dict[str, Any], ...]]
    """JSON values with which each adapter of a node is started, by node id; its item rows are under `items`."""
    warnings: tuple[Mistake, ...] = ()
    directory: str = ""
    """Directory of the file, if its reader tells it."""


def load_topology(
    file: str, read: Read, kinds: Mapping[str, AdapterKind], faces: FaceKinds | None = None
) -> LoadedTopology | list[Mistake]:
    """Read and judge a topology.

    Args:
        file: name of the topology file, handed to `read` and shown in mistakes.
        kinds: the adapters there are, by name.
        faces: the faces there are; None: none.
    Returns:
        The topology, or all mistakes that can be known without opening anything, warnings last.
    """
    loading = _Loading(file, read, kinds, faces or {})
    topology = loading.topology()
    arguments = loading.all_arguments(topology) if topology else {}
    mistakes = loading.mistakes()
    if topology is None or any(not one.is_warning for one in mistakes):
        return mistakes
    return LoadedTopology(topology=topology, arguments=arguments, warnings=tuple(mistakes))


class _Loading:
    """One pass of `load_topology`: tables that were read, and mistakes that were found."""

    def __init__(self, file: str, read: Read, kinds: Mapping[str, AdapterKind], faces: FaceKinds) -> None:
        self._read = read
        self._kinds = kinds
        self._faces = faces
        self._found = Findings(file)
        self._tables: dict[str, Findings] = {}
        self._table_rows: dict[str, list[ItemRow]] = {}

    def mistakes(self) -> list[Mistake]:
        found = self._found.mistakes()
        for in_table in self._tables.values():
            found += in_table.mistakes()
        return sorted(found, key=lambda one: one.is_warning)

    def topology(self) -> Topology | None:
        """The topology file on its own; None when it has a mistake that hides the rest."""
        remedy = "Name another, or write one: albireo topology new"
        text = text_of(self._found.file, self._read, self._found, (), remedy)
        table = None if text is None else parsed(text, self._found)
        if text is None or table is None:
            return None
        variants: Variants = {AdapterConfig: self._settings_of}
        self._found = Findings(self._found.file, key_lines(text), variants)
        topology = build(Topology, table, (), self._found)
        if topology is None:
            # A missing cluster must not hide what else is wrong; its own mistake is noted already.
            topology = build(Topology, {**table, "cluster": _NO_CLUSTER}, (), Findings(self._found.file, {}, variants))
        if topology is not None:
            topology = _with_defaults(topology, table, self._found)
            check_zone(topology, self._found)
            check_tree(topology, self._found)
            check_uplinks(topology, self._found)
            check_endpoints(topology, self._found)
            check_voters(topology, self._found)
            check_durability(topology, self._found)
            check_replication(topology, self._found)
            check_adapters(topology, self._kinds, self._found)
            check_gates(topology, self._found)
            topology = check_faces(topology, self._faces, self._found)
        return topology

    def _settings_of(self, name: str) -> type[AdapterConfig] | None:
        kind = self._kinds.get(name)
        return None if kind is None or kind.trouble else kind.settings

    def all_arguments(self, topology: Topology) -> dict[str, tuple[dict[str, Any], ...]]:
        given = {node.id: self._arguments(node, ("node", index)) for index, node in enumerate(topology.node)}
        check_navigation(topology, {node.id: self._known_items(node) for node in topology.node}, self._found)
        return given

    def _known_items(self, node: NodeConfig) -> KnownItems:
        """Names of all rows, wrong ones too: a mistake in a row must not show as a second one in the navigation."""
        files = {node.items, *(adapter.items for adapter in node.adapter)} & self._table_rows.keys()
        names = frozenset(row.name for file in files for row in self._table_rows[file])
        is_all = all(adapter.kind == _HOST or self._needs_items(adapter) for adapter in node.adapter)
        return KnownItems(names=names, is_all=is_all)

    def _arguments(self, node: NodeConfig, path: KeyPath) -> tuple[dict[str, Any], ...]:
        owned = self._rows_by_owner(node, path)
        seen: dict[str, _FirstRow] = {}
        given: list[dict[str, Any]] = []
        for index, adapter in enumerate(node.adapter):
            where = (*path, "adapter", index)
            if not adapter.items and not owned[adapter.name] and self._needs_items(adapter):
                text = f"the adapter {adapter.name} has no items"
                self._found.add(where, text, 'Add items = "FILE.csv", or rows of it to the table of the node.')
            rows = self._judged(adapter, node.items, owned[adapter.name], seen)
            rows += self._judged(adapter, adapter.items, self._rows(adapter.items, (*where, "items")), seen)
            given.append({**msgspec.to_builtins(_full(adapter)), "items": [cells_of(row) for row in rows]})
        self._check_names(node, seen)
        return tuple(given)

    def _needs_items(self, adapter: AdapterConfig) -> bool:
        return adapter.kind in self._kinds and self._kinds[adapter.kind].needs_items

    def _rows_by_owner(self, node: NodeConfig, path: KeyPath) -> dict[str, list[ItemRow]]:
        """Rows of the node's own table, each to the adapter that its column `adapter` names."""
        owned: dict[str, list[ItemRow]] = {adapter.name: [] for adapter in node.adapter}
        for row in self._rows(node.items, (*path, "items")):
            owner = row.cells.get(OWNER_COLUMN, "")
            if owner in owned:
                owned[owner].append(row)
                continue
            text = f"{row.name} has the unknown owner {shown(owner)}" if owner else f"{row.name} has no owner"
            remedy = did_you_mean(owner, owned) if owned else "Add a [[node.adapter]] first."
            self._tables[node.items].add((OWNER_COLUMN,), text, remedy, line=row.line)
        return owned

    def _rows(self, file: str, path: KeyPath) -> list[ItemRow]:
        """Rows of an item table, read once however often it is named."""
        if not file:
            return []
        if file not in self._tables:
            self._tables[file] = Findings(file)
            text = text_of(file, self._read, self._found, path, "Paths are relative to the topology file")
            self._table_rows[file] = read_rows(text, self._tables[file]) if text is not None else []
        return self._table_rows[file]

    def _judged(
        self, adapter: AdapterConfig, file: str, rows: list[ItemRow], seen: dict[str, "_FirstRow"]
    ) -> list[ItemRow]:
        """The rows that the adapter can use and whose name nobody has used before."""
        if not rows:
            return []
        kind = self._kinds.get(adapter.kind, AdapterKind())
        found = self._tables[file]
        check_columns(rows, kind, (OWNER_COLUMN,), found)
        good: list[tuple[ItemRow, Judged]] = []
        for row in rows:
            judged = check_row(row, kind, found)
            if row.name in seen:
                other = seen[row.name]
                text = f"{row.name} stands already in {other.file}, line {other.row.line}"
                found.add(("name",), text, "A name is there once per node: change one.", line=row.line)
            elif judged is not None:
                seen[row.name] = _FirstRow(file, row, judged)
                good.append((row, judged))
        check_spans(good, found)
        check_doubts(good, found)
        check_alarms(good, adapter.poll_ms, found)
        return [row for row, _ in good]

    def _check_names(self, node: NodeConfig, seen: Mapping[str, "_FirstRow"]) -> None:
        """Check rows in ways that need all rows of the node."""
        known = {name: one.judged for name, one in seen.items()}
        owners = {**{face.name: "face" for face in node.face}, **{one.name: "adapter" for one in node.adapter}}
        for name, one in seen.items():
            check_suppression([(one.row, one.judged)], known, self._tables[one.file])
            check_former_name(one.row, one.judged, known, self._tables[one.file])
            owner, slash, _ = name.partition("/")
            if slash and owner in owners:
                # An adapter publishes `p1/connected` and the like beside its items.
                text = f"{name} would hide a diagnostics item of the {owners[owner]} {owner}"
                self._tables[one.file].add(("name",), text, "Change the part before the slash.", line=one.row.line)


class _FirstRow(msgspec.Struct, frozen=True):
    """First row of a node that has a certain name."""

    file: str
    row: ItemRow
    judged: Judged


def _full(adapter: AdapterConfig) -> dict[str, Any]:
    """Every field with its value, so that an adapter need not know the defaults; words for people are not for it."""
    fields = (field for field in adapter.__struct_fields__ if field not in _FOR_PEOPLE)
    return {field: getattr(adapter, field) for field in fields}


def text_of(file: str, read: Read, found: Findings, path: KeyPath, remedy: str) -> str | None:
    try:
        text = read(file)
    except UnicodeDecodeError as error:
        found.add(path, f"{file} is not UTF-8 (byte {error.start})", "Save it as UTF-8.")
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        found.add(path, f"cannot read {shown(file)}: {reason}", f"{remedy}.")
        return None
    if len(text) > FILE_CHARS_MAX:
        found.add(path, f"{file} is longer than {FILE_CHARS_MAX} characters", "Is it the right file?")
        return None
    return text


def parsed(text: str, found: Findings) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except RecursionError:
        found.add((), "not TOML: brackets nested too deeply", "Take them away.")
    except ValueError as error:
        said = str(error)
        place = _AT_LINE.search(said)
        reason = said[: place.start()] if place else said
        line = int(place["line"]) if place and place["line"] else text.count("\n") + 1
        found.add((), f"not TOML: {reason}", "See the line named; strings need quotes.", line=line)
    return None


def _with_defaults(topology: Topology, table: dict[str, Any], found: Findings) -> Topology:
    """Topology in which each node has the top-level sections, changed in the keys that its own sections name."""
    nodes: list[NodeConfig] = []
    for index, (node, raw) in enumerate(zip(topology.node, table["node"], strict=True)):
        merged = {}
        for section in SECTIONS:
            common, own, said = getattr(topology, section), getattr(node, section), raw.get(section)
            keys = said if isinstance(said, dict) else {}
            changed = {key: getattr(own, key) for key in keys if key in own.__struct_fields__}
            try:
                merged[section] = msgspec.structs.replace(common, **changed)
            except ValueError as error:
                found.add(("node", index, section), f"with the keys of [{section}]: {error}", "Change one of the two.")
                merged[section] = own
        nodes.append(msgspec.structs.replace(node, **merged))
    return msgspec.structs.replace(topology, node=tuple(nodes))


def check_endpoints(topology: Topology, found: Findings) -> None:
    """Check the form of addresses, that pairs are whole, and that no address is taken twice."""
    taken: dict[tuple[str, str], str] = {}
    for index, node in enumerate(topology.node):
        path = ("node", index)
        if node.is_pair and node.endpoint:
            text = f"{node.id} has an endpoint and is a pair"
            found.add((*path, "endpoint"), text, "Take the endpoint away: the members have their own.")
        if node.is_pair and not (node.primary and node.backup):
            missing = "backup" if node.primary else "primary"
            found.add(
                path, f"the pair {node.id} has no {missing}", f"Add {missing} = {{ client = ..., peer = [...] }}."
            )
        if node.open_on_loopback and not _LOOPBACK.match(node.endpoint or ""):
            text = f"open_on_loopback lets programs of this machine in without keys; {node.endpoint or 'no endpoint'}"
            found.add((*path, "open_on_loopback"), text, 'Write endpoint = "tcp://127.0.0.1:PORT", or take it away.')
        if node.endpoint:
            _take(node.endpoint, (*path, "endpoint"), taken, found)
        if node.messages and not node.endpoint:
            text = f"{node.id} has an address for messages and none at which programs get in"
            found.add(
                (*path, "messages"), text, "Give it an endpoint, or a pair's members an address for messages each."
            )
        if node.messages:
            _take(node.messages, (*path, "messages"), taken, found)
        for name, member in (("primary", node.primary), ("backup", node.backup)):
            if member is not None:
                _take_member(member, (*path, name), taken, found)
        for at, endpoint in enumerate(node.uplink.dial):
            _address(endpoint, (*path, "uplink", "dial", at), found)  # Several sites may use one gateway.
    for index, witness in enumerate(topology.witness):
        _take(witness.endpoint, ("witness", index, "endpoint"), taken, found)
    for index, node in enumerate(topology.node):
        for at, adapter in enumerate(node.adapter):
            _check_url(adapter.name, adapter.url, ("node", index, "adapter", at, "url"), taken, found)
            _check_url(
                adapter.name, adapter.device_behind_gate, ("node", index, "adapter", at, "gated_url"), taken, found
            )


def _take_member(member: MemberEndpoints, path: KeyPath, taken: dict[tuple[str, str], str], found: Findings) -> None:
    _take(member.client, (*path, "client"), taken, found)
    if member.messages:
        _take(member.messages, (*path, "messages"), taken, found)
    for at, endpoint in enumerate(member.peer):
        _take(endpoint, (*path, "peer", at), taken, found)


def _take(endpoint: str, path: KeyPath, taken: dict[tuple[str, str], str], found: Findings) -> None:
    """Note that `path` uses the address; a port of every interface clashes only with itself."""
    address = _address(endpoint, path, found)
    if address is None:
        return
    user = ".".join(str(part) for part in path if not isinstance(part, int))
    if address in taken and address[0] not in WILDCARDS:
        text = f"port clash: {endpoint} is taken already by {taken[address]}"
        found.add(path, text, "Give each its own port; the members of a pair differ in every address.")
    elif address in taken:
        text = f"{endpoint} stands there twice (also {taken[address]})"
        found.add(path, text, "Right on two machines, a port clash on one: name the hosts.", is_warning=True)
    taken.setdefault(address, user)


def _address(endpoint: str, path: KeyPath, found: Findings) -> tuple[str, str] | None:
    match = _ENDPOINT.match(endpoint)
    if match is None or not 1 <= int(match["port"]) <= _PORT_MAX:
        text = f"{shown(endpoint)} is no address{_beyond(endpoint)}"
        found.add(path, text, "Write it as tcp://HOST:PORT, with a port of 1..65535.")
        return None
    if mistake := host_mistake(match["host"]):
        found.add(path, f"{shown(endpoint)}: {mistake}", "Write the name as the network knows it, or the address.")
        return None
    return match["host"].lower(), match["port"].lstrip("0")


def _beyond(endpoint: str) -> str:
    """Names what an address must not have; it would be left out silently. Empty: something else is wrong."""
    place = endpoint.partition("://")[2]
    signs = {"@": "a user", "?": "a query", "#": "a fragment", "/": "a path"}
    named = [name for sign, name in signs.items() if sign in place]
    named += ["port 0"] if re.search(r":0+$", place) else []
    return f": it has {' and '.join(named)}" if named else ""


def _check_url(name: str, url: str, path: KeyPath, taken: Mapping[tuple[str, str], str], found: Findings) -> None:
    if not url or "://" not in url:
        if url:
            found.add(path, f"{shown(url)} is no address", "Write it as tcp://HOST:PORT.")
        return
    address = _address(url, path, found)
    if address is not None and address in taken:
        text = f"port clash: the adapter {name} would connect to our own {taken[address]}"
        found.add(path, text, "Give the address of the device.")


def check_gates(topology: Topology, found: Findings) -> None:
    """Check that a gate has one adapter, and that nothing reaches its PLC another way, where nobody would refuse it."""
    every = [
        (node.id, adapter, ("node", index, "adapter", at))
        for index, node in enumerate(topology.node)
        for at, adapter in enumerate(node.adapter)
    ]
    gates = [
        (f"{node}:{gate.name}", gate, _place(gate.device_behind_gate))
        for node, gate, _ in every
        if gate.device_behind_gate
    ]
    for index, (_, adapter, path) in enumerate(every):
        for gate_name, gate, plc in gates:
            if _place(adapter.url) == plc:
                text = f"{adapter.name} reaches the PLC beside the gate of {gate_name}"
                found.add((*path, "url"), text, "Give the address of the gate; nothing else may reach the PLC.")
            elif adapter.voter_waits is not None and _place(adapter.url) == _place(gate.url):
                text = f"{adapter.name} would vote through the gate of {gate_name}, which refuses plain writes"
                found.add((*path, "voter_address"), text, "Take it away; a PLC behind a gate can't vote.")
        for _, earlier, _ in every[:index]:
            behind = adapter.device_behind_gate
            if behind and _place(behind) == _place(earlier.device_behind_gate):
                text = f"{adapter.name} is a second gate in front of the PLC of {earlier.name}"
                found.add((*path, "gated_url"), text, "One gate per PLC: put all its outputs into one table.")


def _place(url: str) -> tuple[str, str]:
    """Host and port of an address, however they are written."""
    match = _ENDPOINT.match(url)
    return (match["host"].lower(), match["port"].lstrip("0")) if match else (url, "")


def check_adapters(topology: Topology, kinds: Mapping[str, AdapterKind], found: Findings) -> None:
    """Check names, kinds and addresses of adapters, and that each device has one poller."""
    polled: dict[tuple[str, int], str] = {}
    for index, node in enumerate(topology.node):
        names: set[str] = set()
        for at, adapter in enumerate(node.adapter):
            path = ("node", index, "adapter", at)
            if adapter.name in names:
                found.add((*path, "name"), f"{node.id} has two adapters {adapter.name}", "Rename one.")
            names.add(adapter.name)
            kind = kinds.get(adapter.kind)
            if kind is None:
                found.add(
                    (*path, "kind"), f"no adapter of kind {shown(adapter.kind)}", did_you_mean(adapter.kind, kinds)
                )
                continue
            if kind.trouble:
                text = f"the kind {shown(adapter.kind)} can't be had: {kind.trouble}"
                found.add((*path, "kind"), text, "Mend the distribution that offers it.")
                continue
            if kind.needs_url and not adapter.url:
                found.add(path, f"the adapter {adapter.name} has no url", 'Add url = "tcp://HOST:PORT".')
            if kind.needs_url is False and adapter.url:
                found.add((*path, "url"), f"an adapter of kind {adapter.kind} has no url", "Take it away.")
            if adapter.url and adapter.device in polled:
                text = f"{adapter.name} polls the same device as {polled[adapter.device]}"
                remedy = "Right if meant; many devices take few connections."
                found.add((*path, "url"), text, remedy, is_warning=True)
            polled.setdefault(adapter.device, f"{node.id}:{adapter.name}")
