"""Tickets at the root machine: who is given one, and that one which is not good any more is refused by name."""

from collections.abc import Callable
from typing import Any

import pytest

from albireo.codec.errors import DecodeError
from albireo.codec.message import Answer, Ask
from albireo.codec.ticket import Ticket, decode_ticket, digest_of, encode_ticket
from albireo.machine.access.tickets import CLOSED_NS, DOORS_MAX, TICKET_NS
from albireo.machine.kernel.events import KeysListed, Suspended
from albireo.model.access import AccessRole, RoleGrant
from albireo.model.instant import SECOND
from albireo.model.settings import LimitSettings
from tests.parts.present import ANNA, MES, asked, present, said
from tests.parts.refusals import refused_with
from tests.parts.root import World

KEY = b"k" * 32
ENDPOINT = "tcp://10.0.0.5:7800"


def up(needs: str = "operate") -> World:
    """A node with an open door; anna may operate."""
    one = World(ticket_key=KEY)
    one.step(KeysListed({ANNA: RoleGrant(AccessRole.OPERATE), MES: RoleGrant(AccessRole.VIEW)}))
    asked(one)
    assert shown(one, needs=needs) == []
    return one


def shown(one: World, *tickets: str, principal: str = ANNA, door: str = "desk", needs: str = "operate") -> Any:
    """The reasons why tickets that are shown at a door are refused; empty ones for good tickets."""
    rows = [(decode_ticket(text).number, digest_of(text), principal) for text in tickets]
    answer = one.ask("tickets_shown", door=door, endpoint=ENDPOINT, needs=needs, shown=rows)
    assert answer.refusal is None, answer.refusal
    result: Any = answer.result
    return [row["reason"] for row in result["judged"]]


def given(one: World, door: str = "desk") -> str:
    answer = asked(one, "ticket", door=door)
    assert answer.refusal is None, answer.refusal
    result: Any = answer.result
    assert (result["endpoint"], result["expires_ms"]) == (ENDPOINT, 600_000)
    text: str = result["ticket"]
    return text


def test_a_ticket_is_good_at_its_door_while_its_session_goes_on() -> None:
    one = up()
    ticket = given(one)
    assert (decode_ticket(ticket).node, decode_ticket(ticket).door) == ("root", "desk")
    answer = one.ask(
        "tickets_shown", door="desk", endpoint=ENDPOINT, needs="operate",
        shown=[(decode_ticket(ticket).number, digest_of(ticket), ANNA)],
    )  # fmt: skip
    ((session, _, _),) = present(one)
    judged = [{"reason": "", "session_id": session, "role": "operate"}]
    assert answer.result == {"judged": judged, "visitors_max": LimitSettings().visitors_max}
    assert shown(one, ticket) == [""], "it is shown again and again"


def lose_session(one: World) -> None:
    ((session, _, _),) = present(one)
    assert asked(one, "session_end", session_id=session).refusal is None
    one.sent.clear()


def lose_role(one: World) -> None:
    one.step(KeysListed({ANNA: RoleGrant(AccessRole.VIEW)}))


def outlive(one: World) -> None:
    for _ in range(TICKET_NS // SECOND):
        asked(one)
        one.pass_time(SECOND)


def replace(one: World) -> None:
    for _ in range(2 * LimitSettings().visitors_max):
        given(one)


@pytest.mark.parametrize(
    ("befalls", "reason"),
    [
        (lose_session, "of which the ticket was, is over"),
        (lose_role, "'anna@desk' has view"),
        (outlive, "expired"),
        (replace, "replaced by later ones"),
        (lambda one: one.step(Suspended("lease over")), "does not lead"),
    ],
)
def test_a_ticket_that_is_over_is_refused_by_name(befalls: Callable[[World], None], reason: str) -> None:
    one = up()
    ticket = given(one)
    assert shown(one, ticket) == [""]
    befalls(one)
    (words,) = shown(one, ticket)
    assert reason in words


def test_a_session_that_ends_takes_its_tickets_back_before_its_record_is_committed() -> None:
    one = up()
    ticket = decode_ticket(given(one))
    ((session, _, _),) = present(one)
    said(one, Ask(request_id=3, what="session_end", arguments={"session_id": session}))
    rows = [(ticket.number, digest_of(encode_ticket(ticket)), ANNA)]
    arguments: dict[str, object] = {"door": "desk", "endpoint": ENDPOINT, "needs": "operate", "shown": rows}
    one.letter(b"desk", Ask(request_id=4, what="tickets_shown", arguments=arguments))
    ((_, answer),) = one.sent
    assert len(present(one)) == 1 and isinstance(answer, Answer)
    assert "is over" in str(answer.result)


def test_a_ticket_is_refused_at_another_door_and_from_another_principal() -> None:
    one = up()
    ticket = given(one)
    (words,) = shown(one, ticket, door="hall")
    assert words == "this is a ticket for the door desk, and here is hall"
    (words,) = shown(one, ticket, principal=MES)
    assert words == "this is a ticket of 'anna@desk', and 'mes-1' shows it"


def test_a_ticket_that_nobody_gave_is_refused() -> None:
    one, other = up(), up()
    ticket = decode_ticket(given(one))
    forged = [
        Ticket("root", "desk", ticket.number, bytes(32)),
        Ticket("root", "desk", ticket.number + 1, ticket.secret),
        Ticket("root/north", "desk", ticket.number, ticket.secret),
    ]
    assert all("no such ticket" in words for words in shown(one, *(encode_ticket(each) for each in forged)))
    assert "no such ticket" in shown(other, encode_ticket(ticket))[0], "one of an earlier run"


def test_secrets_are_never_the_same_and_the_key_is_not_told() -> None:
    one = up()
    secrets = {decode_ticket(given(one)).secret for _ in range(24)}
    assert len(secrets) == 24
    assert KEY not in secrets


def test_a_ticket_needs_an_open_door_a_role_and_a_session() -> None:
    one = up(needs="engineer")
    answer = asked(one, "ticket", door="desk")
    assert "needs the role engineer" in refused_with(answer)
    assert "no door 'hall' is open" in refused_with(asked(one, "ticket", door="hall"))
    one.pass_time(CLOSED_NS)
    assert "no door 'desk' is open" in refused_with(asked(one, "ticket", door="desk"))
    shown(one)
    assert "yours is not on record" in refused_with(one.ask("ticket", door="desk")), (
        "an actor of the node has no session"
    )
    assert "yours is not on record" in refused_with(asked(up_without_key(), "ticket", door="desk"))


def up_without_key() -> World:
    one = World()
    one.step(KeysListed({ANNA: RoleGrant(AccessRole.OPERATE)}))
    asked(one)
    shown(one)
    return one


def test_only_actors_of_the_node_show_tickets() -> None:
    one = up()
    one.step(KeysListed({ANNA: RoleGrant(AccessRole.ADMIN)}))
    answer = asked(one, "tickets_shown", door="desk", endpoint=ENDPOINT, needs="view")
    assert "only an actor of this node" in refused_with(answer)


def test_doors_are_bounded_and_a_door_says_what_it_needs() -> None:
    one = up()
    for number in range(DOORS_MAX - 1):
        shown(one, door=f"d{number}")
    assert "too many" in refused_with(one.ask("tickets_shown", door="more", endpoint=ENDPOINT, needs="view"))
    assert "its role is none" in refused_with(one.ask("tickets_shown", door="desk", endpoint=ENDPOINT, needs="none"))
    one.pass_time(CLOSED_NS)
    assert shown(one, door="more") == []


ZEROS = "0" * 64


@pytest.mark.parametrize(
    "text", ["", "root:desk:1", "root:desk:1:00", f"root:desk:-1:{ZEROS}", f"root:desk:9999999999999999999:{ZEROS}",
             f"root:desk:1:{ZEROS}0", f"root:desk:1:{ZEROS[1:]}G", f"{'r' * 600}:desk:1:{ZEROS}"]
)  # fmt: skip
def test_what_is_no_ticket_is_told_apart(text: str) -> None:
    with pytest.raises(DecodeError):
        decode_ticket(text)


def test_the_text_of_a_ticket_is_read_as_it_was_written() -> None:
    ticket = Ticket("root/north", "desk", 7, bytes(range(32)))
    assert decode_ticket(encode_ticket(ticket)) == ticket
