"""Whatever is asked of another node, its name means the same node: the id before the end of one, and never a guess."""

from typing import Any, Final

import pytest

from albireo.codec.message import Answer, Ask, FeedState
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import LettersDrained
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.item import DataItem, KnownItem
from albireo.model.position import BEGINNING, Position
from albireo.model.tree.nodes import ChildConfig
from albireo.model.tree.session import Session
from albireo.model.value import ItemId, ValueType
from tests.parts.refusals import refused_with
from tests.parts.root_roles import LOG, Side
from tests.parts.tables import told_rows

OWN: Final = "root/south"
BELOW: Final = ("root/south/hall", "root/south/root", "root/south/root/hall", "root/south/root/shed")
BEYOND: Final = ("root", "root/north")
FAN: Final = DataItem(name="fan", value_type=ValueType.FLOAT64, is_writable=True)
NAMES: Final = {
    "root": "root",
    "root/north": "root/north",
    "north": "root/north",
    "root/south/root": "root/south/root",
    "south/root": "root/south/root",
    "shed": "root/south/root/shed",
    "hall": None,
}
"""Node that each name means; None: it may mean several."""


class Named(Side):
    """A node that knows nodes above, aside and below, of which one is called like the root."""

    def __init__(self) -> None:
        below = (
            ChildConfig(node=BELOW[0], places=(BELOW[0],)),
            ChildConfig(node=BELOW[1], places=(BELOW[1],), nodes=BELOW[2:]),
        )
        super().__init__(RootConfig(node=OWN, log_id=LOG, parent="root", beyond=BEYOND, children=below))
        self.lead()
        self.now = Instant(self.now + SECOND)
        self.step(TimePassed())
        self.commit()
        for node, mirror in self.root.tree.all_mirrors.items():
            mirror.take(state_of(node), [])

    def ask(self, what: str, **arguments: object) -> Answer | None:
        """The answer, if there is one yet."""
        self.sent.clear()
        self.step(LettersDrained([(b"local:0", Ask(request_id=9, what=what, arguments=arguments), (), "local:0")]))
        self.commit()
        found = [one for one in self.sent if isinstance(one, Answer)]
        return found[-1] if found else None

    def owners(self) -> set[str]:
        """Nodes to which messages are open."""
        return {name.owner for name in self.root.folds.messages.outbox.open}


def state_of(node: str) -> FeedState:
    session = Session(session_id=5, principal=f"who is at {node}", address="", role="view", since_ns=1)
    return FeedState(
        epoch=1,
        position=Position(1, 9),
        previous=BEGINNING,
        is_snapshot=True,
        items=(KnownItem(item_id=ItemId(1), node=node, item=FAN),),
        tables={"sessions": told_rows(session)},
    )


ORDERS: Final[dict[str, Any]] = {
    "write": lambda name: {"item": f"{name}:fan", "value": 1.0, "command_id": "w"},
    "force": lambda name: {"item": f"{name}:fan", "value": 1.0, "for_ms": 60_000, "reason": "broken"},
    "select": lambda name: {"item": f"{name}:fan", "selection_id": "s"},
    "send": lambda name: {"node": name, "body": b"dose", "command_id": "m"},
    "session_end": lambda name: {"node": name, "session_id": 5},
    "case_action": lambda name: {"node": name, "action": "ack", "case_id": 1, "user": "u"},
}


@pytest.mark.parametrize("what", ORDERS)
@pytest.mark.parametrize("name", NAMES)
def test_an_order_goes_to_the_node_that_its_name_means_or_nowhere(what: str, name: str) -> None:
    one, meant = Named(), NAMES[name]
    answer = one.ask(what, **ORDERS[what](name))
    if meant is None:
        assert answer is not None and one.owners() == set()
        assert refused_with(answer) == (
            "'hall' may be one of root/south/hall or root/south/root/hall; "
            "what to do: name the node by its whole id, as in root/south/hall"
        )
        return
    assert one.owners() == {meant}, answer


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_is_of_the_node_that_its_name_means(name: str) -> None:
    one, meant = Named(), NAMES[name]
    items, sessions = one.ask("items", node=name), one.ask("sessions", node=name)
    assert items is not None and sessions is not None
    if meant is None:
        assert "may be one of root/south/hall or" in refused_with(items) and refused_with(items) == refused_with(
            sessions
        )
        return
    assert [row["node"] for row in items.result] == [meant]  # type: ignore[attr-defined]  # Rows of items.
    assert [row["principal"] for row in sessions.result] == [f"who is at {meant}"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [OWN, "south"])
def test_the_node_that_is_asked_is_meant_by_its_own_names(name: str) -> None:
    one = Named()
    items, sent = one.ask("items", node=name), one.ask("send", **ORDERS["send"](name))
    assert items is not None and refused_with(items) == "" and sent is not None
    assert {row["node"] for row in items.result} <= {OWN}  # type: ignore[attr-defined]
    assert "no other node" in refused_with(sent)


@pytest.mark.parametrize("what", ORDERS)
def test_a_whole_id_of_a_node_that_is_not_known_here_means_no_other_one(what: str) -> None:
    """A node here ends with it. A message goes up, for the parent may know the way; what needs its state is refused."""
    one = Named()
    answer = one.ask(what, **ORDERS[what]("root/hall"))
    if what == "send":
        assert answer is None and one.owners() == {"root/hall"}
    else:
        assert answer is not None and "nothing is known of a node 'root/hall'" in refused_with(answer)
        assert one.owners() == set()


@pytest.mark.parametrize("what", ["write", "force", "select"])
def test_an_item_that_only_one_of_several_nodes_has_does_not_decide_which_is_meant(what: str) -> None:
    """The other one's items may not be known yet."""
    one = Named()
    one.root.tree.all_mirrors["root/south/hall"].take(
        FeedState(epoch=1, position=Position(1, 9), previous=BEGINNING, is_snapshot=True), []
    )
    answer = one.ask(what, **ORDERS[what]("hall"))
    assert answer is not None and "may be one of" in refused_with(answer)
    assert one.owners() == set()
