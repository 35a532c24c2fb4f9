"""The keeper of a door: nobody is heard who has not shown a good ticket, and nobody stays whose ticket is over."""

from typing import Any

from albireo.codec.message import Answer, Ask, FeedHello
from albireo.codec.questions.people import SHOWN_MAX
from albireo.codec.ticket import Ticket, digest_of, encode_ticket
from albireo.machine.access.door_keeper import ASK_NS, QUIET_NS, SHOW, SILENT_NS, VISITORS_MAX, DoorKeeper, Effects
from albireo.model.access import AccessRole
from albireo.model.instant import SECOND, Instant
from albireo.model.principal import ANYBODY
from tests.parts.refusals import no, refused_with

ANNA = "anna@desk"
TICKET = encode_ticket(Ticket("root", "desk", 1, bytes(32)))
WHO = Ask(request_id=5, what="who")


class Door:
    def __init__(self) -> None:
        self.now = Instant(SECOND)
        self.keeper = DoorKeeper("root", "desk", "tcp://127.0.0.1:7800", AccessRole.VIEW, self.now)
        self.said: list[tuple[bytes, Any]] = []
        self.asked: list[Ask] = []
        self.perform(self.keeper.time_passed(self.now))

    def perform(self, effects: Effects) -> None:
        for one in effects:
            if isinstance(one.message, Ask):
                assert not one.to
                self.asked.append(one.message)
            else:
                self.said.append((one.to, one.message))

    def hears(self, message: Any, sender: bytes = b"a", principal: str = ANNA) -> bool:
        is_through, effects = self.keeper.hears(sender, principal, message, self.now)
        self.perform(effects)
        return is_through

    def show(self, ticket: object = TICKET, sender: bytes = b"a", principal: str = ANNA) -> None:
        assert not self.hears(Ask(request_id=4, what=SHOW, arguments={"ticket": ticket}), sender, principal)

    def answer(self, *reasons: str, visitors_max: int = VISITORS_MAX) -> None:
        rows = [{"reason": one, "session_id": 7, "role": "view"} for one in reasons]
        told = {"judged": rows, "visitors_max": visitors_max}
        self.perform(self.keeper.answered(Answer(request_id=self.asked[-1].request_id, result=told), self.now))

    def pass_time(self, passed_ns: int) -> None:
        self.now = Instant(self.now + passed_ns)
        self.perform(self.keeper.time_passed(self.now))


def opened() -> Door:
    """A door with one visitor inside."""
    door = Door()
    door.answer()
    door.show()
    door.answer("")
    assert door.said == [(b"a", Answer(request_id=4, result={"reason": "", "session_id": 7, "role": "view"}))]
    door.said.clear()
    return door


def test_nothing_is_heard_from_outside() -> None:
    door = Door()
    assert not door.hears(WHO) and not door.hears(FeedHello(follower="x", mode="state"))
    ((to, said),) = door.said
    assert (to, said.request_id) == (b"a", 5) and "shows a ticket" in refused_with(said)
    door.answer()
    door.show()
    assert not door.hears(WHO), "shown and not judged"


def test_core_is_told_digest_and_principal_and_no_ticket() -> None:
    door = opened()
    assert door.asked[-1].arguments == {
        "door": "desk", "endpoint": "tcp://127.0.0.1:7800", "needs": "view", "shown": [(1, digest_of(TICKET), ANNA)],
    }  # fmt: skip
    assert all(TICKET not in str(one.arguments) for one in door.asked)


def test_whoever_is_inside_is_heard_on_its_link_and_by_its_name_only() -> None:
    door = opened()
    assert door.hears(WHO)
    entrance = door.keeper.inside(b"a", ANNA)
    assert entrance is not None and (entrance.session_id, entrance.role) == (7, "view")
    assert not door.hears(WHO, b"b"), "another link"
    assert not door.hears(WHO, b"a", "mes-1"), "another principal under the same identity"
    assert not door.hears(WHO, b"a", ANYBODY)


def test_whose_ticket_is_over_is_out_at_the_next_look() -> None:
    door = opened()
    door.pass_time(ASK_NS)
    assert door.hears(WHO), "CORE has not answered yet"
    door.answer("session 7 is over")
    ((to, said),) = door.said
    assert to == b"a" and refused_with(said).startswith("session 7 is over; what to do:")
    assert not door.hears(WHO)


def test_nobody_stays_while_core_is_silent() -> None:
    door = opened()
    for _ in range(SILENT_NS // ASK_NS - 1):
        door.pass_time(ASK_NS)
    assert door.hears(WHO)
    door.pass_time(ASK_NS)
    assert not door.hears(WHO)
    assert "CORE does not say any more" in refused_with(door.said[0][1])


def test_an_answer_to_an_earlier_question_a_refusal_and_nonsense_let_nobody_in() -> None:
    door = Door()
    first = door.asked[-1].request_id
    door.answer()
    door.show()
    row = {"reason": "", "session_id": 7, "role": "view"}
    for answer in (
        Answer(request_id=first, result=[row]),
        Answer(request_id=door.asked[-1].request_id, refusal=no("not_yet")),
        Answer(request_id=door.asked[-1].request_id, result=[{"reason": 5}]),
        Answer(request_id=door.asked[-1].request_id, result=[]),
    ):
        door.perform(door.keeper.answered(answer, door.now))
        assert not door.hears(WHO)


def test_tickets_of_elsewhere_are_refused_at_once_by_name() -> None:
    door = opened()
    asked = len(door.asked)
    for ticket, words in {
        encode_ticket(Ticket("root/north", "desk", 1, bytes(32))): "a ticket of the node root/north",
        encode_ticket(Ticket("root", "hall", 1, bytes(32))): "a ticket for the door hall",
        "ticket": "not the form of a ticket",
    }.items():
        door.show(ticket, b"b")
        assert words in refused_with(door.said[-1][1])
    door.show(None, b"b")
    assert "not the form" in refused_with(door.said[-1][1])
    assert len(door.asked) == asked, "CORE is not asked about them"


def test_tickets_that_are_shown_all_the_time_keep_nobody_from_being_judged() -> None:
    door = opened()
    for number in range(20):
        door.show(TICKET, b"pest%d" % number, "pest")
    assert len(door.asked) == 3, "one question is under way, the rest waits for its answer"
    door.answer("no such ticket", "")
    assert len(door.asked) == 4 and len(door.asked[-1].arguments["shown"]) == 20  # type: ignore[arg-type]
    door.answer(*["no such ticket"] * 19, "")
    assert door.hears(WHO) and not door.hears(WHO, b"pest1", "pest")


def test_visitors_are_bounded() -> None:
    door = opened()
    for number in range(VISITORS_MAX):
        door.show(TICKET, b"v%d" % number)
    assert f"{VISITORS_MAX} are at this door" in refused_with(door.said[-1][1])
    before = len(door.said)
    door.show()
    assert len(door.said) == before, "whoever is inside may show another ticket"


def test_core_says_how_many_visitors_there_may_be() -> None:
    door = opened()
    door.pass_time(ASK_NS)
    door.answer("", visitors_max=1)
    door.show(TICKET, b"second")
    assert "1 are at this door" in refused_with(door.said[-1][1])
    door.pass_time(ASK_NS)
    door.answer("", visitors_max=2)
    said = len(door.said)
    door.show(TICKET, b"second")
    assert len(door.said) == said, "its ticket is asked about"
    for _ in range(QUIET_NS // SECOND):
        door.answer(*[""] * SHOWN_MAX)
        door.hears(WHO)
        door.pass_time(SECOND)
    said = len(door.said)
    door.show(TICKET, b"late")
    assert len(door.said) == said, "who said nothing for long gives way"
    assert door.hears(WHO), "and nobody else does"


def test_many_visitors_are_judged_each_second_in_short_questions() -> None:
    door = opened()
    for number in range(3 * SHOWN_MAX - 1):
        door.show(TICKET, b"v%d" % number)
    for _ in range(4):
        shown = door.asked[-1].arguments["shown"]
        assert isinstance(shown, list) and len(shown) <= SHOWN_MAX
        door.answer(*[""] * len(shown))
    said = {to for to, _ in door.said}
    assert len(said) == 3 * SHOWN_MAX - 1, "each of them is let in"
    for _ in range(3):
        before = len(door.asked)
        door.pass_time(ASK_NS // 3)
        assert len(door.asked) == before + 1
        door.answer(*[""] * SHOWN_MAX)
    assert door.hears(WHO, b"v7")
