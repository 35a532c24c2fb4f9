"""Parts that tests share: the actor `history` against a leader that serves a log from memory over real links."""

import asyncio
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeVar

import msgspec

from albireo.codec.files_told import SealTold
from albireo.codec.message import Answer, Ask, FeedAck, FeedHello
from albireo.codec.record import OriginDeclared
from albireo.machine.feed.leader import Leader, LogFacts
from albireo.machine.history.sealing import SealPaceConfig
from albireo.model.instant import MS, Instant
from albireo.model.item import KnownItem
from albireo.model.position import EpochEntry, EpochHistory, Position
from albireo.node.history.actor import Historian, HistoryArguments
from albireo.runtime import ActorContext, Letter, Link
from tests.parts.history import LOG_ID, MemoryLog
from tests.parts.pulled import pulled
from tests.parts.waiting import PATIENCE_S

Story = TypeVar("Story", bound=Callable[..., Coroutine[None, None, None]])


def in_a_loop(story: Story) -> Callable[..., None]:
    @functools.wraps(story)
    def run(*args: object, **kwargs: object) -> None:
        asyncio.run(story(*args, **kwargs))

    return run


HISTORY = EpochHistory((EpochEntry(epoch=1, first_sequence=1, branch_id=5),))


class LogServer:
    """CORE as far as a follower sees it: the real leader machine over a log in memory."""

    name = "core"

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.log_id = LOG_ID
        self.history = HISTORY
        self.first_sequence = 1
        self.items: list[KnownItem] = []
        self.origins: list[OriginDeclared] = []
        self.leader = Leader()
        self.durable = Position()
        self.received = Position()
        self.credits: list[int] = []
        self.hellos_to_lose = 0
        self.seals: list[str] = []
        """What the history said of its seals."""

    async def start(self, actor: ActorContext) -> None:
        self.actor = actor
        self.link = actor.bind("core")
        actor.at_ready(lambda: self.ticked(actor.now()))

    def drained(self, letters: Sequence[Letter]) -> None:
        facts = LogFacts(self.log_id, self.history, self.first_sequence, self.committed)
        for letter in letters:
            match letter.message:
                case FeedHello() if self.hellos_to_lose > 0:
                    self.hellos_to_lose -= 1
                case FeedHello() as hello:
                    self.link.send(self.leader.hello(letter.sender, hello, facts, self.actor.now()), to=letter.sender)
                case Ask(request_id=number, what="items"):
                    self.link.send(Answer(request_id=number, result=msgspec.to_builtins(self.items)), to=letter.sender)
                case Ask(request_id=number, what="origins"):
                    told = msgspec.to_builtins(self.origins)
                    self.link.send(Answer(request_id=number, result=told), to=letter.sender)
                case SealTold(trouble=trouble):
                    self.seals.append(trouble)
                case FeedAck() as ack:
                    self.leader.ack(letter.sender, ack, self.actor.now())
                    self.durable = max(self.durable, ack.durable)
                    self.received = max(self.received, ack.received)
                    self.credits.append(ack.credit_bytes)
        self.serve()

    @property
    def committed(self) -> Position:
        return Position(self.history.epoch, self.log.end)

    def serve(self) -> None:
        for pull in self.leader.pulls(self.committed, self.actor.now()):
            given, data, raw = pulled(self.log.frames, pull, self.history.epoch)
            if data is not None and self.link.send(data, [raw], to=pull.to):
                is_all = given.scanned >= self.committed.sequence
                self.leader.pulled(pull, given.scanned, data.last, len(raw), is_all=is_all)

    def ticked(self, now: Instant) -> None:
        for to, alive in self.leader.alive(self.history.epoch, self.committed, self.committed, now):
            self.link.send(alive, to=to)
        self.serve()
        self.actor.arm(Instant(now + 20 * MS))

    async def stop(self) -> None:
        pass

    async def until_taken(self) -> None:
        """The follower has all that is in the log now."""
        await until(lambda: self.received == self.committed)


class Asker:
    """Asks the actor `history`."""

    name = "asker"

    async def start(self, actor: ActorContext) -> None:
        self.link: Link = actor.connect("history")
        self.answers: dict[int, tuple[Answer, list[bytes | memoryview]]] = {}
        self.asked = 0

    def drained(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            assert isinstance(letter.message, Answer)
            self.answers[letter.message.request_id] = (letter.message, letter.raw)

    def ticked(self, now: Instant) -> None: ...

    async def stop(self) -> None: ...

    async def ask(self, what: str, **arguments: object) -> Answer:
        self.asked += 1
        number = self.asked
        self.link.send(Ask(request_id=number, what=what, arguments=arguments))
        await until(lambda: number in self.answers)
        return self.answers[number][0]

    async def stats(self) -> dict[str, object]:
        answer = await self.ask("stats")
        assert isinstance(answer.result, dict)
        return answer.result


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  # What it waits for is in other actors.
            await asyncio.sleep(0.005)


def history(**pace: int) -> Historian:
    return Historian(HistoryArguments(node="root", pace=SealPaceConfig(**pace)))
