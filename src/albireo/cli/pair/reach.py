"""The two members of a pair as a command reaches them: one by its data directory, the other by its client endpoint.

The keys for the way to the other machine are those of the member here, in `<data>/keys`: whoever may read them may
speak for it. Without keys the endpoint must be on loopback.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from albireo.cli.output import ExitCode, Failure
from albireo.cli.place import find_data
from albireo.cli.target import refused
from albireo.client import ClientError, NodeRefused, NodeUnreachable, TargetRefused, connect
from albireo.model.status import FaceStatus, NodeStatus, PairStatus
from albireo.model.topology import NODE_VOTER
from albireo.runtime import Keys
from albireo.runtime.errors import RuntimeFault
from albireo.runtime.link.lines import LineTo
from albireo.runtime.login import login_name

REMOTE_S: Final = 2.0
ACTION_S: Final = 20.0
"""Longer than any admin action takes: the member answers each, or gives it up, before that."""

Asker = Callable[..., object]
"""`ask` of a client: (what, timeout_s, arguments) -> result; raises NodeRefused, NodeUnreachable."""


class ReachedMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member that a command can ask, and the pair as this member shows it."""

    place: str
    ask: Asker
    pair: PairStatus
    faces: tuple[FaceStatus, ...] = ()

    def act(self, what: str, **arguments: object) -> dict[str, Any]:
        """Ask for the admin action `what` and wait for its result.

        Raises:
            Failure: refused, with the remedy that the member named.
        """
        try:
            answer = self.ask(what, timeout_s=ACTION_S, user=login_name(), **arguments)
        except NodeRefused as error:
            raise refused(error.refusal, f"{self.place}: {error.reason}") from error
        except ClientError as error:
            raise Failure(str(error), "look at `albireo status`; the outcome is not known") from error
        assert isinstance(answer, dict)
        return answer


def pair_of(status: NodeStatus, place: str) -> PairStatus:
    """The pair part of a status.

    Raises:
        Failure: that node stands alone.
    """
    if status.pair is None:
        remedy = "give it `primary` and `backup` in the topology (docs/pair.md)"
        raise Failure(f"{place} stands alone, it is no member of a pair", remedy, ExitCode.USAGE)
    return status.pair


def untrusted(pair: PairStatus, directory: Path) -> list[str]:
    """Other member and voters whose keys the member in `directory` does not trust; empty without keys."""
    if not (directory / "keys").is_dir():
        return []
    try:
        keys = Keys.load(directory / "keys")
    except RuntimeFault:
        return []  # The member says itself what is wrong with its keys.
    voters = [one.removeprefix(NODE_VOTER) for one in pair.voters_seen if one.startswith(("witness:", NODE_VOTER))]
    return [name for name in (pair.other.place, *voters) if not keys.keys_of(name)]


@contextlib.contextmanager
def own_member(data: Path | None) -> Iterator[tuple[ReachedMember, Path]]:
    """The member whose data directory is `data`.

    Raises:
        Failure: it does not run, or is no member of a pair.
    """
    directory = find_data(data)
    try:
        with connect(directory, is_pinned=True) as client:
            pair = pair_of(client.status(), str(directory))
            yield ReachedMember(place=pair.place, ask=client.ask, pair=pair), directory
    except NodeUnreachable as error:
        raise Failure(str(error), f"start it: albireo node run --data {directory} ...", ExitCode.UNREACHABLE) from error
    except NodeRefused as error:
        raise refused(error.refusal, error.reason) from error


@contextlib.contextmanager
def other_member(own: ReachedMember, directory: Path) -> Iterator[ReachedMember]:
    """The other member of the pair of `own`, by the endpoint that `own` knows.

    Raises:
        NodeUnreachable: with the reason.
    """
    other = own.pair.other
    keys = directory / "keys" if (directory / "keys").is_dir() else None
    door = LineTo(other.client, other.place)
    try:
        remote = connect(door, keys=keys, timeout_s=REMOTE_S, is_pinned=True)
    except TargetRefused as error:
        raise NodeUnreachable(f"{other.place} at {other.client}: {error}") from error
    with remote:
        status = remote.status()
        pair = pair_of(status, other.place)
        yield ReachedMember(place=pair.place, ask=remote.ask, pair=pair, faces=status.faces)
