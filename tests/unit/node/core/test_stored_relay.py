"""Words about stored history between nodes: who is asked, who may answer about whom, and who is not heard."""

from collections.abc import Sequence
from typing import Any

import pytest

from albireo.codec.message import AnyMessage, RoleTold
from albireo.codec.tree.hello import ChildHello
from albireo.codec.tree.stored import PIECE_BYTES, StoredAsked, StoredGiven
from albireo.machine.kernel.config import RootConfig
from albireo.model.tree.nodes import ChildConfig
from albireo.node.core.peer_links import PeerLinks
from albireo.node.core.stored_relay import StoredRelay
from albireo.runtime import Letter
from tests.parts.root_roles import LOG, Side

NORTH, PUMP, SOUTH = "root/north", "root/north/pump", "root/south"
LOG_OF = {NORTH: b"N" * 16, PUMP: b"P" * 16, SOUTH: b"S" * 16}

Sent = tuple[AnyMessage, Sequence[bytes | memoryview], bytes]


class End:
    """One end of a link: what was sent there."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.is_closed, self.identity = False, b""

    def send(self, message: AnyMessage, raw: Sequence[bytes | memoryview] = (), to: bytes = b"") -> bool:
        self.sent.append((message, raw, to))
        return True


class Parent:
    """The links to two members of a parent, as `Uplinks` has them."""

    def __init__(self) -> None:
        self.links = [End(), End()]

    def member_of(self, link: End) -> int | None:
        return self.links.index(link) if link in self.links else None

    def give(self, member: int, message: AnyMessage, raw: Sequence[bytes | memoryview]) -> None:
        self.links[member].send(message, raw)


class Relay:
    """A node with a parent, and with two children that are heard."""

    def __init__(self) -> None:
        north = ChildConfig(node=NORTH, places=(NORTH,), nodes=(PUMP,))
        south = ChildConfig(node=SOUTH, places=(SOUTH,))
        self.side = Side(RootConfig(node="root", log_id=LOG, children=(north, south)))
        self.history, self.door, self.local, self.parent = End(), End(), End(), Parent()
        self.peers = PeerLinks()
        history, uplinks, root = self._any(self.history), self._any(self.parent), self.side.root
        self.relay = StoredRelay(history, self.peers, uplinks, lambda: root)
        for node in (NORTH, SOUTH):
            for is_bulk in (False, True):
                hello = ChildHello(node=node, log_id=LOG_OF[node], feature_level=3, is_bulk=is_bulk)
                self.side.letter(hello, sender=self.sender(node, is_bulk=is_bulk))
            self.side.letter(RoleTold(is_acting=True, epoch=1), sender=self.sender(node, is_bulk=False))

    @staticmethod
    def _any(one: Any) -> Any:
        return one

    def sender(self, node: str, *, is_bulk: bool = True) -> bytes:
        identity = f"{node} {is_bulk}".encode()
        return self.peers.sender_of(
            Letter(link=self._any(self.door), sender=identity, message=RoleTold(is_acting=True, epoch=1), raw=[])
        )

    def hear(self, message: AnyMessage, link: Any, sender: bytes = b"", raw: Sequence[bytes] = (b"word",)) -> bool:
        letter = Letter(link=link, sender=sender, message=message, raw=[*raw])
        return self.relay.hears(letter, is_local=link is self.local)

    def child_says(self, child: str, about: str, raw: Sequence[bytes] = (b"word",)) -> list[Sent]:
        """What the history hears of it."""
        self.history.sent.clear()
        assert self.hear(StoredGiven(node=about, log_id=LOG_OF[about]), self.door, f"{child} True".encode(), raw)
        return self.history.sent


@pytest.mark.parametrize(("node", "child"), [(NORTH, NORTH), (PUMP, NORTH), (SOUTH, SOUTH)])
def test_a_question_goes_to_the_child_that_leads_to_the_node_by_its_link_for_the_log(node: str, child: str) -> None:
    relay = Relay()
    ask = StoredAsked(node=node, log_id=LOG_OF[node])
    assert relay.hear(ask, relay.local)
    assert relay.door.sent == [(ask, [b"word"], f"{child} True".encode())]


def test_a_question_about_nobody_below_goes_nowhere() -> None:
    relay = Relay()
    assert relay.hear(StoredAsked(node="root/west", log_id=b"W" * 16), relay.local)
    assert relay.door.sent == relay.history.sent == []


@pytest.mark.parametrize("child", [NORTH, SOUTH])
@pytest.mark.parametrize("about", LOG_OF)
def test_a_child_answers_for_itself_and_for_the_nodes_below_it_only(child: str, about: str) -> None:
    heard = Relay().child_says(child, about)
    assert bool(heard) == about.startswith(child)


def test_who_is_no_child_asks_and_answers_nothing() -> None:
    """A program at a door without keys, for one."""
    relay = Relay()
    for message in (StoredGiven(node=NORTH, log_id=LOG_OF[NORTH]), StoredAsked(node="root", log_id=LOG)):
        assert relay.hear(message, relay.door, b"somebody")
    assert relay.history.sent == relay.door.sent == []
    assert all(one.sent == [] for one in relay.parent.links)


@pytest.mark.parametrize("member", [0, 1])
def test_the_answer_goes_to_the_member_of_the_parent_that_asked(member: int) -> None:
    """Both members of a pair above ask, each for itself; what they say of a member is not believed."""
    relay = Relay()
    assert relay.hear(StoredAsked(node="root", log_id=LOG, member=1 - member), relay.parent.links[member])
    ((ask, raw, _),) = relay.history.sent
    assert isinstance(ask, StoredAsked)
    assert (ask.member, raw) == (member, [b"word"])
    assert relay.hear(StoredGiven(node="root", log_id=LOG, member=ask.member), relay.history, raw=(b"word", b"piece"))
    assert [len(one.sent) for one in relay.parent.links] == [1 - member, member]
    (given, parts, _) = relay.parent.links[member].sent[0]
    assert (given, parts) == (StoredGiven(node="root", log_id=LOG), [b"word", b"piece"])


@pytest.mark.parametrize("raw", [(), (b"a", b"b", b"c"), (b"a", bytes(PIECE_BYTES + 1))])
def test_other_parts_than_a_word_and_a_piece_are_dropped(raw: Sequence[bytes]) -> None:
    assert Relay().child_says(NORTH, NORTH, raw) == []


def test_other_messages_are_left_to_others() -> None:
    relay = Relay()
    assert not relay.hear(RoleTold(is_acting=True, epoch=1), relay.door)
