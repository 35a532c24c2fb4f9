"""Roles for orders that go to another node: who asks needs the role there, besides the one for the question here."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import pytest

from albireo.codec.message import Ask, FeedState
from albireo.codec.questions.cases import CASE_ACTION
from albireo.codec.questions.declared import QUESTIONS
from albireo.codec.questions.kind import Answerer
from albireo.codec.record import Audited, Kind, decode_records
from albireo.machine.access.needs import needed_for
from albireo.machine.kernel.events import AdmissionChanged, KeysListed, LettersDrained
from albireo.model.access import ROLE_WORDS, AccessRole, RoleGrant
from albireo.model.case import Action
from albireo.model.instant import SECOND, Instant
from albireo.model.item import DataItem, KnownItem
from albireo.model.position import BEGINNING, Position
from albireo.model.tree.message import Life, MessageName
from albireo.model.tree.session import Session
from albireo.model.value import ItemId, ValueType
from tests.parts.refusals import refused_with
from tests.parts.sessions_in_a_tree import ABOVE, OTHER, SITE, Site
from tests.parts.tables import told_rows

ITEM: Final = f"{OTHER}:fan"
GUESTS: Final = {
    f"guest-{word}-{index}": RoleGrant(AccessRole[word.upper()], node)
    for word in ROLE_WORDS
    for index, node in enumerate((SITE, OTHER, ABOVE))
}
"""Programs with each role here only, at the other node only, and at both; where a grant does not reach it is `view`."""


class Order(msgspec.Struct, frozen=True):
    """A question whose order goes to the other node; `#` in an argument stands for whoever asks."""

    what: str
    needed: AccessRole
    """Role that who asks needs at the other node."""
    arguments: Mapping[str, object] = {}
    before: "Order | None" = None
    """Order given before by somebody else, that this one is about."""


OPERATE, ADMIN = AccessRole.OPERATE, AccessRole.ADMIN
WRITE: Final = Order("write", OPERATE, {"item": ITEM, "value": 1.0, "command_id": "write-#"})
END: Final = Order("session_end", ADMIN, {"session_id": 5, "node": OTHER})
SENT: Final = Order("send", OPERATE, {"node": OTHER, "body": b"dose", "command_id": "send-#"})
TABLE: Final = {
    "write": WRITE,
    "force": Order("force", OPERATE, {"item": ITEM, "value": 1.0, "for_ms": 60_000, "reason": "broken"}),
    "force_release": Order("force_release", OPERATE, {"item": ITEM}),
    "select": Order("select", OPERATE, {"item": ITEM, "selection_id": "selection-#"}),
    "deselect": Order("deselect", OPERATE, {"item": ITEM, "selection_id": "selection-#"}),
    "deselect of others": Order("deselect", ADMIN, {"item": ITEM, "selection_id": "selection-#", "of_others": True}),
    "send": SENT,
    "send, not waiting": Order("send", OPERATE, {**SENT.arguments, "wait": False}),
    "cancel of a write": Order("cancel", OPERATE, {"command_id": "write-#"}, WRITE),
    "cancel of a message": Order("cancel", OPERATE, {"command_id": "send-#"}, SENT),
    "cancel of the end of a session": Order("cancel", ADMIN, {}, END),
    "session_end": END,
    **{
        f"case_action {action}": Order(
            "case_action",
            role,
            {"action": str(action), "user": "u", "case_id": 1, "node": OTHER, "comment": "c", "duration_ms": 60_000},
        )
        for action, role in ((one, CASE_ACTION.role_of({"action": one})) for one in Action)
        if action is not Action.ACK_ALL  # It goes to no other node, with the id of a case neither.
    },
}
"""Every order to another node, in each form that needs a role of its own."""
NAME: Final = MessageName(OTHER, SITE, Life(1, 2), 1, "default")
HERE: Final[dict[str, dict[str, object]]] = {
    **{what: {} for what in ("status", "tree", "session", "commands", "receive", "flood", "origins", "access_list")},
    "withdraw": {"request_id": 1},
    **{what: {"node": OTHER} for what in ("items", "read", "forces", "selections", "sessions", "cases")},
    **{what: {"command_id": "c"} for what in ("message", "command")},
    **{what: {"name": NAME, "lease": 1} for what in ("take", "give_back")},
    "ticket": {"door": "desk"},
    "topics": {},
    "topic_tables": {},
    **{
        what: {"name": "plant.events"}
        for what in (
            "topic",
            "topic_create",
            "topic_change",
            "topic_purge",
            "topic_delete",
            "topic_readers",
            "topic_last_put",
        )
    },
    "store_key": {"name": "plant.events", "key": b"k"},
    "store_keys": {"name": "plant.events"},
    **{
        what: {"subscriber": "billing", "patterns": ("plant.>",)}
        for what in ("subscribe", "unsubscribe", "subscription")
    },
    "tickets_shown": {"door": "desk", "endpoint": "tcp://127.0.0.1:7800", "needs": "view"},
    "forget": {"items": (ITEM,)},
    "access_grant": {"principal": "mes-1", "role": "view", "node": OTHER},
    "access_revoke": {"principal": "mes-1", "node": OTHER},
    **{what: {"name": "anna"} for what in ("person_set", "credentials")},
    **{what: {} for what in ("people", "cookie_key")},
    "person_first": {"password": "scrypt$15$aaaa$aaaa"},
    "login_begin": {"name": "anna", "address": "10.0.0.1"},
    "login": {"session_id": 5},
}
"""Questions whose answer asks nothing of another node."""


def site() -> Site:
    """A node that knows an item and a session of its sibling."""
    one = Site()
    fan = DataItem(name="fan", value_type=ValueType.FLOAT64, is_writable=True)
    session = Session(session_id=5, principal="someone", address="10.0.0.9", role="view", since_ns=1)
    state = FeedState(
        epoch=1,
        position=Position(1, 9),
        previous=BEGINNING,
        is_snapshot=True,
        items=(KnownItem(item_id=ItemId(1), node=OTHER, item=fan),),
        tables={"sessions": told_rows(session)},
    )
    one.root.tree.all_mirrors[OTHER].take(state, [])
    one.step(KeysListed(GUESTS))
    return one


def asked(one: Site, what: str, arguments: Mapping[str, object], principal: str = "local:0") -> tuple[str, bool]:
    """Error of the answer, if there is one yet; whether a message to another node began or ended by it."""
    one.sent.clear()
    before = set(one.root.folds.messages.outbox.open)
    ask = Ask(request_id=9, what=what, arguments=dict(msgspec.to_builtins(arguments, builtin_types=(bytes,))))
    one.step(LettersDrained([(principal.encode(), ask, (), principal)]))
    one.commit()
    return "".join(refused_with(answer) for answer in one.answers()), before != set(one.root.folds.messages.outbox.open)


def role_at(grant: RoleGrant, node: str) -> AccessRole:
    return grant.role if grant.node in (node, ABOVE) else AccessRole.VIEW


def filled(arguments: Mapping[str, object], guest: str) -> dict[str, object]:
    return {name: one.replace("#", guest) if isinstance(one, str) else one for name, one in arguments.items()}


def judged(order: Order) -> Iterator[tuple[str, RoleGrant, str, bool]]:
    """What every guest is told, and whether the order was taken."""
    for guest, grant in GUESTS.items():
        one = site()
        arguments = given_before(one, order, guest)
        yield guest, grant, *asked(one, order.what, arguments, guest)


def given_before(one: Site, order: Order, guest: str) -> dict[str, object]:
    """The arguments of an order, once the one that it is about was given."""
    arguments = filled(order.arguments, guest)
    if order.before is not None:
        assert asked(one, order.before.what, filled(order.before.arguments, guest)) == ("", True)
        (given,) = one.root.folds.messages.outbox.open.values()
        arguments.setdefault("command_id", given.asked.command_id)
    return arguments


@pytest.mark.parametrize("row", TABLE)
def test_an_order_goes_out_only_with_the_role_here_and_the_one_at_the_other_node(row: str) -> None:
    order = TABLE[row]
    needed_here = needed_for(Ask(request_id=1, what=order.what, arguments=dict(order.arguments)))
    heard = set()
    for guest, grant, error, is_taken in judged(order):
        may_here, may_there = role_at(grant, SITE) >= needed_here, role_at(grant, OTHER) >= order.needed
        heard.add((may_here, may_there))
        assert is_taken is (may_here and may_there), (guest, grant, error)
        if not may_here:
            assert f"needs the role {needed_here.word} at {SITE}" in error, guest
        elif not may_there:
            assert f"needs the role {order.needed.word} at {OTHER}" in error, (guest, error)
        else:
            assert "needs the role" not in error, guest
    wanted = {(True, True), (True, False), (needed_here is AccessRole.VIEW, True)}
    assert heard >= wanted


def refusals(one: Site) -> list[Audited]:
    """Refusals for want of a role in the log of the node."""
    frames = [each for each in one.frames if each.header.kind == Kind.RECORDS]
    records = [record for each in frames for record in decode_records(each.body, each.header.record_count)]
    return [record for record in records if isinstance(record, Audited) and record.action == "access_refused"]


@pytest.mark.parametrize("row", TABLE)
def test_a_refused_order_is_on_record_where_it_was_refused(row: str) -> None:
    """Whoever lacks the role at the other node leaves the same entry as one who lacks it here."""
    order = TABLE[row]
    needed_here = needed_for(Ask(request_id=1, what=order.what, arguments=dict(order.arguments)))
    places = set()
    for guest, grant in GUESTS.items():
        one = site()
        arguments = {**given_before(one, order, guest), "user": "rosa"}
        error, _ = asked(one, order.what, arguments, guest)
        entries = refusals(one)
        if "needs the role" not in error:
            assert entries == [], guest
            continue
        place, needed = (SITE, needed_here) if role_at(grant, SITE) < needed_here else (OTHER, order.needed)
        places.add(place)
        (entry,) = entries
        assert (entry.principal, entry.user, entry.detail) == (
            guest,
            "rosa",
            f"needs {needed.word} at {place}, has {role_at(grant, place).word}",
        )
        assert entry.subject.startswith(order.what)
    assert OTHER in places


def test_refused_orders_of_one_principal_are_on_record_once_in_a_second_with_their_number() -> None:
    one, guest = site(), next(name for name, grant in GUESTS.items() if grant == RoleGrant(OPERATE, SITE))
    for number in range(5):
        asked(one, "write", {**filled(WRITE.arguments, guest), "command_id": f"w{number}"}, guest)
    one.now = Instant(one.now + SECOND)
    asked(one, "send", filled(SENT.arguments, guest), guest)
    entries = refusals(one)
    needs = f"needs operate at {OTHER}, has view"
    assert [(each.subject, each.detail) for each in entries] == [
        (f"write {ITEM}", needs),
        ("send", f"{needs}; 4 more before were left out"),
    ]


def test_every_question_is_in_the_table_or_asks_nothing_of_another_node() -> None:
    known = set(site().root.answers.handlers)
    ordering = {order.what for order in TABLE.values()}
    assert known == ordering | set(HERE)
    assert not ordering & set(HERE)
    assert {order.arguments["action"] for order in TABLE.values() if "action" in order.arguments} == set(Action) - {
        Action.ACK_ALL
    }


@pytest.mark.parametrize("what", HERE)
def test_a_question_outside_the_table_sends_nothing_to_the_node_that_it_names(what: str) -> None:
    error, is_taken = asked(site(), what, HERE[what])
    assert not is_taken
    assert "unknown question" not in error and "Object" not in error, error


@pytest.mark.parametrize("what", sorted({order.what for order in TABLE.values()} | set(HERE)))
def test_a_node_that_records_nothing_answers_all_but_what_the_acting_member_does(what: str) -> None:
    one = site()
    one.step(AdmissionChanged("the disk is full"))
    arguments = HERE[what] if what in HERE else next(each for each in TABLE.values() if each.what == what).arguments
    error, is_taken = asked(one, what, {"command_id": "c", **arguments} if what == "cancel" else arguments)
    assert ("the disk is full" in error) is (QUESTIONS[what].answerer is Answerer.ACTING), error
    assert not is_taken
