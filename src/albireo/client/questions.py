"""Questions of a client: many at a time, from any thread, to the member that acts or to a named one.

The machine is machine/producer/asking.py; this part has its lines, its futures, and how long each question waits.
"""

import contextlib
import heapq
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from albireo.client.engine import Engine, log
from albireo.client.errors import (
    ArgumentRefused,
    ClientBusy,
    ClientClosed,
    ClientError,
    NodeUnreachable,
    NotInTime,
    OutcomeUnknown,
    refused,
)
from albireo.client.way import Target, Way
from albireo.codec.errors import DecodeError
from albireo.codec.message import Answer, AnyMessage, Ask, decode, encode
from albireo.codec.questions.declared import QUESTIONS, AnyKind
from albireo.codec.questions.kind import NO_PERSONS, Answerer
from albireo.machine.producer.asking import (
    UNASKED,
    AnswerCame,
    Effects,
    GivenUp,
    NodeAsker,
    NotSaid,
    QuestionAsked,
    Unanswered,
)
from albireo.machine.producer.seeking import LineDown, LineUp, SeekConfig
from albireo.machine.producer.sending import Heard, SayTo
from albireo.model.instant import MS, SECOND, Instant, TimePassed
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.typed_number import shortened
from albireo.runtime.clock import boot_ns
from albireo.runtime.directory import RunDirectory, holder
from albireo.runtime.errors import NodeSilent
from albireo.runtime.link.lines import LineNews, LineTo

OPEN_MAX: Final = 1_000
"""Questions that wait for their answers at a time."""
LOCKED_OUT_S: Final = 3.0
"""Time after which a question ends early, if nobody but people with keys can change that it has no answer."""


_encoder: Final = msgspec.msgpack.Encoder()
EXPIRES: Final = "expires_ms"
"""Argument of an order: how long it may take until it is begun."""
SMALL_BYTES: Final = 256
"""Size up to which nothing in a question can be too long or too deep for a node; a larger one is read for a check."""
TIME_S_MAX: Final = 1e9
"""Longest time, in seconds, that can be meant; what a node takes is less."""


def milliseconds(seconds: float) -> int:
    """A time of a question, as the node takes it. Raises: as `checked_s`."""
    return round(checked_s(seconds) * 1000)


def checked_s(seconds: float) -> float:
    """A time that a program gave.

    Raises:
        ValueError: it is no number, or so long that nobody could wait for it.
    """
    if not isinstance(seconds, int | float) or not abs(seconds) <= TIME_S_MAX:
        raise ValueError(f"{shortened(repr(seconds))} is no time in seconds")
    return seconds


_Made = TypeVar("_Made")


def sayable(what: object, make: Callable[[], _Made]) -> _Made:
    """Have `make` make something of the arguments of a caller, where he gives them.

    Raises:
        ArgumentRefused: it can't be made of them.
    """
    try:
        return make()
    except ArgumentRefused:
        raise
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError, DecodeError) as error:
        raise ArgumentRefused(what, error) from error


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One question with everything that is to be known of it."""

    what: str
    arguments: dict[str, Any] = {}
    of: str = "core"
    """Part of the node that is asked: `core`, `history`, `boot`."""
    member: int | None = None
    """Member that is asked, acting or not; None: the one that acts."""
    wait_s: float | None = None
    """Time that the answer may take; None: that of the client."""
    pause_s: float = 0.0
    """Time that whoever asks waits before."""
    person: str = ""
    """Name of the person for whom it is asked; empty: for whoever asks."""

    @property
    def kind(self) -> AnyKind | None:
        """The question as it is declared; None: this version knows none of this name there."""
        found = QUESTIONS.get(self.what)
        return found if found is not None and found.answerer.part == self.of else None

    @property
    def is_reading(self) -> bool:
        return self.kind is not None and self.kind.is_reading


class NodeReply(msgspec.Struct, frozen=True, eq=False):
    """An answer without an error."""

    result: Any
    raw: Sequence[bytes | memoryview] = ()


class Awaited(Future[NodeReply]):
    """The answer to come to the question of this number."""

    def __init__(self, request_id: int) -> None:
        super().__init__()
        self.request_id = request_id


class _Waiting(msgspec.Struct, eq=False):
    """Somebody waits for the answer to this."""

    request: Request
    arguments: Any
    """Arguments, encoded: nothing that their giver does with them later changes the question."""
    command_id: str
    wait_s: float
    future: Awaited
    asked_at: Instant = Instant(0)

    def ends_at(self, wait_s: float) -> Instant:
        """When it has waited so long."""
        return Instant(self.asked_at + int(wait_s * SECOND))


class Questions:
    """The part. Its methods but `ask` run in the engine's thread."""

    def __init__(self, engine: Engine, target: Target, wait_s: float) -> None:
        """`wait_s`: time that an answer may take. Raises: as `Lines`."""
        self.lines = Way(target)
        self.machine = NodeAsker("client", SeekConfig(), boot_ns(), len(target.lines))
        self._engine = engine
        self._target = target
        self._wait_s = wait_s
        self._ids = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._error: ClientClosed | None = None
        """Why nothing is asked any more; None: it is."""
        self._due: list[tuple[int, int]] = []
        """Heap of (instant, request id): when it is looked whether a question is given up."""
        self.over: Refusal | None = None
        """Refusal with which the node ended the session of this client; None: it did not."""
        self._aside: dict[tuple[int, str], int] = {}
        """Lines to the parts of a member of this machine that have a link of their own."""

    def ask(self, request: Request) -> Awaited:
        """Ask; from any thread.

        Returns:
            The answer to come; or a ClientError.
        Raises:
            ArgumentRefused, ClientClosed, ClientBusy.
        """
        one = sayable(request.what, partial(self._made, request))
        self._engine.hand_over(partial(self._begin, one), one.future)
        return one.future

    def give_up(self, awaited: Awaited) -> None:
        """Nobody waits for this answer any more, so the node is to give it to nobody; from any thread."""
        with contextlib.suppress(ClientError):
            self._engine.post(partial(self._given_up, awaited.request_id), self)

    def _given_up(self, request_id: int) -> None:
        self._waiting.pop(request_id, None)
        self._perform(self.machine.step(GivenUp(request_id), boot_ns()), ())

    def _made(self, request: Request) -> _Waiting:
        """The question as the node will read it: nothing can be wrong with it once it is entered."""
        what, of, member = request.what, request.of, request.member
        if not (isinstance(what, str) and isinstance(of, str)):
            raise TypeError("a question and a part of a node have names")
        if member is not None and member not in range(len(self._target.lines)):
            raise ValueError(f"{len(self._target.lines)} members are known here, and none is {member!r}")
        wait_s = self._wait_s if request.wait_s is None else request.wait_s
        checked_s(wait_s)
        encoded, request_id = _encoder.encode(request.arguments), next(self._ids)
        arguments: Any = msgspec.Raw(encoded)
        if len(what) + len(of) + len(encoded) > SMALL_BYTES or request.person or not f"{what}{of}".isascii():
            ask = Ask(request_id=request_id, what=what, arguments=arguments, of=of, person=request.person)
            decode(encode(ask), takes_answers=False)
        command_id = str(request.arguments.get("command_id", ""))
        return _Waiting(request, arguments, command_id, wait_s, Awaited(request_id))

    def _begin(self, one: _Waiting) -> None:
        if self._error is not None:
            raise self._error
        if len(self._waiting) >= OPEN_MAX:
            raise ClientBusy(OPEN_MAX)
        request, request_id = one.request, one.future.request_id
        line, of = self._line_for(request)
        one.asked_at = boot_ns()
        self._waiting[request_id] = one
        for looks_s in {one.wait_s, min(one.wait_s, LOCKED_OUT_S)}:
            heapq.heappush(self._due, (one.ends_at(looks_s), request_id))
        kind = request.kind
        ask = Ask(request_id=request_id, what=request.what, arguments=one.arguments, of=of, person=request.person)
        is_repeatable, is_order = (False, False) if kind is None else (kind.is_repeatable, kind.is_order)
        self._perform(self.machine.step(QuestionAsked(ask, line, is_repeatable, is_order), boot_ns()), ())

    def _line_for(self, request: Request) -> tuple[int | None, str]:
        """Line that the request goes to, and what the question says of whom it is for."""
        member = 0 if self._target.is_pinned else request.member
        if request.of == "core":
            to = self._target.lines[0]
            if self._target.is_pinned and to.is_local and 0 not in self.machine.up:
                check_listens(to.endpoint, to.link)
            return member, ""
        if request.kind is not None and request.kind.answerer is Answerer.HANDED_ON:
            return member, request.of
        if request.person:
            raise refused(request.what, NO_PERSONS)
        if member is None:
            member = self.machine.chosen
        if member is None:
            member = min(self.machine.up, default=0)
        to = self._target.lines[member]
        if not to.is_local:
            cause = f"{request.of!r} is asked on its own machine only"
            raise refused(request.what, Refusal(RefusalCode.UNKNOWN_QUESTION, cause))
        if (member, request.of) not in self._aside:
            check_listens(to.endpoint, request.of)
            self._aside[member, request.of] = self.lines.add(LineTo(to.endpoint, link=request.of))
            self._engine.watch(self)
        return self._aside[member, request.of], ""

    # For the engine.

    def deadline(self) -> Instant | None:
        while self._due and self._due[0][1] not in self._waiting:
            heapq.heappop(self._due)
        due = [Instant(self._due[0][0])] if self._due else []
        seek = self.machine.deadline()
        return min([*due, seek] if seek is not None else due, default=None)

    def heard(self, news: LineNews, now: Instant) -> None:
        before = self.machine.chosen
        if news.is_up is not None:
            self._tell_line(news)
            self._perform(self.machine.step((LineUp if news.is_up else LineDown)(news.line), now), ())
        elif isinstance(news.message, Answer) and news.message.request_id == UNASKED:
            self._told_unasked(news.message)
        elif news.message is not None:
            self._perform(self.machine.step(Heard(news.line, news.message), now), news.raw)
        if self.machine.chosen != before:
            chosen = self.machine.chosen
            log.info("acting: %s", "nobody known" if chosen is None else self._target.lines[chosen].endpoint)

    def ticked(self, now: Instant) -> None:
        while self._due and self._due[0][0] <= now:
            self._look_at(heapq.heappop(self._due)[1], now)
        self._perform(self.machine.step(TimePassed(), now), ())

    def ended(self, error: ClientClosed) -> None:
        self._error = error
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            one.future.set_exception(error)

    def _told_unasked(self, answer: Answer) -> None:
        """Take a word that no question waits for: the answer to "I am there", or that the session was ended."""
        over = answer.refusal
        if over is not None and over.code == RefusalCode.SESSION_OVER and over != self.over:
            self.over = over
            log.warning("%s", over)

    def _tell_line(self, news: LineNews) -> None:
        if news.line < len(self._target.lines):
            log.info("%s: %s", self._target.lines[news.line].endpoint, "connected" if news.is_up else "connection lost")

    def _perform(self, effects: Effects, raw: Sequence[bytes | memoryview]) -> None:
        for effect in effects:
            match effect:
                case SayTo(line, message):
                    is_sent = self.lines.send(line, self._with_time_left(message))
                    if not is_sent and isinstance(message, Ask):
                        self.machine.step(NotSaid(message.request_id), boot_ns())
                case AnswerCame(answer=answer):
                    self._answered(answer, raw)
                case Unanswered(line, request_id, refusal):
                    gone = self._target.lines[min(line, len(self._target.lines) - 1)].endpoint
                    self._fail(request_id, refusal.cause if refusal else f"{gone} is gone before it answered")

    def _with_time_left(self, message: AnyMessage) -> AnyMessage:
        """The question, whose time began when it was asked here; what was over by then is only asked after."""
        one = self._waiting.get(message.request_id) if isinstance(message, Ask) else None
        if one is None or EXPIRES not in one.request.arguments:
            return message
        spent_ms = (boot_ns() - one.asked_at) // MS
        if spent_ms <= 0:
            return message
        given = msgspec.msgpack.decode(one.arguments)
        if not isinstance(given[EXPIRES], int) or given[EXPIRES] <= 0:
            return message
        return msgspec.structs.replace(message, arguments=given | {EXPIRES: max(1, given[EXPIRES] - spent_ms)})

    def _answered(self, answer: Answer, raw: Sequence[bytes | memoryview]) -> None:
        one = self._waiting.pop(answer.request_id)
        if answer.refusal is not None:
            one.future.set_exception(refused(one.request.what, answer.refusal, one.command_id))
        else:
            one.future.set_result(NodeReply(answer.result, raw))

    def _look_at(self, request_id: int, now: Instant) -> None:
        """End the question if its time is over, or if nobody can come who would answer."""
        one = self._waiting.get(request_id)
        if one is None:
            return
        if now >= one.ends_at(one.wait_s):
            self._run_out(request_id, one, one.wait_s)
        elif self.lines.is_locked_out(self.machine.up):
            self._run_out(request_id, one, LOCKED_OUT_S)

    def _run_out(self, request_id: int, one: _Waiting, waited_s: float) -> None:
        was_said = self.machine.was_said(request_id)
        self._perform(self.machine.step(GivenUp(request_id), boot_ns()), ())
        if was_said and not one.request.is_reading:
            self._fail(request_id, f"no answer within {waited_s:g} s")
            return
        del self._waiting[request_id]
        part, what = one.request.of, one.request.what
        told = what if part == "core" else f"{part}: {what}"
        one.future.set_exception(self.lines.silence(self.machine.up, told, waited_s))

    def _fail(self, request_id: int, cause: str) -> None:
        one = self._waiting.pop(request_id)
        what = one.request.what
        error: ClientError = OutcomeUnknown(what, cause, one.command_id)
        one.future.set_exception(NodeUnreachable(f"{what}: {cause}") if one.request.is_reading else error)


def check_listens(data: str, link: str) -> None:
    """Raises NodeUnreachable at once if no process of a node of this machine listens."""
    remedy = f"start it: albireo node run --data {data} ..."
    try:
        run = RunDirectory(Path(data), create=False)
    except FileNotFoundError as error:
        raise NodeUnreachable(str(NodeSilent(Path(data), link, "no node has ever run there")), remedy) from error
    try:
        if not run.answers(link):
            if holder(Path(data)):
                raise NotInTime(f"{link} of the node in {data} starts, or is begun anew, and does not listen yet")
            raise NodeUnreachable(str(NodeSilent(Path(data), link, "nothing listens")), remedy)
    finally:
        run.close()
