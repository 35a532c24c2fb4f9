"""The witness over real links: what it answers, what it counts, what it writes, and when it ends."""

import asyncio
import contextlib
import errno
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from albireo.codec.message import Answer, Ask, FeedAck, encode
from albireo.codec.pair_message import Accept, Install, Prepare, Question, Read, Record, Release, Voted
from albireo.log.store.mirrored_state import MirroredStateFailed
from albireo.machine.vote import paths
from albireo.model.instant import MS, SECOND, Instant
from albireo.model.position import BEGINNING, Position
from albireo.node.vote.seats import AskingMember, AskingPair
from albireo.node.vote.witness import Witness, WitnessArguments
from albireo.runtime import ActorContext, ConfigurationRefused, Letter, run_actor, running
from albireo.runtime.clock import boot_ns
from albireo.runtime.link.keys import Keys, introduce
from albireo.sim.engine.disk import SimDisk
from tests.parts.refusals import refused_with
from tests.parts.transport import hear_all
from tests.parts.waiting import PATIENCE_S

CLUSTER = "c/root"
VOTERS = ("witness:w1", "witness:w2", "witness:w3")
LEASE_NS = 60 * MS
"""Where its end is waited for."""
LONG_NS = 60 * SECOND
"""Where it must not end meanwhile."""
FLOOR_SYNC_NS = 50 * MS


def pair(node: str = "root", peers: Sequence[tuple[str, ...]] = ((), ())) -> AskingPair:
    members = tuple(
        AskingMember(place=f"{node}[{member}]", endpoints=peer)
        for member, peer in zip(("primary", "backup"), peers, strict=True)
    )
    return AskingPair(node=node, cluster=f"c/{node}", voters=VOTERS, members=members, drift=0.05)


def arguments(**changes: Any) -> WitnessArguments:
    usual: dict[str, Any] = {"voter": "witness:w1", "endpoint": "tcp://127.0.0.1:*", "pairs": (pair(),)}
    return WitnessArguments(**(usual | changes))


def record(epoch: int = 2, version: int = 1, run: int = 0, lease_ns: int = LEASE_NS) -> Record:
    return Record(
        cluster=CLUSTER,
        voters=VOTERS,
        generation=1,
        epoch=epoch,
        version=version,
        holder=epoch % 2,
        run=run,
        members=(epoch % 2,),
        lease_ns=lease_ns,
    )


def head(member: int, run: int, number: int = 7) -> dict[str, Any]:
    return {"cluster": CLUSTER, "generation": 1, "member": member, "run": run, "round": number}


def read(run: int = 20, member: int = 0) -> Read:
    return Read(**head(member, run))


def prepare(epoch: int, run: int = 20) -> Prepare:
    return Prepare(**head(epoch % 2, run), epoch=epoch)


def accept(what: Record, floor: Position = BEGINNING) -> Accept:
    return Accept(**head(what.holder, what.run), record=what, floor=floor)


def install(lease_ns: int = LEASE_NS) -> Install:
    return Install(**head(0, 20), record=record(lease_ns=lease_ns), promised=2)


class Asker:
    """A member, as far as a witness sees one."""

    name = "asker"

    def __init__(self, endpoint: str = "", keys: Keys | None = None) -> None:
        self._endpoint = endpoint
        self._keys = keys
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        self.is_connected = asyncio.Event()

    async def start(self, actor: ActorContext) -> None:
        if self._endpoint:
            self.link = actor.connect_tcp("witness", self._endpoint, self._keys, peer="witness:w1", hears=hear_all)
            self.link.on_connection = lambda is_up: self.is_connected.set() if is_up else self.is_connected.clear()
        else:
            self.link = actor.connect("witness")

    def drained(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            self._answers.put_nowait(letter.message)

    def ticked(self, now: Instant) -> None: ...
    async def stop(self) -> None: ...

    async def voted(self, question: Question) -> Voted:
        assert self.link.send(question)
        answer = await self.next()
        assert isinstance(answer, Voted)
        return answer

    async def status(self) -> dict[str, Any]:
        self.link.send(Ask(request_id=5, what="status"))
        answer = await self.next()
        assert isinstance(answer, Answer)
        assert isinstance(answer.result, dict)
        return answer.result

    async def next(self) -> Any:
        return await asyncio.wait_for(self._answers.get(), PATIENCE_S)

    @property
    def has_answer(self) -> bool:
        return not self._answers.empty()

    async def until_granted(self, question: Question) -> Voted:
        """Ask again until the start-up wait or the lease is over."""
        async with asyncio.timeout(PATIENCE_S):
            while not (answer := await self.voted(question)).is_granted:
                assert answer.reason in ("starting", "leased")
                await asyncio.sleep(0.005)  # The voter's clock is the boot clock: nothing tells when.
        return answer


@contextlib.asynccontextmanager
async def asked(data: Path, told: WitnessArguments | None = None) -> AsyncIterator[Asker]:
    """A witness in this loop, and somebody who asks it."""
    async with running(Witness(told or arguments()), data), running(asker := Asker(), data):
        yield asker


@contextlib.asynccontextmanager
async def installed(data: Path, told: WitnessArguments | None = None) -> AsyncIterator[Asker]:
    async with asked(data, told) as asker:
        assert (await asker.voted(install())).is_granted
        yield asker


def run(work: Any) -> None:
    asyncio.run(work)


def seat(status: dict[str, Any]) -> dict[str, Any]:
    [only] = status["pairs"]
    assert isinstance(only, dict)
    return only


def test_an_empty_voter_votes_for_nobody_until_it_is_installed(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(tmp_path) as asker:
            for question in (read(), prepare(4), accept(record(4, run=20)), Release(**head(0, 20), epoch=2)):
                answer = await asker.voted(question)
                assert (answer.is_granted, answer.reason, answer.voter) == (False, "empty", "witness:w1")
            status = seat(await asker.status())
            assert (status["state"], status["refused"], status["record"]) == ("empty", {"empty": 4}, None)
            assert (await asker.voted(install())).is_granted
            assert not (await asker.voted(install())).is_granted
            assert (await asker.voted(read())).record == record()

    run(main())


def test_two_members_ask_and_one_promise_is_given(tmp_path: Path) -> None:
    async def main() -> None:
        async with installed(tmp_path) as asker:
            assert (await asker.until_granted(prepare(5, run=30))).promised == 5
            refused = await asker.voted(prepare(4, run=20))
            assert (refused.is_granted, refused.reason, refused.promised) == (False, "promised", 5)
            assert (await asker.voted(accept(record(4, run=20)))).reason == "promised"
            assert (await asker.voted(accept(record(5, run=30, lease_ns=LONG_NS)))).is_granted
            assert (await asker.voted(prepare(6, run=20))).reason == "leased"
            began, short = boot_ns(), record(5, version=2, run=30)
            assert (await asker.voted(accept(short))).is_granted
            assert (await asker.until_granted(prepare(6, run=20))).record == short
            assert boot_ns() - began >= LEASE_NS

    run(main())


def test_after_a_restart_promise_and_record_are_there_and_nothing_is_granted_for_a_lease(tmp_path: Path) -> None:
    async def main() -> None:
        first = record(lease_ns=LONG_NS)
        async with asked(tmp_path) as asker:
            assert (await asker.voted(install(LONG_NS))).is_granted
            assert (await asker.voted(prepare(4, run=first.run))).promised == 4, "the recorded run need not wait"
        async with asked(tmp_path) as asker:
            answer = await asker.voted(read(run=20))
            assert (answer.promised, answer.record, answer.is_lease_running) == (4, first, True)
            assert 0 < answer.lease_left_ns <= LONG_NS * 1.05 + 1
            assert (await asker.voted(prepare(6))).reason == "starting"
            assert (await asker.voted(accept(record(4, run=first.run)))).is_granted
        began = boot_ns()
        async with asked(tmp_path) as asker:
            assert (await asker.until_granted(prepare(6))).promised == 6
        assert boot_ns() - began >= LEASE_NS

    run(main())


def test_renewals_write_nothing_and_the_floor_follows_later(tmp_path: Path) -> None:
    async def main() -> None:
        async with installed(tmp_path, arguments(floor_sync_ns=FLOOR_SYNC_NS)) as asker:
            holder = record(4, run=20)
            await asker.until_granted(prepare(4))
            began = boot_ns()
            await asker.voted(accept(holder, Position(4, 1)))
            before = seat(await asker.status())["store"]["saves"]
            for sequence in range(2, 30):
                answer = await asker.voted(accept(holder, Position(4, sequence)))
                assert (answer.is_granted, answer.floor) == (True, Position(4, sequence))
            async with asyncio.timeout(PATIENCE_S):
                while (status := seat(await asker.status()))["floor_durable"] != [4, 29]:
                    assert status["floor"] == [4, 29]
            assert before < status["store"]["saves"] <= before + 2 + (boot_ns() - began) // FLOOR_SYNC_NS
            assert (await asker.voted(accept(msgspec.structs.replace(holder, version=2)))).is_granted
            assert seat(await asker.status())["store"]["saves"] == status["store"]["saves"] + 1

    run(main())


def test_a_clean_stop_leaves_the_floor_on_the_disk(tmp_path: Path) -> None:
    async def main() -> None:
        async with installed(tmp_path, arguments(floor_sync_ns=3600 * SECOND)) as asker:
            await asker.until_granted(prepare(4))
            for sequence in (1, 77):
                await asker.voted(accept(record(4, run=20), Position(4, sequence)))
            assert seat(await asker.status())["floor_durable"] == [4, 1]
        async with asked(tmp_path) as asker:
            assert (await asker.voted(read())).floor == Position(4, 77)

    run(main())


def test_several_pairs_have_nothing_to_do_with_each_other(tmp_path: Path) -> None:
    async def main() -> None:
        two = arguments(pairs=(pair(), pair("north")))
        async with asked(tmp_path, two) as asker:
            assert (await asker.voted(install(LONG_NS))).is_granted
            other = msgspec.structs.replace(read(), cluster="c/north")
            assert (await asker.voted(other)).reason == "empty"
            states = {one["node"]: one["state"] for one in (await asker.status())["pairs"]}
            assert states == {"root": "waiting", "north": "empty"}

    run(main())


def test_strangers_other_lists_and_other_messages_are_named_and_counted(tmp_path: Path) -> None:
    async def main() -> None:
        async with installed(tmp_path) as asker:
            stray = await asker.voted(msgspec.structs.replace(prepare(4), cluster="d/root"))
            assert (stray.is_granted, stray.reason, stray.cluster) == (False, "foreign_cluster", "d/root")
            older = await asker.voted(msgspec.structs.replace(prepare(4), generation=2))
            assert (older.is_granted, older.reason) == (False, "other_list")
            asker.link.send(FeedAck(received=Position(), durable=Position(), credit_bytes=0))
            asker.link.send_encoded([b"\xc1 no message"])
            status = await asker.status()
            assert status["stray"] == {"foreign_cluster": 1, "no_question": 1, "malformed": 1, "unheard": 0}
            assert seat(status)["refused"] == {"other_list": 1}
            asker.link.send(Ask(request_id=6, what="write"))
            assert "unknown question 'write'" in refused_with(await asker.next())

    run(main())


def test_a_topology_with_other_voters_is_told_and_never_installed(tmp_path: Path) -> None:
    async def main() -> None:
        other = arguments(pairs=(msgspec.structs.replace(pair(), voters=("witness:w1",)),))
        async with asked(tmp_path, other) as asker:
            assert (await asker.voted(install())).reason == "other_list"
        async with installed(tmp_path):
            pass
        async with asked(tmp_path, other) as asker:
            status = seat(await asker.status())
            assert (status["lists_differ"], tuple(status["record"]["voters"])) == (True, VOTERS)

    run(main())


def test_a_store_of_another_voter_is_refused_at_the_start(tmp_path: Path) -> None:
    async def main() -> None:
        async with installed(tmp_path):
            pass
        with pytest.raises(ConfigurationRefused, match="holds the promises of witness:w1"):
            await run_actor(Witness(arguments(voter="witness:w2")), tmp_path)

    run(main())


def test_without_keys_nothing_but_loopback_is_bound(tmp_path: Path) -> None:
    async def main() -> None:
        for told in (arguments(endpoint="tcp://0.0.0.0:*"), arguments(keys=str(tmp_path / "none"))):
            with pytest.raises(ConfigurationRefused):
                await run_actor(Witness(told), tmp_path)

    run(main())


def test_only_a_member_s_own_key_binds_it(tmp_path: Path) -> None:
    async def main() -> None:
        names = ("witness:w1", "root[primary]", "root[backup]", "operator")
        keys = {name: Keys.new(tmp_path / name, name) for name in names}
        introduce(*keys.values())
        witness = Witness(arguments(keys=str(tmp_path / "witness:w1")))
        data = tmp_path / "data"
        async with running(witness, data):
            endpoint = witness.endpoint
            assert endpoint.startswith("tcp://127.0.0.1:")
            primary, backup, operator = (Asker(endpoint, keys[name]) for name in names[1:])
            async with running(primary, data), running(backup, data, name="b"), running(operator, data, name="o"):
                for one in (primary, backup, operator):
                    await asyncio.wait_for(one.is_connected.wait(), PATIENCE_S)
                assert (await primary.voted(install())).is_granted
                assert (await primary.until_granted(prepare(4))).is_granted
                assert (await backup.voted(prepare(3))).reason == "promised"
                assert backup.link.send(prepare(6))
                assert (await backup.status())["stray"]["foreign_key"] == 1, "and it said nothing before"
                for question in (install(), read()):
                    assert operator.link.send(question)
                async with asyncio.timeout(PATIENCE_S):
                    while (await primary.status())["stray"]["unheard"] < 2:
                        pass
                assert not operator.has_answer
                assert (await primary.voted(read())).promised == 4

    run(main())


@pytest.mark.parametrize("operation", ["sync", "pwritev"])
def test_a_disk_error_ends_the_witness_without_an_answer(tmp_path: Path, operation: str) -> None:
    async def main() -> None:
        disk = SimDisk(1)
        disk.make_directory(tmp_path)
        asker = Asker()

        async def witness() -> None:
            with pytest.raises(MirroredStateFailed, match="votes no more"):
                await run_actor(Witness(arguments(), disk), tmp_path)

        async with running(asker, tmp_path):
            ended = asyncio.create_task(witness())
            assert (await asker.voted(install())).is_granted
            await asker.until_granted(prepare(4))
            disk.refuse = lambda done, path: errno.EIO if done == operation else 0
            assert (await asker.voted(prepare(4))).is_granted, "a repeated answer needs no disk"
            asker.link.send(prepare(6))
            asker.link.send(read())
            await asyncio.wait_for(ended, PATIENCE_S)
            assert not asker.has_answer

    run(main())


class Holder:
    """A member's process, as far as connections go: it listens at its peer endpoint."""

    name = "holder"

    async def start(self, actor: ActorContext) -> None:
        self.endpoint = actor.bind_tcp("peer", "tcp://127.0.0.1:*", None).endpoint

    def drained(self, letters: Sequence[Letter]) -> None: ...
    def ticked(self, now: Instant) -> None: ...
    async def stop(self) -> None: ...


@contextlib.asynccontextmanager
async def leased(data: Path) -> AsyncIterator[tuple[Asker, contextlib.AsyncExitStack]]:
    """A witness that gave run 20 of the primary a lease of a minute; closing the stack ends that member's process."""
    async with contextlib.AsyncExitStack() as holder_life:
        holder = Holder()
        await holder_life.enter_async_context(running(holder, data))
        async with installed(data, arguments(pairs=(pair(peers=((holder.endpoint,), ())),))) as asker:
            await asker.until_granted(prepare(4, run=20))
            assert (await asker.voted(accept(record(4, run=20, lease_ns=LONG_NS)))).is_granted
            await until(asker, connected=1)
            yield asker, holder_life


async def until(asker: Asker, **wanted: object) -> dict[str, Any]:
    """Wait until the witness says this of the primary's process."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            member = seat(await asker.status())["members"][0]
            if {name: member[name] for name in wanted} == wanted:
                return dict(member)


def test_a_holder_that_listens_keeps_its_lease(tmp_path: Path) -> None:
    async def main() -> None:
        async with leased(tmp_path) as (asker, _):
            assert (await asker.voted(prepare(5, run=30))).reason == "leased"

    run(main())


def test_when_the_holder_s_process_is_gone_the_lease_keeps_nobody_away(tmp_path: Path) -> None:
    async def main() -> None:
        async with leased(tmp_path) as (asker, holder_life):
            await holder_life.aclose()
            await until(asker, is_gone=True)
            seen = await asker.voted(read(run=30, member=1))
            assert (seen.is_lease_running, seen.lease_left_ns > LONG_NS // 2) == (False, True), "effects still wait"
            assert (await asker.voted(prepare(5, run=30))).is_granted

    run(main())


def test_a_late_renewal_of_a_dead_holder_does_not_bring_its_lease_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "LATE_NS", LONG_NS)  # Late it stays, however long this test stands still.

    async def main() -> None:
        async with leased(tmp_path) as (asker, holder_life):
            await holder_life.aclose()
            await until(asker, is_gone=True)
            await asker.voted(accept(record(4, run=20, lease_ns=LONG_NS)))
            assert (await asker.until_granted(prepare(5, run=30))).promised == 5

    run(main())


def test_a_holder_that_goes_on_speaking_lives_whatever_its_endpoint_says(tmp_path: Path) -> None:
    async def main() -> None:
        async with leased(tmp_path) as (asker, holder_life):
            await holder_life.aclose()
            await until(asker, is_gone=True)
            async with asyncio.timeout(PATIENCE_S):
                while not seat(await asker.status())["members"][0]["is_contradicted"]:
                    await asker.voted(accept(record(4, run=20, lease_ns=LONG_NS)))
                    await asyncio.sleep(0.01)
            assert (await asker.voted(prepare(5, run=30))).reason == "leased"

    run(main())


def hostile(chance: random.Random) -> list[bytes | memoryview]:
    """A question with some of its bytes turned, or with fields no member would send."""
    questions: list[Question] = [read(), prepare(4), accept(record(4, run=20)), install()]
    question = chance.choice(questions)
    changes: dict[str, Any] = {"epoch": chance.choice([-1, 0, 1 << 63, (1 << 64) - 1]), "promised": (1 << 64) - 1}
    if chance.random() < 0.5:
        strange = msgspec.to_builtins(question)
        for name in ("member", "run", "round", "generation", *changes):
            if name in strange and chance.random() < 0.4:
                strange[name] = changes.get(name, chance.choice([-1, 1 << 40, (1 << 64) - 1]))
        if "record" in strange and chance.random() < 0.7:
            strange["record"]["lease_ns"] = chance.choice([-1, 0, 1 << 63, (1 << 64) - 1])
        return [msgspec.msgpack.encode(strange), *([b"raw"] * chance.randrange(3))]
    data = bytearray(encode(question)[0])
    for _ in range(chance.randrange(1, 6)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return [bytes(data[: chance.randrange(1, len(data) + 1)]) if chance.random() < 0.3 else bytes(data)]


@pytest.mark.parametrize("seed", range(4))
def test_hostile_bytes_never_crash_it_and_never_lower_a_promise(tmp_path: Path, seed: int) -> None:
    async def main() -> None:
        chance = random.Random(seed)
        async with installed(tmp_path) as asker:
            promised = (await asker.until_granted(prepare(4))).promised
            for _ in range(60):
                for _ in range(10):
                    asker.link.send_encoded(hostile(chance))
                asker.link.send(Ask(request_id=9, what="status"))
                while not isinstance(answer := await asker.next(), Answer):
                    assert not answer.is_granted or answer.promised >= promised
                    promised = max(promised, answer.promised if answer.cluster == CLUSTER else 0)
            status = await asker.status()
            assert status["stray"]["malformed"] > 20
            assert sum(seat(status)["refused"].values()) > 20
            assert seat(status)["promised"] < 1 << 32

    run(main())
