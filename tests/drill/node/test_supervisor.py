"""Boot with real processes and threads: they are killed, stopped, hang; the node goes on or says why not."""

import asyncio
import errno
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import psutil
import pytest

from albireo.codec.message import Answer, Ask
from albireo.model.instant import MS, SECOND
from albireo.runtime import ActorHung, ActorSpec, DataLocked, LinkLimits, StartFailed, SyncLink
from albireo.runtime.actor.supervision import SupervisionConfig
from albireo.runtime.actor.supervisor import ActorChanged, ActorState, PlacementName, Supervisor
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.drill, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
CALM = SupervisionConfig(
    first_backoff_ns=10 * MS,
    longest_backoff_ns=200 * MS,
    ask_every_ns=100 * MS,
    silent_after_ns=120 * SECOND,
    stop_within_ns=120 * SECOND,
)
"""Quick to start again; no machine is so slow that an actor is silent or hangs at its stop."""
QUICK = msgspec.structs.replace(CALM, silent_after_ns=3 * SECOND, stop_within_ns=3 * SECOND)
"""Where one of both is waited for."""
BOTH = pytest.mark.parametrize("placement", ["process", "thread"])


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'src'}")


def spec(name: str, stage: int = 0, *, is_essential: bool = True, **arguments: object) -> ActorSpec:
    return ActorSpec(name, "tests.drill.node.actors:create", {"name": name, **arguments}, stage, is_essential)


@asynccontextmanager
async def node(
    data: Path,
    *specs: ActorSpec,
    placement: PlacementName = "process",
    config: SupervisionConfig = CALM,
    changes: list[ActorChanged] | None = None,
) -> AsyncIterator[Supervisor]:
    """A node that runs inside the block."""
    note = changes.append if changes is not None else None
    supervisor = Supervisor(data, specs, placement, config=config, on_change=note, seed=1)
    assert await supervisor.start()
    try:
        yield supervisor
    finally:
        await supervisor.stop()


async def ask(data: Path, name: str, what: str, **arguments: object) -> object:
    """One question over a link of its own; None if no answer comes."""

    def talk() -> object:
        with SyncLink(data, name) as link:
            assert link.send(Ask(request_id=7, what=what, arguments=arguments))
            received = link.receive(timeout_s=PATIENCE_S)
        if received is None:
            return None
        assert isinstance(received[0], Answer)
        return received[0].result

    return await asyncio.to_thread(talk)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for `condition`."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  # What is waited for happens in other processes.
            await asyncio.sleep(0.01)


def state(supervisor: Supervisor, name: str) -> ActorState:
    return next(state for state in supervisor.states() if state.name == name)


def story(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await body()

    asyncio.run(main())


@BOTH
def test_actors_start_answer_and_stop(tmp_path: Path, placement: PlacementName) -> None:
    async def body() -> None:
        async with node(tmp_path, spec("core", 1), spec("logger", 0), placement=placement) as supervisor:
            assert {s.state for s in supervisor.states()} == {"running"}
            for name in ("core", "logger"):
                pids = await ask(tmp_path, name, "ping")
                assert isinstance(pids, list)
                assert pids[0] == state(supervisor, name).pid
                assert (pids[0] == os.getpid()) == (placement == "thread")
            answer = await ask(tmp_path, "boot", "actors")
            assert isinstance(answer, list)
            assert [(a["name"], a["state"]) for a in answer] == [("core", "running"), ("logger", "running")]
        assert {s.state for s in supervisor.states()} == {"ended"}
        assert list((tmp_path / "run").iterdir()) == []

    story(body)


def test_an_actor_that_is_behind_by_design_leaves_the_cpu_to_the_others(tmp_path: Path) -> None:
    async def body() -> None:
        polite = ActorSpec("b", "tests.drill.node.actors:create", {"name": "b"}, nice=10)
        own = os.nice(0)
        async with node(tmp_path, spec("a"), polite) as supervisor:
            found = {one.name: os.getpriority(os.PRIO_PROCESS, one.pid or 0) for one in supervisor.states()}
            assert found == {"a": own, "b": min(own + 10, 19)}

    story(body)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.ENOSYS])
def test_a_process_whose_end_cannot_be_watched_is_ended_before_the_next_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Otherwise two would live: the one that nobody knows of, and its next run."""
    opened, watched = os.pidfd_open, list[int]()

    def failing(pid: int) -> int:
        watched.append(pid)
        if len(watched) == 1:
            raise OSError(number, os.strerror(number))
        return opened(pid)

    monkeypatch.setattr(os, "pidfd_open", failing)

    others = {one.pid for one in psutil.Process().children()}  # Those of tests before, in this process.

    async def body() -> None:
        async with node(tmp_path, spec("a")) as supervisor:
            assert [state(supervisor, "a").pid] == watched[1:]
            assert [one.pid for one in psutil.Process().children() if one.pid not in others] == watched[1:]

    story(body)


@BOTH
@pytest.mark.parametrize("what", ["crash", "fail"])
def test_a_crashed_actor_is_started_again_and_the_others_stay(
    tmp_path: Path, placement: PlacementName, what: str
) -> None:
    async def body() -> None:
        changes: list[ActorChanged] = []
        async with node(tmp_path, spec("a"), spec("b", 1), placement=placement, changes=changes) as supervisor:
            b_pid = state(supervisor, "b").pid
            await asyncio.to_thread(_tell, tmp_path, "a", what)
            await until(lambda: state(supervisor, "a").run == 2 and state(supervisor, "a").state == "running")
            assert await ask(tmp_path, "a", "ping")
            assert (state(supervisor, "b").run, state(supervisor, "b").pid) == (1, b_pid)
            assert state(supervisor, "a").restarts == 1
        assert ("a", "running", "waiting") in [(c.name, c.old, c.new) for c in changes]

    story(body)


def _tell(data: Path, name: str, what: str, **arguments: object) -> None:
    """Without an answer: the link stays until the words have left."""
    with SyncLink(data, name, LinkLimits(linger_ms=int(PATIENCE_S * 1000))) as link:
        assert link.send(Ask(request_id=1, what=what, arguments=arguments))


def test_kill_9_of_an_actor_is_noticed_at_once_and_its_socket_is_taken_over(tmp_path: Path) -> None:
    async def body() -> None:
        async with node(tmp_path, spec("a"), spec("b")) as supervisor:
            for run in (2, 3):
                os.kill(state(supervisor, "a").pid, signal.SIGKILL)
                await until(lambda run=run: state(supervisor, "a").run == run)  # type: ignore[misc]
                await until(lambda: state(supervisor, "a").state == "running")
                assert await ask(tmp_path, "a", "ping")
            assert state(supervisor, "b").run == 1

    story(body)


def test_a_stopped_process_is_silent_and_replaced(tmp_path: Path) -> None:
    """SIGSTOP: it does not exit, it does not answer. DEAD? finds it, SIGKILL ends it."""

    async def body() -> None:
        changes: list[ActorChanged] = []
        async with node(tmp_path, spec("a"), config=QUICK, changes=changes) as supervisor:
            first = state(supervisor, "a").pid
            os.kill(first, signal.SIGSTOP)
            await until(lambda: state(supervisor, "a").run == 2 and state(supervisor, "a").state == "running")
            with pytest.raises(ProcessLookupError):
                os.kill(first, 0)
            assert await ask(tmp_path, "a", "ping")
        assert "silent for 3 s" in [change.cause for change in changes]

    story(body)


def test_an_actor_that_hangs_in_a_turn_is_silent_and_replaced(tmp_path: Path) -> None:
    async def body() -> None:
        async with node(tmp_path, spec("a"), config=QUICK) as supervisor:
            await asyncio.to_thread(_tell, tmp_path, "a", "hang", seconds=3600)
            await until(lambda: state(supervisor, "a").run == 2 and state(supervisor, "a").state == "running")
            assert await ask(tmp_path, "a", "ping")

    story(body)


def test_a_hanging_thread_ends_the_node_with_the_code_that_asks_for_a_new_process(tmp_path: Path) -> None:
    async def body() -> None:
        supervisor = Supervisor(tmp_path, [spec("a", 1), spec("b")], "thread", config=QUICK)
        assert await supervisor.start()
        await asyncio.to_thread(_tell, tmp_path, "a", "hang", seconds=30)
        escalated = await supervisor.wait()
        assert escalated is not None
        assert escalated.exit_code == 75
        assert "a hangs" in escalated.reason
        assert supervisor.hung == ("a",)
        assert state(supervisor, "b").cause == "stopped", "the others still stop cleanly"

    story(body)


def test_an_actor_apart_is_a_process_in_a_node_of_threads_and_is_killed_alone(tmp_path: Path) -> None:
    async def body() -> None:
        apart = msgspec.structs.replace(spec("face", 1), is_apart=True, is_essential=False)
        async with node(tmp_path, apart, spec("core"), placement="thread", config=QUICK) as supervisor:
            pids = {one.name: one.pid for one in supervisor.states()}
            assert pids["core"] == os.getpid() != pids["face"]
            await asyncio.to_thread(_tell, tmp_path, "face", "hang", seconds=3600)
            await until(lambda: state(supervisor, "face").run == 2 and state(supervisor, "face").state == "running")
            assert await ask(tmp_path, "face", "ping")
            assert state(supervisor, "core").run == 1

    story(body)


def test_a_thread_that_hangs_at_stop_is_told(tmp_path: Path) -> None:
    async def body() -> None:
        supervisor = Supervisor(tmp_path, [spec("a", hang_at_stop=True)], "thread", config=QUICK)
        assert await supervisor.start()
        with pytest.raises(ActorHung, match="a"):
            await supervisor.stop()

    story(body)


def test_a_process_that_hangs_at_stop_is_killed(tmp_path: Path) -> None:
    async def body() -> None:
        async with node(tmp_path, spec("a", hang_at_stop=True), config=QUICK) as supervisor:
            pass
        assert state(supervisor, "a").cause == "ended by SIGKILL"

    story(body)


@BOTH
def test_more_deaths_than_the_intensity_end_the_node_and_say_why(tmp_path: Path, placement: PlacementName) -> None:
    async def body() -> None:
        with pytest.raises(
            StartFailed, match=r"6 actors died within 60 s, the last was a: RuntimeError: born to die"
        ) as failed:
            async with node(tmp_path, spec("a", crash_at_start=True), spec("b"), placement=placement):
                pass
        assert failed.value.exit_code == 1
        assert not (tmp_path / "run" / "b").exists()

    story(body)


def test_an_actor_that_is_not_essential_never_ends_the_node(tmp_path: Path) -> None:
    async def body() -> None:
        bad = spec("bad", crash_at_start=True, is_essential=False)
        async with node(tmp_path, bad, spec("a"), placement="thread") as supervisor:
            await until(lambda: state(supervisor, "bad").restarts > CALM.intensity + 1)
            assert state(supervisor, "a").state == "running"

    story(body)


@BOTH
@pytest.mark.parametrize(
    ("what", "said", "code"), [("refuse", "there is no such device", 78), ("damaged", "its data are damaged", 65)]
)
def test_what_no_second_try_can_help_is_not_tried_again(
    tmp_path: Path, placement: PlacementName, what: str, said: str, code: int
) -> None:
    async def body() -> None:
        with pytest.raises(StartFailed, match=said) as failed:
            async with node(tmp_path, spec("a", **{what: True}), placement=placement):
                pass
        assert failed.value.exit_code == code

    story(body)


def test_a_factory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async def body() -> None:
        with pytest.raises(StartFailed, match=r"albireo\.nowhere") as failed:
            async with node(tmp_path, ActorSpec("a", "albireo.nowhere:create"), placement="thread"):
                pass
        assert failed.value.exit_code == 78

    story(body)


def test_two_nodes_on_one_data_directory(tmp_path: Path) -> None:
    async def body() -> None:
        async with node(tmp_path, spec("a"), placement="thread"):
            with pytest.raises(DataLocked, match=f"process {os.getpid()}"):
                await Supervisor(tmp_path, [spec("a")], "thread").start()
            assert await ask(tmp_path, "a", "ping"), "the first one did not notice"
        async with node(tmp_path, spec("a"), placement="thread"):
            assert await ask(tmp_path, "a", "ping")

    story(body)


def test_rest_for_one_restarts_what_builds_on_the_dead_one(tmp_path: Path) -> None:
    async def body() -> None:
        config = msgspec.structs.replace(CALM, strategy="rest_for_one")
        async with node(tmp_path, spec("a"), spec("b", 1), spec("c", 2), config=config) as supervisor:
            os.kill(state(supervisor, "b").pid, signal.SIGKILL)
            await until(lambda: [s.run for s in supervisor.states()] == [1, 2, 2])
            await until(lambda: all(s.state == "running" for s in supervisor.states()))

    story(body)
