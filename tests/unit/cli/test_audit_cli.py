"""`albireo audit export` from the files of a node, and `albireo audit verify`."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from albireo.cli.node.audit import command
from albireo.cli.node.events import command as events
from albireo.codec.frame import body_crc
from albireo.codec.record import Audited, Kind, Stream, encode_records
from albireo.log import StoreIdentity
from albireo.log.log import Log
from albireo.log.write.appending import Entry
from albireo.machine.fold.folds import Folds
from albireo.model.instant import MS, SECOND, LogTime
from albireo.model.position import EpochEntry
from albireo.node.history.files.store import HistoryStore
from tests.parts.history import DAY_ZERO, LOG_ID, hot_of

pytestmark = [pytest.mark.slow]


def node_with(
    data: Path,
    users: list[str],
    stored: int | None = None,
    epoch: int = 1,
    shared: int = 0,
    principal: str = "",
    speaker: str = "",
) -> None:
    """Files of a node that was stopped: log, snapshot, and the first `stored` records in its history.

    From the record `shared` on they are of `epoch`, if that is not the first.
    """
    log, _ = Log.open(data / "log", StoreIdentity("c", "root", LOG_ID))
    log.grant(EpochEntry(1, 1, 1))
    for number, user in enumerate(users, start=1):
        if epoch > 1 and number == shared + 1:
            log.grant(EpochEntry(epoch, number, epoch))
        at_ns = DAY_ZERO + number
        audited = Audited(at_ns=at_ns, user=user, action="ack", subject="root:co", principal=principal, speaker=speaker)
        body = encode_records(0, 0, [audited])
        entry = Entry(Stream.AUDIT, Kind.RECORDS, 1, body, body_crc(body))
        log.append([entry], elapsed_ms=1, node_ns=DAY_ZERO + number * SECOND)
    log.commit(log.flush())
    frames = list(log.replay(0, log.committed.sequence))
    folds = Folds()
    store, _ = HistoryStore.open(data, "root")
    hot = hot_of(store)
    for frame in frames:
        folds.replay(frame)
        if stored is None or frame.header.last_sequence <= stored:
            hot.take(frame.header, frame.body)
    log.save_snapshot(log.committed, LogTime(folds.log_time_ms * MS), folds.snapshot())
    store.seal(hot.content(), LOG_ID.hex(), DAY_ZERO)
    log.close(clean=True)


def asked(*arguments: object) -> Result:
    return CliRunner().invoke(command, [*map(str, arguments), "--json"])


def answer_of(result: Result) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return answer


def exported(data: Path) -> Path:
    file = data.with_suffix(".jsonl")
    result = asked("export", file, "--data", data)
    assert result.exit_code == 0, result.output
    return file


def test_the_principal_stands_beside_the_user_that_was_claimed(tmp_path: Path) -> None:
    """In the export, under the chain, and in the journal; an entry without one is as it was before there were any."""
    data = tmp_path / "a"
    node_with(data, ["boss"], principal="mes-1")
    line = json.loads(exported(data).read_text().splitlines()[1])
    assert (line["entry"]["user"], line["entry"]["principal"]) == ("boss", "mes-1")
    assert asked("verify", data.with_suffix(".jsonl")).exit_code == 0
    shown = ["--from", "2000-01-01", "--to", "2100-01-01", "--data", str(data)]
    assert "boss (mes-1)" in CliRunner().invoke(events, shown).stdout
    row = json.loads(CliRunner().invoke(events, [*shown, "--json"]).stdout.splitlines()[-1])["events"][-1]
    assert (row["user"], row["principal"]) == ("boss", "mes-1")
    node_with(tmp_path / "b", ["boss"])
    assert "principal" not in exported(tmp_path / "b").read_text()


def test_the_speaker_stands_beside_the_person(tmp_path: Path) -> None:
    data = tmp_path / "a"
    node_with(data, ["anna"], principal="person:anna", speaker="local:0")
    line = json.loads(exported(data).read_text().splitlines()[1])
    assert (line["entry"]["principal"], line["entry"]["speaker"]) == ("person:anna", "local:0")
    assert asked("verify", data.with_suffix(".jsonl")).exit_code == 0
    shown = ["--from", "2000-01-01", "--to", "2100-01-01", "--data", str(data)]
    assert "anna (person:anna by local:0)" in CliRunner().invoke(events, shown).stdout


def test_an_export_is_whole_and_ends_with_the_head_of_the_node(tmp_path: Path) -> None:
    node_with(tmp_path / "a", ["ann", "bob", "eva"])
    file = exported(tmp_path / "a")
    found = answer_of(asked("verify", file))
    assert found["count"] == 3
    last = json.loads(file.read_bytes().splitlines()[-2])
    assert (last["entry"]["user"], last["entry"]["sequence"], last["head"]) == ("eva", 3, found["head"])
    noted = json.loads(file.read_bytes().splitlines()[2])["head"]
    assert answer_of(asked("verify", file, "--head", noted))["noted_at"] == 2


def test_a_wrong_line_is_named_with_why(tmp_path: Path) -> None:
    node_with(tmp_path / "a", ["ann", "bob", "eva"])
    file = exported(tmp_path / "a")
    file.write_bytes(file.read_bytes().replace(b"bob", b"eve"))
    result = asked("verify", file)
    assert (result.exit_code, answer_of(result)["line"], answer_of(result)["why"]) == (1, 3, "changed")


def test_a_cut_export_is_said_to_be_cut(tmp_path: Path) -> None:
    node_with(tmp_path / "a", ["ann", "bob", "eva"])
    file = exported(tmp_path / "a")
    file.write_bytes(file.read_bytes()[:-150])
    result = asked("verify", file)
    assert (result.exit_code, answer_of(result)["why"]) == (1, "cut")


def test_a_chain_computed_anew_is_found_by_a_noted_head(tmp_path: Path) -> None:
    node_with(tmp_path / "a", ["ann", "bob", "eva"])
    node_with(tmp_path / "b", ["ann", "eve", "eva"])
    noted = answer_of(asked("verify", exported(tmp_path / "a")))["head"]
    forged = exported(tmp_path / "b")
    assert asked("verify", forged).exit_code == 0
    assert asked("verify", forged, "--head", noted).exit_code == 1


def test_two_branches_part_where_the_log_forked(tmp_path: Path) -> None:
    node_with(tmp_path / "a", ["ann", "bob", "eva"])
    node_with(tmp_path / "b", ["ann", "bob", "eva", "zoe"], epoch=2, shared=2)
    node_with(tmp_path / "c", ["ann", "bob"])
    one, two, three = (exported(tmp_path / name) for name in "abc")
    result = asked("verify", one, two)
    found = answer_of(result)
    assert (result.exit_code, found["equal"]) == (1, 2)
    assert [part["epoch"] for part in found["part"]] == [1, 2]
    assert (asked("verify", one, one).exit_code, asked("verify", one, three).exit_code) == (0, 0)


def test_records_that_the_history_lost_are_no_export(tmp_path: Path) -> None:
    node_with(tmp_path / "a", ["ann", "bob", "eva"], stored=2)
    result = asked("export", tmp_path / "out", "--data", tmp_path / "a")
    assert result.exit_code == 1
    assert "2 of 3" in answer_of(result)["error"]
    assert not (tmp_path / "out").exists()
