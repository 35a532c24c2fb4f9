"""The eight failure modes that seed 004 lists, each as a conversation, and what is said then (docs/messages.md)."""

import msgspec

from albireo.codec.message_records import MessageEnd
from albireo.codec.tree.letters import BodyAsked, BodySent, MessageTold, OutcomeSaid
from albireo.machine.message.events import MessageLimits
from albireo.model.tree.message import AddCause, MessageOutcome
from tests.parts.messages import MessageTree

TOP, SITE = "root", "root/north"


def agreed(tree: MessageTree) -> bool:
    """True: both logs hold the same (name, guid, outcome)."""
    (mine,) = tree[TOP].fold.outbox.receipts
    theirs = tree[SITE].fold.inbox.receipts.get(mine.name)
    return theirs is not None and (theirs.guid, theirs.end.outcome) == (mine.guid, mine.end.outcome)


def test_a_message_without_any_failure() -> None:
    tree = MessageTree(TOP, SITE)
    tree[TOP].ask(SITE)
    assert tree.words() == ["told"], "only its name is told"
    tree.deliver()
    assert [one.body for one in tree[SITE].orders] == [b"1.5"]
    tree[SITE].finish()
    tree.deliver()
    assert tree[TOP].outcomes == ["verified"]
    assert agreed(tree)
    assert not tree[TOP].fold.outbox.open, "its body is deleted"
    assert not tree[SITE].fold.inbox.rows, "the owner forgets the number once its origin has the outcome"


def test_mode_1_the_network_fails_as_the_message_goes_out() -> None:
    """It is told again, by the same number, and carried out once."""
    tree = MessageTree(TOP, SITE)
    tree[TOP].ask(SITE)
    tree.deliver(lambda letter: isinstance(letter, MessageTold))
    tree.pass_ms(900)
    tree.deliver(lambda letter: isinstance(letter, BodyAsked))
    tree.pass_ms(900)
    tree.deliver(lambda letter: isinstance(letter, BodySent))
    tree.pass_ms(3_000)
    tree.deliver()
    assert len(tree[SITE].orders) == 1
    tree[SITE].finish()
    tree.deliver()
    assert tree[TOP].outcomes == ["verified"] and agreed(tree)


def test_mode_2_the_receiver_is_overloaded() -> None:
    """It hears names only and fetches as it has room; what it never fetched expires, and that is a promise."""
    tree = MessageTree(TOP, SITE)
    tree[SITE].start(limits=MessageLimits(room=1))
    for number in range(3):
        tree[TOP].ask(SITE, command_id=f"c{number}", expires_ms=2_000)
    tree.deliver()
    assert len(tree[SITE].orders) == 1, "no more than it has room for"
    tree.pass_ms(2_100)
    tree.deliver()
    assert tree[TOP].outcomes == ["expired", "expired"], "never sent"
    tree[SITE].finish()
    tree.deliver()
    assert tree[TOP].outcomes == ["expired", "expired", "verified"]
    assert not tree[SITE].orders


def test_mode_2_a_fetched_body_that_never_came_expires_after_never() -> None:
    tree = MessageTree(TOP, SITE)
    tree[TOP].ask(SITE, expires_ms=500)
    tree.deliver(lambda letter: isinstance(letter, BodySent))
    tree.letters.clear()
    tree.pass_ms(600)
    assert tree[TOP].outcomes == [], "a body has left: it asks first"
    assert "over" in tree.words()
    tree.deliver()
    assert tree[TOP].outcomes == ["expired"]
    assert not tree[SITE].orders


def test_mode_3_the_acknowledgement_is_lost() -> None:
    """The owner says it until it is heard, and is told nothing anew."""
    tree = MessageTree(TOP, SITE)
    tree[TOP].ask(SITE)
    tree.deliver()
    tree[SITE].finish()
    tree.deliver(lambda letter: isinstance(letter, OutcomeSaid))
    tree.pass_ms(1_000)
    tree.deliver()
    assert tree[TOP].outcomes == ["verified"] and agreed(tree)
    tree.pass_ms(120_000, step_ms=1_000)
    assert tree.letters == [], "nobody repeats what both have on record"
    assert not tree[SITE].orders


def test_mode_4_the_owner_names_a_wrong_guid() -> None:
    """There is no algorithm to get wrong: a guid is equal or not. Another one is refused, counted, and a case."""
    tree = MessageTree(TOP, SITE)
    tree[TOP].ask(SITE)
    tree.deliver()
    tree[SITE].finish()
    (said,) = tree.take(OutcomeSaid)
    tree.hear(TOP, msgspec.structs.replace(said, guid="f" * 32))
    assert tree[TOP].outcomes == []
    assert tree[TOP].machine.origin.wrong_guids == 1
    assert SITE in tree[TOP].doubts[0].detail
    tree.hear(TOP, said)
    assert tree[TOP].outcomes == ["verified"]


def test_mode_5_the_origin_can_not_compare_wrongly_and_a_second_word_changes_nothing() -> None:
    tree = MessageTree(TOP, SITE)
    tree[TOP].ask(SITE)
    tree.deliver()
    tree[SITE].finish()
    (said,) = tree.take(OutcomeSaid)
    tree.hear(TOP, said)
    tree.hear(TOP, msgspec.structs.replace(said, outcome=MessageOutcome.MISMATCHED))
    tree.hear(TOP, msgspec.structs.replace(said, guid="0", outcome=MessageOutcome.MISMATCHED))
    assert tree[TOP].outcomes == ["verified"] and agreed(tree)


def test_mode_6_the_receiver_crashes_before_it_accepted() -> None:
    """Its successor, which goes on with the same store, fetches the body again."""
    tree = MessageTree(TOP, SITE)
    tree[SITE].commits = False
    tree[TOP].ask(SITE)
    tree.deliver()
    assert tree[SITE].orders == [], "its record is not committed"
    tree[SITE].commits = True
    tree[SITE].start(continues=True)
    tree.pass_ms(1_000)
    tree.deliver()
    assert len(tree[SITE].orders) == 1
    tree[SITE].finish()
    tree.deliver()
    assert tree[TOP].outcomes == ["verified"]


def test_mode_6_the_receiver_crashes_after_it_accepted() -> None:
    """It is not carried out again: the outcome is that of its log, or unknown."""
    tree = MessageTree(TOP, SITE)
    tree[TOP].ask(SITE)
    tree.deliver()
    assert len(tree[SITE].orders) == 1
    tree[SITE].orders.clear()
    tree[SITE].start(continues=True)
    assert [one.name for one in tree[SITE].recovered] == [tree[TOP].name]
    tree.pass_ms(1_000)
    tree.deliver()
    assert tree[SITE].orders == []
    name = tree[TOP].name
    tree[SITE].do(tree[SITE].machine.executed(name, MessageEnd(outcome=MessageOutcome.UNKNOWN), tree[SITE].times()))
    tree.deliver()
    assert tree[TOP].outcomes == ["unknown"] and agreed(tree)


def test_mode_7_the_sender_crashes_and_its_successor_goes_on() -> None:
    """At the other member of a pair: the body is served on, and the outcome is answered from the log."""
    tree = MessageTree(TOP, SITE)
    tree[TOP].ask(SITE)
    tree.deliver(lambda letter: isinstance(letter, BodySent))
    tree[TOP].start(continues=True)
    tree.pass_ms(1_000)
    tree.deliver()
    tree[SITE].finish()
    tree.deliver()
    assert tree[TOP].outcomes == ["verified"] and agreed(tree)


def test_mode_7_a_sender_that_starts_anew_asks_what_became_of_what_was_open() -> None:
    """Nothing proves that its store is the one it wrote last, so it serves nothing of it again."""
    tree = MessageTree(TOP, SITE)
    tree[TOP].ask(SITE, command_id="c0")
    tree.deliver()
    tree[SITE].finish()
    tree.deliver()
    tree[TOP].answers.clear()
    tree[TOP].ask(SITE)
    tree.letters.clear()
    tree[TOP].start()
    assert tree.words() == ["over"]
    tree.deliver()
    assert tree[TOP].outcomes == ["expired"], "after never"
    assert tree[TOP].answers[0].end.cause is AddCause.ABORTION_BY_COMMUNICATION_LOSS
    tree.pass_ms(1_000)
    tree.deliver()
    assert not tree[SITE].orders


def test_mode_8_the_receiver_is_destroyed_and_the_sender_says_unknown() -> None:
    """Its new store never carries out what the old one may have."""
    tree = MessageTree(TOP, SITE)
    tree[TOP].ask(SITE, expires_ms=60_000)
    tree.deliver()
    assert len(tree[SITE].orders) == 1
    tree[SITE].orders.clear()
    tree.letters.clear()
    tree[SITE].wipe()
    tree.pass_ms(1_000)
    tree.deliver()
    assert tree[SITE].orders == []
    assert tree[TOP].outcomes == ["unknown"]
    assert "another one than may have had it" in tree[TOP].answers[0].end.detail


def test_mode_8_the_receiver_s_store_is_an_old_copy() -> None:
    tree = MessageTree(TOP, SITE)
    before = tree[SITE].committed
    tree[TOP].ask(SITE, expires_ms=60_000)
    tree.deliver()
    tree[SITE].orders.clear()
    tree.letters.clear()
    tree[SITE].restore(before)
    tree.pass_ms(1_000)
    tree.deliver()
    assert (tree[SITE].orders, tree[TOP].outcomes) == ([], ["unknown"])


def test_mode_8_the_sender_is_destroyed_and_the_receiver_keeps_the_receipt() -> None:
    tree = MessageTree(TOP, SITE)
    tree[TOP].ask(SITE)
    name = tree[TOP].name
    tree.deliver()
    tree[TOP].wipe()
    tree[SITE].finish()
    tree.deliver()
    kept = tree[SITE].fold.inbox.receipts.get(name)
    assert kept is not None and kept.end.outcome is MessageOutcome.VERIFIED
    tree.pass_ms(600_000, step_ms=1_000)
    assert len(tree.letters) <= 40, "it goes on saying it, each minute"
    for _ in range(2):
        tree[TOP].start()
        tree.deliver()
    tree.pass_ms(120_000, step_ms=1_000)
    tree.deliver()
    tree.pass_ms(120_000, step_ms=1_000)
    assert tree.letters == [], "a later life of the new store knows that it is none of its own"


def test_mode_8_the_sender_s_store_is_an_old_copy() -> None:
    """The receiver tells it the outcome that the copy lacks."""
    tree = MessageTree(TOP, SITE)
    tree[TOP].ask(SITE)
    tree.deliver()
    tree[SITE].finish()
    asked = next(place for place, (one, _) in enumerate(tree[TOP].log) if type(one).__name__ == "MessageRequested")
    tree.deliver()
    tree[TOP].answers.clear()
    tree[TOP].restore(asked + 1)
    tree.deliver()
    assert tree[TOP].outcomes == ["verified"] and agreed(tree)


def test_unknown_is_said_after_grace_and_a_late_outcome_corrects_it() -> None:
    tree = MessageTree(TOP, SITE)
    tree[TOP].ask(SITE, expires_ms=1_000)
    tree.deliver()
    tree[SITE].finish()
    tree.letters.clear()
    for _ in range(70):
        tree.pass_ms(100)
        tree.letters.clear()
    assert tree[TOP].outcomes == ["unknown"]
    tree.pass_ms(70_000, step_ms=500)
    tree.deliver()
    assert tree[TOP].outcomes == ["unknown", "verified"] and agreed(tree)
