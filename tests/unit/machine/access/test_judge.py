"""The judge: what it remembers is bounded, and never older than what it was told."""

from albireo.codec.message import Append, Ask
from albireo.codec.record import AccessGranted, AccessRevoked
from albireo.machine.access.judge import REMEMBERED_MAX, AccessJudge
from albireo.machine.fold.people.access import AccessFold
from albireo.model.access import AccessRole, RoleGrant
from albireo.model.instant import SECOND, Instant, WallTime

BATCH = Append(entries=())
KEY = "mes-1"


def test_what_is_remembered_of_a_batchs_principal_follows_every_change() -> None:
    fold = AccessFold()
    judge = AccessJudge("root", fold)
    assert judge.lacks(KEY, BATCH)
    judge.told({KEY: RoleGrant(AccessRole.OPERATE)})
    assert not judge.lacks(KEY, BATCH)
    fold.fold(AccessRevoked(principal=KEY))
    assert judge.lacks(KEY, BATCH)
    fold.fold(AccessGranted(principal=KEY, role="operate", node="root"))
    assert not judge.lacks(KEY, BATCH)
    judge.restored(AccessFold())
    assert not judge.lacks(KEY, BATCH)
    judge.told({})
    assert judge.lacks(KEY, BATCH)


def test_names_without_end_do_not_fill_the_memory() -> None:
    judge = AccessJudge("root", AccessFold())
    for number in range(3 * REMEMBERED_MAX):
        assert judge.lacks(f"p{number}", BATCH)
        assert judge.refused(f"p{number}", BATCH, Instant(number), WallTime(1)).entry is not None
    assert max(len(judge._may_say), len(judge._refusals)) <= REMEMBERED_MAX


def test_a_claimed_name_and_a_question_are_cut_before_they_go_on_record() -> None:
    judge = AccessJudge("root", AccessFold())
    long = "x" * 1_000_000
    questions: list[tuple[str, dict[str, object]]] = [
        (long, {}),
        ("write", {"item": long, "user": long}),
        ("case_action", {"action": long, "user": [1]}),
    ]
    for what, arguments in questions:
        asked = Ask(request_id=1, what=what, arguments=arguments)
        refused = judge.refused("witness:w1", asked, Instant(0), WallTime(1))
        assert len(str(refused.refusal)) < 1_000
        for entry in filter(None, [refused.entry]):
            assert len(entry.user) + len(entry.subject) + len(entry.detail) < 1_000


def test_refusals_of_one_do_not_hide_those_of_another() -> None:
    judge = AccessJudge("root", AccessFold())
    first = judge.refused("a", BATCH, Instant(0), WallTime(1))
    again = judge.refused("a", BATCH, Instant(SECOND - 1), WallTime(1))
    other = judge.refused("b", BATCH, Instant(SECOND - 1), WallTime(1))
    assert first.entry is not None and again.entry is None and other.entry is not None
