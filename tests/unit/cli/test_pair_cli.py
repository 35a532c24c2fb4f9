"""What a person reads of a pair: members table, what is wrong, which of two stores is newer, what a force may cost."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from albireo.cli import cli
from albireo.cli.pair.pair import meaning_of
from albireo.cli.pair.reach import ReachedMember, untrusted
from albireo.cli.pair.table import (
    COLUMNS,
    TRUST_HINT,
    VOTER_COLUMNS,
    MemberRow,
    age_text,
    cells_of,
    guard_text,
    local_text,
    refused_text,
    rows_of,
    troubles,
    untrusted_text,
    voter_cells,
    voters_in_reach,
)
from albireo.cli.view.pair import pair_lines, plain_pair
from albireo.cli.view.render import Clock, Size, render
from albireo.cli.view.screen import Screen
from albireo.cli.view.state import LiveState, PartsTold
from albireo.codec.frame import body_crc
from albireo.codec.questions.kind import UserAsked
from albireo.log import LogConfig, OsFileSystem, StoreIdentity
from albireo.log.inspection import compare, delete_quarantined, inspect, quarantined
from albireo.log.log import Log
from albireo.log.store import store as log_store
from albireo.log.write.appending import Entry
from albireo.machine.pair.events import State
from albireo.model.instant import MS, SECOND, Instant
from albireo.model.position import EpochEntry, Position
from albireo.model.status import PairStatus, VoterStatus
from albireo.runtime import Keys
from albireo.runtime.link.key_files import new_pair
from tests.parts.other_format import OTHER, make_other
from tests.parts.pair import WALL, Side, Table
from tests.parts.status import node_status

PRIMARY, BACKUP = "root[primary]", "root[backup]"
LOG_ID = bytes(range(16))
SMALL = LogConfig(segment_bytes=8192, pending_bytes_max=1 << 20, free_bytes_min=0)


def view_of(side: Side) -> PairStatus:
    return side.status.describe(side.member, side.log, side.table.now)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A pair that goes well."""
    made = Table(tmp_path)
    made.sides[0].actions.admission.init(UserAsked(), made.now)
    made.wait_for(State.ACTIVE, State.READY)
    made.pass_time(2 * SECOND)
    return made


def test_each_member_is_a_row_as_it_says_itself(table: Table) -> None:
    rows = rows_of([view_of(table.sides[1]), view_of(table.sides[0])])
    assert [row.member for row in rows] == [PRIMARY, BACKUP], "the primary first, whoever was asked first"
    assert [row.role for row in rows] == ["ACTIVE", "passive"]
    assert [row.lag for row in rows] == [None, 0]
    assert not any(row.is_heard for row in rows)
    cells = dict(zip(COLUMNS, cells_of(rows[0]), strict=True))
    assert cells["set"] == "primary+backup" and cells["endpoint"] == "tcp://127.0.0.1:1"
    assert cells["since"].startswith("2027-01-15")
    assert cells["sees"].startswith("backup ") and "w3 " in cells["sees"]
    assert troubles(rows) == []


def test_member_that_does_not_answer_is_shown_as_last_heard(table: Table) -> None:
    rows = rows_of([view_of(table.sides[0])])
    assert rows[1].is_heard and rows[1].state == "ready" and cells_of(rows[1])[2] == "ready (heard)"
    table.sides[1].is_up = False
    table.pass_time(5 * SECOND)
    rows = rows_of([view_of(table.sides[0])])
    assert (rows[1].role, rows[1].state) == ("?", "silent")
    assert "SILENT" in cells_of(rows[0])[-1]


def test_what_is_wrong_is_said_in_words(table: Table) -> None:
    primary = table.sides[0]
    table.silent = {"witness:w3"}
    table.lose_store("witness:w2")
    table.sides[1].is_up = False
    table.pass_time(5 * SECOND)
    primary.marks.maintenance(WALL)
    said = "\n".join(troubles(rows_of([view_of(primary)])))
    assert f"{PRIMARY} reaches no majority of the voters" in said
    assert "does not reach witness:w3" in said
    assert "finds witness:w2 empty: no vote until `albireo voter reset NAME`" in said
    assert "in maintenance since 2027-01-15" in said and "maintenance --end" in said


def test_who_was_never_heard_may_lack_trust(table: Table) -> None:
    """A refused key looks like a silence from both sides; one that was heard before has another cause."""
    view = view_of(table.sides[0])
    assert TRUST_HINT not in "\n".join(troubles(rows_of([view])))
    never = {**view.voters_seen, "witness:w3": VoterStatus()}
    view = replace(view, voters_seen=never, other=replace(view.other, heard_ms=None, is_present=False))
    said = "\n".join(troubles(rows_of([view])))
    assert f"{PRIMARY} has never heard {BACKUP}, witness:w3: {TRUST_HINT}" in said


def test_members_that_run_different_topologies_are_told(table: Table) -> None:
    view = replace(view_of(table.sides[0]), topology_hash="a" * 64)
    assert troubles(rows_of([view])) == [], "the other one tells none"
    view = replace(view, other=replace(view.other, topology_hash="b" * 64))
    said = "\n".join(troubles(rows_of([view])))
    assert f"{PRIMARY} {'a' * 12}, {BACKUP} {'b' * 12}: albireo topology apply FILE" in said
    other = replace(view_of(table.sides[1]), topology_hash="a" * 64)
    assert troubles(rows_of([view, other])) == [], "each member's own word counts most"


def test_names_without_trust_here_are_told(table: Table, tmp_path: Path) -> None:
    view = view_of(table.sides[0])
    assert untrusted(view, tmp_path) == [], "without keys nobody is asked for one"
    keys = Keys.new(tmp_path / "keys", PRIMARY)
    keys.trust(BACKUP, new_pair().public)
    missing = list(view.voters_seen)
    assert untrusted(view, tmp_path) == missing and "witness:w1" in missing
    assert "keys trust witness:w1 KEY" in "\n".join(untrusted_text(missing))
    more = dict.fromkeys(("node:root/north", "plc:p1"), view.voters_seen["witness:w1"])
    view = replace(view, voters_seen={**view.voters_seen, **more})
    assert untrusted(view, tmp_path) == [*missing, "root/north"], "a node below has the key of its place, a PLC none"


def test_solo_member_is_at_risk_since_an_instant(table: Table) -> None:
    table.sides[1].is_up = False
    table.wait_for(State.SOLO, State.READY)
    assert troubles(rows_of([view_of(table.sides[0])]))[0] == (
        f"AT RISK since 2027-01-15 08:00:00.000: what {PRIMARY} records exists there only"
    )
    table.sides[1].is_up = True
    table.wait_for(State.ACTIVE, State.READY)
    assert troubles(rows_of([view_of(table.sides[0])])) == []


def test_pair_without_anybody_active_says_so_first(tmp_path: Path) -> None:
    made = Table(tmp_path)
    made.pass_time(3 * SECOND)
    said = troubles(rows_of([view_of(side) for side in made.sides]))
    assert said[0] == "NOBODY IS ACTIVE: nothing is recorded"
    assert any("albireo pair init" in line for line in said)
    assert any(
        line.startswith(f"{PRIMARY} refused: voter_empty ") for line in refused_text(rows_of([view_of(made.sides[0])]))
    )


def test_voters_table_tells_what_each_member_was_told(table: Table) -> None:
    rows = rows_of([view_of(side) for side in table.sides])
    lines = [dict(zip(VOTER_COLUMNS, cells, strict=True)) for cells in voter_cells(rows)]
    assert [(one["voter"], one["asked by"]) for one in lines[:2]] == [
        ("witness:w1", "primary"),
        ("witness:w1", "backup"),
    ]
    assert lines[0]["record"] == "4.2" and lines[0]["set"] == "primary+backup" and lines[0]["lease"].endswith(" ms")
    assert voters_in_reach(rows[0]) == (3, 3)


@pytest.mark.parametrize(("age", "text"), [(None, "NEVER"), (0, "0 ms"), (2_999, "2999 ms"), (3_000, "SILENT 3 s")])
def test_ages(age: int | None, text: str) -> None:
    assert age_text(age) == text


def test_guard_levels_in_one_word_where_they_are_alike() -> None:
    assert guard_text({}) == ""
    assert guard_text({"p1": "plc", "p2": "plc"}) == "plc"
    assert guard_text({"p1": "plc", "p2": "lease"}) == "p1 plc, p2 lease"


def test_streams_that_a_takeover_may_cut_are_named() -> None:
    assert local_text({}) == ""
    assert local_text({"samples": "both", "command": "both"}) == ""
    assert local_text({"samples": "local", "command": "both"}).endswith("may cut the newest: samples")


def live_of(side: Side) -> LiveState:
    live = LiveState()
    live.status = PartsTold(core=node_status(view_of(side), log={"admission": "this node does not lead"}))
    live.heard(Instant(SECOND))
    return live


def test_live_view_has_one_line_for_a_healthy_pair_and_two_for_one_at_risk(table: Table) -> None:
    lines = pair_lines(live_of(table.sides[0]))
    assert len(lines) == 1
    assert (
        f"{PRIMARY} leads   safe on primary and backup" in lines[0]
        and "backup ready, up to date" in lines[0]
        and "voters 3/3" in lines[0]
    )
    table.sides[1].is_up = False
    table.wait_for(State.SOLO, State.READY)
    lines = pair_lines(live_of(table.sides[0]))
    assert len(lines) == 2 and lines[1].startswith("!! AT RISK since 2027-01-15")
    assert "AT RISK since" in plain_pair(live_of(table.sides[0]))


def test_live_view_keeps_its_height_and_does_not_alarm_because_a_member_is_passive(table: Table) -> None:
    clock = Clock(Instant(SECOND), WALL)
    for side in table.sides:
        drawn = render(live_of(side), Screen(), Size(100, 24), clock, has_scenarios=False)
        assert len(drawn.renderables) == 24
    shown = render(live_of(table.sides[1]), Screen(), Size(100, 24), clock, has_scenarios=False)
    assert not any("NOTHING IS RECORDED" in str(line) for line in shown.renderables)
    assert pair_lines(LiveState()) == [] and plain_pair(LiveState()) == ""


def test_force_names_what_it_states_and_what_may_be_lost(table: Table) -> None:
    def said() -> str:
        view = view_of(table.sides[1])
        return "\n".join(meaning_of(ReachedMember(place=view.place, ask=lambda *_, **__: None, pair=view)))

    assert f"the machine of {PRIMARY} is off" in said() and "WAS HEARD" in said()
    table.sides[1].is_up = False
    table.wait_for(State.SOLO, State.READY)
    for _ in range(5):
        table.sides[0].append(table.sides[0].log.end.epoch)
        table.pass_time(200 * MS)
    end = table.sides[1].log.end.sequence
    table.sides[0].is_up, table.sides[1].is_up = False, True
    table.pass_time(2 * SECOND)
    assert f"Lost for certain: 5 acknowledged records, {end + 1} to {end + 5}." in said()
    assert "while it was alone" in said()


class Store:
    """A member's data directory with a real log in it."""

    def __init__(self, data: Path, place: str, log_id: bytes = LOG_ID) -> None:
        self.data = data
        self._drawn = iter(range(1, 1000))
        (data / "log" / "segments").mkdir(parents=True)
        identity = StoreIdentity(cluster="7f0c", node=place, log_id=log_id)
        self.log, _ = Log.open(data / "log", identity, SMALL, entropy=self._draw)

    def _draw(self, size: int) -> bytes:
        return (str(self.data) + str(next(self._drawn))).encode()[-size:].rjust(size, b"-")

    def write(self, epoch: int, count: int, branch: int = 7) -> "Store":
        """`count` records of `epoch`; the same arguments give the same records."""
        log = self.log
        if log.history.epoch != epoch:
            log.grant(EpochEntry(epoch, log.end.sequence + 1, branch))
        for _ in range(count):
            body = f"{epoch} {log.end.sequence}".encode()
            log.append([Entry(1, 16, 1, body, body_crc(body))], elapsed_ms=1, node_ns=WALL)
        log.flush()
        return self

    def commit(self) -> "Store":
        self.log.commit(self.log.durable)
        return self

    def stop(self, *, clean: bool = True, shutdown_id: str = "") -> "Store":
        self.log.close(clean=clean, shutdown_id=shutdown_id)
        return self


@pytest.fixture
def primary(tmp_path: Path) -> Store:
    return Store(tmp_path / "a", PRIMARY)


@pytest.fixture
def backup(tmp_path: Path) -> Store:
    return Store(tmp_path / "b", BACKUP)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in arguments])


def compared(first: Store, second: Store) -> tuple[dict[str, Any], str]:
    """JSON and words of `albireo stores`."""
    result = run("stores", first.data, second.data, "--json")
    answer = json.loads(result.stdout.splitlines()[-1])
    return answer, "\n".join(answer["words"])


def test_stores_that_were_stopped_together_are_equal(primary: Store, backup: Store) -> None:
    for store in (primary, backup):
        store.write(2, 5).commit().stop(shutdown_id="00ff00ff00ff00ff")
    answer, words = compared(primary, backup)
    assert answer["kind"] == "equal" and answer["newest"] is None
    assert "stopped together, cleanly, with shutdown id 00ff00ff00ff00ff" in words and "Either may lead" in words
    shown = run("stores", primary.data, backup.data)
    assert shown.exit_code == 0 and "2:5" in shown.stdout and "cleanly" in shown.stdout


def test_store_that_goes_on_behind_the_other_is_newer(primary: Store, backup: Store) -> None:
    primary.write(2, 5).commit().stop(clean=False)
    backup.write(2, 5).write(3, 4).commit().stop()
    answer, words = compared(primary, backup)
    assert (answer["kind"], answer["common"], answer["newest"]) == ("ahead", 5, BACKUP)
    assert f"{BACKUP} is newer: its last record is 3:9, that of {PRIMARY} is 2:5." in words
    assert "records 6 to 9 of epoch 3" in words and "Its epoch 3 is higher" in words
    assert f"{PRIMARY} was not stopped cleanly" in words


def test_higher_epoch_beats_more_records_and_what_goes_is_named(primary: Store, backup: Store) -> None:
    primary.write(2, 12).stop(clean=False)
    backup.write(2, 5).write(3, 2, branch=9).commit().stop()
    answer, words = compared(primary, backup)
    assert (answer["kind"], answer["common"], answer["newest"]) == ("forked", 5, BACKUP)
    assert f"Only in {PRIMARY}: records 6 to 12 of epoch 2. When it follows, this goes to its quarantine" in words
    assert "HISTORY AT RISK" not in words, "none of it was committed as far as anything in the store proves"


def test_committed_records_that_only_the_older_store_has_are_a_history_at_risk(primary: Store, backup: Store) -> None:
    primary.write(2, 8).commit().stop()
    backup.write(2, 5).write(1_000_003, 2, branch=9).commit().stop()
    answer, words = compared(backup, primary)
    assert (answer["kind"], answer["newest"]) == ("forked", BACKUP)
    assert "HISTORY AT RISK: 3 of these were committed" in words


def test_what_a_store_alone_has_is_said_whichever_is_newer(primary: Store, backup: Store) -> None:
    for store in (primary, backup):
        store.write(2, 5).commit().stop(shutdown_id="00ff00ff00ff00ff")
    identity = StoreIdentity(cluster="7f0c", node=PRIMARY, log_id=b"p" * 16)
    private, _ = Log.open(primary.data / "private", identity, SMALL)
    body = b"payload"
    private.append([Entry(1, 1, 3, body, body_crc(body))], elapsed_ms=0, node_ns=WALL)
    private.close()
    answer, words = compared(primary, backup)
    assert f"{PRIMARY} keeps samples that are not replicated: 3 so far" in words and BACKUP + " keeps" not in words
    assert [one["private"] is None for one in answer["stores"]] == [False, True]


def test_a_store_of_another_format_is_told_by_name(primary: Store, backup: Store) -> None:
    for store in (primary, backup):
        store.write(2, 1).stop()
    make_other(backup.data / "log")
    result = run("stores", primary.data, backup.data, "--json")
    assert result.exit_code == 1
    assert f"has format {OTHER}, this software reads format" in json.loads(result.stdout.splitlines()[-1])["error"]


def test_stores_that_do_not_belong_together_are_told_so(primary: Store, tmp_path: Path) -> None:
    primary.write(2, 1).stop()
    stranger = Store(tmp_path / "c", BACKUP, bytes(16)).write(2, 1).stop()
    answer, words = compared(primary, stranger)
    assert answer["kind"] == "foreign" and "What to do" in words
    assert run("stores", primary.data, stranger.data).exit_code == 1
    answer, words = compared(primary, primary)
    assert answer["kind"] == "same_store" and "same store id" in words


def test_two_stores_that_end_alike_and_differ_are_nobodys_guess(primary: Store, backup: Store) -> None:
    primary.write(2, 3).write(4, 2, branch=1).stop()
    backup.write(2, 3).write(4, 2, branch=2).stop()
    answer, words = compared(primary, backup)
    assert (answer["kind"], answer["common"], answer["newest"]) == ("forked", 3, None)
    assert "Neither can be called newer" in words and "What to do" in words


def test_looking_changes_nothing_and_needs_no_write_access(primary: Store, backup: Store) -> None:
    """Also at a store that was killed: recovery would cut and rewrite, an inspection must not."""
    for store in (primary, backup):
        store.write(2, 300).commit().write(2, 3).stop(clean=False)
    files = sorted(path for path in primary.data.rglob("*") if path.is_file())
    segments = [path for path in files if path.suffix == ".segment"]
    assert len(segments) > 2, "sealed segments are there too"
    last = segments[-1].read_bytes()
    at = last.rindex(b"2 302")
    segments[-1].write_bytes(last[:at] + b"X" + last[at + 1 :])
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
    for path in files:
        path.chmod(0o400)
    answer, _ = compared(primary, backup)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files} == before
    assert sorted(path for path in primary.data.rglob("*") if path.is_file()) == files
    torn = next(one for one in answer["stores"] if one["node"] == PRIMARY)
    assert torn["cut_from"] == 303 and torn["end"] == [2, 302] and torn["committed_sequence"] == 300
    assert answer["newest"] == BACKUP and answer["kind"] == "ahead"


def test_inspection_finds_what_a_start_would(primary: Store) -> None:
    primary.write(2, 40).commit().write(2, 2).stop(clean=False)
    seen = inspect(primary.data / "log")
    log, report = Log.open(primary.data / "log", StoreIdentity(cluster="7f0c", node=PRIMARY, log_id=LOG_ID), SMALL)
    assert seen.end == log.end == Position(2, 42)
    assert seen.committed_sequence == report.committed_sequence
    log.close()
    assert compare(seen, seen).kind == "same_store"


@pytest.mark.parametrize("broken", ["missing", "no header", "damaged header"])
def test_store_that_cannot_be_compared_is_told_with_a_remedy(primary: Store, tmp_path: Path, broken: str) -> None:
    primary.write(2, 1).stop()
    other = tmp_path / "x"
    if broken != "missing":
        (other / "log" / "segments").mkdir(parents=True)
    if broken == "damaged header":
        for name in ("store.a", "store.b"):
            (other / "log" / name).write_bytes((primary.data / "log" / name).read_bytes().replace(b"ALBH\1", b"ALBH\2"))
    result = run("stores", primary.data, other, "--json")
    answer = json.loads(result.stdout.splitlines()[-1])
    assert result.exit_code == (2 if broken == "missing" else 1)
    assert answer["error"] and answer["remedy"]


def test_quarantine_lists_what_was_cut_and_why(primary: Store) -> None:
    primary.write(2, 9).commit()
    assert "nothing that was cut is kept here" in run("quarantine", "--data", primary.data).stderr
    primary.log.cut_to(6, why="not in the holder's log", node_ns=WALL)
    primary.stop()
    answer = json.loads(run("quarantine", "--data", primary.data, "--json").stdout.splitlines()[-1])
    (cut,) = answer["quarantined"]
    assert (cut["first_sequence"], cut["last_sequence"], cut["why"]) == (7, 9, "not in the holder's log")
    assert [one.name for one in quarantined(primary.data / "log")] == [cut["name"]]
    assert "7 to 9" in run("quarantine", "--data", primary.data).stdout


def test_quarantine_is_deleted_by_name(primary: Store) -> None:
    primary.write(2, 9).commit()
    for end in (7, 6):
        primary.log.cut_to(end, why="not in the holder's log", node_ns=WALL)
    primary.stop()
    first, second = quarantined(primary.data / "log")
    refused = run("quarantine", "--delete", "of-that-name", "--data", primary.data, "--json")
    answer = json.loads(refused.stdout.splitlines()[-1])
    assert refused.exit_code == 2 and "of-that-name" in answer["error"] and answer["remedy"]
    done = run("quarantine", "--delete", first.name, "--data", primary.data, "--json")
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["deleted"] == [first.name]
    assert [one["name"] for one in answer["quarantined"]] == [second.name]
    kept = {path.name for path in (primary.data / "log" / "quarantine").iterdir()}
    assert kept == {second.name, *second.files}


def test_what_a_cut_that_is_not_finished_needs_is_not_deleted(primary: Store) -> None:
    primary.write(2, 9).commit()
    primary.log.cut_to(6, why="not in the holder's log", node_ns=WALL)
    primary.stop()
    directory = primary.data / "log"
    (cut,) = quarantined(directory)
    tag = cut.name.removesuffix(".note").partition("-")[2]
    store = log_store.Store.load(OsFileSystem(), directory)
    assert store is not None
    store.update(
        cut=log_store.CutMark(
            segment=1,
            offset=4096,
            tag=tag,
            first_sequence=7,
            last_sequence=9,
            size_bytes=1,
            when_ns=1,
            why="",
            files=(),
        )
    )
    with pytest.raises(LookupError, match="next start"):
        delete_quarantined(directory, cut.name)
    assert quarantined(directory) == [cut]


def test_rows_survive_json(table: Table) -> None:
    """`status` draws its table from what it prints as JSON."""
    rows = rows_of([view_of(side) for side in table.sides])
    again = msgspec.convert(json.loads(msgspec.json.encode(rows)), list[MemberRow])
    assert [cells_of(row) for row in again] == [cells_of(row) for row in rows]
    assert voter_cells(again) == voter_cells(rows) and refused_text(again) == refused_text(rows)
