"""Conversed methods: each question that a client asks is written once, for threads and for coroutines.

Such a method returns a conversation. The two kinds of client differ in how they hold it: one blocks the thread that
calls it, the other is awaited.

Decision: ADR-0241.
"""

import functools
import time
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, cast, overload

from albireo.client.conversation import Conversation
from albireo.client.core import ClientCore
from albireo.client.errors import ClientError

_Wanted = TypeVar("_Wanted")
_WantedSo = TypeVar("_WantedSo", covariant=True)
_Given = ParamSpec("_Given")


class AnyClient:
    """A client of either kind: its core, and who speaks."""

    def __init__(self, core: ClientCore) -> None:
        """Use `connect` or `aconnect`."""
        self._core = core

    def speaking_for(self, person: str) -> Self:
        """A client over the same connections, every question of which is asked for a person: it can do what that one
        may, and an admin only may speak so. Closing it leaves this one open.
        """
        return type(self)(self._core.speaking_for(person))

    @property
    def user(self) -> str:
        """Who speaks, for the audit journal."""
        return self._core.user

    @property
    def acting(self) -> int | None:
        """Index of the member that is known to act: 0 the primary, 1 the backup; None: neither."""
        return self._core.acting


class ThreadClient(AnyClient):
    """A client whose methods block the thread that calls them."""

    def converse(self, conversation: Conversation[_Wanted]) -> _Wanted:
        """Ask what a conversation asks, and give what it comes to."""
        try:
            request = next(conversation)
            while True:
                if request.pause_s:
                    time.sleep(request.pause_s)
                awaited = None
                try:
                    awaited = self._core.begin(request)
                    reply = awaited.result()
                except ClientError as error:
                    request = conversation.throw(error)
                except BaseException:  # Such as Ctrl-C; it goes on, and nobody waits for the answer.
                    if awaited is not None:
                        self._core.give_up(awaited)
                    raise
                else:
                    request = conversation.send(reply)
        except StopIteration as ended:
            wanted: _Wanted = ended.value
            return wanted


async def made_aside(make: Callable[[], _Wanted], undo: Callable[[_Wanted], object]) -> _Wanted:
    """Make something in a thread; whoever is cancelled while he waits for it leaves nothing behind."""
    import asyncio  # A program of threads does without it.

    made: list[_Wanted] = []
    is_left = False

    def work() -> _Wanted:
        made.append(make())
        if is_left:
            undo(made[0])
        return made[0]

    try:
        return await asyncio.to_thread(work)
    except BaseException:  # As a rule it is cancelled; that goes on, and what was made does not.
        is_left = True
        for one in made:
            undo(one)
        raise


class LoopClient(AnyClient):
    """A client whose methods are coroutines of one loop."""

    async def converse(self, conversation: Conversation[_Wanted]) -> _Wanted:
        """Ask what a conversation asks, and give what it comes to."""
        import asyncio  # A program of threads does without it.

        try:
            request = next(conversation)
            while True:
                if request.pause_s:
                    await asyncio.sleep(request.pause_s)
                awaited = None
                try:
                    awaited = self._core.begin(request)
                    reply = await asyncio.wrap_future(awaited)
                except ClientError as error:
                    request = conversation.throw(error)
                except BaseException:  # As a rule it is cancelled; that goes on, and nobody waits for the answer.
                    if awaited is not None:
                        self._core.give_up(awaited)
                    raise
                else:
                    request = conversation.send(reply)
        except StopIteration as ended:
            wanted: _Wanted = ended.value
            return wanted


class Conversed(Protocol[_Given, _WantedSo]):
    """A conversed method, as a type checker sees it: threads get the value, coroutines await it."""

    @overload
    def __get__(self, client: ThreadClient, owner: type | None = ...) -> Callable[_Given, _WantedSo]: ...
    @overload
    def __get__(
        self, client: LoopClient, owner: type | None = ...
    ) -> Callable[_Given, Coroutine[Any, Any, _WantedSo]]: ...


def conversed(method: Callable[Concatenate[Any, _Given], Conversation[_Wanted]]) -> Conversed[_Given, _Wanted]:
    """A method of both kinds of client, from one that returns the conversation which it holds."""

    @functools.wraps(method)
    def converses(client: Any, /, *given: _Given.args, **named: _Given.kwargs) -> Any:
        return client.converse(method(client, *given, **named))

    return cast(Conversed[_Given, _Wanted], converses)
