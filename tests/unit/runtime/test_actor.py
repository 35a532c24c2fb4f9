"""An actor on its own: links, turns, timers, calls, hostile peers, ends."""

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec
import pytest

from albireo.codec.bounds import PARTS_MAX, TOTAL_BYTES_MAX
from albireo.codec.message import Ask
from albireo.model.instant import MS, SECOND, Instant
from albireo.runtime import (
    ActorContext,
    ActorFailed,
    AddressTaken,
    Letter,
    Link,
    LinkLimits,
    NodeSilent,
    Supervised,
    SyncLink,
    TurnLimits,
    run_actor,
    running,
)
from albireo.runtime.actor.actor import CALLS_MAX
from albireo.runtime.clock import boot_ns
from albireo.runtime.directory import DataLock, RunDirectory
from albireo.runtime.journal import RATE_NS
from albireo.runtime.loop import ActorLoop, TurnMeter
from tests.parts.waiting import PATIENCE_S


class Echo:
    """Sends back what it gets."""

    name = "echo"

    def __init__(self) -> None:
        self.batches: list[int] = []

    async def start(self, actor: ActorContext) -> None:
        self.link = actor.bind("echo")

    def drained(self, letters: Sequence[Letter]) -> None:
        self.batches.append(len(letters))
        for letter in letters:
            assert letter.link.send(letter.message, letter.raw, to=letter.sender)

    def ticked(self, now: Instant) -> None:
        raise AssertionError("nothing armed")

    async def stop(self) -> None:
        pass


class Caller:
    """Keeps what it gets."""

    name = "caller"

    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self.ticks: list[Instant] = []
        self.changed = asyncio.Event()
        self.is_stopped = False

    async def start(self, actor: ActorContext) -> None:
        self.actor = actor
        self.link: Link = actor.connect("echo")

    def drained(self, letters: Sequence[Letter]) -> None:
        self.letters += letters
        self.changed.set()

    def ticked(self, now: Instant) -> None:
        self.ticks.append(now)
        self.changed.set()

    async def stop(self) -> None:
        self.is_stopped = True

    async def until(self, count: int) -> None:
        """Wait until `count` letters have come."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.letters) < count:
                self.changed.clear()
                await self.changed.wait()


def test_a_message_and_its_raw_parts_come_back(tmp_path: Path) -> None:
    async def story() -> None:
        caller = Caller()
        async with running(Echo(), tmp_path), running(caller, tmp_path):
            assert caller.link.send(Ask(request_id=1, what="ping"), [b"", b"raw", bytes(100_000), bytes(100_000)])
            await caller.until(1)
        [letter] = caller.letters
        assert letter.message == Ask(request_id=1, what="ping")
        assert [len(part) for part in letter.raw] == [0, 3, 100_000, 100_000]
        assert caller.is_stopped

    asyncio.run(story())


@pytest.mark.parametrize("directory", ["short", "d" * 60 + "/" + "e" * 90])
def test_links_work_in_a_data_directory_of_any_length(tmp_path: Path, directory: str) -> None:
    async def story() -> None:
        caller = Caller()
        async with running(Echo(), tmp_path / directory), running(caller, tmp_path / directory):
            assert caller.link.send(Ask(request_id=1, what="ping"))
            await caller.until(1)

    asyncio.run(story())


class Server(Echo):
    """An echo that misbehaves when told to."""

    def drained(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            if isinstance(letter.message, Ask) and letter.message.what == "crash":
                raise ValueError("told to crash")
        super().drained(letters)


def test_a_letter_of_this_machine_says_which_user_sent_it(tmp_path: Path) -> None:
    class Listener(Caller):
        async def start(self, actor: ActorContext) -> None:
            actor.bind("listener")

    async def story() -> None:
        listener = Listener()
        async with running(listener, tmp_path):
            with SyncLink(tmp_path, "listener") as link:
                link.send(Ask(request_id=1, what="x"))
                async with asyncio.timeout(PATIENCE_S):
                    await listener.changed.wait()
        assert [one.principal for one in listener.letters] == [f"local:{os.getuid()}"]

    asyncio.run(story())


def test_what_a_turn_raises_ends_the_actor_with_that_error(tmp_path: Path) -> None:
    async def story() -> None:
        caller = Caller()
        with pytest.raises(ExceptionGroup) as failed:
            async with running(Server(), tmp_path), running(caller, tmp_path):
                caller.link.send(Ask(request_id=1, what="crash"))
                await asyncio.Event().wait()
        assert failed.group_contains(ValueError, match="told to crash")
        assert not (tmp_path / "run" / "echo").exists()

    asyncio.run(story())


def test_what_a_tick_or_a_call_raises_ends_the_actor_too(tmp_path: Path) -> None:
    async def story() -> None:
        for way in ("tick", "call", "fail"):
            with pytest.raises(ExceptionGroup) as failed:
                async with running(Echo(), tmp_path) as actor:
                    match way:
                        case "tick":
                            actor.arm(actor.now())
                        case "call":
                            await asyncio.to_thread(actor.call, [].pop)
                        case "fail":
                            actor.fail("disk gone")
                    await asyncio.Event().wait()
            assert failed.group_contains({"tick": AssertionError, "call": IndexError, "fail": ActorFailed}[way])

    asyncio.run(story())


def test_a_tick_comes_at_its_deadline_and_only_once(tmp_path: Path) -> None:
    async def story() -> None:
        caller = Caller()
        async with running(caller, tmp_path) as actor:
            actor.arm(Instant(actor.now() + 3600 * SECOND))
            deadline = Instant(actor.now() + 20 * MS)
            actor.arm(deadline)
            async with asyncio.timeout(PATIENCE_S):
                await caller.changed.wait()
            assert caller.ticks[0] >= deadline
            again = asyncio.Event()
            actor.loop.call_later(0.05, again.set)
            await again.wait()
            assert len(caller.ticks) == 1, "a deadline that has come is disarmed"

    asyncio.run(story())


def test_calls_from_threads_run_in_the_loop_in_order_until_the_actor_has_ended(tmp_path: Path) -> None:
    async def story() -> None:
        seen: list[int] = []
        threads: set[int] = set()
        done = asyncio.Event()

        def note(number: int) -> None:
            seen.append(number)
            threads.add(threading.get_ident())
            if number == 4999:
                done.set()

        async with running(Echo(), tmp_path) as actor:
            await asyncio.to_thread(lambda: [actor.call(note, number) for number in range(5000)])
            async with asyncio.timeout(PATIENCE_S):
                await done.wait()
        assert seen == list(range(5000))
        assert threads == {threading.get_ident()}
        assert actor.call(note, 1) is False

    asyncio.run(story())


def test_no_turn_begins_once_the_behaviour_has_stopped(tmp_path: Path) -> None:
    """A thread that ends in `stop` may call for the last time, and a deadline come with it: the links are closed."""

    class Closing(Caller):
        made: bool | None = None

        async def stop(self) -> None:
            self.actor.arm(boot_ns())
            self.made = self.actor.call(self.changed.set)
            self.link.close()

        def ticked(self, now: Instant) -> None:
            self.link.send(Ask(request_id=1, what="ping"))

    async def story() -> None:
        closing = Closing()
        async with running(closing, tmp_path):
            pass
        assert closing.made
        assert not closing.changed.is_set()
        assert not closing.actor.call(closing.changed.set)

    asyncio.run(story())


def test_more_calls_than_the_mailbox_holds_end_the_actor(tmp_path: Path) -> None:
    """A loop that is ten thousand calls behind hangs; to lose one silently would be worse."""

    async def story() -> None:
        with pytest.raises(ExceptionGroup) as failed:
            async with running(Echo(), tmp_path) as actor:
                for _ in range(CALLS_MAX + 1):
                    actor.call(int)
                await asyncio.Event().wait()
        assert failed.group_contains(ActorFailed, match="echo.calls is full")

    asyncio.run(story())


def test_one_turn_takes_a_bounded_number_of_letters_and_the_rest_comes_next(tmp_path: Path) -> None:
    async def story() -> None:
        echo, caller = Echo(), Caller()
        async with running(echo, tmp_path) as actor, running(caller, tmp_path):
            actor.turn_limits = TurnLimits(letters_max=10, bytes_max=1 << 20)
            for number in range(500):
                assert caller.link.send(Ask(request_id=number, what="ping"))
            await caller.until(500)
        assert max(echo.batches) <= 10
        assert [letter.message for letter in caller.letters] == [Ask(request_id=n, what="ping") for n in range(500)]

    asyncio.run(story())


def test_one_turn_takes_a_bounded_number_of_bytes_but_at_least_one_letter(tmp_path: Path) -> None:
    async def story() -> None:
        echo, caller = Echo(), Caller()
        async with running(echo, tmp_path) as actor, running(caller, tmp_path):
            actor.turn_limits = TurnLimits(letters_max=100, bytes_max=100_000)
            for number in range(20):
                assert caller.link.send(Ask(request_id=number, what="ping"), [bytes(90_000 if number % 2 else 500_000)])
            await caller.until(20)
        assert max(echo.batches) <= 2
        assert [len(letter.raw[0]) for letter in caller.letters[:2]] == [500_000, 90_000]

    asyncio.run(story())


def test_two_links_take_turns_although_one_is_flooded(tmp_path: Path) -> None:
    """Both have letters before the first turn: the flood does not hold the single one up."""

    class Both(Echo):
        async def start(self, actor: ActorContext) -> None:
            actor.turn_limits = TurnLimits(letters_max=5)
            await super().start(actor)
            self.other = actor.bind("other")
            self.order: list[str] = []
            async with asyncio.timeout(PATIENCE_S):
                while not (self.link.has_input() and self.other.has_input()):  # noqa: ASYNC110  # libzmq has no event.
                    await asyncio.sleep(0.002)

        def drained(self, letters: Sequence[Letter]) -> None:
            self.order += [letter.link.name for letter in letters]
            super().drained(letters)

    async def story() -> None:
        both, caller = Both(), Caller()
        async with running(caller, tmp_path) as actor:
            for number in range(800):
                assert caller.link.send(Ask(request_id=number, what="flood"))
            assert actor.connect("other").send(Ask(request_id=1, what="small"))
            async with running(both, tmp_path):
                await caller.until(801)
        assert both.order.index("other") <= 10

    asyncio.run(story())


def test_letters_sent_while_the_actor_starts_wait_for_it(tmp_path: Path) -> None:
    class Slow(Echo):
        async def start(self, actor: ActorContext) -> None:
            await super().start(actor)
            await gate.wait()

    gate = asyncio.Event()

    async def story() -> None:
        caller = Caller()
        async with running(caller, tmp_path), asyncio.TaskGroup() as group:
            assert caller.link.send(Ask(request_id=1, what="early"))
            made: asyncio.Future[ActorContext] = asyncio.get_running_loop().create_future()
            group.create_task(run_actor(Slow(), tmp_path, on_made=made.set_result))
            actor = await made
            gate.set()
            await caller.until(1)
            actor.stop()

    asyncio.run(story())


class Greeter(Echo):
    """Notes who writes and says nothing."""

    async def start(self, actor: ActorContext) -> None:
        await super().start(actor)
        self.senders: list[bytes] = []
        self.changed = asyncio.Event()

    def drained(self, letters: Sequence[Letter]) -> None:
        self.senders += [letter.sender for letter in letters]
        self.changed.set()


def test_a_peer_that_is_gone_or_does_not_read_is_refused_and_never_blocks(tmp_path: Path) -> None:
    async def story() -> None:
        greeter = Greeter()
        async with running(greeter, tmp_path):
            assert greeter.link.send(Ask(request_id=1, what="x"), to=b"nobody") is False
            with SyncLink(tmp_path, "echo", LinkLimits(receive_messages_max=10)) as deaf:
                assert deaf.send(Ask(request_id=1, what="hello"))
                async with asyncio.timeout(PATIENCE_S):
                    await greeter.changed.wait()
                sent = 0
                while greeter.link.send(Ask(request_id=sent, what="y" * 10_000), to=greeter.senders[0]):
                    sent += 1
                    assert sent < 100_000, "nothing bounds the queue"
        assert greeter.link.refused == 2

    asyncio.run(story())


@pytest.mark.slow
def test_hostile_messages_are_counted_logged_at_a_limited_rate_and_the_actor_lives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile: list[list[bytes]] = [
        [b""],
        [b"\xc1"],
        [b"\x80"],
        [b"\x81\xa4type\xa7unknown"],
        [b"\x91" * 100_000],
        [b"\xdf\xff\xff\xff\xff"],
        [msgspec.msgpack.encode({"type": "ask", "request_id": "seven", "what": 1})],
        [msgspec.msgpack.encode({"type": "ask", "request_id": 1 << 63, "what": "\x00"})],
        [bytes(1_000_000), *[b"raw"] * 5000],
    ]

    async def story() -> None:
        echo, caller = Echo(), Caller()
        async with running(echo, tmp_path), running(caller, tmp_path):
            for _ in range(20):
                for parts in hostile:
                    assert caller.link.send_encoded(parts)
            caller.link.send(Ask(request_id=1, what="still there?"))
            async with asyncio.timeout(PATIENCE_S):
                while Ask(request_id=1, what="still there?") not in [letter.message for letter in caller.letters]:
                    caller.changed.clear()
                    await caller.changed.wait()
        assert echo.link.malformed >= 20 * (len(hostile) - 1)

    began = boot_ns()
    asyncio.run(story())
    assert 1 <= capsys.readouterr().err.count("message_malformed") <= 1 + (boot_ns() - began) // RATE_NS


TOO_MUCH = {
    "parts": [b"x"] * PARTS_MAX,
    "bytes": [bytes(TOTAL_BYTES_MAX // 4)] * 4,
}


@pytest.mark.parametrize("raw", TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_message_of_too_many_parts_or_bytes_is_dropped_whole_and_counted(tmp_path: Path, raw: list[bytes]) -> None:
    async def story() -> None:
        echo, caller = Echo(), Caller()
        async with running(echo, tmp_path), running(caller, tmp_path):
            assert caller.link.send(Ask(request_id=1, what="too much"), raw)
            assert caller.link.send(Ask(request_id=2, what="most"), [b"x"] * (PARTS_MAX - 2))
            await caller.until(1)
        assert echo.link.malformed == 1
        assert [len(letter.raw) for letter in caller.letters] == [PARTS_MAX - 2]

    asyncio.run(story())

    asyncio.run(story())


def test_a_part_above_the_limit_costs_its_sender_the_connection_and_nobody_else(tmp_path: Path) -> None:
    class Small(Echo):
        async def start(self, actor: ActorContext) -> None:
            self.link = actor.bind("echo", LinkLimits(message_bytes_max=10_000))

    async def story() -> None:
        caller = Caller()
        async with running(Small(), tmp_path), running(caller, tmp_path):
            with SyncLink(tmp_path, "echo") as greedy:
                assert greedy.send(Ask(request_id=1, what="x" * 20_000))
                assert caller.link.send(Ask(request_id=2, what="modest"))
                await caller.until(1)
                assert await asyncio.to_thread(greedy.receive, 0.05) is None

    asyncio.run(story())


def test_bytes_that_are_not_zeromq_at_all_do_no_harm(tmp_path: Path) -> None:
    async def story() -> None:
        caller = Caller()
        async with running(Echo(), tmp_path), running(caller, tmp_path):
            random = Random(1)
            for size in (0, 1, 9, 10, 64, 100_000):
                with socket.socket(socket.AF_UNIX) as raw, contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    raw.connect(str(tmp_path / "run" / "echo"))
                    raw.sendall(random.randbytes(size))
            for greeting in (b"\xff" + bytes(8) + b"\x7f", b"\xff" + b"\xff" * 63):
                with socket.socket(socket.AF_UNIX) as raw:
                    raw.connect(str(tmp_path / "run" / "echo"))
                    raw.sendall(greeting)
            assert caller.link.send(Ask(request_id=1, what="ping"))
            await caller.until(1)

    asyncio.run(story())


@pytest.mark.slow
def test_a_name_that_answers_is_not_taken_and_one_left_behind_only_with_the_lock(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(Echo(), tmp_path):
            with pytest.raises(ExceptionGroup) as failed:
                async with running(Echo(), tmp_path):
                    pass
            assert failed.group_contains(AddressTaken, match="another process answers")
        with socket.socket(socket.AF_UNIX) as left_behind:
            left_behind.bind(str(tmp_path / "run" / "echo"))
        with pytest.raises(ExceptionGroup) as failed:
            async with running(Echo(), tmp_path):
                pass
        assert failed.group_contains(AddressTaken, match="left over")
        lock = DataLock.acquire(tmp_path)
        supervised = Supervised(identity=b"echo#1", lock=lock)
        async with asyncio.TaskGroup() as group:
            made: asyncio.Future[ActorContext] = asyncio.get_running_loop().create_future()
            group.create_task(run_actor(Echo(), tmp_path, supervised=supervised, on_made=made.set_result))
            async with asyncio.timeout(PATIENCE_S):
                await (await made).ready.wait()
            (await made).stop()
        lock.release()

    asyncio.run(story())


def test_a_peer_that_starts_later_gets_what_was_sent_before_and_one_that_starts_again_is_found(tmp_path: Path) -> None:
    async def story() -> None:
        caller = Caller()
        async with running(caller, tmp_path):
            assert caller.link.send(Ask(request_id=1, what="early"))
            async with running(Echo(), tmp_path):
                await caller.until(1)
            async with running(Echo(), tmp_path), asyncio.timeout(PATIENCE_S):
                while Ask(request_id=2, what="again") not in [letter.message for letter in caller.letters]:
                    caller.link.send(Ask(request_id=2, what="again"))  # A reconnect loses what is on its way.
                    await asyncio.sleep(0.01)
        assert caller.letters[0].message == Ask(request_id=1, what="early")

    asyncio.run(story())


def test_the_longest_turn_is_measured(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(Echo(), tmp_path) as actor:
            _spin(30 * MS)
            await asyncio.sleep(0)  # The turn that span ends here.
            assert actor.turns.longest_ns >= 30 * MS
            assert actor.turns.recent_ns(actor.now()) == actor.turns.longest_ns

    with asyncio.Runner(loop_factory=ActorLoop) as runner:
        runner.run(story())


def _spin(duration_ns: int) -> None:
    end = boot_ns() + duration_ns
    while boot_ns() < end:
        pass


def test_the_longest_turn_is_forgotten_after_a_while() -> None:
    turns = TurnMeter()
    turns.took(Instant(0), Instant(30 * MS), cpu_ns=4 * MS)
    turns.took(Instant(SECOND), Instant(SECOND + 6 * MS), cpu_ns=6 * MS)
    turns.took(Instant(11 * SECOND), Instant(11 * SECOND + 5 * MS), cpu_ns=5 * MS)
    assert turns.recent_ns(Instant(12 * SECOND)) == 30 * MS
    assert turns.recent_ns(Instant(21 * SECOND)) == 5 * MS
    assert turns.recent_ns(Instant(100 * SECOND)) == 0
    assert (turns.longest_ns, turns.count, turns.total_ns) == (30 * MS, 3, 41 * MS)


def test_a_turn_is_also_measured_by_its_cpu_time() -> None:
    turns = TurnMeter()
    turns.took(Instant(0), Instant(30 * MS), cpu_ns=4 * MS)
    turns.took(Instant(SECOND), Instant(SECOND + 6 * MS), cpu_ns=6 * MS)
    assert turns.recent_cpu_ns(Instant(2 * SECOND)) == 6 * MS, "not that of the longest turn: the most of any"
    assert turns.recent_cpu_ns(Instant(100 * SECOND)) == 0


def test_no_node_no_link(tmp_path: Path) -> None:
    with pytest.raises(NodeSilent, match="no node has ever run there"):
        SyncLink(tmp_path, "core")
    RunDirectory(tmp_path).close()
    with pytest.raises(NodeSilent, match="nothing listens"):
        SyncLink(tmp_path, "core")


def test_calls_that_call_again_take_one_turn_each_round(tmp_path: Path) -> None:
    """Each call used to wake the loop as well, so every turn made two: many turns a round, counted as one long turn."""

    async def story() -> None:
        async with running(Echo(), tmp_path) as actor:
            rounds: list[int] = []
            done = asyncio.Event()

            def again(left: int) -> None:
                rounds.append(actor.turns.count)
                if left:
                    actor.call(again, left - 1)
                else:
                    done.set()

            actor.call(again, 50)
            await asyncio.wait_for(done.wait(), PATIENCE_S)
            assert len(set(rounds[5:])) >= 40

    with asyncio.Runner(loop_factory=ActorLoop) as runner:
        runner.run(story())
