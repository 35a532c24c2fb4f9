"""Targets: what a program may connect to, as lines to the members of a node.

    a data directory              the node, or the member of a pair, that runs there on this machine
    a directory with two of them  both members of a pair (`primary` and `backup` below it)
    tcp://HOST:PORT               the door of a node or a member; several of them: of the members of a pair
    tcp://HOST:PORT#NAME          the same, where only the key trusted as NAME will do
    a node of a topology          its doors, with the names of its members

Without NAME each trusted key that is no witness's will do, and they are tried in turn: whoever trusts keys of others
than nodes does better to give names.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from albireo.client.errors import TargetRefused
from albireo.client.way import Target
from albireo.model.topology import NodeConfig
from albireo.runtime.errors import EndpointRefused, KeysRefused
from albireo.runtime.link import curve
from albireo.runtime.link.dialing import ANY_PLACE
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.lines import LineTo

MEMBERS: Final = ("primary", "backup")

AnyTarget = str | Path | NodeConfig | LineTo | Sequence[str | Path | LineTo]
AnyKeys = str | Path | Keys | None


def target_of(target: AnyTarget, keys: AnyKeys, *, is_pinned: bool = False) -> Target:
    """The lines that lead to the target.

    Raises:
        TargetRefused: it is none, or there are no such keys.
    """
    loaded = _loaded(keys)
    lines = tuple(line for one in _listed(target) for line in _lines(one, has_keys=loaded is not None))
    if not lines:
        raise TargetRefused("nothing to connect to", "give a data directory, or tcp://HOST:PORT")
    for one in lines:
        try:
            if not one.is_local:
                curve.check(one.endpoint, loaded)
        except EndpointRefused as error:
            raise TargetRefused(
                str(error), "give tcp://HOST:PORT, and the keys (keys=DIRECTORY, --keys) for another machine"
            ) from error
    return Target(lines[:1] if is_pinned else lines, loaded, is_pinned)


def members_of(node: NodeConfig) -> tuple[LineTo, ...]:
    """The doors of a node: of both members, the primary's first, or of the lone node.

    Raises:
        TargetRefused: the topology gives it none.
    """
    if node.primary is not None and node.backup is not None:
        pairs = zip((node.primary, node.backup), MEMBERS, strict=True)
        return tuple(LineTo(one.client, f"{node.id}[{member}]") for one, member in pairs)
    if node.endpoint is None:
        raise TargetRefused(f"{node.id} has no endpoint", "give it `endpoint` in the topology, or use its directory")
    return (LineTo(node.endpoint, node.id),)


def _loaded(keys: AnyKeys) -> Keys | None:
    if keys is None or isinstance(keys, Keys):
        return keys
    try:
        return Keys.load(Path(keys))
    except KeysRefused as error:
        raise TargetRefused(error.cause, error.remedy) from error


def _listed(target: AnyTarget) -> Sequence[str | Path | NodeConfig | LineTo]:
    if isinstance(target, str):
        return [one.strip() for one in target.split(",")] if "://" in target else [target]
    return [target] if isinstance(target, Path | NodeConfig | LineTo) else target


def _lines(one: str | Path | NodeConfig | LineTo, *, has_keys: bool) -> tuple[LineTo, ...]:
    if isinstance(one, LineTo):
        return (one,)
    if isinstance(one, NodeConfig):
        return members_of(one)
    if isinstance(one, str) and "://" in one:
        endpoint, _, name = one.partition("#")
        return (LineTo(endpoint, name or (ANY_PLACE if has_keys else "")),)
    directory = Path(one)
    if all((directory / member / "log").is_dir() for member in MEMBERS):
        return tuple(LineTo(str(directory / member)) for member in MEMBERS)
    if not directory.is_dir():
        raise TargetRefused(f"{directory} is no data directory", "name the --data of the node, or tcp://HOST:PORT")
    return (LineTo(str(directory)),)
