"""Speaking for a person: an admin names one in a question, and what is done is that person's, with that one's role."""

from itertools import product
from typing import Any, Final

import pytest

from albireo.codec.message import Ask
from albireo.codec.questions.declared import QUESTIONS
from albireo.codec.record import AccessGranted, Audited, SessionBegan
from albireo.machine.access.judge import AccessJudge
from albireo.machine.access.needs import needed_for
from albireo.machine.fold.people.access import AccessFold
from albireo.machine.kernel.events import KeysListed, LettersDrained
from albireo.model.access import ROLE_WORDS, AccessRole, RoleGrant
from albireo.model.instant import Instant, WallTime
from albireo.model.principal import PERSON_PREFIX, PrincipalKind, is_key_name, is_person_name, kind_of
from tests.parts.present import DESK, causes, facts, present
from tests.parts.refusals import code, refused_with
from tests.parts.root import World
from tests.parts.selecting import hello
from tests.parts.sessions_in_a_tree import ABOVE, OTHER, SITE, Site

SPEAKERS: Final = {
    "local:0": AccessRole.ADMIN,
    "root[primary]": AccessRole.ADMIN,
    "": AccessRole.ADMIN,
    "witness:w1": AccessRole.NONE,
    "mes-1": AccessRole.VIEW,
    **{f"mes-{word}": AccessRole[word.upper()] for word in ROLE_WORDS},
}
"""A principal of every kind that a link has, and programs of every role; the first program has none on record."""
PERSONS: Final = {"nobody": AccessRole.VIEW} | {f"p-{word}": AccessRole[word.upper()] for word in ROLE_WORDS}
NO_NAMES: Final = (
    "<b>anna</b>", "anna smith", "person:anna", "witness:w1", "local:0", "root[primary]", "a/b", "-a", "a\n", "é",
    "x" * 49, "x" * 64, "'; drop", "anna[backup]", "\x00", "..", "*",
)  # fmt: skip
FACE: Final = "local:0"


def judge() -> AccessJudge:
    fold = AccessFold()
    for name, role in PERSONS.items():
        if name != "nobody":
            fold.fold(AccessGranted(principal=PERSON_PREFIX + name, role=role.word))
    one = AccessJudge("root", fold)
    one.told({name: RoleGrant(role) for name, role in SPEAKERS.items() if name.startswith("mes-") and name != "mes-1"})
    return one


@pytest.mark.parametrize("speaker", SPEAKERS)
def test_a_question_is_judged_by_the_lower_role_of_both_and_only_an_admin_names_a_person(speaker: str) -> None:
    one, own = judge(), SPEAKERS[speaker]
    for what, person in product(QUESTIONS, ("", *PERSONS)):
        ask = Ask(request_id=1, what=what, person=person)
        if not person:
            may = own >= needed_for(ask)
        else:
            may = own is AccessRole.ADMIN and PERSONS[person] >= needed_for(ask) and QUESTIONS[what].is_for_persons
        assert one.lacks(speaker, ask) is not may, (what, person)
        if not may:
            refused = one.refused(speaker, ask, Instant(0), WallTime(1))
            assert refused.refusal.code == "access", (what, person)


@pytest.mark.parametrize("person", NO_NAMES)
def test_a_name_that_no_person_has_is_refused_to_an_admin_and_to_others(person: str) -> None:
    assert not is_person_name(person)
    for speaker, expected in ((FACE, "bad_value"), ("mes-engineer", "access")):
        ask = Ask(request_id=1, what="status", person=person)
        assert judge().lacks(speaker, ask)
        assert judge().refused(speaker, ask, Instant(0), WallTime(1)).refusal.code == expected


def test_nobody_on_a_link_is_a_person() -> None:
    for name in (*NO_NAMES, "anna"):
        assert kind_of(PERSON_PREFIX + name) is PrincipalKind.PERSON
        assert not is_key_name(PERSON_PREFIX + name)
    ask = Ask(request_id=1, what="status", person="p-admin")
    assert judge().lacks("person:p-admin", ask)


def up(**roles: str) -> World:
    one = World()
    one.step(KeysListed({"mes-engineer": RoleGrant(AccessRole.ENGINEER)}))
    for name, role in roles.items():
        assert refused_with(one.ask("access_grant", principal=f"person:{name}", role=role, user="root")) == ""
    return one


def spoken(one: World, what: str, person: str, by: str = FACE, **arguments: object) -> str:
    """Code of the refusal, or empty; the speaker is somewhere else."""
    ask = Ask(request_id=9, what=what, arguments=arguments, person=person)
    one.sent.clear()
    one.step(LettersDrained([(b"face", ask, (), by)], addresses={b"face": DESK}))
    one.sync()
    (answer,) = [each for to, each in one.sent if to == b"face"]
    return code(answer)  # type: ignore[arg-type]  # An answer.


def trail(one: World, action: str) -> list[tuple[str, str]]:
    entries = [each for each in one.records(Audited) if isinstance(each, Audited)]
    return [(each.principal, each.speaker) for each in entries if each.action == action]


def test_what_a_person_did_is_his_in_selection_command_force_and_audit_with_the_speaker_beside() -> None:
    one = up(anna="operate")
    hello(one)
    assert spoken(one, "select", "anna", item="sign", selection_id="s", user="anna") == ""
    ask = Ask(
        request_id=8,
        what="write",
        arguments={"item": "sign", "value": 5.0, "command_id": "c", "selection": "s"},
        person="anna",
    )
    one.letter(b"face", ask, principal=FACE)
    one.sync()
    state = one.root.folds.commands.find("c")
    assert state is not None and state.command.principal == "person:anna"
    assert spoken(one, "force", "anna", item="fan", value=1.0, for_ms=1000, reason="r", user="anna") == ""
    for action in ("selected", "write", "forced"):
        assert trail(one, action) == [("person:anna", FACE)], action
    assert trail(one, "access_granted") == [("local:0", "")], "an admin's own word has no speaker"


def test_a_selection_is_the_persons_whoever_speaks_and_no_other_persons() -> None:
    one = up(anna="operate", bob="operate")
    hello(one)
    assert spoken(one, "select", "anna", item="sign", selection_id="s") == ""
    write: dict[str, Any] = {"item": "sign", "value": 5.0, "selection": "s"}
    assert spoken(one, "write", "bob", **write, command_id="w1") == "not_selected"
    one.letter(
        b"m",
        Ask(request_id=8, what="write", arguments={**write, "command_id": "w2"}, person="anna"),
        principal="root[backup]",
    )
    one.sync()
    assert one.root.folds.commands.find("w2") is not None, "the face beside the other member speaks for the same person"


def test_a_person_is_listed_while_somebody_asks_for_him_and_the_speaker_beside() -> None:
    one = up(anna="operate")
    assert spoken(one, "status", "anna") == ""
    assert {(who, where) for _, who, where in present(one)} == {("local:0", DESK), ("person:anna", DESK)}
    began = [each.role for each in facts(one) if isinstance(each, SessionBegan) and each.principal == "person:anna"]
    assert began == ["operate"]
    one.pass_time(40 * 10**9)
    assert causes(one) == ["link", "link"]


@pytest.mark.parametrize("principal", ["mes-engineer", "witness:w1", "someone"])
def test_who_is_no_admin_and_names_a_person_is_refused_on_record_and_nobody_is_present(principal: str) -> None:
    one = up(anna="admin")
    assert spoken(one, "access_grant", "anna", principal, principal="mes-2", role="admin") == "access"
    assert trail(one, "access_refused") == [(principal, "")]
    assert "person:anna" not in [who for _, who, _ in present(one)]


def test_a_refused_person_is_on_record_with_the_speaker() -> None:
    one = up(anna="view")
    assert spoken(one, "access_grant", "anna") == "access"
    assert trail(one, "access_refused") == [("person:anna", FACE)]


def test_a_person_gets_no_ticket_for_a_door() -> None:
    one = up(anna="admin")
    assert spoken(one, "ticket", "anna", door="topics") == "access"


def test_a_persons_order_to_another_node_goes_by_the_lower_role_there_and_names_the_speaker() -> None:
    one = Site()
    roles = {"person:anna": RoleGrant(AccessRole.OPERATE, ABOVE), "face": RoleGrant(AccessRole.ADMIN, SITE)}
    one.root.access.fold.fold(AccessGranted(principal="person:anna", role="operate", node=ABOVE))
    one.step(KeysListed({"all": RoleGrant(AccessRole.ADMIN), "face": roles["face"]}))
    send = {"node": OTHER, "body": b"dose", "wait": False}
    for speaker, is_sent in (("face", False), ("all", True)):
        ask = Ask(request_id=9, what="send", arguments={**send, "command_id": f"c-{speaker}"}, person="anna")
        one.step(LettersDrained([(b"f", ask, (), speaker)]))
        one.commit()
        found = [each.asked for each in one.root.folds.messages.outbox.open.values()]
        assert [(each.principal, each.speaker) for each in found] == [("person:anna", speaker)] * is_sent


def test_the_last_admin_with_a_key_stays_one_although_a_person_is_an_admin() -> None:
    one = up(anna="admin")
    one.step(KeysListed({"boss": RoleGrant(AccessRole.ADMIN)}))
    assert code(one.ask("access_revoke", principal="boss")) == "in_use"


@pytest.mark.parametrize("name", [one for one in NO_NAMES if one != "*"])
def test_no_role_is_given_to_a_name_that_no_person_has(name: str) -> None:
    assert code(up().ask("access_grant", principal=f"person:{name}", role="view")) == "bad_value"
