"""What people ordered, what was cut, what may be lost, over two real COREs: on record, shown by both, told as FORK."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from albireo.client import NodeRefused, connect
from albireo.client.consumer import Delivered, Rewound
from albireo.codec.record import Audited
from albireo.log import OsFileSystem
from albireo.model.instant import SECOND, Instant
from albireo.node.core.actor import Core
from albireo.node.member.audit_trail import audits_of
from albireo.node.member.marks import Marks
from albireo.node.member.member import PairMembership
from albireo.runtime.clock import boot_ns
from albireo.runtime.errors import ActorFailed
from tests.parts.core_pair import Plant, aside, plant, until
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow]


def audited(core: Core) -> list[Audited]:
    """From the committed log."""
    return [one for one, _ in audits_of(core.log.replay(core.log.begin_sequence - 1, core.log.committed.sequence))]


def on_record(core: Core) -> list[tuple[str, str, str]]:
    """(action, user, member it was ordered of), from the committed log."""
    return [(one.action, one.user, one.subject) for one in audited(core)]


def known_committed(core: Core) -> int:
    """Sequence up to which a record on the disk says that all is committed: a restart knows no more."""
    return core.log.header_at(core.log.committed.sequence).committed_sequence


async def order(made: Plant, member: int, what: str, **arguments: Any) -> dict[str, Any]:
    def ask() -> dict[str, Any]:
        with connect(made.data(member), timeout_s=PATIENCE_S, is_pinned=True) as client:
            answer = client.ask(what, **arguments)
            assert isinstance(answer, dict)
            return answer

    answered: dict[str, Any] = await aside(ask)
    return answered


async def refused(made: Plant, member: int, what: str, **arguments: Any) -> str:
    with pytest.raises(NodeRefused) as caught:
        await order(made, member, what, **arguments)
    return caught.value.reason


async def refuse_on_record(made: Plant) -> None:
    """Two records that only the primary has, committed: it asks nobody while it is solo."""
    await refused(made, 0, "switchover", user="ida")
    wanted = ("switchover_refused", "ida", "root[primary]")
    await until(lambda: wanted in on_record(made.cores[0]), "the refusal is on record")


async def pair_of(made: Plant, member: int) -> dict[str, Any]:
    pair: dict[str, Any] = (await order(made, member, "status"))["pair"]
    return pair


async def shown(made: Plant, member: int, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """What the member shows of the pair, once it is so: it hears of the other member a moment later."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so(pair := await pair_of(made, member)):  # noqa: ASYNC110  # Nobody announces it.
            await asyncio.sleep(0.02)
    return pair


def item(core: Core, name: str) -> object:
    known = core.root.folds.dim.by_name(f"root:pair/{name}")
    return None if known is None else core.root.folds.readings([known])[0].value


def test_orders_to_either_member_are_in_the_log_of_both(tmp_path: Path) -> None:
    wanted = [
        ("pair_init", "a client on this machine", "root[primary]"),
        ("pair_init_done", "a client on this machine", "root[primary]"),
        ("maintenance", "rosa", "root[backup]"),
        ("maintenance_done", "rosa", "root[backup]"),
        ("maintenance_end", "rosa", "root[backup]"),
        ("maintenance_end_done", "rosa", "root[backup]"),
        ("switchover", "ida", "root[primary]"),
        ("switchover_done", "ida", "root[primary]"),
    ]

    async def story() -> None:
        async with plant(tmp_path) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            await order(made, 1, "maintenance", is_on=True, user="rosa")
            await order(made, 1, "maintenance", is_on=False, user="rosa")
            await until(
                lambda: len(on_record(made.cores[0])) == 6, "four entries that the passive one could not append"
            )
            await order(made, 0, "switchover", user="ida")
            await made.wait_for("ready", "active")
            await until(lambda: all(on_record(core) == wanted for core in made.cores.values()), "the same in both logs")

    asyncio.run(story())


def test_order_committed_right_before_a_restart_is_on_record_once(tmp_path: Path) -> None:
    """The process ends with its record in the log, and not yet crossed off in the file."""

    async def story() -> None:
        async with plant(tmp_path) as made:
            await order(made, 0, "maintenance", is_on=False, user="rosa")
            await until(lambda: len(on_record(made.cores[0])) == 4, "first record and maintenance, each with its end")
            records = audited(made.cores[0])[2:]
            await made.kill(0)
            Marks(made.data(0)).waiting(records)
            core = await made.start(0)
            await made.wait_for("solo", "")
            await order(made, 0, "pair_seen", user="ida")
            await until(lambda: len(on_record(core)) >= 6, "the order given after it")
            assert [one.action for one in audited(core)][2:] == [
                "maintenance_end",
                "maintenance_end_done",
                "pair_seen",
                "pair_seen_done",
            ]
            await until(lambda: not Marks(made.data(0)).actions, "all crossed off")

    asyncio.run(story())


class Full(OsFileSystem):
    """A disk without room, until somebody makes some."""

    def __init__(self) -> None:
        self.is_full = True

    def free_bytes(self, directory: Path) -> int:
        return 0 if self.is_full else super().free_bytes(directory)


def test_a_log_that_must_be_cut_waits_for_room_and_goes_on_by_itself(tmp_path: Path) -> None:
    async def story() -> None:
        async with plant(tmp_path) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            await made.kill(1)
            await made.wait_for("solo", "")
            await refuse_on_record(made)
            await made.kill(0)
            backup = await made.start(1)
            await order(made, 1, "promote", user="rosa")
            await made.wait_for("", "solo")

            disk = Full()
            primary = await made.start(0, files=disk)
            end = primary.log.end
            pair = await shown(made, 0, lambda pair: "no_room" in pair["cases"])
            assert "bytes more" in pair["cases"]["no_room"]
            heard = backup.log.end
            await until(lambda: backup.log.committed > heard, "the other one goes on")
            assert primary.log.end == end and not made.has_ended(0)
            disk.is_full = False
            await until(lambda: made.has_ended(0) or made.state(0) == "ready", "it is cut")
            if made.has_ended(0):  # What it had folded is no more.
                with pytest.raises(ActorFailed, match="start anew"):
                    await made.kill(0)
                await made.start(0)
                await made.wait_for("ready", "active")
            await shown(made, 0, lambda pair: "no_room" not in pair["cases"])

    asyncio.run(story())


def test_both_members_tell_of_the_passive_one_s_full_disk_its_path_and_the_room_that_it_needs(tmp_path: Path) -> None:
    def fill(made: Plant) -> None:
        """More than what the segments hold that are there already."""
        with connect(made.lines[0], timeout_s=PATIENCE_S) as client:
            client.topics.create("t")
            for _ in range(8):
                client.topics.put("t", bytes(400_000))

    def standing(made: Plant) -> list[str]:
        with connect(made.data(0), timeout_s=PATIENCE_S, is_pinned=True) as client:
            return [one.item for one in client.cases()]

    async def story() -> None:
        async with plant(tmp_path) as made:
            disk = Full()
            disk.is_full = False
            await made.start(1, files=disk)
            await made.wait_for("active", "ready")
            disk.is_full = True
            await aside(lambda: fill(made))
            own = await shown(made, 1, lambda pair: "disk_refuses" in pair["cases"])
            said = own["cases"]["disk_refuses"]
            assert f"0 bytes free in {made.data(1)}" in said and "needs" in said
            await shown(made, 0, lambda pair: pair["other"]["cases"].get("disk_refuses") == said)
            async with asyncio.timeout(PATIENCE_S):
                while "root:pair/disk_refuses" not in await aside(lambda: standing(made)):
                    pass
            disk.is_full = False
            await made.wait_for("active", "ready")
            await shown(made, 0, lambda pair: "disk_refuses" not in pair["other"]["cases"])

    asyncio.run(story())


class Reader:
    """A program that follows the pair: what it has, and what it was told to forget."""

    def __init__(self, made: Plant) -> None:
        self._client = connect(made.lines, waits=False)
        self._consumer = self._client.consumer("reader")
        self.sequences: list[int] = []
        self.rewound: list[tuple[str, int]] = []

    def read_to(self, core: Core) -> None:
        """Until it has what that member has committed."""
        ends = boot_ns() + PATIENCE_S * SECOND
        while self._consumer.position != core.root.folded_to:
            assert boot_ns() < ends, f"{self._consumer.position}, wanted {core.root.folded_to}"
            for one in self._consumer.take(0.1):
                self._take(one)

    def _take(self, one: Delivered | Rewound) -> None:
        if isinstance(one, Rewound):
            self.rewound.append((one.verdict, one.position.sequence))
            self.sequences = [kept for kept in self.sequences if kept <= one.position.sequence]
        else:
            self.sequences += [frame.header.first_sequence for frame in one.frames]

    def committed_at(self, core: Core) -> Sequence[int]:
        """The member's frames up to where this reader is; the member goes on meanwhile."""
        return [one.header.first_sequence for one in core.log.replay(0, self._consumer.position.sequence)]

    def close(self) -> None:
        self._client.close()


def test_a_forced_promotion_is_on_record_told_to_readers_and_shown_until_somebody_has_looked(tmp_path: Path) -> None:
    async def story() -> None:
        async with plant(tmp_path) as made, contextlib.AsyncExitStack() as ends:
            await made.start(1)
            await made.wait_for("active", "ready")
            await made.kill(1)
            await made.wait_for("solo", "")
            await refuse_on_record(made)
            reader = ends.enter_context(contextlib.closing(Reader(made)))
            await aside(lambda: reader.read_to(made.cores[0]))
            primary = made.cores[0]
            had = primary.log.committed.sequence
            await until(lambda: known_committed(primary) >= had, "a later record says what is committed")
            await made.kill(0)

            backup = await made.start(1)
            await order(made, 1, "promote", user="rosa")
            await made.wait_for("", "solo")
            await until(lambda: ("promote_force_done", "rosa", "root[backup]") in on_record(backup), "on record")
            await aside(lambda: reader.read_to(backup))
            ((verdict, common),) = reader.rewound
            assert verdict == "fork" and common < had
            assert reader.sequences == reader.committed_at(backup)
            await until(lambda: item(backup, "history_at_risk") == 1.0, "the item of a forced promotion")

            await made.start(0)  # It finds that it committed what is no more, and starts anew.
            await until(lambda: made.has_ended(0), "its first run has ended")
            with pytest.raises(ActorFailed, match="start anew"):
                await made.kill(0)
            await made.start(0)
            await made.wait_for("ready", "active")
            kept = {"history_at_risk", "tail_quarantined"}  # Over the restart of the member that was cut.
            pair = await shown(made, 1, lambda pair: set(pair["other"]["cases"]) == kept)
            assert "history_at_risk" in pair["cases"]
            await until(lambda: item(backup, "tail_quarantined") == 1.0, "what was cut at the passive one is an item")
            await aside(lambda: reader.read_to(backup))
            assert len(reader.rewound) == 1, "the member that came back tells nobody anything else"

            for member in (0, 1):
                await order(made, member, "pair_seen", user="ida")
            await until(lambda: item(backup, "history_at_risk") == 0.0, "somebody has looked")
            await until(lambda: item(backup, "tail_quarantined") == 0.0, "at both")

    asyncio.run(story())


@pytest.mark.slow
def test_neither_a_start_nor_the_orderly_leave_of_the_other_member_is_an_alarm_but_its_loss_is(tmp_path: Path) -> None:
    def told(core: Core) -> tuple[float, float]:
        figures = core._membership.figures()
        assert figures is not None
        return figures.at_risk, figures.other_lost

    async def story() -> None:
        async with plant(tmp_path) as made:
            primary = made.cores[0]
            await made.wait_for("solo", "")
            assert told(primary) == (0.0, 0.0), "the other member has some seconds to come"
            await made.start(1)
            await made.wait_for("active", "ready")
            membership = primary._membership
            assert isinstance(membership, PairMembership)
            membership._status._began = Instant(1)  # Its start is long ago.
            await made.cores[1]._membership.stop()
            await made.kill(1)
            await made.wait_for("solo", "")
            assert told(primary) == (0.0, 0.0), "it took its leave"
            await made.start(1)
            await made.wait_for("active", "ready")
            await made.kill(1)
            await made.wait_for("solo", "")
            await until(lambda: told(primary) == (1.0, 1.0), "its loss is told at once")

    asyncio.run(story())
