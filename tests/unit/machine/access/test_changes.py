"""Roles on record: given, taken away, refused; and what they change, at once and while something is under way."""

from typing import Any

import pytest

from albireo.codec.message import Answer, AppendRefused, Ask, ProducerHello, WriteDone, WriteOrder
from albireo.codec.record import AccessGranted, AccessRevoked, Audited
from albireo.machine.access.changes import GRANTS_MAX, PRINCIPALS_MAX
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.events import KeysListed
from albireo.model.access import AccessRole, RoleGrant
from albireo.model.command import Outcome, Receipt
from albireo.model.instant import SECOND, Instant
from tests.parts.refusals import refused_with
from tests.parts.root import World, append, hello

KEY = "mes-1"
ADMIN = "anna@desk"


def world_with(**listed: AccessRole) -> World:
    """A node whose key directory lists these names."""
    world = World()
    names = {name.replace("_", "@"): RoleGrant(role) for name, role in listed.items()}
    world.step(KeysListed(names | {KEY: RoleGrant(AccessRole.OPERATE)}))
    return world


def asked(world: World, what: str, arguments: dict[str, object], by: str = "local:0") -> Answer:
    world.letter(b"cli", Ask(request_id=7, what=what, arguments=arguments), principal=by)
    world.sync()
    (answer,) = world.take(Answer)
    assert isinstance(answer, Answer)
    return answer


def done(world: World, what: str, **arguments: object) -> None:
    answer = asked(world, what, arguments)
    assert refused_with(answer) == ""


def refused(world: World, what: str, **arguments: object) -> str:
    before = len(world.records(AccessGranted)) + len(world.records(AccessRevoked))
    answer = asked(world, what, arguments)
    assert len(world.records(AccessGranted)) + len(world.records(AccessRevoked)) == before
    assert refused_with(answer)
    return refused_with(answer)


def row_of(world: World, name: str) -> dict[str, Any]:
    rows: Any = asked(world, "access_list", {}).result
    (found,) = [one for one in rows if one["principal"] == name]
    assert isinstance(found, dict)
    return found


def role(world: World, name: str = KEY) -> str:
    return str(row_of(world, name)["role"])


def test_a_grant_and_a_revocation_are_on_record_with_principal_and_claim() -> None:
    world = world_with(anna_desk=AccessRole.ADMIN)
    done(world, "access_grant", principal=KEY, role="engineer", user="rosa")
    assert refused_with(asked(world, "access_revoke", {"principal": KEY, "user": "rosa"}, ADMIN)) == ""
    assert world.records(AccessGranted) == [AccessGranted(principal=KEY, role="engineer")]
    assert world.records(AccessRevoked) == [AccessRevoked(principal=KEY)]
    entries = [one for one in world.records(Audited) if isinstance(one, Audited)]
    assert [(one.action, one.subject, one.user, one.principal, one.detail) for one in entries] == [
        ("access_granted", KEY, "rosa", "local:0", "engineer at every node"),
        ("access_revoked", KEY, "rosa", ADMIN, "role at every node"),
    ]


def test_what_is_on_record_takes_the_place_of_the_key_directory() -> None:
    world = world_with()
    assert (role(world), row_of(world, KEY)["is_on_record"]) == ("operate", False)
    done(world, "access_grant", principal=KEY, role="engineer", node="elsewhere")
    assert (role(world), row_of(world, KEY)["is_on_record"]) == ("view", True)
    done(world, "access_grant", principal=KEY, role="admin")
    assert role(world) == "admin"
    done(world, "access_revoke", principal=KEY, node="elsewhere")
    assert row_of(world, KEY)["grants"] == [{"role": "admin", "node": ""}]


def test_a_role_revoked_on_record_does_not_come_back_with_the_key() -> None:
    world = world_with()
    done(world, "access_revoke", principal=KEY)
    world.step(KeysListed({KEY: RoleGrant(AccessRole.ADMIN)}))
    assert role(world) == "view"


def test_the_directory_counts_as_it_is_now() -> None:
    world = world_with()
    assert role(world) == "operate"
    world.step(KeysListed({KEY: RoleGrant(AccessRole.ENGINEER)}))
    assert role(world) == "engineer"


def test_a_role_holds_from_its_commit_on() -> None:
    world = world_with()
    world.letter(b"cli", Ask(request_id=1, what="access_grant", arguments={"principal": KEY, "role": "admin"}))
    assert world.take(Answer) == [], "nothing is said before the commit"
    world.letter(b"m", Ask(request_id=2, what="access_revoke", arguments={"principal": "x"}), principal=KEY)
    (answer,) = world.take(Answer)
    assert isinstance(answer, Answer)
    assert "needs the role admin" in refused_with(answer)
    world.sync()
    assert len(world.take(Answer)) == 1
    assert role(world) == "admin"


def test_a_write_goes_on_to_its_receipt_when_its_owner_loses_the_role_and_the_next_is_refused() -> None:
    world = world_with()
    hello(world)
    order = {"item": "fan_set", "value": 5.0, "user": "rosa"}
    world.letter(b"m", Ask(request_id=1, what="write", arguments={**order, "command_id": "c1"}), principal=KEY)
    world.sync()
    (sent,) = world.take(WriteOrder)
    done(world, "access_revoke", principal=KEY)
    world.letter(b"m", Ask(request_id=2, what="write", arguments={**order, "command_id": "c2"}), principal=KEY)
    (answer,) = world.take(Answer)
    assert isinstance(answer, Answer) and isinstance(sent, WriteOrder)
    assert "needs the role operate" in refused_with(answer)
    world.letter(b"plc", WriteDone(receipt=Receipt(command_id="c1", outcome=Outcome.VERIFIED)))
    world.sync()
    (answer,) = world.take(Answer)
    assert isinstance(answer, Answer) and isinstance(answer.result, dict)
    assert (answer.request_id, answer.result["outcome"]) == (1, "verified")
    told = [(one.action, one.user, one.principal) for one in world.records(Audited) if isinstance(one, Audited)]
    assert ("write", "rosa", KEY) in told
    assert ("write_ended", "rosa", KEY) in told
    assert ("access_refused", "rosa", KEY) in told


def test_a_producer_that_loses_its_role_is_told_to_say_hello_and_then_why() -> None:
    world = world_with()
    welcome = hello(world)  # Under a local name: the letters below come from the key.
    done(world, "access_revoke", principal=KEY)
    before = world.root.samples_committed
    append(world, welcome, 1, [1.0], principal=KEY)
    (first,) = world.take(AppendRefused)
    assert isinstance(first, AppendRefused)
    assert (first.refusal.code, first.is_final) == ("access", False)
    world.letter(b"plc", ProducerHello(producer="p1", run=1), principal=KEY)
    (second,) = world.take(AppendRefused)
    assert isinstance(second, AppendRefused)
    assert (second.refusal.code, second.run) == ("access", 1)
    assert "needs the role operate at root" in str(second.refusal)
    world.sync()
    assert world.root.samples_committed == before


def test_refusals_are_on_record_once_a_second_with_the_number_left_out() -> None:
    world = world_with()
    for _ in range(100):
        world.letter(b"m", Ask(request_id=1, what="promote"), principal=KEY)
    world.letter(b"n", Ask(request_id=1, what="promote"), principal="other")
    world.now = Instant(world.now + SECOND)
    world.letter(b"m", Ask(request_id=1, what="switchover"), principal=KEY)
    world.sync()
    entries = [one for one in world.records(Audited) if isinstance(one, Audited)]
    assert [(one.principal, one.subject, one.detail) for one in entries] == [
        (KEY, "promote", "needs admin at root, has operate"),
        ("other", "promote", "needs admin at root, has view"),
        (KEY, "switchover", "needs engineer at root, has operate; 99 more before were left out"),
    ]


REFUSED = [
    ({"principal": KEY, "role": "king"}, "the roles are view, operate, engineer, admin"),
    ({"principal": "root[backup]", "role": "view"}, "a member of a pair"),
    ({"principal": "witness:w1", "role": "view"}, "a witness"),
    ({"principal": "local:1000", "role": "view"}, "a user of this machine"),
    ({"principal": "", "role": "view"}, "no name of a key"),
    ({"principal": "two words", "role": "view"}, "no key has this name"),
    ({"principal": "x" * 65, "role": "view"}, "no key has this name"),
    ({"principal": "-anna", "role": "view"}, "no key has this name"),
    ({"principal": "anna;desk", "role": "view"}, "no key has this name"),
    ({"principal": "änna", "role": "view"}, "no key has this name"),
    ({"principal": KEY, "role": "view", "node": "a\nb"}, "node takes at most"),
    ({"principal": KEY, "role": "view", "user": "u" * 101}, "user at most"),
    ({"principal": KEY, "rôle": "view"}, "unknown field"),
    ({"principal": KEY}, "missing required field"),
]


@pytest.mark.parametrize(("arguments", "reason"), REFUSED)
def test_a_grant_that_can_not_be_is_refused_with_the_reason(arguments: dict[str, object], reason: str) -> None:
    assert reason in refused(world_with(), "access_grant", **arguments)


def test_nothing_is_taken_from_whoever_has_nothing() -> None:
    world = world_with()
    assert "nothing is known of 'x'" in refused(world, "access_revoke", principal="x")
    assert "no role at 'root/north'" in refused(world, "access_revoke", principal=KEY, node="root/north")


def test_the_last_admin_stays_until_there_is_another() -> None:
    world = world_with(anna_desk=AccessRole.ADMIN)
    words = "the last admin with a key"
    assert words in refused(world, "access_revoke", principal=ADMIN)
    assert words in refused(world, "access_grant", principal=ADMIN, role="engineer")
    assert words in refused(world, "access_grant", principal=ADMIN, role="admin", node="root/north")
    assert role(world, ADMIN) == "admin"


def test_an_admin_may_go_when_another_key_is_one() -> None:
    world = world_with(anna_desk=AccessRole.ADMIN)
    done(world, "access_grant", principal=KEY, role="admin")
    done(world, "access_revoke", principal=ADMIN)
    assert "the last admin" in refused(world, "access_revoke", principal=KEY)


def test_an_admin_on_record_without_a_trusted_key_is_none() -> None:
    world = world_with(anna_desk=AccessRole.ADMIN)
    done(world, "access_grant", principal="gone", role="admin")
    assert "the last admin" in refused(world, "access_revoke", principal=ADMIN)
    done(world, "access_revoke", principal="gone")


def test_two_changes_at_once_do_not_take_the_last_two_admins() -> None:
    world = world_with(anna_desk=AccessRole.ADMIN, bert_desk=AccessRole.ADMIN)
    for number, name in enumerate((ADMIN, "bert@desk")):
        world.letter(b"cli", Ask(request_id=number, what="access_revoke", arguments={"principal": name}))
    world.sync()
    answers = {one.request_id: refused_with(one) for one in world.take(Answer) if isinstance(one, Answer)}
    assert answers[0] == ""
    assert "not committed yet" in answers[1]
    assert "the last admin" in refused(world, "access_revoke", principal="bert@desk")


def test_roles_are_bounded() -> None:
    world = world_with()
    for number in range(GRANTS_MAX):
        done(world, "access_grant", principal=KEY, role="view", node=f"root/{number}")
    assert f"{GRANTS_MAX} roles already" in refused(world, "access_grant", principal=KEY, role="view", node="one/more")
    done(world, "access_grant", principal=KEY, role="operate", node="root/0")
    folds = world.root.folds
    for number in range(PRINCIPALS_MAX):
        folds.access.fold(AccessGranted(principal=f"p{number}", role="view"))
    assert f"{PRINCIPALS_MAX} principals" in refused(world, "access_grant", principal="new", role="view")


def test_roles_on_record_outlive_a_restart() -> None:
    world = world_with()
    done(world, "access_grant", principal=KEY, role="engineer", node="root")
    folds = Folds()
    for frame in world.frames:
        folds.replay(frame)
    assert folds.snapshot() == world.root.folds.snapshot()
    assert World(Folds.restore(folds.snapshot(), 0), world.frames, epoch=2).root.access.role_of(KEY) is (
        AccessRole.ENGINEER
    )
