"""Select before operate at the root machine: who may order when, and what ends a selection (ADR-0209)."""

from collections.abc import Callable

import msgspec
import pytest

from albireo.client.errors import AlreadySelected, CommandIdReused, NotSelected
from albireo.codec.message import Answer, Ask, ProducerHello, WriteDone, WriteOrder
from albireo.codec.record import Audited, CommandRequested, ItemSelected, SelectionEnded, decode_records
from albireo.machine.fold.commands.selections import Selections
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.events import AdmissionChanged, Deposed, Served, Suspended
from albireo.machine.orders.selection import selecting
from albireo.model.command import SELECT_MS, SELECT_MS_MAX, Outcome, Receipt
from albireo.model.instant import MS, SECOND, Instant
from albireo.model.item import Control
from tests.parts.refusals import code, error_of, refused_with
from tests.parts.retired_items import again
from tests.parts.root import World
from tests.parts.root_roles import Side
from tests.parts.selecting import ANN, BARRIER, BOB, ITEMS, ask, deselect, ends, hello, select, selected, up, write


def force(one: World) -> str:
    return ask(one, "force", item="barrier", value=True, for_ms=1_000, reason="x", user="ann")


# States.


def asked() -> World:
    one = up()
    assert select(one, synced=False) == ""
    return one


def expired() -> World:
    one = selected()
    one.pass_time(SELECT_MS * MS)
    return one


def cancelled() -> World:
    one = selected()
    assert deselect(one) == "ok"
    return one


def operated() -> World:
    one = selected()
    assert write(one) == "taken"
    return one


def restarted() -> World:
    one = again(selected())
    hello(one, run=2)
    return one


NOT, ALREADY = "not_selected", "already_selected"
EVENTS: dict[str, Callable[[World], str]] = {
    "select": select,
    "select_again": lambda one: select(one, "s2"),
    "select_by_another": lambda one: select(one, "s3", BOB),
    "same_id_by_another": lambda one: select(one, "s1", BOB),
    "write": write,
    "write_without_one": lambda one: write(one, ""),
    "write_with_another": lambda one: write(one, "s2"),
    "write_by_another": lambda one: write(one, "s1", BOB),
    "deselect": deselect,
    "deselect_another": lambda one: deselect(one, "s2"),
    "deselect_by_another": lambda one: deselect(one, "s1", BOB),
    "force": force,
}
HELD = {
    "select": "ok", "select_again": ALREADY, "select_by_another": ALREADY, "same_id_by_another": ALREADY,
    "write": "taken", "write_without_one": NOT, "write_with_another": NOT, "write_by_another": NOT,
    "deselect": "ok", "deselect_another": NOT, "deselect_by_another": NOT, "force": "ok",
}  # fmt: skip
FREE = {
    "select": "ok", "select_again": "ok", "select_by_another": "ok", "same_id_by_another": "ok",
    "write": NOT, "write_without_one": NOT, "write_with_another": NOT, "write_by_another": NOT,
    "deselect": NOT, "deselect_another": NOT, "deselect_by_another": NOT, "force": "ok",
}  # fmt: skip
STATES: dict[Callable[[], World], dict[str, str]] = {
    up: FREE,
    asked: HELD,
    selected: HELD,
    expired: FREE,
    cancelled: FREE,
    operated: FREE,
    restarted: FREE,
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", STATES, ids=lambda one: one.__name__)
def test_each_state_takes_what_the_table_says_and_refuses_the_rest(state: Callable[[], World], event: str) -> None:
    one = state()
    orders = len(one.records(CommandRequested))
    assert EVENTS[event](one) == STATES[state][event]
    is_taken = STATES[state][event] == "taken"
    assert len(one.records(CommandRequested)) == orders + is_taken
    sent = [order for order in one.take(WriteOrder) if isinstance(order, WriteOrder)]
    assert len(sent) == is_taken + (state is operated)


def test_states_and_events_of_the_table_are_all_there_are() -> None:
    for row in STATES.values():
        assert row.keys() == EVENTS.keys()


# What ends a selection.


@pytest.mark.parametrize("jump", [0, -86_400, 86_400], ids=["as it goes", "set back", "set forward"])
def test_a_selection_is_over_after_elapsed_time_whatever_the_wall_clock_says(jump: int) -> None:
    one = selected()
    one.wall_began += jump * SECOND
    one.pass_time(SELECT_MS * MS - 1)
    assert ends(one) == []
    one.wall_began -= jump * SECOND
    one.pass_time(1)
    assert ends(one) == ["expired"]
    assert list(one.root.folds.of(Selections)) == []


@pytest.mark.parametrize("jump", [-86_400, 86_400])
def test_a_wall_clock_that_jumps_neither_takes_a_selection_nor_keeps_it(jump: int) -> None:
    one = selected()
    one.wall_began += jump * SECOND
    assert write(one) == "taken"
    other = expired()
    other.wall_began += jump * SECOND
    assert write(other) == NOT


def test_an_order_that_comes_late_is_refused_though_no_record_has_ended_the_selection_yet() -> None:
    one = selected()
    one.now = Instant(one.now + SELECT_MS * MS)
    assert write(one) == NOT
    assert ends(one) == []
    one.pass_time(0)
    assert ends(one) == ["expired"]


def test_an_end_that_can_not_be_recorded_yet_is_recorded_once_there_is_room() -> None:
    one = selected()
    one.step(AdmissionChanged("the disk is full"))
    one.pass_time(SELECT_MS * MS)
    assert ends(one) == []
    one.step(AdmissionChanged(""))
    one.pass_time(0)
    assert ends(one) == ["expired"]


def test_the_end_and_the_order_that_used_it_stand_in_one_frame() -> None:
    one = operated()
    found = [
        [type(record) for record in decode_records(frame.body, frame.header.record_count)]
        for frame in one.frames
        if b"select_ended" in bytes(frame.body)
    ]
    assert found == [[SelectionEnded, CommandRequested]]
    (command,) = [record.command for record in one.records(CommandRequested) if isinstance(record, CommandRequested)]
    (begun,) = [record for record in one.records(ItemSelected) if isinstance(record, ItemSelected)]
    assert (command.selected_ns, command.principal) == (begun.since_ns, begun.principal)


def test_a_refused_order_leaves_the_selection_as_it_is() -> None:
    one = up()
    assert select(one, item="sign") == "ok"
    assert write(one, item="sign", value=101.0) == "bad_value"
    assert write(one, item="sign", value=80.0) == "taken"


def test_the_same_order_again_is_answered_though_its_selection_is_used_up() -> None:
    one = operated()
    (order,) = [found for found in one.take(WriteOrder) if isinstance(found, WriteOrder)]
    one.letter(b"plc", WriteDone(receipt=Receipt(command_id=order.command_id, outcome=Outcome.VERIFIED)))
    one.sync()
    one.take(Answer)
    assert write(one, command_id=order.command_id) == "ok"
    assert len(one.records(CommandRequested)) == 1


def test_what_happened_is_in_the_audit_journal() -> None:
    one = selected()
    deselect(one)
    select(one, "s2")
    one.pass_time(SELECT_MS * MS)
    entries = [entry for entry in one.records(Audited) if isinstance(entry, Audited) and "select" in entry.action]
    assert [(entry.action, entry.user, entry.principal, entry.subject) for entry in entries] == [
        ("selected", ANN, ANN, "root:barrier"),
        ("selection_cancelled", ANN, ANN, "root:barrier"),
        ("selected", ANN, ANN, "root:barrier"),
        ("selection_expired", "core", "", "root:barrier"),
    ]


# Refusals.


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"item": "fan"}, "not_writable", "takes orders directly"),
        ({"item": "nothing"}, "unknown_item", "no item 'nothing'"),
        ({"item": "lamp"}, "not_writable", "is not writable"),
        ({"for_ms": 0}, "bad_value", "lasts 1 to"),
        ({"for_ms": SELECT_MS_MAX + 1}, "bad_value", "lasts 1 to"),
    ],
)
def test_what_can_not_be_meant_is_refused_with_its_code(arguments: dict[str, object], kind: str, words: str) -> None:
    answer = up().ask("select", **({"item": "barrier", "selection_id": "s1"} | arguments))
    assert code(answer) == kind
    assert words in refused_with(answer)


def test_a_refusal_says_who_has_it_how_long_still_and_what_to_do() -> None:
    one = up()
    select(one, reason="smoke in the tunnel")
    one.pass_time(10 * SECOND)
    answer = one.ask("select", item="barrier", selection_id="s2")
    found = error_of("select", answer)
    assert isinstance(found, AlreadySelected)
    assert "ann@desk (ann@desk) has selected barrier, for 20 s still (smoke in the tunnel)" in found.cause
    assert "wait" in found.remedy
    found = error_of("write", one.ask("write", item="barrier", value=True, command_id="c"))
    assert isinstance(found, NotSelected)
    assert "selects first" in found.remedy


def test_an_id_of_a_selection_is_of_one_item() -> None:
    one = selected()
    answer = one.ask("select", item="sign", selection_id="s1")
    assert isinstance(error_of("select", answer), CommandIdReused)


def test_items_are_selected_each_for_itself_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "SELECTIONS_MAX", 1)
    one = selected()
    assert select(one, "s2", item="sign") == "select_failed"
    deselect(one)
    assert select(one, "s2", item="sign") == "ok"


def test_a_program_without_a_key_is_the_same_one_by_either_way() -> None:
    """A client of a pair that runs without keys comes by a socket of the machine, and after a takeover by TCP."""
    one = up()
    assert select(one, principal="local:0") == "ok"
    assert write(one, principal="") == "taken"
    assert select(one, "s2", principal="local:0") == "ok"
    assert write(one, "s2", principal="local:7") == NOT


def test_an_item_that_is_declared_otherwise_meanwhile_takes_orders_as_it_says_now() -> None:
    one = selected()
    hello(one, (msgspec.structs.replace(BARRIER, control=Control.DIRECT), *ITEMS[1:]), run=2)
    assert write(one, "", BOB) == "taken"


# Tenures.


def test_a_restart_of_a_lone_node_ends_what_was_selected() -> None:
    one = restarted()
    assert ends(one) == ["restarted"]
    assert list(one.root.folds.of(Selections)) == []


def test_a_suspended_node_goes_on_with_its_selections() -> None:
    one = selected()
    one.step(Suspended("lease over"))
    one.now = Instant(one.now + 10 * SECOND)
    one.step(Served())
    one.sync()
    assert select(one, "s2", BOB) == ALREADY
    assert write(one) == "taken"


class Member(Side):
    """One member of a pair."""

    def ask(self, what: str, principal: str = "local:0", **arguments: object) -> str:
        self.take(Answer)
        request = Ask(request_id=1, what=what, arguments={"item": "barrier", "user": "ann", **arguments})
        self.letter(request, sender=b"cli", principal=principal)
        self.commit()
        answers = [found for found in self.take(Answer) if isinstance(found, Answer)]
        return code(answers[0]) if answers else ""

    def select(self, selection_id: str = "s1") -> str:
        return self.ask("select", selection_id=selection_id)

    def write(self) -> str:
        return self.ask("write", value=True, command_id=f"c{self.end.sequence}", selection="s1")

    def declare(self) -> None:
        self.letter(ProducerHello(producer="p", items=ITEMS, run=1, takes_orders=True))
        self.commit()

    def advance(self, seconds: int) -> None:
        self.now = Instant(self.now + seconds * SECOND)


def paired() -> tuple[Member, Member]:
    """The first leads, and has selected the item; the other one has followed that."""
    one, two = Member(), Member()
    one.lead()
    one.declare()
    assert one.select() == ""
    two.follow(one)
    two.commit()
    return one, two


@pytest.mark.parametrize(("leaderless_s", "is_live"), [(0, True), (29, True), (31, False)])
def test_a_takeover_takes_over_what_was_left_and_counts_the_time_in_which_nobody_led(
    leaderless_s: int, is_live: bool
) -> None:
    _, two = paired()
    two.advance(leaderless_s)
    two.lead()
    two.declare()
    assert two.select("s2") == (ALREADY if is_live else "")
    assert two.write() == ("" if is_live else NOT)


def test_a_member_that_led_no_more_and_leads_again_counts_what_has_passed() -> None:
    one, two = paired()
    one.step(Deposed("another one leads"))
    for member in (one, two):
        member.advance(20)
    one.lead()
    one.declare()
    assert one.select("s2") == ALREADY
    one.advance(11)
    assert one.write() == NOT


def test_a_member_that_read_it_from_its_store_does_not_go_on_with_it() -> None:
    """Nobody can tell how long it was down: log time stood still."""
    one, _ = paired()
    cold = Member()
    cold.frames, cold.history, cold.committed = list(one.frames), one.history, one.committed
    folds = Folds()
    for frame in one.frames:
        folds.replay(frame)
    cold.root = type(cold.root)(cold.root.config, folds, cold.end, cold.moment())
    cold.lead()
    cold.declare()
    assert cold.write() == NOT
    assert cold.select("s2") == ""


def test_what_was_folded_late_is_as_old_as_the_log_says() -> None:
    """A member that catches up sees the selection only now, and marks of the 20 s behind it."""
    one, two = Member(), Member()
    one.lead()
    one.declare()
    one.select()
    one.advance(20)
    one.ask("select", selection_id="s9", item="sign")
    two.advance(20)
    two.follow(one)
    two.commit()
    two.lead()
    two.declare()
    two.advance(11)
    assert two.write() == NOT


def test_folds_and_their_snapshot_tell_the_same() -> None:
    one = selected()
    select(one, "s2", item="sign")
    again_ = Folds.restore(one.root.folds.snapshot(), one.root.folds.log_time_ms)
    assert again_.snapshot() == one.root.folds.snapshot()
    assert len(again_.of(Selections)) == 2
