"""Receivers that share the inboxes of the lowest of three nodes: the post with real folds, orders and turns."""

from typing import Any

import msgspec
import pytest

from albireo.codec.message_records import MessageLeased
from albireo.codec.tree.letters import MessageTold
from albireo.machine.fold.letters.inbox import InboxFold
from albireo.machine.kernel.turn import Question
from albireo.machine.message.events import ExecuteBody, MessageTimes, RecordMessage, SendAsked
from albireo.machine.message.receiving.receivers import BACK_MAX, RECEIVERS_MAX, MessageReceivers, Receiver
from albireo.machine.orders.message.kinds import proof_of
from albireo.model.instant import MS, Instant, LogTime, WallTime
from albireo.model.tree.message import Life, MessageName
from tests.parts.message_core import MessageCore, exchange
from tests.parts.post import MIDDLE, SITE, TOP, end_told, link, tree, write
from tests.parts.refusals import refused_with

Cores = dict[bytes, MessageCore]


def poem(number: int, inbox: str = "default", expires_ms: int = 60_000) -> SendAsked:
    body = f"poem {number}".encode()
    return write(kind="poem", body=body, command_id=f"{inbox} {number}", expires_ms=expires_ms, inbox=inbox)


def posted(cores: Cores, count: int, inbox: str = "default", expires_ms: int = 60_000) -> None:
    for number in range(count):
        cores[TOP].ask(poem(number, inbox, expires_ms))
        assert cores[TOP].refused is None
    exchange(cores)


def receive(cores: Cores, who: bytes, request_id: int, wait_ms: int = 60_000, inbox: str = "default") -> None:
    core = cores[SITE]
    turn = core.turn()
    question = Question(who, request_id, core.moment, "operator")
    assert core.post.receive(question, inbox, wait_ms * MS, core.log_time, turn) is None
    core.settle(turn)
    exchange(cores)


def take(cores: Cores, who: bytes, request_id: int, handed: dict[str, Any], reply: bytes | None = None) -> str:
    core = cores[SITE]
    turn = core.turn()
    name = msgspec.convert(handed["name"], MessageName)
    question = Question(who, request_id, core.moment, "operator")
    refusal = core.post.taken(question, name, handed["lease"], core.log_time, turn, reply)
    core.settle(turn)
    exchange(cores)
    return "" if refusal is None else refusal.code


def give_back(cores: Cores, who: bytes, handed: dict[str, Any]) -> str:
    core = cores[SITE]
    turn = core.turn()
    name = msgspec.convert(handed["name"], MessageName)
    question = Question(who, 99, core.moment, "operator")
    refusal = core.post.given_back(question, name, handed["lease"], core.log_time, turn)
    core.settle(turn)
    exchange(cores)
    return "" if refusal is None else refusal.code


def withdraw(cores: Cores, who: bytes, request_id: int) -> None:
    core = cores[SITE]
    turn = core.turn()
    core.post.withdraw(Question(who, 0, core.moment, "operator"), request_id, core.log_time, turn)
    core.settle(turn)
    exchange(cores)


def lost(cores: Cores, who: bytes) -> None:
    core = cores[SITE]
    turn = core.turn()
    core.post.lost(who, core.moment, core.log_time, turn)
    core.settle(turn)
    exchange(cores)


def refusal_of(core: MessageCore) -> str:
    assert core.refused is not None
    return core.refused.cause


def handed_out(core: MessageCore) -> list[dict[str, Any]]:
    found = [one.result for one in core.answers if isinstance(one.result, dict)]
    core.answers.clear()
    return found


def test_receivers_share_an_inbox_and_each_message_is_taken_by_one() -> None:
    cores = tree()
    posted(cores, 3)
    site = cores[SITE]
    assert site.orders_sent == [] and handed_out(site) == []
    receive(cores, b"one", 1)
    receive(cores, b"two", 1)
    first, second = handed_out(site)
    assert (first["body"], second["body"]) == (b"poem 0", b"poem 1")
    assert take(cores, b"two", 2, first), "it is not the second one's"
    assert take(cores, b"one", 2, first) == ""
    assert [one.result for one in site.answers] == [True]
    assert end_told(cores[TOP])["outcome"] == "executed"
    assert take(cores, b"one", 3, first) == "", "the same word again has the same answer"
    assert [one.result for one in site.answers] == [True, True]
    assert take(cores, b"one", 4, first | {"lease": 2}), "no other lease has it"
    site.answers.clear()
    receive(cores, b"one", 5)
    assert [one["body"] for one in handed_out(site)] == [b"poem 2"]


def test_what_nobody_asks_for_stays_at_its_origin() -> None:
    cores = tree()
    posted(cores, 20)
    site = cores[SITE]
    assert not site.folds.messages.inbox.rows
    receive(cores, b"one", 1)
    assert [one.name.number for one in site.folds.messages.inbox.unfinished()] == [1]
    receive(cores, b"one", 2)
    assert len(site.folds.messages.inbox.unfinished()) == 2


@pytest.mark.parametrize("continues", [True, False])
def test_what_nobody_asked_for_is_there_after_any_restart_of_its_owner(continues: bool) -> None:
    cores = tree()
    posted(cores, 3)
    site = cores[SITE]
    site.begin(continues=continues, frames=None if continues else 2)
    link(cores)
    receive(cores, b"one", 1)
    cores[TOP].pass_ms(6_000)
    exchange(cores)
    (first,) = handed_out(site)
    assert take(cores, b"one", 2, first) == ""
    assert end_told(cores[TOP])["outcome"] == "executed"


def test_what_a_receiver_did_not_take_goes_to_another_when_it_is_gone() -> None:
    cores = tree()
    posted(cores, 1)
    site = cores[SITE]
    receive(cores, b"one", 1)
    (first,) = handed_out(site)
    receive(cores, b"two", 1)
    assert handed_out(site) == []
    lost(cores, b"one")
    (again,) = handed_out(site)
    assert (again["body"], again["lease"]) == (first["body"], first["lease"] + 1)
    assert take(cores, b"one", 2, first), "the word of an earlier lease is refused"
    assert take(cores, b"two", 2, again) == ""


def test_a_receiver_that_comes_back_over_another_link_may_still_take_what_nobody_else_has() -> None:
    cores = tree()
    posted(cores, 1)
    receive(cores, b"one", 1)
    (first,) = handed_out(cores[SITE])
    lost(cores, b"one")
    assert take(cores, b"one again", 1, first) == ""
    assert end_told(cores[TOP])["outcome"] == "executed"


def test_each_second_it_is_looked_whether_receivers_that_have_a_message_are_there() -> None:
    cores = tree()
    posted(cores, 1)
    site = cores[SITE]
    site.pass_ms(2_000)
    receive(cores, b"one", 1)
    (first,) = handed_out(site)
    site.pass_ms(3_000)
    assert [one.request_id for one in site.answers] == [0, 0, 0]
    assert take(cores, b"one", 2, first) == ""
    site.answers.clear()
    site.pass_ms(3_000)
    assert site.answers == [], "it has none any more"


def test_a_silent_receiver_loses_its_lease() -> None:
    cores = tree()
    posted(cores, 1)
    site = cores[SITE]
    receive(cores, b"one", 1)
    (first,) = handed_out(site)
    receive(cores, b"two", 1)
    site.pass_ms(31_000)
    (again,) = handed_out(site)
    assert again["lease"] == first["lease"] + 1


@pytest.mark.parametrize(
    ("is_out", "outcome", "words"), [(False, "expired", "inbox 'default'"), (True, "unknown", "a receiver had it")]
)
def test_a_message_that_no_receiver_took_expires_only_if_none_had_it(is_out: bool, outcome: str, words: str) -> None:
    cores = tree()
    posted(cores, 1, expires_ms=5_000)
    site = cores[SITE]
    if is_out:
        receive(cores, b"one", 1)
    site.letters.clear()
    site.pass_ms(40_000)
    cores[TOP].pass_ms(6_000)
    exchange(cores)
    end = end_told(cores[TOP])
    assert (end["outcome"], end["cause"]) == (outcome, "time-limit-over")
    assert words in end["detail"]


@pytest.mark.parametrize("is_out", [False, True])
def test_what_was_not_taken_is_offered_again_after_a_takeover(is_out: bool) -> None:
    """`is_out`: a receiver had it, and its word counts until another one has it."""
    cores = tree()
    posted(cores, 1)
    site = cores[SITE]
    receive(cores, b"one", 1, wait_ms=60_000 if is_out else 0)
    first = handed_out(site)
    if not is_out:  # It was accepted for a receiver that was gone by then.
        site.post.desk.receivers.lost(b"one".hex())
    site.begin(continues=True)
    link(cores)
    receive(cores, b"two", 1)
    (again,) = handed_out(site)
    assert (again["body"], again["lease"]) == (b"poem 0", 2 if first else 1)
    if first:
        assert take(cores, b"one", 2, first[0]), "the word of an earlier lease is refused"
    assert take(cores, b"two", 2, again) == ""
    assert end_told(cores[TOP])["outcome"] == "executed"


def test_the_word_of_the_receiver_that_had_it_counts_after_a_takeover() -> None:
    cores = tree()
    posted(cores, 1)
    receive(cores, b"one", 1)
    (first,) = handed_out(cores[SITE])
    cores[SITE].begin(continues=True)
    link(cores)
    assert take(cores, b"one at the other member", 1, first) == ""
    receive(cores, b"two", 1)
    assert handed_out(cores[SITE]) == []
    assert end_told(cores[TOP])["outcome"] == "executed"


def test_what_was_taken_is_not_offered_again_and_the_word_may_be_said_again_after_a_takeover() -> None:
    cores = tree()
    posted(cores, 1)
    site = cores[SITE]
    receive(cores, b"one", 1)
    (first,) = handed_out(site)
    assert take(cores, b"one", 2, first, b"thanks") == ""
    site.begin(continues=True)
    link(cores)
    assert take(cores, b"one at the other member", 1, first) == ""
    receive(cores, b"two", 1)
    assert handed_out(site) == []


def test_its_time_runs_on_over_a_takeover() -> None:
    cores = tree()
    posted(cores, 1, expires_ms=5_000)
    site = cores[SITE]
    receive(cores, b"one", 1)
    site.pass_ms(3_000)
    site.begin(continues=True)
    link(cores)
    site.pass_ms(2_100)
    handed_out(site)
    receive(cores, b"two", 1)
    assert handed_out(site) == []
    cores[TOP].pass_ms(6_000)
    exchange(cores)
    assert end_told(cores[TOP])["outcome"] == "unknown"


def test_a_node_that_does_not_provably_go_on_offers_nothing_that_it_had_taken() -> None:
    cores = tree()
    posted(cores, 1)
    site = cores[SITE]
    receive(cores, b"one", 1)
    handed_out(site)
    site.begin(continues=False)
    link(cores)
    receive(cores, b"two", 1)
    cores[TOP].pass_ms(6_000)
    exchange(cores)
    assert handed_out(site) == []
    assert end_told(cores[TOP])["outcome"] == "unknown"


def test_a_receiver_hears_in_time_that_nothing_came_and_takes_no_room_then() -> None:
    cores = tree()
    site = cores[SITE]
    receive(cores, b"one", 7, wait_ms=500)
    assert site.answers == []
    site.pass_ms(400)
    assert site.answers == []
    site.pass_ms(200)
    assert [(one.request_id, one.result, refused_with(one)) for one in site.answers] == [(7, None, "")]
    site.answers.clear()
    posted(cores, 1)
    assert handed_out(site) == [], "nobody waits"
    receive(cores, b"one", 8, wait_ms=500)
    assert [one["body"] for one in handed_out(site)] == [b"poem 0"]


def test_a_receiver_whose_lease_ended_has_room_for_one_again() -> None:
    cores = tree()
    posted(cores, 3)
    site = cores[SITE]
    receive(cores, b"one", 1)
    handed_out(site)
    site.pass_ms(31_000)
    receive(cores, b"one", 2)
    assert len(handed_out(site)) == 1
    assert sum(row.lease for row in site.folds.messages.inbox.rows.values()) == 2


def test_an_inbox_is_a_queue_of_its_own() -> None:
    """What nobody receives from one inbox keeps nothing from another one, and nothing from orders."""
    cores = tree()
    site = cores[SITE]
    posted(cores, 64, "dead")
    cores[TOP].ask(poem(64, "dead"))
    assert "inbox 'dead' of root/north/pump" in refusal_of(cores[TOP])
    posted(cores, 2, "orders")
    receive(cores, b"one", 1, inbox="orders")
    assert [one["body"] for one in handed_out(site)] == [b"poem 0"]
    for number in range(70):  # More than a window: the dead inbox holds no number of orders open.
        cores[TOP].ask(write(command_id=f"w{number}"))
        assert cores[TOP].refused is None
        exchange(cores)
        site.carried_out()
        exchange(cores)
    assert len(cores[TOP].answers) == 70


def test_rows_of_an_inbox_are_forgotten_whatever_waits_in_another_one() -> None:
    cores = tree()
    posted(cores, 3, "dead")
    for number in range(100):
        cores[TOP].ask(poem(number, "orders"))
        exchange(cores)
        receive(cores, b"one", 2 * number, inbox="orders")
        (handed,) = handed_out(cores[SITE])
        assert take(cores, b"one", 2 * number + 1, handed) == ""
        cores[SITE].answers.clear()
    assert not cores[SITE].folds.messages.inbox.rows
    for core in cores.values():
        sections = core.folds.snapshot()
        assert type(core.folds).restore(sections, core.folds.log_time_ms).snapshot() == sections


def test_messages_of_programs_leave_room_for_orders() -> None:
    cores = tree()
    for number in range(800):
        cores[TOP].ask(poem(number % 50, f"inbox{number // 50}"))
        assert cores[TOP].refused is None
    cores[TOP].ask(poem(0, "another"))
    assert "800 messages" in refusal_of(cores[TOP])
    cores[TOP].ask(write())
    assert cores[TOP].refused is None


def test_bodies_of_programs_are_bounded_together() -> None:
    cores = tree()
    for number in range(17):
        body = bytes(4 * 1024 * 1024 - 1)
        cores[TOP].ask(write(kind="poem", body=body, command_id=f"p{number}", inbox=f"inbox{number}"))
    assert "bodies of" in refusal_of(cores[TOP])


def test_only_so_many_receivers_wait_at_a_node() -> None:
    cores = tree()
    site = cores[SITE]
    for number in range(RECEIVERS_MAX):
        receive(cores, f"{number}".encode(), 1)
    turn = site.turn()
    refused = site.post.receive(Question(b"one more", 1, site.moment, "p"), "default", MS, site.log_time, turn)
    assert refused is not None and "64 receivers" in refused.cause


def test_a_receiver_that_waits_or_takes_is_sent_on_when_the_lead_changes() -> None:
    cores = tree()
    posted(cores, 1)
    site = cores[SITE]
    receive(cores, b"one", 1)
    (first,) = handed_out(site)
    receive(cores, b"two", 2)
    turn = site.turn()
    assert site.post.taken(
        Question(b"one", 3, site.moment, "p"),
        msgspec.convert(first["name"], MessageName), first["lease"], site.log_time, turn,
    ) is None  # fmt: skip
    site.post.suspend(turn)
    turn.drafts.clear()
    site.settle(turn)
    assert {one.request_id for one in site.answers} == {2, 3}
    assert all("the lead has changed" in refused_with(one) for one in site.answers)


def test_a_message_is_sent_off_and_asked_for_later() -> None:
    cores = tree()
    top = cores[TOP]
    turn = top.turn()
    assert top.post.post(Question(b"desk", 1, top.moment, "operator"), poem(0), top.log_time, turn) is None
    assert top.answers == [], "it is not on record yet"
    top.settle(turn)
    assert [(one.request_id, one.result) for one in top.answers] == [(1, "default 0")]
    turn = top.turn()
    assert top.post.post(Question(b"desk", 2, top.moment, "operator"), poem(0), top.log_time, turn) is None
    top.settle(turn)
    assert [one.request_id for one in top.answers] == [1, 2], "the same id is the same message"
    exchange(cores)

    def become(request_id: int, wait_ms: int, command_id: str = "default 0") -> str:
        turn = top.turn()
        question = Question(b"desk", request_id, top.moment, "operator")
        refused = top.post.become(question, command_id, wait_ms * MS, turn, proof_of)
        top.settle(turn)
        return "" if refused is None else refused.cause

    top.answers.clear()
    assert become(3, 500) == ""
    top.pass_ms(600)
    assert [(one.request_id, one.result) for one in top.answers] == [(3, None)], "it has no end yet"
    top.answers.clear()
    assert become(4, 20_000) == ""
    exchange(cores)
    receive(cores, b"one", 1)
    (handed,) = handed_out(cores[SITE])
    assert take(cores, b"one", 2, handed, b"it rhymes") == ""
    assert become(5, 0) == ""
    told: list[Any] = [one.result for one in top.answers]
    assert [(one["outcome"], one["reply"]) for one in told] == [("executed", told[0]["reply"])] * 2
    assert msgspec.convert(told[0]["reply"], bytes) == b"it rhymes"
    assert "no message has the id" in become(6, 0, "another")


def test_the_reply_is_on_record_at_both_ends() -> None:
    cores = tree()
    posted(cores, 1)
    receive(cores, b"one", 1)
    (handed,) = handed_out(cores[SITE])
    take(cores, b"one", 2, handed, b"it rhymes")
    (mine,) = cores[TOP].folds.messages.outbox.receipts
    (theirs,) = cores[SITE].folds.messages.inbox.receipts
    assert (mine.end.reply, mine.guid) == (theirs.end.reply, theirs.guid) == (b"it rhymes", mine.guid)


def test_a_receiver_that_came_before_its_node_served_is_given_what_comes_then() -> None:
    cores = tree()
    site = cores[SITE]
    receive(cores, b"one", 1)
    turn = site.turn()
    site.post.begin(Life(9, 9), site.moment, site.log_time, turn, continues=0)
    site.settle(turn)
    posted(cores, 1)
    assert [one["body"] for one in handed_out(site)] == [b"poem 0"]


def test_a_name_that_was_told_before_its_owner_served_is_fetched_as_it_serves() -> None:
    """A busy node took seconds to begin; its origin said the name again after waits that double up to 5 s."""
    cores = tree()
    site = cores[SITE]
    site.post.messages.suspend()
    cores[TOP].ask(write())
    exchange(cores)
    assert site.orders_sent == []
    turn = site.turn()
    site.post.begin(Life(9, 9), site.moment, site.log_time, turn, continues=0)
    site.settle(turn)
    exchange(cores)
    assert len(site.orders_sent) == 1


def test_a_letter_goes_through_a_node_whose_own_tenure_has_not_begun() -> None:
    cores = tree()
    between = cores[MIDDLE].post.messages
    between.suspend()
    between.passes_on = True
    cores[TOP].ask(write())
    exchange(cores)
    assert len(cores[SITE].orders_sent) == 1


def test_what_a_neighbour_could_not_hear_is_said_at_once_when_it_is_linked_anew() -> None:
    cores = tree()
    top = cores[TOP]
    turn = top.turn()
    top.post.lost(MIDDLE, top.moment, top.log_time, turn)
    top.ask(write())
    top.pass_ms(3_000)
    assert not top.letters, "there is no link"
    top.post.linked("root/north", MIDDLE)
    assert top.post.deadline(top.moment, top.log_time) == top.moment.now
    turn = top.turn()
    top.post.time_passed(top.moment, top.log_time, turn)
    top.settle(turn)
    assert [type(letter) for _, letter in top.letters] == [MessageTold]


def test_sixteen_messages_that_one_receiver_passes_over_do_not_stop_the_inbox_for_all() -> None:
    """The loop of docs/messages.md: it takes one kind, and asks on. Each question makes all its leases longer."""
    cores = tree()
    posted(cores, 20, expires_ms=3_600_000)
    site, had = cores[SITE], set[bytes]()
    for turn in range(60):  # 300 s: ten leases.
        receive(cores, b"one", turn + 1, wait_ms=5_000)
        if turn == 20:
            receive(cores, b"two", 1, wait_ms=3_600_000)
        for core in cores.values():
            core.pass_ms(5_000)
        exchange(cores)
        had |= {bytes.fromhex(one) for one in site.post.desk.receivers.holders()}
    assert had == {b"one", b"two"}


def test_what_a_receiver_gives_back_goes_to_the_next_one_at_once_and_to_itself_later() -> None:
    cores = tree()
    posted(cores, 2)
    site = cores[SITE]
    receive(cores, b"one", 1)
    (first,) = handed_out(site)
    assert give_back(cores, b"one", first) == ""
    receive(cores, b"one", 2)
    assert [one["body"] for one in handed_out(site)] == [b"poem 1"], "what it gave back takes no room of the others"
    receive(cores, b"two", 1)
    (again,) = handed_out(site)
    assert (again["body"], again["lease"]) == (b"poem 0", first["lease"] + 1)
    assert take(cores, b"two", 2, again) == ""
    assert end_told(cores[TOP])["outcome"] == "executed"


def test_a_lone_receiver_has_what_it_gave_back_again_after_the_time_of_a_lease() -> None:
    """It would go round in a circle with it, a record in the log each time."""
    cores = tree()
    posted(cores, 1, expires_ms=120_000)
    site = cores[SITE]
    receive(cores, b"one", 1, wait_ms=100_000)
    (first,) = handed_out(site)
    assert give_back(cores, b"one", first) == ""
    receive(cores, b"one", 2, wait_ms=100_000)
    site.answers.clear()
    site.pass_ms(29_000)
    assert handed_out(site) == []
    site.pass_ms(1_100)
    (again,) = handed_out(site)
    assert take(cores, b"one", 3, again) == ""
    assert end_told(cores[TOP])["outcome"] == "executed"


def test_the_word_of_whoever_gave_a_message_back_is_refused() -> None:
    cores = tree()
    posted(cores, 1)
    site = cores[SITE]
    receive(cores, b"one", 1)
    (first,) = handed_out(site)
    assert give_back(cores, b"two", first) == "lease_over", "it is not the second one's"
    assert give_back(cores, b"one", first) == "" == give_back(cores, b"one", first), "the same word, the same answer"
    assert take(cores, b"one", 2, first) == "lease_over"
    receive(cores, b"two", 1)
    (again,) = handed_out(site)
    assert take(cores, b"one", 2, first) == "lease_over"
    assert take(cores, b"two", 2, again) == ""
    assert give_back(cores, b"two", again) == "lease_over", "it is taken"


@pytest.mark.parametrize("meanwhile", ["nothing", "its link is gone", "another one has it", "taken", "over", "its own"])
def test_who_says_again_that_it_gave_a_message_back_hears_the_same_and_changes_nothing(meanwhile: str) -> None:
    """An answer was lost, and the client asks again, maybe over another link."""
    cores = tree()
    posted(cores, 1, expires_ms=5_000 if meanwhile == "over" else 120_000)
    site = cores[SITE]
    receive(cores, b"one", 1, wait_ms=100_000)
    (first,) = handed_out(site)
    assert give_back(cores, b"one", first) == ""
    said = [(one.result, refused_with(one)) for one in site.answers]
    held = None
    match meanwhile:
        case "its link is gone":
            lost(cores, b"one")
        case "another one has it" | "taken":
            receive(cores, b"two", 1, wait_ms=100_000)
            (held,) = handed_out(site)
        case "over":
            for core in cores.values():
                core.pass_ms(6_000)
            exchange(cores)
        case "its own":
            receive(cores, b"one", 2, wait_ms=100_000)
            site.pass_ms(31_000)
            held = handed_out(site)[-1]
    if meanwhile == "taken":
        assert held is not None and take(cores, b"two", 2, held) == ""
    before = len(site.frames)
    for who in (b"one", b"three"):
        site.answers.clear()
        assert give_back(cores, who, first) == ""
        assert [(one.result, refused_with(one)) for one in site.answers] == said
    assert len(site.frames) == before, "it was given to somebody else"
    if held is not None and meanwhile != "taken":
        holder = b"two" if meanwhile == "another one has it" else b"one"
        assert take(cores, holder, 3, held) == "", "its lease was ended"


def test_leases_that_were_given_back_are_remembered_up_to_a_bound() -> None:
    one = MessageReceivers(InboxFold())
    times = MessageTimes(Instant(0), LogTime(0), WallTime(0))

    def order_of(number: int) -> ExecuteBody:
        name = MessageName("root", "root/site", Life(1, 2), number, "default")
        return ExecuteBody(name=name, kind="poem", body=b"", not_after=Instant(9), user="", principal="", reason="")

    for number in range(BACK_MAX + 5):
        order = order_of(number)
        one.ready(Receiver("a", order.name.inbox), 1, times)
        (recorded,) = one.offer(order)
        assert isinstance(recorded, RecordMessage) and isinstance(recorded.record, MessageLeased)
        one.leased(recorded.record, times)
        assert one.given_back("a", order.name, 1, times) == []
        one.lost("a")
        one.time_passed(msgspec.structs.replace(times, now=order.not_after))
    assert len(one._back) == BACK_MAX
    assert one.given_back("a", order_of(BACK_MAX + 4).name, 1, times) == []
    assert one.given_back("a", order_of(0).name, 1, times) is None


@pytest.mark.parametrize(("is_silent", "outcome"), [(False, "expired"), (True, "unknown")])
def test_what_all_gave_back_expires_and_what_one_was_silent_about_is_unknown(is_silent: bool, outcome: str) -> None:
    cores = tree()
    posted(cores, 1, expires_ms=5_000)
    site = cores[SITE]
    if is_silent:
        receive(cores, b"silent", 1)
        handed_out(site)
        lost(cores, b"silent")
    receive(cores, b"one", 1)
    (first,) = handed_out(site)
    assert give_back(cores, b"one", first) == ""
    for core in cores.values():
        core.pass_ms(6_000)
    exchange(cores)
    assert end_told(cores[TOP])["outcome"] == outcome


def test_what_was_given_back_is_offered_on_after_a_takeover() -> None:
    cores = tree()
    posted(cores, 1)
    site = cores[SITE]
    receive(cores, b"one", 1)
    (first,) = handed_out(site)
    assert give_back(cores, b"one", first) == ""
    site.begin(continues=True)
    link(cores)
    receive(cores, b"two", 1)
    (again,) = handed_out(site)
    assert again["lease"] == first["lease"] + 1
    assert take(cores, b"two", 2, again) == ""
    cores[TOP].pass_ms(6_000)
    exchange(cores)
    assert end_told(cores[TOP])["outcome"] == "executed"


def test_a_word_that_comes_before_the_tenure_has_begun_is_said_again_later() -> None:
    """A member that has just taken over knows no lease yet, and said that it was over: seen on a real pair."""
    cores = tree()
    posted(cores, 1)
    receive(cores, b"one", 1)
    (first,) = handed_out(cores[SITE])
    cores[SITE].post.messages.suspend()
    assert take(cores, b"one", 2, first) == "moved"
    assert give_back(cores, b"one", first) == "moved"


@pytest.mark.parametrize("is_early", [True, False])
def test_a_wait_that_is_withdrawn_keeps_no_message_from_the_next_wait_of_the_same_receiver(is_early: bool) -> None:
    """Late: it was answered, and nobody took the answer."""
    cores = tree()
    link(cores)
    receive(cores, b"r", 1)
    if is_early:
        withdraw(cores, b"r", 1)
    posted(cores, 2)
    if not is_early:
        assert [one["body"] for one in handed_out(cores[SITE])] == [b"poem 0"]
        withdraw(cores, b"r", 1)
    before = len(handed_out(cores[SITE]))
    receive(cores, b"r", 2)
    receive(cores, b"r", 3)
    first, second = handed_out(cores[SITE])[before:]
    assert [first["body"], second["body"]] == [b"poem 0", b"poem 1"]
    assert take(cores, b"r", 4, first) == ""
    withdraw(cores, b"r", 3)
    assert take(cores, b"r", 5, second) == "lease_over", "it was said that nobody saw it"
    receive(cores, b"other", 6)
    assert handed_out(cores[SITE])[-1]["body"] == b"poem 1"


def test_waits_that_are_withdrawn_make_room_for_others() -> None:
    cores = tree()
    link(cores)
    for number in range(1, 100):
        receive(cores, b"r", number)
        withdraw(cores, b"r", number)
    assert not cores[SITE].post.desk.is_open
    receive(cores, b"r", 100)
    posted(cores, 1)
    assert [one["body"] for one in handed_out(cores[SITE])] == [b"poem 0"]


def test_a_message_whose_wait_is_withdrawn_while_its_lease_is_being_committed_goes_to_the_next_wait() -> None:
    cores = tree()
    link(cores)
    posted(cores, 1)
    core, turn = cores[SITE], cores[SITE].turn()
    question = Question(b"r", 1, core.moment, "operator")
    assert core.post.receive(question, "default", 60_000 * MS, core.log_time, turn) is None
    core.post.withdraw(Question(b"r", 0, core.moment, "operator"), 1, core.log_time, turn)
    core.settle(turn)
    assert handed_out(core) == []
    receive(cores, b"r", 2)
    assert [one["body"] for one in handed_out(core)] == [b"poem 0"]
