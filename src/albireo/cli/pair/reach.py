"""The two members of a pair as a command reaches them: one by its data directory, the other by its client endpoint.

The keys for the way to the other machine are those of the member here, in `<data>/keys`: whoever may read them may
speak for it. Without keys the endpoint must be on loopback.
"""

import contextlib
import getpass
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from albireo.cli.output import ExitCode, Failure
from albireo.cli.place import find_data
from albireo.client import ClientError, NodeRefused, NodeUnreachable, connect
from albireo.codec.message import Answer, Ask
from albireo.node.member.action_replies import WHAT_TO_DO
from albireo.runtime import Keys, SyncLink
from albireo.runtime.errors import RuntimeFault

REMOTE_S: Final = 2.0
ACTION_S: Final = 20.0
"""Longer than any admin action takes: the member answers each, or gives it up, before that."""

Asker = Callable[..., object]
"""`ask` of a client: (what, timeout_s, arguments) -> result; raises NodeRefused, NodeUnreachable."""


class Remote:
    """A member on another machine, or at least in another directory."""

    def __init__(self, place: str, endpoint: str, keys: Keys | None) -> None:
        """Raises NodeUnreachable."""
        self._place = place
        self._endpoint = endpoint
        self._request_id = 0
        try:
            self._link = SyncLink.tcp(endpoint, keys, peer=place, timeout_s=REMOTE_S)
        except RuntimeFault as error:
            raise NodeUnreachable(f"{place} at {endpoint}: {error}") from error

    def ask(self, what: str, *, timeout_s: float | None = None, **arguments: object) -> object:
        self._request_id += 1
        self._link.send(Ask(request_id=self._request_id, what=what, arguments=arguments))
        ends = time.monotonic() + (timeout_s or REMOTE_S)
        while (left := ends - time.monotonic()) > 0:
            received = self._link.receive(left)
            if received is None:
                break
            message = received[0]
            if isinstance(message, Answer) and message.request_id == self._request_id:
                if message.error:
                    raise NodeRefused(what, message.error)
                return message.result
        raise NodeUnreachable(f"{self._place} at {self._endpoint} did not answer")

    def close(self) -> None:
        self._link.close()


class ReachedMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member that a command can ask, and the pair as this member shows it."""

    place: str
    ask: Asker
    pair: dict[str, Any]

    def act(self, what: str, **arguments: object) -> dict[str, Any]:
        """Ask for the admin action `what` and wait for its result.

        Raises:
            Failure: refused, with the remedy that the member named.
        """
        try:
            answer = self.ask(what, timeout_s=ACTION_S, user=getpass.getuser(), **arguments)
        except NodeRefused as error:
            reason, _, remedy = error.reason.partition(WHAT_TO_DO)
            raise Failure(f"{self.place}: {reason}", remedy) from error
        except ClientError as error:
            raise Failure(str(error), "look at `albireo status`; the outcome is not known") from error
        assert isinstance(answer, dict)
        return answer


def pair_of(status: object, place: str) -> dict[str, Any]:
    """The pair part of a status.

    Raises:
        Failure: that node stands alone.
    """
    pair = status.get("pair") if isinstance(status, dict) else None
    if not isinstance(pair, dict):
        remedy = "give it `primary` and `backup` in the topology (docs/pair.md)"
        raise Failure(f"{place} stands alone, it is no member of a pair", remedy, ExitCode.USAGE)
    return pair


def untrusted(pair: dict[str, Any], directory: Path) -> list[str]:
    """Other member and witnesses whose keys the member in `directory` does not trust; empty without keys."""
    if not (directory / "keys").is_dir():
        return []
    try:
        keys = Keys.load(directory / "keys")
    except RuntimeFault:
        return []  # The member says itself what is wrong with its keys.
    names = [pair["other"]["place"], *(one for one in pair["voters_seen"] if one.startswith("witness:"))]
    return [name for name in names if not keys.keys_of(name)]


@contextlib.contextmanager
def own_member(data: Path | None) -> Iterator[tuple[ReachedMember, Path]]:
    """The member whose data directory is `data`.

    Raises:
        Failure: it does not run, or is no member of a pair.
    """
    directory = find_data(data)
    try:
        with connect(directory, is_pinned=True) as client:
            pair = pair_of(client.ask("status"), str(directory))
            yield ReachedMember(place=pair["place"], ask=client.ask, pair=pair), directory
    except NodeUnreachable as error:
        raise Failure(str(error), f"start it: albireo node run --data {directory} ...", ExitCode.UNREACHABLE) from error
    except NodeRefused as error:
        raise Failure(error.reason) from error


@contextlib.contextmanager
def other_member(own: ReachedMember, directory: Path) -> Iterator[ReachedMember]:
    """The other member of the pair of `own`, by the endpoint that `own` knows.

    Raises:
        NodeUnreachable: with the reason.
    """
    other = own.pair["other"]
    try:
        keys = Keys.load(directory / "keys") if (directory / "keys").is_dir() else None
    except RuntimeFault as error:
        raise NodeUnreachable(str(error)) from error
    remote = Remote(other["place"], other["client"], keys)
    try:
        pair = pair_of(remote.ask("status"), other["place"])
        yield ReachedMember(place=pair["place"], ask=remote.ask, pair=pair)
    finally:
        remote.close()
