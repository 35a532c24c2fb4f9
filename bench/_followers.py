"""Many followers of one node: each with a connection of its own, proven by CURVE, and what a change costs them all."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

import numpy as np
import zmq

from albireo.client import SampleProducer
from albireo.codec.message import FeedAck, FeedAlive, FeedAnswer, FeedHello, FeedState
from albireo.machine.feed.follower import SILENCE_NS
from albireo.model.access import AccessRole
from albireo.model.instant import SECOND
from albireo.runtime.link import curve
from albireo.runtime.link.dialing import TCP_LIMITS
from albireo.runtime.link.keys import Keys, introduce
from albireo.runtime.link.link import Letter, Link
from albireo.runtime.link.sockets import Sockets, new_identity
from bench import Case, Progress, case
from bench._tree import NodeTree, TreeNode, batch, items_named

OF_ONE_KEY: Final = 16
"""Followers of one key: a node serves no more (machine/feed/leader.py)."""
OF_ONE_CONTEXT: Final = 200
CREDIT: Final = 1 << 20
CHANGE_EVERY_S: Final = 0.25
ITEMS: Final = 100
LIMIT_S: Final = 60.0


class Followers:
    """Followers of the state of a node, on the caller's thread."""

    def __init__(self, endpoint: str, node: Keys, users: Sequence[Keys], count: int) -> None:
        self._held = ExitStack()
        self._poller = zmq.Poller()
        self._links: dict[object, Link] = {}
        self._shown: dict[Link, float] = {}
        """Time of the last state that each was given; empty at first."""
        self._heard: dict[Link, float] = {}
        self.longest_silence_s = 0.0
        for number in range(count):
            if number % OF_ONE_CONTEXT == 0:
                sockets = Sockets()
                self._held.callback(sockets.close, lingers=False)
            identity, keys = new_identity("follower"), users[number // OF_ONE_KEY]
            socket = sockets.dealer(TCP_LIMITS, identity)
            curve.prepare(socket, endpoint, keys)
            curve.call_as(socket, keys.pair, node.public)
            socket.connect(endpoint)
            self._links[socket] = sockets.keep(Link(f"follower_{number}", identity, socket, 0))
            self._poller.register(socket, zmq.POLLIN)

    def begin(self) -> None:
        """Say hello on each connection as soon as it stands; return when all have the first state."""
        waiting = list(self._links.values())
        ends = time.monotonic() + LIMIT_S
        while waiting and time.monotonic() < ends:
            waiting = [one for one in waiting if not one.send(_hello(one.name))]
            self.listen(0.05)
        self._all_are_shown_since(0.0)
        self._heard.clear()
        self.longest_silence_s = 0.0

    def time_of_change(self, change: Callable[[], object]) -> float:
        """Seconds from a change until the last follower has it."""
        began = time.monotonic()
        change()
        self._all_are_shown_since(began)
        return max(self._shown.values()) - began

    def listen(self, seconds: float) -> None:
        self._listen(lambda: False, seconds)

    def _all_are_shown_since(self, began: float) -> None:
        def is_so() -> bool:
            return len(self._shown) == len(self._links) and min(self._shown.values()) >= began

        if not self._listen(is_so, LIMIT_S):
            raise RuntimeError(f"{len(self._shown)} of {len(self._links)} followers have the state")

    def _listen(self, is_so: Callable[[], bool], seconds: float) -> bool:
        ends = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > ends:
                return False
            for socket, _ in self._poller.poll(20):
                for letter in self._links[socket].drain(100, 1 << 22).letters:
                    self._take(letter)
        return True

    def _take(self, letter: Letter) -> None:
        link, now = letter.link, time.monotonic()
        self.longest_silence_s = max(self.longest_silence_s, now - self._heard.get(link, now))
        self._heard[link] = now
        match letter.message:
            case FeedState(position=at, piece=piece, goes_on=goes_on):
                link.send(FeedAck(received=at, durable=at, credit_bytes=CREDIT, pieces=piece))
                if not goes_on:
                    self._shown[link] = now
            case FeedAnswer(verdict="refused", refusal=refusal):
                raise RuntimeError(f"{link.name} is refused: {refusal}")
            case FeedAnswer() | FeedAlive():
                pass
            case other:
                raise RuntimeError(f"{link.name} is told {other}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()


def many_followers(directory: Path, count: int, seconds: float, progress: Progress) -> list[Case]:
    """What followers of a lone node wait for, one of them and very many."""
    with NodeTree(directory, [TreeNode(node="root")]) as tree:
        node = Keys.load(directory / "keys" / "root")
        users = [
            Keys.new(directory / f"user_{number}", f"user_{number}@desk") for number in range(-(-count // OF_ONE_KEY))
        ]
        introduce(node, *users, role=AccessRole.VIEW)
        tree.start("root")
        with tree.client("root") as client, client.producer("changes", items_named("x", ITEMS)) as producer:
            _changed(producer)
            found = [_followed(tree, node, users, some, seconds, producer, progress) for some in (1, count)]
    (_, one, alone, _), (first_s, many, cpu, silence_s) = found
    return [
        case(f"first state at all of {count} followers that dial at once, over CURVE", "s", first_s),
        case(f"a change at all of {count} followers, against one alone, p50", "ms", many[0], one[0]),
        case(f"a change at all of {count} followers, against one alone, longest", "ms", many[1], one[1]),
        case(f"CPU of the node with {count} followers and {1 / CHANGE_EVERY_S:g} changes/s", "% of a core", cpu, alone),
        case(
            f"longest silence that one of {count} followers heard", "s", silence_s, goal=f"<= {SILENCE_NS / SECOND:g}"
        ),
    ]


def _followed(
    tree: NodeTree,
    node: Keys,
    users: Sequence[Keys],
    count: int,
    seconds: float,
    producer: SampleProducer,
    progress: Progress,
) -> tuple[float, tuple[float, float], float, float]:
    """Seconds to the first state; median and longest ms of a change; percent of a core; seconds of silence."""
    progress(f"{count:,} followers")
    began = time.monotonic()
    with Followers(tree.lines["root"].endpoint, node, users, count) as followers:
        followers.begin()
        first_s = time.monotonic() - began
        began, used, times = time.monotonic(), tree.cpu_s("root"), []
        for _ in range(round(seconds / CHANGE_EVERY_S)):
            times.append(1e3 * followers.time_of_change(lambda: _changed(producer)))
            followers.listen(CHANGE_EVERY_S)
        share = 100 * (tree.cpu_s("root") - used) / (time.monotonic() - began)
        return first_s, (float(np.median(times)), max(times)), share, followers.longest_silence_s


def _hello(name: str) -> FeedHello:
    return FeedHello(follower=name, mode="state", credit_bytes=CREDIT, in_pieces=True)


def _changed(producer: SampleProducer) -> None:
    producer.offer([batch(np.arange(ITEMS))])
    producer.flush(LIMIT_S)
