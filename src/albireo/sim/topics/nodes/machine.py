"""The process of the actor `topics` of a member, with its files on a simulated disk."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from albireo.node.core.arguments import CoreArguments
from albireo.node.topics.actor import TopicsActor
from albireo.node.topics.arguments import TopicsArguments
from albireo.node.topics.store import TopicStore
from albireo.runtime import Behaviour
from albireo.sim.engine.disk import PowerCut, SimDisk
from albireo.sim.nodes.actor import StagedActor
from albireo.sim.nodes.ledger import NodeLedger
from albireo.sim.nodes.machine import Killed, Machine
from albireo.sim.nodes.member import MemberMachine
from albireo.sim.nodes.network import Host
from albireo.sim.nodes.stage import NodeStage

WAIT_MS = 50.0
"""Time after which a process whose machine is off looks again."""


class StagedTopicStore(TopicStore):
    """Files on a simulated disk."""

    def _source(self, path: Path) -> pa.BufferReader:
        handle = self._files.open(path)
        data = self._files.pread(handle, self._files.size(handle), 0)
        self._files.close(handle)
        return pa.BufferReader(data)


class StagedTopics(TopicsActor):
    """The actor on such files."""

    store_type = StagedTopicStore

    @property
    def is_whole(self) -> bool:
        """Its files lack nothing."""
        return not self._store.holes


class StagedThread(Executor):
    """A thread of the process: what it is given to do takes as long as a sync, one thing after the other."""

    def __init__(self, machine: "TopicsMachine", _: str) -> None:
        self._machine = machine
        self._free_at = 0

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        agenda = self._machine.agenda
        self._free_at = max(self._free_at, agenda.at) + self._machine.stage.sync_ns()
        come = partial(self._come, self._machine.actor, done, partial(work, *arguments, **named))
        agenda.call_at(self._free_at, come)
        return done

    def _come(self, actor: StagedActor | None, done: Future[Any], work: Callable[[], object]) -> None:
        machine = self._machine
        if actor is None or actor is not machine.actor or not actor.is_alive:
            return
        until = max(actor.paused_until, machine.hung_until)
        if until > machine.agenda.at:
            machine.agenda.call_at(until, partial(self._come, actor, done, work))
        else:
            machine.aside(partial(_do, done, work))


def _do(done: Future[Any], work: Callable[[], object]) -> None:
    try:
        found = work()
    except (PowerCut, Killed):
        raise
    except Exception as error:  # noqa: BLE001  # As an executor does; whoever looks at the future raises what is a bug.
        done.set_exception(error)
    else:
        done.set_result(found)


class TopicsMachine(Machine):
    """The process of a member's topics and its disk: it goes off and on with the member's machine."""

    def __init__(self, stage: NodeStage, host: Host, ledger: NodeLedger) -> None:
        super().__init__(stage, host, ledger)
        self.name = f"{host.name}.topics"
        self.topics: StagedTopics

    @property
    def is_whole(self) -> bool:
        """It is up, and its files lack nothing."""
        return self.is_calm and self.actor is not None and self.actor.is_ready and self.topics.is_whole

    def behaviour(self) -> Behaviour:
        self.stage.note(self.name, "starts")
        disk: SimDisk = self.disk
        arguments = TopicsArguments(node="root", is_paired=True)
        self.topics = StagedTopics(arguments, disk, self.stage.chance.randbytes, partial(StagedThread, self))
        return self.topics

    def _start(self, asked_for: int) -> None:
        if asked_for == self._start_at and not self.is_up and not self.host.is_on:
            self.start_soon(WAIT_MS)
        else:
            super()._start(asked_for)

    def crashed(self, actor: StagedActor, error: Exception) -> None:
        if isinstance(error, OSError) and self.is_sick and actor is self.actor and actor.is_alive:
            self.dies(f"ends: {error}", is_power=False)
        else:
            super().crashed(actor, error)


class TopicsMember(MemberMachine):
    """A member with its topics."""

    def __init__(
        self, stage: NodeStage, host: Host, ledger: NodeLedger, members: list[MemberMachine], arguments: CoreArguments
    ) -> None:
        super().__init__(stage, host, ledger, members, arguments)
        self.topics = TopicsMachine(stage, host, ledger)

    def down(self, why: str, *, is_power: bool) -> None:
        super().down(why, is_power=is_power)
        if is_power:
            self.topics.down(why, is_power=True)
            self.topics.start_soon(WAIT_MS)

    def exchange(self, disk: SimDisk) -> None:
        super().exchange(disk)
        self.topics.refit(SimDisk(self.stage.chance.getrandbits(32)))
