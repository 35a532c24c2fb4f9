"""A coroutine of the client that is cancelled ends as cancelled, also if what it waits for comes in the same moment.

asyncio.wait_for of Python 3.11 swallows such a cancellation: whoever cancelled waits for good.
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final, cast

import pytest

from albireo.client.conversed import LoopClient
from albireo.client.core import ClientCore
from albireo.client.putting import TopicPutting, receives
from albireo.machine.producer.sending import Acknowledged
from albireo.runtime.link.names import HostNames

TURNS: Final = range(8)
"""Turns of the loop between the end of what is waited for and the cancellation."""


class Offering:
    """A client whose batch has a receipt that the test gives."""

    def __init__(self) -> None:
        self.receipt: Future[Acknowledged] = Future()

    async def converse(self, conversation: object) -> Future[Acknowledged]:
        return self.receipt


async def cancelled_after(turns: int, waiting: Coroutine[Any, Any, object], ended: Future[Any], result: object) -> None:
    """Cancel so many turns behind the end; it is over by then, or it ends as cancelled."""
    task = asyncio.create_task(waiting)
    for _ in TURNS:
        await asyncio.sleep(0)
    ended.set_result(result)
    for _ in range(turns):
        await asyncio.sleep(0)
    is_over = task.done()
    task.cancel()
    await asyncio.wait({task})
    assert is_over or task.cancelled(), f"a cancellation {turns} turns later is lost"


@pytest.mark.parametrize("turns", TURNS)
def test_a_put_whose_receipt_comes_as_it_is_cancelled(turns: int) -> None:
    async def story() -> None:
        client = Offering()
        putting = TopicPutting(cast(ClientCore, None), [("jobs", [b"1"])])
        await cancelled_after(turns, receives(cast(LoopClient, client), putting), client.receipt, None)

    asyncio.run(story())


@pytest.mark.parametrize("turns", TURNS)
def test_a_wait_for_a_name_whose_answer_comes_as_it_is_cancelled(turns: int) -> None:
    async def story() -> None:
        names = HostNames()
        names.addresses("localhost.localdomain", 1.0)
        known = names._known["localhost.localdomain"]
        known.meaning, known.lookup = type(known.meaning)(trouble="none yet"), Future()
        known.lookup.set_running_or_notify_cancel()
        await cancelled_after(turns, names.found("localhost.localdomain", 10.0), known.lookup, None)

    asyncio.run(story())
