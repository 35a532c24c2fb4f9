"""Rules, rosters and hours: what is read, and each mistake by name, line and remedy."""

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from albireo.face.notify.hours import ALWAYS, between_mask, minute_mask, week_mask
from albireo.face.notify.rules import NotifyRules, load_rules
from albireo.model.instant import SECOND

HEAD = '[smtp]\nhost = "mail.plant"\nsender = "scada@plant.example"\n[scripts]\npager = ["page"]\n'
RULE = '[[rule]]\nname = "night"\nroster = "roster.csv"\n'
ROSTER = """name,kind,address,order,from,to,weekly
Anna,mail,anna@plant.example,1,,,mon-fri 07:00-19:00
Bob,mail,bob@plant.example,1,,,mon-fri 19:00-07:00; sat sun 07:00-24:00; sun mon 00:00-07:00
Cem,webhook,https://chat.plant/hook,2,2026-12-01,2026-12-07,
Pager,script,pager,3,,,
"""


def loaded(home: Path, rules: str = HEAD + RULE, roster: str = ROSTER) -> tuple[NotifyRules | None, list[str]]:
    (home / "notify.toml").write_text(rules)
    (home / "roster.csv").write_text(roster)
    found, mistakes = load_rules(home / "notify.toml", ZoneInfo("Europe/Vienna"))
    return found, [str(one).removeprefix(f"{home}/") for one in mistakes]


@pytest.mark.parametrize(
    ("at", "names"),
    [
        ("2026-11-30 08:00", ["Anna", "Pager"]),
        ("2026-11-30 18:59", ["Anna", "Pager"]),
        ("2026-11-30 19:00", ["Bob", "Pager"]),
        ("2026-12-05 06:59", ["Bob", "Cem", "Pager"]),
        ("2026-12-01 00:00", ["Bob", "Cem", "Pager"]),
        ("2026-12-07 23:59", ["Bob", "Cem", "Pager"]),
        ("2026-12-08 00:00", ["Bob", "Pager"]),
    ],
)
def test_who_is_on_duty(tmp_path: Path, at: str, names: list[str]) -> None:
    rules, mistakes = loaded(tmp_path)
    assert rules is not None and mistakes == []
    assert [one.name for one in rules.rules["night"].on_duty(datetime.fromisoformat(at))] == names


def test_hours_are_those_of_the_plants_zone(tmp_path: Path) -> None:
    rules, _ = loaded(tmp_path)
    assert rules is not None
    for at, shown in (("2026-03-29T00:59Z", "01:59"), ("2026-03-29T01:00Z", "03:00"), ("2026-10-25T01:00Z", "02:00")):
        local = rules.local(round(datetime.fromisoformat(at).timestamp()) * SECOND)
        assert f"{local:%H:%M}" == shown


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (HEAD, "notify.toml: the key 'rule' is missing"),
        ('zone = "Europe/Vienna"\n' + HEAD + RULE, "notify.toml:1: zone: the key 'zone' is not known here"),
        (HEAD + RULE + 'hours = "mon-fry 08:00-17:00"\n', "'mon-fry' is no day"),
        (HEAD + RULE + 'hours = "08:00-08:00"\n', "ends as it begins: for a whole day"),
        (HEAD + RULE + 'hours = "08:00-24:01"\n', "has a time that no day has"),
        (HEAD + RULE + 'priorities = ["urgent"]\n', "notify.toml:9: rule[0].priorities"),
        (HEAD + RULE + "escalade_min = 3\n", "Did you mean 'escalate_min'"),
        (HEAD + RULE + RULE, "another rule is called night"),
        (HEAD + RULE.replace("roster.csv", "none.csv"), "notify.toml:8: rule[0].roster: cannot read"),
        (HEAD.replace("scada@", "scada\\r\\nBcc: all@") + RULE, "is no address such as"),
        (HEAD + RULE + "x = [", "not TOML"),
    ],
)
def test_mistakes_of_the_rules_are_named(tmp_path: Path, rules: str, said: str) -> None:
    found, mistakes = loaded(tmp_path, rules)
    assert found is None
    assert any(said in one for one in mistakes), mistakes


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            "Anna,mail,anna@plant.example,1,,,\nBob,mail,bob@plant.example,1,,,sat 10:00-12:00",
            ":3: order: overlaps with",
        ),
        (
            "Anna,mail,a@plant.example,1,,,\nAnna,mail,a@plant.example,2,,,",
            ":3: order: Anna would be escalated to itself",
        ),
        ('Anna,mail,"a@plant.example\r\nBcc: all@x.example",1,,,', "has a line break"),
        ("Anna,mail,<b>a@plant.example,1,,,", "is no address of mail"),
        ("Anna,mail,=?utf-8?q?=0D=0Aa?=@plant.example,1,,,", "is no address of mail"),
        ("<b>Anna,mail,a@plant.example,1,,,", "can't be a name"),
        ("Anna,fax,1234,1,,,", ":2: kind: 'fax' is no kind of address. Write mail, webhook, script."),
        ("Anna,script,rm,1,,,", "'rm' is no script of the rules"),
        ("Anna,webhook,file:///etc/passwd,1,,,", "is no address of a webhook"),
        ("Anna,webhook,https://u:p@host/,1,,,", "is no address of a webhook"),
        ("Anna,webhook,https://host/ x,1,,,", "is no address of a webhook"),
        ("Anna,webhook,https://host:99999/,1,,,", "is no address of a webhook"),
        ("Anna,mail,a@plant.example,first,,,", "'first' is no order"),
        ("Anna,mail,a@plant.example,1,2026-13-01,,", "'2026-13-01' is no time"),
        ("Anna,mail,a@plant.example,1,2026-12-02,2026-12-01,", "it ends before it begins"),
        ("Anna,mail,a@plant.example,1,,9999-12-31,", "is no time"),
        ("Anna,mail,a@plant.example,1,2026-12-01,2026-12-01,wed 10:00-12:00", "none of these hours is between"),
        ("Anna,mail,a@plant.example,1,,,never", "'never' are no hours"),
        ("", "the table has no rows"),
        (
            "Anna,mail,a@plant.example,1,,," + "\nAnna,mail,a@plant.example,1,,,sat 10:00-11:00" * 500,
            "more than 500 rows",
        ),
    ],
)
def test_mistakes_of_a_roster_are_named_with_line_and_remedy(tmp_path: Path, rows: str, said: str) -> None:
    found, mistakes = loaded(tmp_path, roster=f"{ROSTER.splitlines()[0]}\n{rows}\n")
    assert found is None
    assert any(said in one for one in mistakes), mistakes[:3]


def test_one_person_may_come_twice_by_other_ways_or_at_other_times(tmp_path: Path) -> None:
    rows = (
        "Anna,mail,a@p.example,1,,,sat 10:00-11:00\nAnna,script,pager,2,,,\nAnna,mail,a@p.example,3,,,sat 11:00-12:00"
    )
    found, mistakes = loaded(tmp_path, roster=f"{ROSTER.splitlines()[0]}\n{rows}\n")
    assert found is not None and mistakes == []


@pytest.mark.parametrize(
    ("pattern", "minutes"),
    [
        ("", 10_080),
        ("mon-sun 00:00-24:00", 10_080),
        ("mon 22:00-06:00", 480),
        ("sun 23:00-01:00", 120),
        ("fri-mon 00:00-01:00", 240),
    ],
)
def test_hours_of_the_week(pattern: str, minutes: int) -> None:
    assert week_mask(pattern).bit_count() == minutes


def test_a_span_of_times_has_the_minutes_that_it_has() -> None:
    monday = datetime.fromisoformat("2026-11-30")
    assert between_mask(monday, datetime.fromisoformat("2026-12-07")) == ALWAYS
    assert between_mask(monday, monday) == 0
    assert between_mask(
        datetime.fromisoformat("2026-12-06T23:00"), datetime.fromisoformat("2026-12-07T01:00")
    ) == week_mask("sun 23:00-01:00")
    assert minute_mask(monday) == 1
