"""What an adapter may do by its role: whose word it takes, when an order must not leave, and how it stands by."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from albireo.codec.message import (
    AnyMessage,
    AppendRefused,
    ProducerHello,
    ProducerWelcome,
    RoleAsked,
    RoleTold,
    Successor,
    WriteDone,
    WriteOrder,
    WritesEnded,
)
from albireo.field.comm import Comm
from albireo.field.contract import GOES_ON, PolledColumns, WriteTenure
from albireo.field.device import KNOCK_NS
from albireo.field.role import AdapterRole
from albireo.model.command import Outcome
from albireo.model.instant import MS, Instant
from albireo.model.quality import BAD_NO_COMMUNICATION, GOOD
from albireo.runtime.actor.actor import running
from albireo.runtime.errors import ActorFailed
from albireo.runtime.link.sockets import Letter
from tests.parts.field import LONG_MS, Plc, RawDevice, RecordingCore, comm, in_loop, plc, registers_answer, until
from tests.parts.port import free_port
from tests.parts.refusals import no

ACTING = AdapterRole(is_paired=True, epoch=4, member=1)


def order(epoch: int = 4, not_after: int = 1_000 * MS, not_before: int = 0) -> WriteOrder:
    return WriteOrder(command_id="a", item_id=1, value=1.0, epoch=epoch, not_after=not_after, not_before=not_before)


@pytest.mark.parametrize(
    ("role", "told", "is_acting", "epoch"),
    [
        (AdapterRole(), RoleTold(is_acting=False, epoch=3), False, 3),
        (AdapterRole(), RoleTold(is_acting=True, epoch=3), True, 3),
        (ACTING, RoleTold(is_acting=False, epoch=2), False, 4),
        (ACTING, RoleTold(is_acting=False, epoch=5), False, 5),
        (AdapterRole(is_acting=False, epoch=5), RoleTold(is_acting=True, epoch=4), False, 5),
        (AdapterRole(is_acting=False, epoch=5), RoleTold(is_acting=True, epoch=5), True, 5),
        (AdapterRole(is_acting=False, epoch=5), RoleTold(is_acting=True, epoch=6), True, 6),
    ],
)
def test_standing_by_is_always_believed_acting_only_under_the_highest_epoch(
    role: AdapterRole, told: RoleTold, is_acting: bool, epoch: int
) -> None:
    after = role.told(told)
    assert (after.is_acting, after.epoch) == (is_acting, epoch)


@pytest.mark.parametrize(
    ("role", "ordered", "welcomed", "now", "words"),
    [
        (ACTING, order(), 4, 0, ""),
        (ACTING, order(), 4, 700 * MS, ""),
        (ACTING, order(), 4, 700 * MS + 1, "300 ms"),
        (ACTING, order(), 4, 1_000 * MS, "run out"),
        (ACTING, order(epoch=3), 3, 0, "ordered in epoch 3, now it is 4"),
        (ACTING, order(), 5, 0, "ordered in epoch 4, now it is 5"),
        (ACTING, order(epoch=5), 4, 0, ""),
        (ACTING, order(not_before=10), 4, 9, "the holder before"),
        (ACTING, order(not_before=10), 4, 10, ""),
        (AdapterRole(is_acting=False, epoch=4), order(), 4, 0, "stands by"),
        (AdapterRole(), order(), 4, 1_000 * MS - 1, ""),
        (AdapterRole(), order(), 4, 1_000 * MS, "run out"),
        (AdapterRole(), order(epoch=3), 4, 0, "epoch"),
    ],
)
def test_the_last_look_before_a_send(
    role: AdapterRole, ordered: WriteOrder, welcomed: int, now: int, words: str
) -> None:
    """In a pair a write of at most 300 ms must fit into what is left; a node that stands alone has no lease."""
    found = role.objection(ordered, welcomed, Instant(now), 300 * MS)
    assert (found == GOES_ON) == (words == "")
    assert words in found


def test_a_device_that_refuses_late_writes_itself_needs_no_time_left() -> None:
    assert ACTING.objection(order(), 4, Instant(1_000 * MS - 1), 0) == GOES_ON


@pytest.mark.parametrize(
    ("permit", "now", "goes_on"),
    [((0, 0), 5, False), ((10, 1_000 * MS), 9, False), ((10, 1_000 * MS), 10, True), ((0, 300 * MS), 1, False)],
)
def test_a_write_without_an_order_needs_the_holders_permit(permit: tuple[int, int], now: int, goes_on: bool) -> None:
    told = RoleTold(is_acting=True, epoch=4, not_before=permit[0], not_after=permit[1])
    assert (AdapterRole().told(told).own_objection(Instant(now), 300 * MS) == GOES_ON) is goes_on
    stood_down = AdapterRole().told(told).told(RoleTold(is_acting=False, epoch=4))
    assert stood_down.own_objection(Instant(now), 0) != GOES_ON


def test_the_tenure_is_of_the_highest_epoch_that_the_own_core_spoke_in() -> None:
    assert ACTING.tenure(3) == WriteTenure(epoch=4, member=1, is_paired=True)
    assert AdapterRole().tenure(7) == WriteTenure(epoch=7, member=0, is_paired=False)


ROWS = [
    {"name": "level", "kind": "holding", "address": "0"},
    {"name": "far", "kind": "holding", "address": "90"},
    {"name": "set_point", "kind": "holding", "address": "20", "type": "int16", "writable": "true"},
]


class MemberCore(RecordingCore):
    """A member's CORE: answers a hello by the role while it is passive, and hears what stands by."""

    def __init__(self, epoch: int = 3, *, leads: bool = False) -> None:
        super().__init__(epoch)
        self.leads = leads
        self.stand_down = 0
        self.run = 0
        self.asked: list[RoleAsked] = []
        self.said: list[AnyMessage] = []
        """What it said of orders and of its writes."""

    def _take(self, letter: Letter) -> None:
        if isinstance(letter.message, WriteDone | WritesEnded):
            self.said.append(letter.message)
        if isinstance(letter.message, WritesEnded):
            return
        if isinstance(letter.message, RoleAsked):
            self._sender = letter.sender
            self.asked.append(letter.message)
            self.tell(letter.sender)
        elif self.leads or isinstance(letter.message, WriteDone):
            super()._take(letter)
        else:
            self._sender = letter.sender
            if isinstance(letter.message, ProducerHello):
                self.items, self.run = letter.message.items, letter.message.run
            self.tell(letter.sender)

    def tell(self, sender: bytes) -> None:
        self.link.send(RoleTold(is_acting=self.leads, epoch=self.epoch, stand_down=self.stand_down), to=sender)

    def turn(self, *, leads: bool, epoch: int) -> None:
        self.leads, self.epoch = leads, epoch
        self.stand_down += not leads
        self.tell(self._sender)

    def ended(self) -> list[WritesEnded]:
        return [one for one in self.said if isinstance(one, WritesEnded)]


def adapter(port: int, **more: object) -> Comm:
    """As `boot` makes it on a member of a pair: it stands by until it is told otherwise."""
    return comm(
        {
            "name": "p1", "kind": "modbus", "url": f"tcp://127.0.0.1:{port}", "items": ROWS, "poll_ms": 20,
            "timeout_ms": LONG_MS, "read_gap_max": 0, "heartbeat_ms": 100, "begins_acting": False, **more,
        }
    )  # fmt: skip


def test_a_passive_member_sends_no_sample_and_writes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        core = MemberCore()
        async with plc() as device, running(core, tmp_path), running(adapter(device.port), tmp_path):
            await until(lambda: any(one.reaches for one in core.asked), "word that the device is there")
            core.link.send(
                WriteOrder(command_id="w", item_id=102, value=7, epoch=3, not_after=core.actor.now() + 10**10),
                to=core._sender,
            )
            await until(lambda: core.receipts_of("w"), "a receipt")
            assert core.receipts_of("w")[0].outcome is Outcome.REJECTED
            assert "stands by" in core.receipts_of("w")[0].detail
            assert core.batches == []
            assert device.writes == 0

    in_loop(story)


@pytest.mark.parametrize("standby", ["connected", "polling", "off"])
def test_a_promotion_begins_a_new_run_with_fresh_values(tmp_path: Path, standby: str) -> None:
    async def story() -> None:
        core = MemberCore()
        async with plc() as device, running(core, tmp_path), running(adapter(device.port, standby=standby), tmp_path):
            await until(lambda: core.asked, "an adapter that stands by")
            await device.set(3, 0, [11])
            core.turn(leads=True, epoch=5)
            await until(lambda: core.last_of("level") == (11, GOOD), "a sample")
            assert len({one.run for one in core.hellos}) == 1
            core.turn(leads=False, epoch=6)
            asked = len(core.asked)
            await until(lambda: len(core.asked) > asked, "the adapter stands by again")
            seen, told = len(core.batches), len(core.history("p1/acquired"))
            await device.set(3, 0, [12])
            core.turn(leads=True, epoch=7)
            await until(lambda: core.last_of("level") == (12, GOOD), "a sample of the next tenure")
            assert len({one.run for one in core.hellos}) == 2
            assert len(core.batches) > seen
            assert (11, GOOD) not in core.history("level")[-1:]
            counts = core.history("p1/acquired")
            assert (0, GOOD) < counts[told] <= counts[0], "those of the tenure before do not count"

    in_loop(story)


def test_no_sample_is_sent_between_two_tenures(tmp_path: Path) -> None:
    """What was under way when the role was lost is dropped, also after CORE asks again: it belongs to no holder."""

    async def story() -> None:
        core = MemberCore(leads=True)
        async with plc() as device, running(core, tmp_path), running(adapter(device.port), tmp_path):
            await device.set(3, 0, [1])
            await until(lambda: core.last_of("level") == (1, GOOD), "a sample")
            core.is_deaf = True
            await device.set(3, 0, [2])
            core.turn(leads=False, epoch=4)
            core.is_deaf = False
            await until(lambda: core.asked, "the adapter stands by")
            await device.set(3, 0, [3])
            core.turn(leads=True, epoch=5)
            await until(lambda: core.last_of("level") == (3, GOOD), "a sample")
            assert (2, GOOD) not in core.history("level")

    in_loop(story)


class Held(RawDevice):
    """Reads its register at once, and answers when it may."""

    def __init__(self) -> None:
        super().__init__(lambda unit, function, request: registers_answer(request, self.value))
        self.value = 1
        self.under_way = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def about_to_answer(self) -> None:
        self.under_way += 1
        await self.may_answer.wait()
        self.under_way -= 1


def test_a_poll_that_outlasts_two_changes_of_the_role_is_no_sample_of_the_second_tenure(tmp_path: Path) -> None:
    """Found under load: its answer was read in the tenure before, and handed over as the first sample of this one."""

    async def story() -> None:
        core, device = MemberCore(leads=True), Held()
        async with device, running(core, tmp_path), running(adapter(device.port, items=ROWS[:1]), tmp_path):
            await until(lambda: core.last_of("level") == (1, GOOD), "a sample")
            device.value = 2
            device.may_answer.clear()
            await until(lambda: device.under_way, "a poll that was not answered")
            core.turn(leads=False, epoch=4)
            await until(lambda: core.asked, "the adapter stands by")
            core.turn(leads=True, epoch=5)
            await until(lambda: len({one.run for one in core.hellos}) == 2, "the second tenure")
            device.value = 3
            device.may_answer.set()
            await until(lambda: core.last_of("level") == (3, GOOD), "a sample")
            assert (2, GOOD) not in core.history("level")

    in_loop(story)


def test_an_order_whose_time_ends_behind_another_one_has_expired_and_is_not_sent(tmp_path: Path) -> None:
    """The device is slow to answer; the clock is looked at once more before the next bytes leave."""

    async def story() -> None:
        core, device = MemberCore(leads=True), Held()
        rows = [ROWS[0] | {"writable": "true", "type": "int16"}]
        async with device, running(core, tmp_path), running(adapter(device.port, items=rows), tmp_path):
            await until(lambda: core.last_of("level") == (1, GOOD), "a sample")
            device.may_answer.clear()
            await until(lambda: device.under_way, "the line is taken")
            over_at = Instant(core.actor.now() + 1_000 * MS)
            late = WriteOrder(command_id="late", item_id=core.id_of("level"), value=9, epoch=3, not_after=over_at)
            core.link.send(late, to=core._sender)
            await until(lambda: core.actor.now() > over_at, "its time is over")
            device.may_answer.set()
            await until(lambda: core.receipts_of("late"), "a receipt")
            receipt = core.receipts_of("late")[0]
            assert (receipt.outcome, receipt.detail) == (Outcome.EXPIRED, "never sent: its time has run out")

    in_loop(story)


def _greeting(port: int) -> Comm:
    """An adapter that begins with a hello."""
    return adapter(port, begins_acting=True)


def test_an_answer_to_a_hello_of_before_makes_nobody_act(tmp_path: Path) -> None:
    """The welcome was on its way when the role was lost: what it opens is closed already."""

    async def story() -> None:
        core = MemberCore()
        async with plc() as device, running(core, tmp_path), running(_greeting(device.port), tmp_path):
            await until(lambda: core.asked, "an adapter that stands by")
            ids = tuple(range(100, 100 + len(core.items)))
            welcome = ProducerWelcome(
                producer_id=7, last_sequence=0, item_ids=ids, epoch=9, credit_bytes=1 << 20, run=core.run
            )
            core.link.send(welcome, to=core._sender)
            core.order("w", "set_point", 3, epoch=9)
            await until(lambda: core.receipts_of("w"), "a receipt")
            assert "stands by" in core.receipts_of("w")[0].detail
            assert core.batches == []
            core.turn(leads=True, epoch=5)
            await until(lambda: core.last_of("level") == (0, GOOD), "a sample")

    in_loop(story)


@pytest.mark.slow
@pytest.mark.parametrize(("standby", "polls"), [("connected", False), ("polling", True)])
def test_what_a_passive_member_asks_of_its_device(tmp_path: Path, standby: str, polls: bool) -> None:
    """Connected: one block now and then. Polling: all of them, each period."""

    async def story() -> None:
        core = MemberCore()
        async with plc() as device, running(core, tmp_path), running(adapter(device.port, standby=standby), tmp_path):
            await until(lambda: any(one.reaches for one in core.asked), "a device that is reached")
            before, asked, began = device.reads, len(core.asked), core.actor.now()

            def knocks() -> float:
                """As many as fit in since then, with one at either end."""
                return (core.actor.now() - began) / KNOCK_NS + 2

            if polls:
                await until(lambda: device.reads - before > 3 * knocks(), "many more reads than knocks")
            else:
                await until(lambda: len(core.asked) > asked + 1, "a second")
                assert device.reads - before <= knocks()

    in_loop(story)


@pytest.mark.slow
def test_standby_off_leaves_the_device_alone_until_it_leads_and_when_it_leads_no_more(tmp_path: Path) -> None:
    async def story() -> None:
        core = MemberCore()
        async with RawDevice(lambda unit, function, request: registers_answer(request)) as device:
            async with running(core, tmp_path), running(adapter(device.port, standby="off"), tmp_path):
                await until(lambda: len(core.asked) > 1, "the second word of an adapter that stands by")
                assert device.connections == 0
                core.turn(leads=True, epoch=5)
                await until(lambda: core.last_of("level") == (7, GOOD), "a sample")
                told = len(core.asked)
                core.turn(leads=False, epoch=6)
                # The poll under way ends first. Words from before it led say the same.
                await until(lambda: len(core.asked) > told and core.asked[-1].reaches is None, "word that it is closed")
                before, asked = len(device.requests), len(core.asked)
                await until(lambda: len(core.asked) > asked, "another second")
                assert (device.connections, len(device.requests)) == (1, before)

    in_loop(story)


@pytest.mark.slow
def test_a_passive_member_tells_of_a_device_that_it_lost(tmp_path: Path) -> None:
    async def story() -> None:
        core = MemberCore()
        async with plc() as device, running(core, tmp_path), running(adapter(device.port), tmp_path):
            await until(lambda: any(one.reaches for one in core.asked), "a device that is reached")
            await device.stop()
            await until(lambda: core.asked[-1].reaches is False, "a loss")
            core.turn(leads=True, epoch=5)
            await until(lambda: core.last_of("p1/connected") == (False, GOOD), "the loss, told by who leads now")

    in_loop(story)


@pytest.mark.slow
@pytest.mark.parametrize("was_there", [True, False], ids=["lost", "never there"])
def test_a_member_that_takes_over_while_the_device_is_away_marks_every_item_at_once(
    tmp_path: Path, was_there: bool
) -> None:
    """The values of the holder before would pass for live ones otherwise: nothing else is said of a device that stays
    away."""

    async def story() -> None:
        core, device = MemberCore(), Plc(free_port())
        own = [one["name"] for one in ROWS]
        async with running(core, tmp_path), running(adapter(device.port), tmp_path):
            if was_there:
                await device.start()
                await until(lambda: any(one.reaches for one in core.asked), "a device that is reached")
                await device.stop()
            await until(lambda: core.asked and core.asked[-1].reaches is False, "a loss")
            for epoch in (5, 7):
                core.batches.clear()
                core.turn(leads=True, epoch=epoch)
                await until(lambda: all(core.last_of(name) for name in own), "word of every item")
                assert {core.last_of(name) for name in own} == {(0, BAD_NO_COMMUNICATION)}
                asked = len(core.asked)
                core.turn(leads=False, epoch=epoch + 1)
                await until(lambda: len(core.asked) > asked, "the adapter stands by again")  # noqa: B023  # At once.

    in_loop(story)


def test_a_device_that_was_never_there_is_told_as_lost(tmp_path: Path) -> None:
    async def story() -> None:
        core = MemberCore()
        async with running(core, tmp_path), running(adapter(free_port()), tmp_path):
            await until(lambda: any(one.reaches is False for one in core.asked), "a loss")

    in_loop(story)


class GatedPlc(Plc):
    """Carries out a write when it is let."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.gate = asyncio.Event()
        self.came = 0

    async def _accessed(
        self, function: int, start: int, address: int, count: int, registers: list[int], values: object
    ) -> None:
        if values is not None:
            self.came += 1
            await self.gate.wait()
        await super()._accessed(function, start, address, count, registers, values)


async def leading(core: MemberCore) -> None:
    """Until the adapter acts and is known."""
    await until(lambda: core.last_of("p1/connected") == (True, GOOD), "an adapter that acts")


def test_told_to_stand_by_it_says_at_once_that_it_writes_no_more_and_says_it_once(tmp_path: Path) -> None:
    async def story() -> None:
        core = MemberCore(leads=True)
        async with plc() as device, running(core, tmp_path), running(adapter(device.port), tmp_path):
            await leading(core)
            core.turn(leads=False, epoch=3)
            await until(core.ended, "its word")
            core.tell(core._sender)
            asked = len(core.asked)
            await until(lambda: len(core.asked) > asked, "the next second")
            assert core.ended() == [WritesEnded(stand_down=1)]
            core.turn(leads=False, epoch=3)
            await until(lambda: len(core.ended()) > 1, "its word of another time")
            assert core.ended()[1:] == [WritesEnded(stand_down=2)]

    in_loop(story)


def test_a_write_under_way_is_told_of_with_its_bound_and_again_behind_its_outcome(tmp_path: Path) -> None:
    """What waits behind it goes back at once: it was never sent."""

    async def story() -> None:
        core = MemberCore(leads=True)
        device = GatedPlc(free_port())
        await device.start()
        try:
            async with running(core, tmp_path), running(adapter(device.port), tmp_path):
                await leading(core)
                core.order("under way", "set_point", 5, valid_s=60)
                not_after = core.ordered[-1].not_after
                core.order("waits", "set_point", 6)
                await until(lambda: device.came, "a write at the device")
                core.turn(leads=False, epoch=3)
                await until(core.ended, "its word")
                (waits,) = core.receipts_of("waits")
                assert (waits.outcome, "stands by" in waits.detail) == (Outcome.REJECTED, True)
                assert core.ended() == [WritesEnded(stand_down=1, lands_until=not_after)]
                assert core.receipts_of("under way") == []
                device.gate.set()
                await until(lambda: len(core.ended()) > 1, "its word that nothing is under way")
                assert [type(one) for one in core.said[-2:]] == [WriteDone, WritesEnded]
                assert core.receipts_of("under way")[0].outcome is Outcome.VERIFIED
                assert core.ended()[-1] == WritesEnded(stand_down=1)
        finally:
            device.gate.set()
            await device.stop()

    in_loop(story)


def test_a_write_without_an_answer_may_land_until_its_bound_whatever_its_outcome_is_called(tmp_path: Path) -> None:
    async def story() -> None:
        core = MemberCore(leads=True)

        def mute(unit: int, function: int, request: bytes) -> bytes | None:
            return registers_answer(request) if function == 3 else None

        async with RawDevice(mute) as device, running(core, tmp_path):
            async with running(adapter(device.port, timeout_ms=100), tmp_path):
                await leading(core)
                core.order("w", "set_point", 5, valid_s=60)
                await until(lambda: core.receipts_of("w"), "a receipt")
                assert core.receipts_of("w")[0].outcome is Outcome.UNKNOWN
                core.turn(leads=False, epoch=3)
                await until(core.ended, "its word")
                assert core.ended()[0].lands_until == core.ordered[-1].not_after

    in_loop(story)


def test_at_its_stop_it_says_so_behind_everything_else(tmp_path: Path) -> None:
    async def story() -> None:
        core = MemberCore(leads=True)
        async with plc() as device, running(core, tmp_path):
            async with running(adapter(device.port), tmp_path):
                await leading(core)
            await until(core.ended, "its last word")
            assert core.ended() == [WritesEnded(stand_down=0, is_stopped=True)]

    in_loop(story)


class RefusingCore(MemberCore):
    """Refuses each hello."""

    def __init__(self, word: dict[str, Any]) -> None:
        super().__init__(leads=True)
        self._word = word

    def _take(self, letter: Letter) -> None:
        if isinstance(letter.message, ProducerHello):
            refused = AppendRefused(producer_sequence=0, is_final=True, run=letter.message.run, **self._word)
            self.link.send(refused, to=letter.sender)
        else:
            super()._take(letter)


@pytest.mark.parametrize(
    ("word", "says"),
    [
        (
            {"producer_id": 7, "refusal": no("superseded"), "successor": Successor(producer_id=9, run=1)},
            "another adapter has the name 'p1': life 9",
        ),
        (
            {"producer_id": 0, "refusal": no("not_owner", "item 'fan' belongs to 'p0'", "rename it")},
            "adapter 'p1' is refused: item 'fan' belongs to 'p0'; what to do: rename it",
        ),
    ],
    ids=["superseded", "not_owner"],
)
def test_an_adapter_that_is_refused_for_good_ends_and_says_why(tmp_path: Path, word: dict[str, Any], says: str) -> None:
    """Its supervisor starts it anew, as another life."""

    async def story() -> None:
        async with plc() as device, running(RefusingCore(word), tmp_path):
            with pytest.RaisesGroup(pytest.RaisesExc(ActorFailed, match=says)):
                async with running(adapter(device.port), tmp_path):
                    await asyncio.Event().wait()

    in_loop(story)


@pytest.mark.timeout(120)
def test_an_adapter_that_crashes_ends_though_its_poll_swallows_a_cancellation(tmp_path: Path) -> None:
    """asyncio.wait_for of Python 3.11 does so if the answer comes in the same moment; the loop then waited for good."""

    async def story() -> None:
        core = MemberCore(leads=True)
        async with plc() as device, running(core, tmp_path):
            one = adapter(device.port)
            with pytest.RaisesGroup(pytest.RaisesExc(ActorFailed, match="planted")):
                async with running(one, tmp_path) as actor:
                    await leading(core)
                    is_polling = asyncio.Event()

                    async def polled() -> Sequence[PolledColumns]:
                        is_polling.set()
                        with contextlib.suppress(asyncio.CancelledError):
                            await asyncio.Event().wait()
                        return []

                    one._adapter.poll = polled  # type: ignore[method-assign]  # The flaw is in what it awaits.
                    await is_polling.wait()
                    actor.fail("planted")
                    await asyncio.Event().wait()

    in_loop(story)


@pytest.mark.timeout(120)
def test_an_adapter_stops_though_a_write_of_its_own_swallows_the_cancellation(tmp_path: Path) -> None:
    """The answer to an output that is set again came in the same moment: nothing woke the loop after it, for good."""

    async def story() -> None:
        core = MemberCore(leads=True)
        async with plc() as device, running(core, tmp_path):
            one = adapter(device.port)
            async with running(one, tmp_path):
                await leading(core)
                is_writing = asyncio.Event()

                async def led(tenure: WriteTenure) -> str:
                    is_writing.set()
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.Event().wait()
                    return GOES_ON

                assert one._pair_adapter is not None
                one._pair_adapter.lead = led  # type: ignore[method-assign]  # The flaw is in what it awaits.
                one._carrier.changed()
                await is_writing.wait()

    in_loop(story)
