"""Persons on record: put there, changed, disabled; who is told by what they log in; their logins."""

from typing import Any

import msgspec
import pytest

from albireo.client.credentials import new_token
from albireo.codec.message import Answer, Ask, FeedHello
from albireo.codec.people_records import CookieKeyMade, PersonChanged
from albireo.codec.record import AccessGranted, Audited, SessionEnded, Stream
from albireo.machine.fold.declared import CONTENTS, followed, shapes, upward
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.people.persons import CookieKeys, People
from albireo.machine.fold.people.sessions import SessionFold
from albireo.machine.fold.state_piece import WHOLE
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import KeysListed, LettersDrained
from albireo.model.access import AccessRole, RoleGrant
from albireo.model.instant import SECOND
from albireo.model.person import PEOPLE_MAX, TOKENS_MAX
from albireo.model.principal import PERSON_PREFIX
from tests.parts.pieces import pieces_since
from tests.parts.refusals import code, refused_with
from tests.parts.root import World
from tests.parts.root_roles import LOG, Side

WORDS = "scrypt$15$c2FsdA==$aGFzaA=="
KEY = b"k" * 32
PRINT = "ab" * 32


def done(one: World, what: str, by: str = "local:0", person: str = "", **arguments: object) -> Any:
    answer = said(one, what, by, person, **arguments)
    assert refused_with(answer) == "", refused_with(answer)
    return answer.result


def said(one: World, what: str, by: str = "local:0", person: str = "", **arguments: object) -> Answer:
    one.letter(b"face", Ask(request_id=4, what=what, arguments=arguments, person=person), principal=by)
    one.sync()
    (answer,) = one.take(Answer)
    assert isinstance(answer, Answer)
    return answer


def refused(one: World, what: str, by: str = "local:0", person: str = "", **arguments: Any) -> str:
    return code(said(one, what, by, person, **arguments))


def people(one: World) -> list[str]:
    return [each.name for each in one.root.folds.of(People)]


def test_a_person_is_put_on_record_changed_and_listed_without_secrets() -> None:
    one = World()
    row = done(
        one, "person_set", is_new=True, name="anna", password=WORDS, is_one_time=True, certificate=PRINT, user="root"
    )
    assert (row["name"], row["has_password"], row["is_one_time"], row["role"]) == ("anna", True, True, "view")
    done(one, "person_set", name="anna", password=WORDS, user="root")
    done(one, "person_set", name="anna", is_enabled=False, user="root")
    (row,) = done(one, "people")
    assert (row["is_one_time"], row["is_enabled"], row["role"]) == (False, False, "none")
    assert WORDS not in str(done(one, "people"))
    entries = [(each.action, each.subject, each.detail) for each in one.records(Audited) if isinstance(each, Audited)]
    assert entries == [
        ("person_added", "anna", "one-time password; certificate"),
        ("person_changed", "anna", "password"),
        ("person_changed", "anna", "disabled"),
    ]


@pytest.mark.parametrize(
    ("what", "arguments", "expected"),
    [
        ("person_set", {"is_new": True, "name": "anna"}, "in_use"),
        ("person_set", {"is_new": True, "name": "bob", "certificate": PRINT}, "in_use"),
        ("person_set", {"is_new": True, "name": "<b>"}, "malformed"),
        ("person_set", {"is_new": True, "name": "bob", "password": "secret"}, "malformed"),
        ("person_set", {"name": "bob"}, "unknown_name"),
        ("person_set", {"name": "anna", "token": {"digest": PRINT, "role": "king", "until_ns": 2**62}}, "bad_value"),
        ("person_set", {"name": "anna", "token": {"digest": PRINT, "role": "view", "until_ns": 1}}, "bad_value"),
        ("person_set", {"name": "anna", "end_token": 4711}, "unknown_name"),
        ("login_begin", {"name": "bob", "address": "10.0.0.1"}, "access"),
    ],
)
def test_what_can_not_be_is_refused_and_nothing_is_on_record(
    what: str, arguments: dict[str, Any], expected: str
) -> None:
    one = World()
    done(one, "person_set", is_new=True, name="anna", certificate=PRINT)
    before = len(one.records(PersonChanged))
    assert refused(one, what, **arguments) == expected
    assert len(one.records(PersonChanged)) == before


def test_the_number_of_persons_and_of_tokens_is_bounded() -> None:
    one = World()
    for number in range(PEOPLE_MAX):
        one.root.folds.of(People).fold(
            PersonChanged(
                person=msgspec.convert(
                    {"name": f"p{number}", "since_ns": 1}, type=PersonChanged.__annotations__["person"]
                )
            ),
            1,
            None,  # type: ignore[arg-type]  # The fold needs none.
        )
    assert refused(one, "person_set", is_new=True, name="anna") == "full"
    one = World()
    done(one, "person_set", is_new=True, name="anna")
    for number in range(TOKENS_MAX):
        done(one, "person_set", name="anna", token={"digest": f"{number:064x}", "role": "view", "until_ns": 2**62})
    assert refused(one, "person_set", name="anna", token={"digest": PRINT, "role": "view", "until_ns": 2**62}) == "full"


def test_only_one_change_is_under_way_so_two_faces_make_one_first_admin() -> None:
    one = World()
    for number in range(2):
        ask = Ask(request_id=number, what="person_first", arguments={"password": WORDS})
        one.letter(b"face%d" % number, ask)
    one.sync()
    codes = sorted(code(each) for each in one.take(Answer) if isinstance(each, Answer))
    assert codes == ["", "not_yet"]
    assert people(one) == ["admin"]
    assert one.records(AccessGranted) == [AccessGranted(principal="person:admin", role="admin")]
    assert done(one, "person_first", password=WORDS) == {"is_made": False, "name": ""}
    assert done(one, "people")[0]["is_one_time"] is True


def test_nobody_is_made_where_somebody_is_on_record_though_disabled() -> None:
    one = World()
    done(one, "person_set", is_new=True, name="anna")
    done(one, "person_set", name="anna", is_enabled=False)
    assert done(one, "person_first", password=WORDS)["is_made"] is False


def test_credentials_are_told_to_an_admin_and_to_no_person() -> None:
    one = World()
    one.step(KeysListed({"mes": RoleGrant(AccessRole.ENGINEER), "boss": RoleGrant(AccessRole.ADMIN)}))
    done(one, "person_first", password=WORDS)
    done(one, "person_set", name="admin", certificate=PRINT)
    for by in ("local:0", "boss", "root[backup]"):
        assert done(one, "credentials", by, name="admin")["password"] == WORDS
        assert done(one, "credentials", by, certificate=PRINT)["name"] == "admin"
    assert done(one, "credentials", name="nobody") is None
    assert refused(one, "credentials", "mes", name="admin") == "access"
    for what, arguments in (
        ("credentials", {"name": "admin"}),
        ("cookie_key", {}),
        ("login_begin", {"name": "admin", "address": "a"}),
        ("login", {"session_id": 1}),
        ("person_first", {"password": WORDS}),
    ):
        assert refused(one, what, person="admin", **arguments) == "access", what
    assert done(one, "people", person="admin"), "an admin of the page sees who is on record"


def test_the_key_of_cookies_is_made_once_and_told_to_faces_beside_a_member_only() -> None:
    one = World(ticket_key=KEY)
    one.step(KeysListed({"boss": RoleGrant(AccessRole.ADMIN)}))
    assert refused(one, "cookie_key", "boss") == "not_possible"
    told = [done(one, "cookie_key", by)["key"] for by in ("local:0", "root[backup]")]
    assert told[0] == told[1] and len(one.records(CookieKeyMade)) == 1
    (known,) = one.root.folds.of(CookieKeys)
    assert len(known.key) == 32 and known.key != KEY


def test_who_is_disabled_may_nothing_whatever_role_is_on_record() -> None:
    one = World()
    done(one, "person_first", password=WORDS)
    done(one, "person_set", is_new=True, name="anna")
    assert done(one, "status", person="admin")
    done(one, "person_set", name="admin", is_enabled=False)
    assert refused(one, "status", person="admin") == "access"
    assert done(one, "status", person="anna")


def test_a_token_may_no_more_than_its_role_and_its_person_until_it_is_taken_back() -> None:
    one = World()
    done(one, "person_first", password=WORDS)
    digest = new_token("admin").digest
    row = done(
        one, "person_set", name="admin", token={"digest": digest, "role": "operate", "until_ns": 2**62, "label": "mes"}
    )
    (token,) = row["tokens"]
    who = f"admin#{token['token_id']}"
    judge = one.root.access
    assert judge.role_of(PERSON_PREFIX + who) is AccessRole.OPERATE
    assert refused(one, "access_list", person=who) == "access"
    assert done(one, "status", person=who)
    for forged in ("admin#0", "admin#", "admin#1#2", "admin#x", "nobody#1", "#1"):
        assert refused(one, "status", person=forged) in ("access", "bad_value"), forged
    done(one, "person_set", name="admin", end_token=token["token_id"])
    assert refused(one, "status", person=who) == "access"


def login(one: World, name: str = "anna", for_s: int = 60) -> int:
    return int(done(one, "login_begin", name=name, address="10.1.1.1", for_s=for_s)["session_id"])


def sessions(one: World) -> list[int]:
    return [each.session_id for each in one.root.folds.of(SessionFold) if each.principal == "person:anna"]


def up() -> World:
    one = World()
    done(one, "person_set", is_new=True, name="anna")
    return one


def test_a_login_is_a_session_that_silence_does_not_end_but_its_time_does() -> None:
    one = up()
    number = login(one)
    assert done(one, "login", session_id=number)["principal"] == "person:anna"
    one.pass_time(50 * SECOND)
    assert sessions(one) == [number]
    one.pass_time(15 * SECOND)
    assert sessions(one) == [] and done(one, "login", session_id=number) is None
    assert [each.cause for each in one.records(SessionEnded) if isinstance(each, SessionEnded)] == ["expired"]


def test_sessions_end_ends_a_login_also_by_the_person_and_no_other_person() -> None:
    one = up()
    done(one, "person_set", is_new=True, name="bob")
    first, second = login(one), login(one)
    assert first != second
    assert refused(one, "session_end", person="bob", session_id=first) == "access"
    done(one, "session_end", person="anna", session_id=first)
    done(one, "session_end", session_id=second)
    assert sessions(one) == [] and done(one, "login", session_id=second) is None


def test_logins_of_a_person_end_as_it_is_disabled() -> None:
    one = up()
    login(one)
    done(one, "person_set", name="anna", is_enabled=False)
    one.pass_time(2 * SECOND)
    assert sessions(one) == []


def test_a_person_with_a_login_is_listed_once() -> None:
    one = up()
    number = login(one)
    ask = Ask(request_id=1, what="status", person="anna")
    one.step(LettersDrained([(b"m", ask, (), "root[backup]")], addresses={b"m": "10.0.0.2"}))
    one.sync()
    assert sessions(one) == [number]


def test_logins_of_one_person_are_bounded_and_the_oldest_gives_way() -> None:
    one = up()
    numbers = []
    for _ in range(34):
        numbers.append(login(one))
        one.pass_time(SECOND)
    assert sessions(one) == numbers[2:]


CHANGES: tuple[tuple[str, dict[str, object]], ...] = (
    ("person_set", {"is_new": True, "name": "anna"}),
    ("login_begin", {"name": "anna", "address": "a"}),
    ("cookie_key", {}),
)


def test_a_login_and_the_key_of_cookies_go_on_at_the_other_member_and_after_a_start() -> None:
    one, other = (
        Side(RootConfig(node="root", log_id=LOG, is_paired=True, ticket_key=KEY)),
        Side(RootConfig(node="root", log_id=LOG)),
    )
    one.lead()
    for what, arguments in CHANGES:
        one.letter(Ask(request_id=1, what=what, arguments=arguments), sender=b"face")
        one.commit()
    (session,) = [each for each in one.root.folds.of(SessionFold) if each.until_ms]
    other.follow(one)
    other.commit_to(other.end)
    other.lead()
    assert other.root.folds.of(SessionFold).find(session.session_id) == session
    assert other.root.sessions.goes_on(session.session_id)
    assert [each.name for each in other.root.folds.of(People)] == ["anna"]
    assert list(other.root.folds.of(CookieKeys)) == list(one.root.folds.of(CookieKeys)) != []


def test_the_stream_of_persons_stays_with_the_members() -> None:
    assert Stream.PEOPLE not in followed() and Stream.PEOPLE not in upward()
    assert set(followed()) == {int(stream) for stream, _ in CONTENTS} - {int(Stream.PEOPLE)}
    assert not {"people", "cookie_keys"} & set(shapes())


@pytest.mark.parametrize("streams", [(), (int(Stream.PEOPLE),), (int(Stream.PEOPLE), int(Stream.AUDIT))])
def test_no_follower_of_the_log_is_given_persons(streams: tuple[int, ...]) -> None:
    one = World()
    one.letter(b"f", FeedHello(follower="f", streams=streams), principal="local:0")
    answers = [each for to, each in one.sent if to == b"f"]
    feeds = one.root.feeds.leader
    wanted = [each.hello.streams for each in feeds.followers.values()]
    if streams == (Stream.PEOPLE,):
        assert getattr(answers[0], "verdict", "") == "refused" and wanted == []
    else:
        assert all(each and Stream.PEOPLE not in each for each in wanted) and wanted


def test_no_state_tells_persons_and_a_snapshot_has_them() -> None:
    one = World(ticket_key=KEY)
    done(one, "person_set", is_new=True, name="anna", password=WORDS)
    done(one, "cookie_key")
    for piece in pieces_since(one.root.folds, WHOLE, one.root.folded_to):
        assert "anna" not in str(piece.message) and not {"people", "cookie_keys"} & set(piece.message.tables)
    folds = one.root.folds
    again = Folds.restore(folds.snapshot(), folds.log_time_ms)
    assert list(again.of(People)) == list(folds.of(People))
    assert list(again.of(CookieKeys)) == list(folds.of(CookieKeys)) != []
