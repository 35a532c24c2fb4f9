"""Messages of a node: bounds, pieces, routes, causes, lives; step by step."""

import msgspec
import pytest

from albireo.codec.message_records import MessageEnd
from albireo.codec.tree.letters import BodyAsked, BodySent, MessageTold, OutcomeSaid
from albireo.machine.fold.letters.outbox import RECEIPTS_MAX, MessageReceipt, MessageReceipts
from albireo.machine.message.events import MessageLimits
from albireo.machine.message.route import next_hop
from albireo.model.tree.message import PIECE_BYTES, SMALL_BYTES, AddCause, Life, MessageName, MessageOutcome
from tests.parts.messages import MessageTree

TOP, SITE = "root", "root/north"


@pytest.mark.parametrize(
    ("here", "to", "hop"),
    [
        ("root", "root", "root"),
        ("root", "root/north", "root/north"),
        ("root", "root/north/pump", "root/north"),
        ("root/north", "root/north/pump", "root/north/pump"),
        ("root/north/pump", "root", "root/north"),
        ("root/north/pump", "root/south/fan", "root/north"),
        ("root/north", "root/northern", "root"),
        ("root", "roots/north", ""),
        ("root", "", ""),
        ("root/north", "other/north", ""),
    ],
)
def test_the_next_hop_goes_up_to_the_common_ancestor_then_down(here: str, to: str, hop: str) -> None:
    assert next_hop(here, to) == hop


def test_a_body_comes_in_pieces_and_a_lost_piece_is_asked_for_again() -> None:
    tree = MessageTree(TOP, SITE)
    body = bytes(range(256)) * (3 * PIECE_BYTES // 256) + b"end"
    tree[TOP].ask(SITE, body=body, expires_ms=60_000)
    offsets, is_first = [], True
    for _ in range(80):
        for _, _, letter in tree.letters:
            if isinstance(letter, BodySent):
                offsets.append(letter.offset)
                assert len(letter.piece) <= PIECE_BYTES
        lost = [one for one in tree.letters if isinstance(one[2], BodySent) and one[2].offset == SMALL_BYTES]
        if lost and is_first:
            is_first = False
            tree.letters.remove(lost[0])
        one_by_one, tree.letters = tree.letters, []
        for _, to, letter in one_by_one:
            tree.hear(to, letter)
        tree.pass_ms(20)
    assert [one.body for one in tree[SITE].orders] == [body]
    assert offsets.count(0) == 1, "what was there is not sent again"
    assert offsets.count(SMALL_BYTES) >= 2


def test_a_body_that_is_not_what_was_told_is_not_believed() -> None:
    tree = MessageTree(TOP, SITE)
    tree[TOP].ask(SITE)
    tree.deliver(lambda letter: isinstance(letter, BodySent))
    tree.pass_ms(500)
    tree.take(MessageTold)
    (asked, *_) = tree.take(BodyAsked)
    tree.hear(TOP, asked)
    (sent,) = tree.take(BodySent)
    assert isinstance(sent, BodySent)
    for wrong in (
        msgspec.structs.replace(sent, nonce=sent.nonce ^ 1),
        msgspec.structs.replace(sent, size=sent.size + 1),
    ):
        tree.hear(SITE, wrong)
    assert tree[SITE].orders == []
    assert tree[SITE].machine.owner.not_believed == 2


@pytest.mark.parametrize(
    ("owner", "body", "expires_ms", "words"),
    [
        ("root", b"", 1_000, "this node itself"),
        ("elsewhere", b"", 1_000, "no node of this tree"),
        (SITE, b"x" * (4 * 1024 * 1024 + 1), 1_000, "at most 4194304"),
        (SITE, b"", 0, "at least 1"),
        (SITE, b"", 8 * 24 * 3_600_000, "at most 604800000"),
    ],
)
def test_what_can_not_be_sent_is_refused_with_the_reason(owner: str, body: bytes, expires_ms: int, words: str) -> None:
    tree = MessageTree(TOP, SITE)
    assert words in tree[TOP].refusal(owner, body, expires_ms=expires_ms)
    assert not tree[TOP].fold.outbox.open


def test_the_window_bounds_what_is_open_to_one_owner() -> None:
    tree = MessageTree(TOP, SITE)
    tree[TOP].start(limits=MessageLimits(window=3))
    for number in range(3):
        tree[TOP].ask(SITE, command_id=f"c{number}")
    assert "3 messages to root/north" in tree[TOP].refusal(SITE, command_id="c3")


def test_receipts_are_bounded_and_the_oldest_go_first() -> None:
    receipts = MessageReceipts()
    end = MessageEnd(outcome=MessageOutcome.VERIFIED)
    for number in range(RECEIPTS_MAX + 5):
        name = MessageName(TOP, SITE, Life(1, 1), number)
        receipts.keep(MessageReceipt(name=name, guid="g", end=end, kept_at=number))
    assert len(receipts) == RECEIPTS_MAX
    assert next(iter(receipts)).name.number == 5
    late = MessageReceipt(name=MessageName(TOP, SITE, Life(2, 2), 1), guid="g", end=end, kept_at=10**20)
    assert len(receipts.keep(late)) == RECEIPTS_MAX, "age counts too"


def test_an_owner_never_says_never_of_what_it_may_have_forgotten() -> None:
    tree = MessageTree(TOP, SITE)
    tree[TOP].ask(SITE)
    name = tree[TOP].name
    asked = next(place for place, (one, _) in enumerate(tree[TOP].log) if type(one).__name__ == "MessageRequested")
    tree.deliver()
    tree[SITE].finish()
    tree.deliver()
    inbox = tree[SITE].fold.inbox
    (receipt,) = inbox.receipts
    old = msgspec.structs.replace(receipt, name=msgspec.structs.replace(name, number=99), kept_at=10**20)
    for gone in inbox.receipts.keep(old):
        inbox._forgotten(gone.name)
    tree[TOP].answers.clear()
    tree[TOP].restore(asked + 1)
    tree.deliver()
    assert tree[TOP].outcomes == ["unknown"]
    assert "forgotten" in tree[TOP].answers[0].end.detail


def test_causes_are_those_of_the_list_in_its_order() -> None:
    """IEC 61850-7-2, AddCause: 28 values, 0..27."""
    words = list(AddCause)
    assert len(words) == 28
    numbered = {0: "unknown", 8: "blocked-by-mode", 15: "abortion-by-cancel", 16: "time-limit-over", 25: "none"}
    assert {index: str(words[index]) for index in numbered} == numbered
    assert str(words[20]) == "no-access-authority" and str(words[27]) == "locked-by-other-client"


def test_an_outcome_of_a_message_that_was_never_asked_for_changes_nothing() -> None:
    tree = MessageTree(TOP, SITE)
    name = MessageName(TOP, SITE, tree[TOP].fold.life, 7)
    life = tree[SITE].fold.life
    tree.hear(TOP, OutcomeSaid(name=name, life=life, guid="g", outcome=MessageOutcome.VERIFIED))
    assert tree[TOP].answers == [] and tree.letters == []


@pytest.mark.parametrize(("continues", "outcome"), [(True, "verified"), (False, "unknown")])
def test_what_was_asked_for_before_its_owner_was_ever_heard_goes_on_in_the_same_life(
    continues: bool, outcome: str
) -> None:
    """No body leaves before the owner's life is on record, so whoever goes on with the store knows that none did."""
    tree = MessageTree(TOP, SITE)
    tree[TOP].ask(SITE, expires_ms=60_000)
    tree.letters.clear()
    for _ in range(2):
        tree[TOP].start(continues=continues)
        tree.letters.clear()
    for _ in range(40):
        tree.pass_ms(500)
        tree.deliver()
        if tree[SITE].orders:
            tree[SITE].finish()
    assert tree[TOP].outcomes[-1:] == [outcome]
    assert len(tree[SITE].fold.inbox.receipts) == continues


def test_what_nobody_heard_of_is_taken_back_at_once_after_a_takeover() -> None:
    tree = MessageTree(TOP, SITE)
    tree[TOP].ask(SITE)
    tree[TOP].start(continues=True)
    tree[TOP].cancel(tree[TOP].name)
    assert tree[TOP].outcomes == ["cancelled"]


def test_a_tenure_that_never_served_is_not_continued() -> None:
    """The store was replaced, and the next tenure ended before its record was committed."""
    tree = MessageTree(TOP, SITE)
    first = tree[TOP].fold.life
    tree[TOP].commits = False
    tree[TOP].start()
    tree[TOP].commits = True
    tree[TOP].start(continues=True)
    assert tree[TOP].fold.life != first
    again = tree[TOP].fold.life
    tree[TOP].start(continues=True)
    assert tree[TOP].fold.life == again
