"""The machine of notification: who is told, when, and what becomes of a notice."""

import msgspec
import pytest

from albireo.face.notify.machine import NOTICES_MAX, RETRY_NS, SLOTS, TRIES, RecordNotice, SendNotice
from albireo.face.notify.notice import SendOutcome
from albireo.model.case import ItemCase, LifecycleStatus, Shelving
from albireo.model.instant import SECOND, Instant
from tests.parts.notify import MINUTE, Faces, case_of, duty, rules_of

ANNA, BOB, CEM = duty("anna", 1), duty("bob", 2), duty("cem", 3)


def changed(case: ItemCase, **fields: object) -> ItemCase:
    return msgspec.structs.replace(case, **fields)


def faces(**settings: object) -> Faces:
    return Faces(rules_of(ANNA, BOB, CEM, **settings))


@pytest.mark.parametrize(
    "fields",
    [
        {"is_acked": True},
        {"is_active": False},
        {"is_suppressed": True},
        {"is_unasked": True},
        {"is_out_of_service": True},
        {"shelving": Shelving.TIMED},
        {"lifecycle_status": LifecycleStatus.CLOSED},
        {"item": "root:notify/unreached"},
    ],
)
def test_a_case_that_asks_nobody_is_told_nobody(fields: dict[str, object]) -> None:
    world = faces()
    world.hear(changed(case_of(1), **fields))
    world.passes(2 * MINUTE)
    assert world.sends == []


@pytest.mark.parametrize(
    ("settings", "node", "severity", "is_told"),
    [
        ({"priorities": ("critical",)}, "root", 800, True),
        ({"priorities": ("critical",)}, "root", 799, False),
        ({"priorities": ("high",)}, "root", 600, True),
        ({"priorities": ("high",)}, "root", 599, False),
        ({"priorities": ("low",)}, "root", 599, True),
        ({"sites": ("root/north*",)}, "root/north", 500, True),
        ({"sites": ("root/north*",)}, "root", 500, False),
        ({"items": ("co_*",)}, "root", 500, True),
        ({"items": ("fan_*",)}, "root", 500, False),
    ],
)
def test_a_rule_takes_cases_by_priority_site_and_item(
    settings: dict[str, object], node: str, severity: int, is_told: bool
) -> None:
    world = faces(**settings)
    world.hear(case_of(1, node, severity=severity))
    world.run()
    assert bool(world.sends) == is_told


def test_who_does_not_acknowledge_is_followed_by_the_next_one() -> None:
    world = faces(escalate_min=10)
    world.hear(case_of(1))
    world.run()
    assert world.told() == ["anna"]
    world.passes(9 * MINUTE, MINUTE)
    assert world.told() == ["anna"]
    world.passes(MINUTE)
    assert world.told() == ["anna", "bob"]
    world.passes(60 * MINUTE, MINUTE)
    assert world.told() == ["anna", "bob", "cem"], "and nobody twice"
    assert world.unreached.count == 0
    assert len({number for number, _, _ in world.sends}) == 1


@pytest.mark.parametrize("fields", [{"is_acked": True}, {"is_active": False}, {"shelving": Shelving.ONE_SHOT}])
def test_an_end_of_the_asking_ends_the_escalation_and_the_record(fields: dict[str, object]) -> None:
    world = faces()
    world.hear(case_of(1))
    world.run()
    world.hear(changed(case_of(1), **fields))
    world.passes(60 * MINUTE, MINUTE)
    assert (world.told(), world.store) == (["anna"], {})
    world.hear(changed(case_of(1), activations=2))
    world.run()
    assert world.told() == ["anna", "anna"], "the next activation asks again"


def test_an_alarm_that_goes_and_comes_reaches_the_next_one_in_time() -> None:
    world = faces(escalate_min=10)
    world.hear(case_of(1))
    world.run()
    for activation in range(2, 40):  # Each time well within the ten minutes.
        world.passes(20 * SECOND)
        world.hear(changed(case_of(1), activations=activation - 1, is_active=False))
        world.passes(20 * SECOND)
        world.hear(changed(case_of(1), activations=activation))
        world.run()
    assert world.told() == ["anna", "bob", "cem"], "at 0, 10 and 20 minutes of 26"
    notice = world.machine.notices[0]
    assert notice.cases == (("root", 1, 31),) and "case 1.31" in notice.body, "as it was when cem was told"
    world.passes(9 * MINUTE)
    assert world.told() == ["anna", "bob", "cem", "anna"], "it came again since, so it is told anew"


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("fields", [{"is_acked": True}, {"shelving": Shelving.TIMED}, {"activations": 2}])
def test_an_alarm_that_went_is_told_to_nobody_unless_it_comes_again(fields: dict[str, object], dies: bool) -> None:
    world = faces(escalate_min=10)
    world.hear(case_of(1))
    world.run()
    world.hear(changed(case_of(1), is_active=False))
    world.passes(5 * MINUTE, MINUTE)
    if dies:
        world.begin()
    world.passes(4 * MINUTE, MINUTE)
    assert (world.told(), len(world.store)) == (["anna"], 1)
    world.hear(changed(case_of(1), **fields))
    world.passes(2 * MINUTE, MINUTE)
    assert world.told() == (["anna", "bob"] if "activations" in fields else ["anna"])
    assert len(world.store) == len(fields.keys() & {"activations"})


def test_an_alarm_that_went_for_long_begins_with_the_first_one() -> None:
    world = faces(escalate_min=10)
    world.hear(case_of(1))
    world.run()
    world.hear(changed(case_of(1), is_active=False))
    world.passes(11 * MINUTE, MINUTE)
    assert (world.told(), world.store) == (["anna"], {})
    world.hear(changed(case_of(1), activations=2))
    world.run()
    assert world.told() == ["anna", "anna"]


def test_notices_that_rest_make_room() -> None:
    world = faces(most=100, within_s=1, escalate_min=60)
    for at in range(0, NOTICES_MAX, 100):
        world.hear(*[case_of(number) for number in range(at + 1, at + 101)])
        world.passes(2 * SECOND)
    world.hear(*[changed(case_of(number), is_active=False) for number in range(1, 101)])
    world.hear(case_of(NOTICES_MAX + 1))
    world.passes(2 * SECOND)
    assert world.sends[-1][0].startswith(f"night.root.{NOTICES_MAX + 1}.")


def test_an_acknowledgement_between_record_and_send_sends_nothing() -> None:
    world = faces()
    world.hear(case_of(1))
    world.machine.heard([changed(case_of(1), is_acked=True)], (), is_whole=False, is_live=True)
    world.run()
    assert (world.sends, world.store) == ([], {})


def test_who_refuses_is_followed_at_once_and_who_is_not_reached_after_some_tries() -> None:
    world = faces()
    by = {"anna": SendOutcome.REFUSED, "bob": SendOutcome.LATER, "cem": SendOutcome.SENT}

    def answers(effect: SendNotice) -> SendOutcome:
        return by[effect.to.name]

    world.answers = answers
    world.hear(case_of(1))
    world.run()
    assert sorted((one.name, one.outcome) for one in world.machine.notices[0].tried) == [
        ("anna", SendOutcome.REFUSED),
        ("bob", SendOutcome.LATER),
    ]
    world.passes((TRIES - 1) * RETRY_NS)
    assert world.told() == ["cem"]
    assert world.machine.notices[0].tried[1].attempt == TRIES


def test_nobody_reached_is_told_and_tried_again_until_somebody_is() -> None:
    world = faces()
    world.answers = lambda _: SendOutcome.REFUSED
    world.hear(case_of(1), case_of(2))
    world.run()
    assert (world.unreached.count, world.unreached.why) == (2, "so it is")
    world.answers = lambda _: SendOutcome.SENT
    world.passes(2 * MINUTE)
    assert world.unreached.count == 0
    assert world.told() == ["anna", "anna"]


def test_who_refuses_in_each_round_is_tried_once_in_each() -> None:
    world, asked = faces(), list[str]()

    def refuses(one: SendNotice) -> SendOutcome:
        asked.append(one.to.name)
        return SendOutcome.REFUSED

    world.answers = refuses
    world.hear(case_of(1))
    world.run()
    assert asked[::2] == ["anna", "bob", "cem"], "each answer is asked for twice"
    world.passes(3 * MINUTE)
    assert asked[::2] == ["anna", "bob", "cem"] * 4
    assert (world.unreached.count, world.unreached.why) == (1, "so it is")


def test_nobody_on_duty_is_told_and_whoever_begins_is_told_then() -> None:
    world = Faces(rules_of(duty("anna", 1, weekly="wed 00:00-24:00")))  # It is a Tuesday, 22:13.
    world.hear(case_of(1))
    world.passes(MINUTE)
    assert (world.unreached.count, world.unreached.why) == (1, "nobody is on duty")
    world.passes(60 * MINUTE, 10 * SECOND)
    assert world.store == {}, "nothing is to be known of it"
    world.passes(120 * MINUTE, MINUTE)
    assert (world.told(), world.unreached.count) == (["anna"], 0)


@pytest.mark.parametrize("dies", [False, True])
def test_who_begins_after_all_on_duty_were_told_is_told_as_he_begins(dies: bool) -> None:
    anna, dora = duty("anna", 1, weekly="tue 00:00-24:00"), duty("dora", 1, weekly="wed 00:00-24:00")
    world = Faces(rules_of(anna, dora, escalate_min=10))  # It is a Tuesday, 22:13.
    world.hear(case_of(1))
    world.passes(100 * MINUTE, MINUTE)
    assert (world.told(), world.unreached.count) == (["anna"], 0)
    if dies:
        world.begin()
    world.passes(20 * MINUTE, MINUTE)
    assert world.told() == ["anna", "dora"]
    world.passes(60 * MINUTE, MINUTE)
    assert world.told() == ["anna", "dora"]
    world.hear(changed(case_of(1), is_acked=True))
    world.run()
    assert world.store == {}


def test_who_begins_and_is_not_reached_is_unreached_although_somebody_before_was() -> None:
    anna, dora = duty("anna", 1, weekly="tue 00:00-24:00"), duty("dora", 1, weekly="wed 00:00-06:00")
    world = Faces(rules_of(anna, dora, escalate_min=10))
    world.answers = lambda one: SendOutcome.REFUSED if one.to.name == "dora" else SendOutcome.SENT
    world.hear(case_of(1))
    world.passes(120 * MINUTE, MINUTE)
    assert world.unreached.count == 1 and world.told().count("anna") == 1
    world.answers = lambda _: SendOutcome.SENT
    world.passes(2 * MINUTE, MINUTE)
    assert (world.unreached.count, world.told()[-1]) == (0, "dora")
    world.passes(8 * 60 * MINUTE, MINUTE)
    assert world.unreached.count == 0, "who is on duty no more knows it, and nobody else is"


def test_an_alarm_that_came_again_while_the_next_one_begins_is_told_as_it_is() -> None:
    anna, dora = duty("anna", 1, weekly="tue 00:00-24:00"), duty("dora", 1, weekly="wed 00:00-24:00")
    world = Faces(rules_of(anna, dora, escalate_min=10))
    world.hear(case_of(1))
    world.passes(30 * MINUTE, MINUTE)
    world.hear(changed(case_of(1), is_active=False))
    world.passes(MINUTE)
    assert world.store == {}, "nobody is left to be told"
    world.hear(changed(case_of(1), activations=2))
    world.run()
    assert world.told() == ["anna", "anna"]


def test_a_notice_that_nobody_got_ends_with_its_case() -> None:
    world = Faces(rules_of(duty("anna", 1, weekly="wed 00:00-24:00")))
    world.hear(case_of(1))
    world.passes(MINUTE)
    world.hear(changed(case_of(1), is_acked=True))
    world.run()
    assert (world.machine.notices, world.unreached.count) == ([], 0)


def test_outside_the_hours_of_a_rule_a_case_waits_and_is_told_if_it_still_asks() -> None:
    world = faces(hours="wed 00:00-06:00", escalate_min=0)
    world.hear(case_of(1), case_of(2))
    world.passes(60 * MINUTE, MINUTE)
    assert world.sends == []
    world.hear(changed(case_of(2), is_active=False))
    world.passes(60 * MINUTE, MINUTE)
    assert len(world.sends) == 1


def test_many_cases_at_once_are_one_message() -> None:
    world = faces(most=3, within_s=30)
    world.hear(*[case_of(number, severity=1 + number % 999) for number in range(1, 5_001)])
    world.passes(MINUTE)
    assert len(world.sends) == 5, "of 1,000 cases each"
    notices = [notice for notice, _ in world.store.values()]
    assert len({key for notice in notices for key in notice.cases}) == 5_000
    worst = max(notices, key=lambda one: one.severity)
    assert worst.subject.startswith("[critical] root:co_") and worst.subject.endswith("hi and 999 more")
    assert len(worst.body) < 20_000


def test_few_cases_have_a_message_each_until_there_are_too_many() -> None:
    world = faces(most=3, within_s=30)
    for number in range(1, 21):
        world.hear(case_of(number))
        world.passes(SECOND)
    world.passes(40 * SECOND)
    sizes = sorted(len(notice.cases) for notice, _ in world.store.values())
    assert sizes == [1, 1, 1, 17]


def test_a_hanging_mail_server_does_not_hold_up_webhooks() -> None:
    world = faces(most=20)
    world.hear(*[case_of(number) for number in range(1, 11)])
    while any(not isinstance(one, SendNotice) for one in world.work):
        if isinstance(world.work[0], SendNotice):
            world.work.rotate(-1)
        else:
            world.step()
    assert len(world.work) == SLOTS, "of mail"
    world.machine.ruled(rules_of(duty("pager", 1, "webhook"), most=20))
    world.hear(case_of(11))
    kinds = {one.notice.tried[-1].kind for one in world.work if isinstance(one, RecordNotice)}
    assert kinds == {"webhook"}


def test_notices_are_bounded_and_what_finds_no_room_waits() -> None:
    world = faces(most=100, within_s=1, escalate_min=0)
    for at in range(0, NOTICES_MAX + 100, 100):
        world.hear(*[case_of(number) for number in range(at + 1, at + 101)])
        world.passes(2 * SECOND)
    assert len(world.machine.notices) == len(world.sends) == NOTICES_MAX
    world.hear(*[changed(case_of(number), is_acked=True) for number in range(1, 51)])
    world.passes(2 * SECOND)
    told = {key[1] for notice in world.machine.notices for key in notice.cases}
    assert told == set(range(51, NOTICES_MAX + 101))


@pytest.mark.parametrize("jump", [-(10**6) * SECOND, 0, 10**6 * SECOND])
def test_a_clock_that_is_set_neither_escalates_at_once_nor_never(jump: int) -> None:
    world = faces(escalate_min=10)
    world.hear(case_of(1))
    world.run()
    world.wall_ns += jump
    world.passes(9 * MINUTE, MINUTE)
    assert world.told() == ["anna"]
    world.passes(MINUTE)
    assert world.told() == ["anna", "bob"]


def test_after_a_takeover_with_a_clock_far_back_the_escalation_takes_its_time_once_more() -> None:
    world = faces(escalate_min=10)
    world.hear(case_of(1))
    world.run()
    world.wall_ns -= 10**6 * SECOND
    world.begin()
    world.passes(9 * MINUTE, MINUTE)
    assert world.told() == ["anna"]
    world.passes(MINUTE)
    assert world.told() == ["anna", "bob"]


def test_a_case_of_a_node_that_is_not_heard_after_a_takeover_is_not_told_again() -> None:
    world = faces()
    world.hear(case_of(1, "root/north"))
    world.run()
    known = world.cases.pop(1)
    world.silent = ("root/north",)
    world.begin()
    world.passes(5 * MINUTE, MINUTE)
    assert (world.told(), len(world.store)) == (["anna"], 1)
    world.silent = ()
    world.hear(known)
    world.run()
    assert world.told() == ["anna"]


def test_nothing_new_is_told_while_nobody_who_acts_is_heard() -> None:
    world = faces()
    world.machine.heard([case_of(1)], (), is_whole=False, is_live=False)
    assert world.machine.passed(Instant(world.now + MINUTE), world.wall_ns) == []


def test_an_outcome_is_recorded_though_another_member_leads_by_then() -> None:
    world = faces()
    world.hear(case_of(1))
    while (effect := world.leave()) is None:
        world.step()
    world.machine.lost()
    world.answer(effect)
    world.run()
    assert next(iter(world.store.values()))[0].tried[-1].outcome is SendOutcome.SENT
    assert world.machine.notices == []
