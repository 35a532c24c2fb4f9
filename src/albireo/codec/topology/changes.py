"""Changes between two topologies, and for each what it takes until a running site acts on it.

Compared are meanings (codec/topology/meaning.py), so a file that was only written otherwise has no change.

    nothing has to be done      words for people, objects, groups, limits; nodes below begin and end by themselves
    the adapter starts anew     its items and settings, unless its PLC votes or stands behind a gate of ours
    the face starts anew        its kind and the kind's own settings, and the zone of the plant
    a restart                   everything that is bound, dialled, opened or agreed upon at the start
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from albireo.codec.topology.meaning import Meaning, meaning_of
from albireo.codec.topology.topology import LoadedTopology
from albireo.model.topology import NODE_VOTER, AdapterConfig, Topology, places_of
from albireo.model.tree.nodes import find_node

ASKED_FOR: Final = frozenset({"limits", "uplink.state"})
"""Settings of a node that CORE asks boot for, again and again."""
FOR_PEOPLE: Final = frozenset({"label", "description"})
_ALL_VOTERS: Final = "both members and each of their voters have to start with the same list"
_FIXED: Final = "its PLC votes or stands behind a gate, so the adapter is not started anew as the node runs"
_KNOWN: Final = "others than the adapter read it too, at their start"
_COUNTED: Final = "the actors of a node are counted at its start"
_HANDED_DOWN: Final = "the nodes between it and the root have to take the file up as well, for they hand it down"
_DIALLED: Final = ("endpoint", "messages", "primary", "backup")


class TopologyChange(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the new file says and the old one does not, or the other way round."""

    what: str
    """`cluster`, `witness`, `group`, `node`, `adapter`, `face`, `object`, `item`, or `setting` (of one of them)."""
    how: str
    """`added`, `removed` or `changed`."""
    node: str = ""
    """Id of the node; empty for what belongs to none."""
    name: str = ""
    """Name of what changed; key of a setting, such as `log.keep_h` or `p1.poll_ms`."""
    old: Any = None
    """JSON value, of an entry with several keys those that differ; null where nothing was said: the default holds."""
    new: Any = None
    restart: tuple[str, ...] = ()
    """Places and `witness:NAME` that have to be restarted until it holds; empty: it can be taken up as they run."""
    started_anew: tuple[str, ...] = ()
    """Adapters and faces of the node that are started anew when it is taken up; the node runs on."""
    because: str = ""
    """Reason why they have to be restarted, or what else there is to do."""

    @property
    def is_live(self) -> bool:
        """True: it can be taken up without a restart."""
        return not self.restart


def changes_of(old: LoadedTopology, new: LoadedTopology) -> tuple[TopologyChange, ...]:
    """Every change from `old` to `new`: the cluster's, then node by node, then the rest."""
    return tuple(_Comparison(old, new).changes())


class _Comparison:
    """One comparison of two topologies."""

    def __init__(self, old: LoadedTopology, new: LoadedTopology) -> None:
        self._old, self._new = meaning_of(old), meaning_of(new)
        self._topologies = (old.topology, new.topology)

    def changes(self) -> Iterator[TopologyChange]:
        old, new = self._old, self._new
        if old["cluster"] != new["cluster"]:
            every = tuple(place for node_id in old["node"] for place in self._places(node_id))
            because = "the stores carry it: each node would have to begin with an empty data directory"
            yield _change("cluster", "cluster", old, new, restart=every, because=because)
        for node_id in (one for one in old["node"] if one in new["node"] and "zone" in _differing(old, new)):
            change = _change("setting", "zone", old, new, node_id)
            yield msgspec.structs.replace(change, started_anew=tuple(old["node"][node_id].get("face", ())))
        for node_id in {**old["node"], **new["node"]}:
            yield from self._of_node(node_id, old["node"].get(node_id), new["node"].get(node_id))
        for name in _differing(old["witness"], new["witness"]):
            yield self._of_witness(name)
        yield from _of_list("group", "label", old.get("group", []), new.get("group", []))

    def _places(self, node_id: str) -> tuple[str, ...]:
        """Places of the node as it runs: of the old file, else of the new one."""
        known = self._topologies[0 if node_id in self._old["node"] else 1]
        return tuple(place.name for place in places_of(find_node(known, node_id)))

    def _of_node(self, node_id: str, old: Meaning | None, new: Meaning | None) -> Iterator[TopologyChange]:
        if old is None:
            yield TopologyChange(what="node", how="added", node=node_id, because=f"start it: {self._started(node_id)}")
            return
        if new is None:
            because = "stop it for good; nodes above and below go on"
            yield TopologyChange(what="node", how="removed", node=node_id, because=because)
            return
        for key in _differing(old, new):
            if key == "adapter":
                yield from self._of_adapters(node_id, old["adapter"], new["adapter"])
            elif key == "face":
                yield from self._of_faces(node_id, old.get(key, {}), new.get(key, {}))
            elif key == "item":
                yield from self._of_items(node_id, old, new)
            elif key == "object":
                yield from _of_list("object", "name", old.get(key, []), new.get(key, []), node_id)
            else:
                yield from self._of_key(node_id, key, old, new)

    def _started(self, node_id: str) -> str:
        places = " and ".join(place.name for place in places_of(find_node(self._topologies[1], node_id)))
        return f"albireo node run --id, for {places}"

    def _of_key(self, node_id: str, key: str, old: Meaning, new: Meaning) -> Iterator[TopologyChange]:
        restart = () if key in FOR_PEOPLE else self._places(node_id)
        because = ""
        if key == "voters":
            restart, because = (*restart, *self._voting(node_id)), _ALL_VOTERS
        elif key in _DIALLED:
            below = [place for one in self._below(node_id) for place in self._places(one)]
            voting = (one for one in self._voting(node_id) if not one.startswith("witness:"))
            below = list(dict.fromkeys([*below, *voting]))
            restart, because = (*restart, *below), "it is bound at the start" + ", and dialled from below" * bool(below)
        elif restart:
            because = "it is read at the start"
        if isinstance(old.get(key), dict) or isinstance(new.get(key), dict):
            inner_old, inner_new = old.get(key) or {}, new.get(key) or {}
            for inner in _differing(inner_old, inner_new):
                change = _change("setting", inner, inner_old, inner_new, node_id, restart, because)
                if not ASKED_FOR.isdisjoint({key, f"{key}.{inner}"}):
                    because = _HANDED_DOWN if key == "uplink" else ""
                    change = msgspec.structs.replace(change, restart=(), because=because)
                yield msgspec.structs.replace(change, name=f"{key}.{inner}")
        else:
            yield _change("setting", key, old, new, node_id, restart, because)

    def _below(self, node_id: str) -> list[str]:
        return [one for one in self._old["node"] if one.rpartition("/")[0] == node_id and one in self._new["node"]]

    def _voting(self, node_id: str) -> tuple[str, ...]:
        """Witnesses, and places below that run before and after, which vote for the pair in one of both topologies."""
        listed = [voter for side in (self._old, self._new) for voter in side["node"][node_id].get("voters", ())]
        known = {place for one in self._old["node"] if one in self._new["node"] for place in self._places(one)}
        names = (one.removeprefix(NODE_VOTER) for one in listed)
        return tuple(dict.fromkeys(one for one in names if one.startswith("witness:") or one in known))

    def _of_adapters(self, node_id: str, old: Meaning, new: Meaning) -> Iterator[TopologyChange]:
        restart = self._places(node_id)
        for name in _differing(old, new):
            if name not in old or name not in new:
                yield _change("adapter", name, old, new, node_id, restart, _COUNTED)
                continue
            configs = [_adapters(one, node_id)[name] for one in self._topologies]
            is_fixed = any(one.must_run_on for one in configs)
            known_elsewhere = frozenset().union(*(one.KNOWN_ELSEWHERE for one in configs))
            for key in _differing(old[name], new[name]):
                change = _change("setting", key, old[name], new[name], node_id)
                change = msgspec.structs.replace(change, name=f"{name}.{key}")
                if key in FOR_PEOPLE:
                    yield change
                    continue
                if is_fixed or key in known_elsewhere:
                    change = msgspec.structs.replace(change, restart=restart, because=_FIXED if is_fixed else _KNOWN)
                else:
                    change = msgspec.structs.replace(change, started_anew=(name,))
                yield change

    def _of_faces(self, node_id: str, old: Meaning, new: Meaning) -> Iterator[TopologyChange]:
        for name in _differing(old, new):
            if name not in old or name not in new:
                yield _change("face", name, old, new, node_id, self._places(node_id), _COUNTED)
                continue
            for key in _differing(old[name], new[name]):
                change = _change("setting", key, old[name], new[name], node_id)
                change = msgspec.structs.replace(change, name=f"{name}.{key}")
                if key == "member":
                    change = msgspec.structs.replace(change, restart=self._places(node_id), because=_COUNTED)
                elif key not in FOR_PEOPLE:
                    change = msgspec.structs.replace(change, started_anew=(name,))
                yield change

    def _of_items(self, node_id: str, old: Meaning, new: Meaning) -> Iterator[TopologyChange]:
        every = [adapter for one in self._topologies for adapter in _adapters(one, node_id).values()]
        fixed = {one.name for one in every if one.must_run_on}
        for name in _differing(old["item"], new["item"]):
            cells = (one["item"][name] for one in (old, new) if name in one["item"])
            owners = tuple(dict.fromkeys(one["adapter"] for one in cells))
            is_fixed = not fixed.isdisjoint(owners)
            restart, because = (self._places(node_id), _FIXED) if is_fixed else ((), "")
            change = _in_short(_change("item", name, old["item"], new["item"], node_id, restart, because))
            yield msgspec.structs.replace(change, started_anew=() if is_fixed else owners)

    def _of_witness(self, name: str) -> TopologyChange:
        old, new = self._old["witness"], self._new["witness"]
        voter = f"witness:{name}"
        pairs = [
            node_id
            for node_id, node in self._old["node"].items()
            if voter in node.get("voters", ()) and voter in self._new["node"].get(node_id, {}).get("voters", ())
        ]
        restart = tuple(place for one in pairs for place in self._places(one))
        is_moved = name in old and name in new
        because = "it is bound at the start, and dialled by its pairs" if is_moved else "start it, or stop it for good"
        return _change("witness", name, old, new, restart=(voter, *restart) if is_moved else (), because=because)


def _adapters(topology: Topology, node_id: str) -> dict[str, AdapterConfig]:
    return {one.name: one for one in find_node(topology, node_id).adapter}


def _of_list(what: str, key: str, old: list[Meaning], new: list[Meaning], node: str = "") -> Iterator[TopologyChange]:
    """Changes of entries that people see in the order of the file."""
    before, after = {one[key]: one for one in old}, {one[key]: one for one in new}
    for name in _differing(before, after):
        yield _in_short(_change(what, name, before, after, node))
    if before.keys() == after.keys() and list(before) != list(after):
        because = "in another order"
        yield TopologyChange(what=what, how="changed", node=node, old=[*before], new=[*after], because=because)


def _in_short(change: TopologyChange) -> TopologyChange:
    """The change of an entry, with the keys that differ only."""
    if change.how != "changed":
        return change
    keys = _differing(change.old, change.new)
    old, new = ({key: one[key] for key in keys if key in one} for one in (change.old, change.new))
    return msgspec.structs.replace(change, old=old, new=new)


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Keys whose values differ, those of `old` first."""
    return [key for key in {**old, **new} if old.get(key) != new.get(key)]


def _change(
    what: str,
    name: str,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    node: str = "",
    restart: tuple[str, ...] = (),
    because: str = "",
) -> TopologyChange:
    """Change of the entry `name` of two tables."""
    is_setting = what in ("setting", "cluster")
    how = "changed" if is_setting or (name in old and name in new) else "added" if name in new else "removed"
    return TopologyChange(
        what=what,
        how=how,
        node=node,
        name="" if what == "cluster" else name,
        old=old.get(name),
        new=new.get(name),
        restart=restart,
        because=because,
    )
