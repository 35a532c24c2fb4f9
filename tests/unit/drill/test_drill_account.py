"""The drill's own judgement: a drill that can't see a loss proves nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.drill.account import gap_s, judge
from albireo.drill.fault.faults import FAULTS
from albireo.drill.fault.stores import damage_middle, damage_tail
from albireo.drill.outputs import OutputJudgement, OutputWriters
from albireo.drill.plcs import GATED_ADDRESS, LEASE_ADDRESS, STAMP_ADDRESS
from albireo.drill.rehearsal import DrillReport, Round
from albireo.log import LogConfig, StoreIdentity
from albireo.log.log import Log
from albireo.log.segment.recovery import RecoveryReport
from albireo.model.position import EpochEntry
from albireo.plant.tunnel.plc.orders import CarriedOrder
from albireo.runtime.clock import SHIFT_VARIABLE, wall_ns, write_shift
from tests.parts.log import entry_of

ACKED = {"a": range(1, 6), "b": range(1, 3)}
WHOLE = {"a": [1, 2, 3, 4, 5], "b": [1, 2]}


def test_a_whole_record_holds() -> None:
    account = judge(ACKED, {"consumer": WHOLE, "primary": WHOLE})
    assert (account.acked, account.lost, account.doubled, account.reordered) == (7, 0, 0, 0)
    assert account.details == ()


@pytest.mark.parametrize(
    ("numbers", "lost", "doubled", "reordered"),
    [
        ([1, 2, 4, 5], 1, 0, 0),
        ([], 5, 0, 0),
        ([1, 2, 2, 3, 4, 5], 0, 1, 0),
        ([1, 2, 3, 4, 5, 3], 0, 1, 1),
        ([1, 3, 2, 4, 5], 0, 0, 1),
        ([1, 2, 3, 4, 5, 6], 0, 0, 0),
    ],
)
def test_each_kind_of_harm_is_counted(numbers: list[int], lost: int, doubled: int, reordered: int) -> None:
    """More than was acknowledged is no harm: it was committed, and nobody was told."""
    account = judge(ACKED, {"consumer": WHOLE, "backup": WHOLE | {"a": numbers}})
    assert (account.lost, account.doubled, account.reordered) == (lost, doubled, reordered)
    assert bool(account.details) == bool(lost or doubled or reordered)
    assert all("backup: a:" in one for one in account.details)


def test_a_round_is_judged_by_the_worst_reader_and_by_its_own_numbers_only() -> None:
    acked = {"a": range(11, 13)}
    readers = {"consumer": {"a": [1, 1, 11, 12]}, "primary": {"a": [11]}, "backup": {"a": [11, 12, 12, 12]}}
    account = judge(acked, readers)
    assert (account.acked, account.lost, account.doubled) == (2, 1, 2)


def test_the_gap_is_the_longest_pause_that_ends_after_the_fault() -> None:
    times = [0.0, 0.01, 0.5, 0.51, 1.0, 1.01, 1.02, 1.4, 1.41, 9.0]
    assert gap_s(times, fault_at=1.005, until=2.0) == pytest.approx(7.59), "it had not ended when the round did"
    assert gap_s(times[:-1], fault_at=1.005, until=2.0) == pytest.approx(0.38)
    assert gap_s(times, fault_at=1.005, until=1.405) == pytest.approx(0.38), "a later pause is not the fault's"
    assert gap_s(times, fault_at=0.3, until=0.4) == pytest.approx(0.49), "it may have begun before"
    assert gap_s([], 1.0, 2.0) == gap_s([0.5], 1.0, 2.0) == 0.0


def a_round(**change: int | None) -> Round:
    usual: dict[str, int | None] = {
        "acked": 9,
        "lost": 0,
        "doubled": 0,
        "reordered": 0,
        "stale_writes": None,
        "stale_plain": None,
        "epoch_before": 2,
        "epoch_after": 5,
    }
    return Round(gap_s=0.1, **(usual | change))  # type: ignore[arg-type]  # One table of numbers, some of them absent.


@pytest.mark.parametrize("harm", ["lost", "doubled", "reordered", "stale_writes"])
def test_any_harm_breaks_a_round_but_plain_registers_promise_nothing(harm: str) -> None:
    assert a_round().held
    assert not a_round(**{harm: 1}).held
    assert a_round(stale_plain=3, stale_writes=0).held


def opened(data: Path) -> tuple[Log, RecoveryReport]:
    config = LogConfig(segment_bytes=8192, pending_bytes_max=1 << 20, free_bytes_min=0)
    return Log.open(data / "log", StoreIdentity(cluster="7f0c", node="root"), config)


@pytest.mark.parametrize("damage", [damage_tail, damage_middle])
def test_damage_hits_what_was_committed(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """A drill that damages zeros behind the log would hold for the wrong reason."""
    log, _ = opened(tmp_path)
    log.grant(EpochEntry(1, 1, 7))
    for number in range(200):
        log.append([entry_of(bytes([number]) * 100)], elapsed_ms=1, node_ns=number)
        log.flush()
        log.commit(log.durable)
    log.close(clean=False)
    damage(tmp_path)
    log, report = opened(tmp_path)
    log.close(clean=False)
    assert report.corrupt or report.torn


@pytest.mark.slow
def test_only_a_process_that_was_told_so_has_another_wall_clock(tmp_path: Path) -> None:
    shift = tmp_path / "shift"
    write_shift(shift, 3_600_000_000_000)
    code = (
        "import sys\nfrom pathlib import Path\nfrom albireo.runtime.clock import wall_ns, write_shift\n"
        "before = wall_ns()\nwrite_shift(Path(sys.argv[1]), 0)\nprint(before, wall_ns())"
    )
    command = [sys.executable, "-c", code, str(shift)]
    ran = subprocess.run(
        command, env={**os.environ, SHIFT_VARIABLE: str(shift)}, capture_output=True, text=True, check=True
    )
    ahead, back = map(int, ran.stdout.split())
    assert 3_500_000_000_000 < ahead - back <= 3_600_000_000_000
    assert abs(back - wall_ns()) < 60_000_000_000


def mailbox(*epochs: int) -> list[CarriedOrder]:
    return [CarriedOrder(way="mailbox", name="speed_limit", value=50, member=0, epoch=one) for one in epochs]


def plain(address: int, *words: tuple[int, ...]) -> list[CarriedOrder]:
    return [CarriedOrder(way="plain", name=str(address), words=one) for one in words]


def gated(*numbers: int) -> list[CarriedOrder]:
    return plain(GATED_ADDRESS, *((one,) for one in numbers))


def judged(
    p1: list[CarriedOrder], p2: list[CarriedOrder], p3: list[CarriedOrder], since: dict[str, int]
) -> OutputJudgement:
    return OutputWriters((), None, {"p1": p1, "p2": p2, "p3": p3}).judge(since)


def test_stale_orders_are_told_by_epoch_and_where_none_is_known_by_number() -> None:
    nothing = {"plc": 0, "gate": 0, "stamp": 0, "lease": 0}
    stamps = plain(STAMP_ADDRESS, (7, 0, 4, 1), (8, 1, 0, 1), (7, 0, 4, 2))
    numbers = plain(LEASE_ADDRESS, (1,), (3,), (2,), (3,), (4,))
    written = judged(mailbox(4, 4, 5, 4, 5), [*stamps, *numbers], gated(1, 4, 2, 3, 5), nothing)
    assert (written.stale_writes, written.stale_plain) == (3, 2)
    assert len(written.details) == 4
    clean = judged(mailbox(4, 5, 5), [*stamps[:2], *numbers[:2]], gated(1, 2, 2), nothing)
    assert (clean.stale_writes, clean.stale_plain, clean.details) == (0, 0, ())


def test_a_round_answers_for_its_own_orders_against_all_before() -> None:
    p1, p2 = mailbox(5, 4, 5), [*plain(STAMP_ADDRESS, (1, 0, 5, 1), (2, 0, 5, 2)), *plain(LEASE_ADDRESS, (1,), (2,))]
    p3 = gated(3, 2, 4)
    assert judged(p1, p2, p3, {"plc": 2, "gate": 2, "stamp": 1, "lease": 1}).stale_writes == 0
    assert judged(p1[:2], p2, p3, {"plc": 1, "gate": 2, "stamp": 1, "lease": 1}).stale_writes == 1
    assert judged(p1, p2, p3, {"plc": 2, "gate": 1, "stamp": 1, "lease": 1}).stale_writes == 1


@pytest.mark.parametrize(
    ("level", "writes", "at_plain"), [("plc", None, 0), ("gate", None, 0), ("stamp", 0, None), ("lease", 0, None)]
)
def test_outputs_that_were_not_written_are_not_called_clean(
    level: str, writes: int | None, at_plain: int | None
) -> None:
    since = {"plc": 0, "gate": 0, "stamp": 0, "lease": 0, level: 1}
    p2 = [*plain(STAMP_ADDRESS, (1, 0, 5, 1)), *plain(LEASE_ADDRESS, (1,))]
    written = judged(mailbox(5), p2, gated(1), since)
    assert (written.stale_writes, written.stale_plain) == (writes, at_plain)
    assert any(level in one for one in written.details)


def test_the_json_line_has_the_promised_keys() -> None:
    from msgspec import json as encoded

    line = json.loads(encoded.encode(DrillReport(fault="kill-active", rounds=(a_round(),), held=True)))
    assert set(line) == {"fault", "rounds", "held"}
    assert set(line["rounds"][0]) == {
        "gap_s",
        "acked",
        "lost",
        "doubled",
        "reordered",
        "stale_writes",
        "stale_plain",
        "epoch_before",
        "epoch_after",
    }


def test_every_fault_that_was_asked_for_is_there() -> None:
    asked = (
        "kill-active kill-passive pause-active cut-link cut-active cut-oneway "
        "cut-plc-active kill-voter voter-and-active "
        "restart-both power-both disk-full disk-hang sync-error corrupt-tail corrupt-middle old-disk clock-jump upgrade"
    )
    assert set(asked.split()) <= set(FAULTS)


def test_what_cannot_be_rehearsed_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without the tools that cut cables."""
    monkeypatch.setenv("PATH", "")
    result = CliRunner().invoke(cli, ["drill", "cut-link", "--json"])
    assert result.exit_code == 0
    answer = json.loads(result.stdout.splitlines()[-1])
    assert answer["fault"] == "cut-link" and answer["rounds"] == [] and answer["held"] is None
    assert "root" in answer["skipped"] or "iptables" in answer["skipped"]


def test_a_directory_that_is_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    result = CliRunner().invoke(cli, ["drill", "kill-active", "--keep", str(tmp_path), "--json"])
    assert result.exit_code == 2
    assert (tmp_path / "mine").exists()
