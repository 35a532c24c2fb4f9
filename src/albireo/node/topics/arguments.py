"""Arguments of the actor `topics`, and its threads."""

from concurrent.futures import Executor, ThreadPoolExecutor

import msgspec


class TopicsArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the actor, from boot."""

    node: str
    endpoint: str = ""
    """Address of the door, tcp://HOST:PORT with `*` for a free port; empty: there is none."""
    keys: str = ""
    """Directory of the CURVE keys; empty: none."""
    is_paired: bool = False
    capacity_bytes: int = 8 << 20
    """Most bytes of frames that may be under way to this actor."""


def thread_of(name: str) -> Executor:
    """A thread that does one thing after the other."""
    return ThreadPoolExecutor(1, name)
