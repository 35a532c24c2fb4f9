"""Parts that tests of notification share: rules, cases, a world of faces on one record, mail server and webhook."""

import asyncio
import contextlib
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

from albireo.face.notify.hours import week_mask
from albireo.face.notify.machine import Effect, ForgetNotice, NotifyMachine, RecordNotice, SendNotice, TellUnreached
from albireo.face.notify.notice import Notice, SendOutcome
from albireo.face.notify.rules import Duty, NotifyFile, NotifyRules, Rule, RuleSettings
from albireo.model.case import ItemCase
from albireo.model.instant import SECOND, Instant
from albireo.model.item import Condition

ALL_DAYS = (datetime.fromisoformat("2020-01-01"), datetime.fromisoformat("2100-01-01"))
WALL_NS = 1_700_000_000 * SECOND
MINUTE = 60 * SECOND


def duty(name: str, order: int, kind: str = "mail", weekly: str = "") -> Duty:
    return Duty(order, name, kind, f"{name}@plant.example", order, *ALL_DAYS, week_mask(weekly))


def rules_of(*duties: Duty, **settings: object) -> NotifyRules:
    """One rule, `night`, with this roster."""
    rule = RuleSettings(name="night", roster="roster.csv", **{"most": 3, "within_s": 30, **settings})  # type: ignore[arg-type]
    told = Rule(rule, week_mask(rule.hours), duties)
    return NotifyRules(NotifyFile(rule=(rule,)), Path(), {rule.name: told}, UTC)


def case_of(number: int, node: str = "root", item: str = "", **fields: object) -> ItemCase:
    told = {"item": f"{node}:{item or f'co_{number}'}", "severity": 900, **fields}
    return ItemCase(case_id=number, item_id=number, condition=Condition.HI, **told)  # type: ignore[arg-type]


class Faces:
    """One face after the other on one record, each of which may be killed between any two effects."""

    def __init__(self, rules: NotifyRules) -> None:
        self.rules = rules
        self.store: dict[str, tuple[Notice, int]] = {}
        self.sends: list[tuple[str, str, bool]] = []
        """Number, address, and whether the words said that it may be the second."""
        self.doubts: Counter[tuple[str, str]] = Counter()
        """How often nobody could know whether a notice left for an address."""
        self.cases: dict[int, ItemCase] = {}
        self.now, self.wall_ns = Instant(10**12), WALL_NS
        self.answers: Callable[[SendNotice], SendOutcome] = lambda _: SendOutcome.SENT
        self.unreached = TellUnreached(0, "")
        self.silent: tuple[str, ...] = ()
        self._version = 0
        self.work: deque[Effect] = deque()
        self.begin()

    def begin(self) -> None:
        """Kill the face that there is: another one goes on from the record."""
        lasts = [(number, notice.tried[-1]) for number, (notice, _) in self.store.items() if notice.tried]
        self.doubts.update((number, one.address) for number, one in lasts if one.outcome is SendOutcome.LEAVING)
        self.work.clear()
        self.machine = NotifyMachine({"root:notify/unreached"})
        self.machine.ruled(self.rules)
        self.machine.heard(self.cases.values(), self.silent, is_whole=True, is_live=True)
        self.machine.loaded(self.store, self.now, self.wall_ns)
        self._look()

    def hear(self, *cases: ItemCase) -> None:
        self.cases.update((one.case_id, one) for one in cases)
        self.machine.heard(cases, self.silent, is_whole=False, is_live=True)
        self._look()

    def step(self) -> bool:
        """Do one effect."""
        if not self.work:
            return False
        match effect := self.work.popleft():
            case RecordNotice(notice, version):
                assert self.store.get(notice.number, (None, 0))[1] == version, "one record at a time"
                self._version += 1
                self.store[notice.number] = notice, self._version
                self._add(self.machine.recorded(notice.number, self._version, self.now))
            case ForgetNotice(number, version):
                assert self.store.pop(number)[1] == version
                self._add(self.machine.recorded(number, 0, self.now))
            case TellUnreached():
                self.unreached = effect
        self._look()
        return True

    def leave(self) -> SendNotice | None:
        """Let the message of the first effect leave, if it is a send."""
        if not self.work or not isinstance(effect := self.work[0], SendNotice):
            return None
        assert self.store[effect.notice.number][0].tried[-1].outcome is SendOutcome.LEAVING, (
            "on record before it leaves"
        )
        if self.answers(effect) in (SendOutcome.SENT, SendOutcome.UNKNOWN):
            self.sends.append((effect.notice.number, effect.to.address, effect.may_be_second))
        return effect

    def answer(self, effect: SendNotice) -> None:
        self.work.popleft()
        outcome = self.answers(effect)
        self.doubts[effect.notice.number, effect.to.address] += outcome is SendOutcome.UNKNOWN
        self._add(self.machine.sent(effect.notice.number, outcome, "so it is", self.now, self.wall_ns))
        self._look()

    def run(self) -> None:
        """Do all that is to be done now."""
        while self.work:
            effect = self.leave()
            if effect is not None:
                self.answer(effect)
            else:
                self.step()

    def passes(self, nanoseconds: int, step: int = SECOND) -> None:
        for _ in range(0, nanoseconds, step):
            self.now, self.wall_ns = Instant(self.now + step), self.wall_ns + step
            self._look()
            self.run()

    def told(self) -> list[str]:
        """Names of who was told, in their order."""
        return [address.partition("@")[0] for _, address, _ in self.sends]

    def _look(self) -> None:
        self._add(self.machine.passed(self.now, self.wall_ns))

    def _add(self, effects: Sequence[Effect]) -> None:
        self.work.extend(effects)


class MailServer:
    """A small one: takes mail, or does what a test wants it to do instead."""

    def __init__(self, answers: dict[str, str] | None = None) -> None:
        """`answers`: by the first word of an order, such as `RCPT`; `.` is the end of a mail, `hello` the first line.
        `HANG` says nothing, `FLOOD` says too much, `DROP` closes."""
        self.answers = answers or {}
        self.mails: list[EmailMessage] = []
        self.came = asyncio.Event()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._say(writer, "hello", "220 here")
            while line := await reader.readline():
                order = line.decode().split()[0].upper()
                if order == "DATA":
                    await self._say(writer, order, "354 go on")
                    text = await reader.readuntil(b"\r\n.\r\n")
                    undotted = text[:-3].replace(b"\r\n..", b"\r\n.")
                    self.mails.append(message_from_bytes(undotted, policy=policy.default))
                    self.came.set()
                    order = "."
                await self._say(writer, order, "250-mine\r\n250 AUTH PLAIN" if order == "EHLO" else "250 good")
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _say(self, writer: asyncio.StreamWriter, order: str, usual: str) -> None:
        answer = self.answers.get(order, usual)
        if answer == "HANG":
            await asyncio.Event().wait()
        if answer == "DROP":
            raise ConnectionError
        while answer == "FLOOD":
            writer.write(b"250-more of it\r\n" * 1_000)
            await writer.drain()
        writer.write(answer.encode() + b"\r\n")
        await writer.drain()


@contextlib.asynccontextmanager
async def mail_server(answers: dict[str, str] | None = None, port: int = 0) -> AsyncIterator[MailServer]:
    server = MailServer(answers)
    async with serving(server.serve, port) as server.port:
        yield server


class Hook:
    """Takes POSTs; `answer` is what it says to each: `FLOOD` streams for ever."""

    def __init__(self, answer: str = "HTTP/1.1 204 No Content\r\n\r\n") -> None:
        self.answer = answer
        self.heads: list[str] = []
        self.bodies: list[dict[str, object]] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            size = int(head.lower().partition("content-length: ")[2].split("\r\n")[0])
            self.heads.append(head)
            self.bodies.append(json.loads(await reader.readexactly(size)))
            while self.answer == "FLOOD":
                writer.write(b"x" * 10_000)
                await writer.drain()
            writer.write(self.answer.encode())
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def web_hook(answer: str = "HTTP/1.1 204 No Content\r\n\r\n") -> AsyncIterator[Hook]:
    hook = Hook(answer)
    async with serving(hook.serve) as port:
        hook.url = f"http://127.0.0.1:{port}/alarm?of=plant"
        yield hook


@contextlib.asynccontextmanager
async def serving(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], object], port: int = 0
) -> AsyncIterator[int]:
    tasks: set[asyncio.Task[object]] = set()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())  # type: ignore[arg-type]
        with contextlib.suppress(asyncio.CancelledError):  # At the end; nobody else cancels it.
            await serve(reader, writer)  # type: ignore[misc]

    server = await asyncio.start_server(one, "127.0.0.1", port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
