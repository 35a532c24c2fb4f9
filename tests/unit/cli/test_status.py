"""`albireo status`: what it prints of a node's answer."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from albireo.cli.node.page import StatusAnswer, StatusPage, page_of
from albireo.cli.node.status import device_text, door_text, producers_table
from albireo.cli.output import show_table
from albireo.cli.pair.table import rows_of
from albireo.codec.questions.kind import UserAsked
from albireo.machine.pair.events import State
from albireo.model.instant import SECOND
from albireo.model.name_status import NameStatus
from albireo.model.status import (
    AdapterStatus,
    CatchingUp,
    DoorStatus,
    FaceAddress,
    FaceStatus,
    HandedOn,
    NodeStatus,
    PairStatus,
    ProducerLife,
    ProducerStatus,
)
from tests.parts.pair import Side, Table
from tests.parts.status import node_status


def test_it_shows_which_run_has_a_name_and_which_had_it_before(capsys: pytest.CaptureFixture[str]) -> None:
    """Two programs that share a name by mistake are told apart so."""
    earlier = (ProducerLife(3, 11), ProducerLife(5, 22))
    since_ns = 1_800_000_000 * SECOND
    known = ProducerStatus(name="meter", life=7, run=33, since_ns=since_ns, last=4, earlier=earlier)
    first = ProducerStatus(name="plc", life=1, run=44, since_ns=0, last=9, earlier=())
    show_table(producers_table([known, first]))
    head, meter, plc = capsys.readouterr().out.splitlines()
    assert head.split("\t") == ["producer", "life", "run", "since", "batches", "runs before"]
    assert meter.split("\t") == ["meter", "7", "33", "2027-01-15 08:00:00.000", "4", "22 11"]
    assert plc.split("\t") == ["plc", "1", "44", "-", "9", "-"]


@pytest.mark.parametrize(
    ("heard", "device", "text"),
    [
        (True, True, "answers"),
        (True, False, "LOST"),
        (True, None, "not tried yet"),
        (False, None, "adapter NOT HEARD"),
        (False, True, "answers"),
    ],
)
def test_a_lost_device_is_told_although_its_adapter_is_heard(heard: bool, device: bool | None, text: str) -> None:
    """The last row: an adapter of a member that stands by, which is asked for its device only."""
    one = AdapterStatus(
        name="p1", connected=heard and device is not False, heard=heard, device=device, silent_ms=0, trouble=""
    )
    assert device_text(one) == text


def answer(status: NodeStatus, **parts: Any) -> StatusAnswer:
    """All that is said of a node whose boot and history are well."""
    told = {"data": "data", "stats": {"problem": ""}, "actors": [CORE], "votes": None} | parts
    return StatusAnswer(**{name: getattr(status, name) for name in status.__struct_fields__}, **told)


CORE = {"name": "core", "state": "running", "cause": ""}


def view_of(side: Side) -> PairStatus:
    return side.status.describe(side.member, side.log, side.table.now)


def pair_page(*views: PairStatus, role: str = "active") -> StatusPage:
    return page_of(answer(node_status(views[0], role=role), members=tuple(rows_of(views))))


def test_a_node_that_is_well_takes_four_lines() -> None:
    assert page_of(answer(node_status())).lines() == [
        "root runs alone, it is no member of a pair",
        "SAFE: what is recorded is on the disk of this machine, and nowhere else",
        "12 items, 0 bad (albireo items); 0 open alarms, 0 not acknowledged (albireo cases list)",
        "Nothing is wrong.",
    ]


def test_pages_of_both_members_are_told_with_their_certificates() -> None:
    """The fingerprint that a browser shows on the first visit is compared with this one."""
    own = FaceStatus("page_primary", "", FaceAddress("https://a.plant:8443", "AB:CD"))
    other = FaceStatus("page_backup", "", FaceAddress("https://b.plant:8443", "EF:01"))
    silent = FaceStatus("night", "")
    status = replace(node_status(), faces=(own, silent))
    assert page_of(answer(status, other_faces=(other,))).lines()[3:5] == [
        "page_primary: https://a.plant:8443, certificate SHA-256 AB:CD",
        "page_backup: https://b.plant:8443, certificate SHA-256 EF:01",
    ]
    assert str(FaceAddress("http://127.0.0.1:8080")) == "http://127.0.0.1:8080"


def test_forced_items_are_told_beside_the_others() -> None:
    assert (
        "0 bad (albireo items), 2 forced (albireo forces); 0 open" in page_of(answer(node_status(forced_items=2))).plant
    )


LOST = {"name": "p1", "connected": False, "heard": True, "device": False, "silent_ms": 0, "trouble": ""}
SILENT = LOST | {"heard": False, "device": None}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"adapters": [LOST]},
            "p1 does not answer: the node's log says why",
        ),
        (
            {"adapters": [SILENT | {"trouble": "died: exit 3"}]},
            "the adapter p1 died: exit 3: albireo status -v",
        ),
        (
            {"adapters": [SILENT]},
            "p1 is not heard: start it",
        ),
        (
            {"actors": [{"name": "core", "state": "waiting", "cause": "KeyError"}]},
            "core is waiting: KeyError: it is star",
        ),
        ({"stats": {"problem": "no room"}}, "HISTORY IS AT RISK: no room"),
        ({"superseded": 2}, "2 times: a program goes on under a name that a later one has: end it"),
        ({"cases": {"open": 3, "unacked": 2}}, "2 alarms are not acknowledged: albireo cases list, then"),
        ({"cases": {"open": 1, "unacked": 1}}, "1 alarm is not acknowledged: "),
        ({"actors": None}, "the node's boot does not answer"),
        ({"log": {"admission": "", "lacks_to": 7}}, "STATE IS MISSING"),
    ],
)
def test_each_thing_that_is_wrong_has_a_next_step(changes: dict[str, Any], text: str) -> None:
    parts = {name: value for name, value in changes.items() if name in ("actors", "stats")}
    lines = page_of(
        answer(node_status(**{name: changes[name] for name in changes.keys() - parts.keys()}), **parts)
    ).lines()
    assert lines[3] == "What is wrong, and what to do:" and len(lines) == 5
    assert text in lines[4]


BLIND = {"node": "root", "adapter": "p1", "reason": "BadNoCommunication", "items": 2, "watched": 1, "names": ["co"]}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {},
            "1 watched item of p1 without a usable value, not judged (BadNoCommunication): co, ...",
        ),
        ({"watched": 0}, "2 items of p1 without a usable value (BadNoCommunication): co, ...: its unit does not"),
        ({"reason": "NaN"}, "(NaN): co, ...: the device says that it has no value"),
        ({"watched": 12, "items": 12}, "12 watched items of p1 without a usable value"),
        ({"node": "root/north"}, "1 watched item of root/north:p1 without a usable value"),
    ],
)
def test_nothing_is_wrong_is_never_said_beside_a_watched_item_that_is_bad(changes: dict[str, Any], text: str) -> None:
    lines = page_of(answer(node_status(bad=[BLIND | changes]))).lines()
    assert lines[3] == "What is wrong, and what to do:"
    assert text in lines[4]


def test_items_of_a_device_that_does_not_answer_are_told_once() -> None:
    wrong = page_of(
        answer(node_status(adapters=[LOST], bad=[BLIND, BLIND | {"reason": "BadConfigurationError"}]))
    ).wrong
    assert ["does not answer" in one.what for one in wrong] == [True, False]


def test_boot_is_not_missed_where_nobody_can_ask_it() -> None:
    assert page_of(answer(node_status(), actors=UNSET)).lines()[3:] == ["Nothing is wrong."]


def test_a_node_that_records_nothing_is_not_safe() -> None:
    assert (
        page_of(answer(node_status(log={"admission": "disk full"}))).lines()[1]
        == "NOT SAFE: nothing is recorded: disk full"
    )


def test_a_pair_says_who_leads_and_where_records_are(tmp_path: Path) -> None:
    table = Table(tmp_path)
    waiting = pair_page(view_of(table.sides[0]), role="joining")
    assert waiting.leads.startswith("NOBODY LEADS: ") and not waiting.is_safe
    table.sides[0].actions.admission.init(UserAsked(), table.now)
    table.wait_for(State.ACTIVE, State.READY)
    table.pass_time(2 * SECOND)
    good = pair_page(*(view_of(side) for side in table.sides))
    assert good.lines()[:2] == [
        "root[primary] leads, root[backup] is ready to take over",
        "SAFE: what is recorded is on the disks of primary and backup",
    ]
    assert good.wrong == ()
    table.sides[1].is_up = False
    table.pass_time(5 * SECOND)
    alone = pair_page(view_of(table.sides[0]), role="solo")
    assert alone.leads == "root[primary] leads alone, root[backup] is not heard"
    assert not alone.is_safe and "on its disk only since 20" in alone.safe
    assert any("AT RISK" in one.what for one in alone.wrong)
    way = CatchingUp(behind=9_000, late_ms=1_500, gains_per_s=3_000.0, whole_in_s=3.0, slowed_ms=50, not_before_s=4.0)
    coming = pair_page(msgspec.structs.replace(view_of(table.sides[0]), catching_up=way), role="solo")
    assert coming.safe.endswith(
        "the other member lacks 9,000 records (1.5 s), gains 3,000 a second, is whole in 3 s as it goes now, "
        "not before 4 s, as it was lost again and again; each commit waits up to 50 ms for it"
    )


def test_a_closed_door_is_told_with_the_remedy_and_an_open_one_by_who_gets_in() -> None:
    door = DoorStatus(
        endpoint="tcp://127.0.0.1:7",
        closed_because="there are no keys; what to do: ...",
        with_keys=False,
        key_trouble="",
        not_heard=0,
        history=HandedOn(),
    )
    wrong = page_of(answer(replace(node_status(), door=door))).wrong
    assert [one.what for one in wrong] == [
        "the door tcp://127.0.0.1:7 is closed, no program gets in: there are no keys; what to do: ..."
    ]
    assert door_text(door) == "door tcp://127.0.0.1:7 CLOSED"
    opened = replace(door, closed_because="", history=HandedOn(handed_on=3, refused=1))
    assert page_of(answer(replace(node_status(), door=opened))).wrong == ()
    assert door_text(opened).startswith("door tcp://127.0.0.1:7 OPEN TO EVERY PROGRAM HERE, 3 questions")
    assert "open to trusted keys" in door_text(replace(opened, with_keys=True))
    assert door_text(replace(door, endpoint="")) == door_text(None) == ""


def test_status_tells_a_name_without_an_answer_and_all_of_them_where_somebody_was_never_heard(tmp_path: Path) -> None:
    meanings = {
        "a.plant": NameStatus(addresses=("127.0.1.1",)),
        "b.plant": NameStatus(addresses=("10.0.0.5",), trouble="Temporary failure in name resolution"),
    }
    door = DoorStatus(
        endpoint="",
        closed_because="",
        with_keys=True,
        key_trouble="",
        not_heard=0,
        history=HandedOn(),
        names=meanings,
    )
    status = answer(replace(node_status(), door=door))
    assert [one.what for one in page_of(status).wrong] == [
        "b.plant stands for 10.0.0.5 here (Temporary failure in name resolution)"
    ]
    lonely = replace(status, members=tuple(rows_of([view_of(Table(tmp_path).sides[0])])))
    assert {one.what for one in page_of(lonely).wrong} >= {one.text(host) for host, one in meanings.items()}
