"""What a consumer is woken by may be another consumer's once it looks: it waits on, for as long as it was told to."""

import asyncio
import threading
import time
from typing import Any

from albireo.client.topic_consumer import AsyncTopicConsumer, TopicConsumer
from albireo.client.topic_line import CamePiece, MessageInbox
from albireo.model.instant import Instant

WAIT_S = 0.3


class Reading:
    """A reading of an inbox to which only comes what is over."""

    def __init__(self) -> None:
        self.inbox = MessageInbox(1)
        over: Any = CamePiece(None, 0, Instant(0))  # type: ignore[arg-type]  # Nobody looks into it.
        self.timers = [threading.Timer(after_s, self.inbox.put, (over,)) for after_s in (0.0, 0.05, 0.1)]
        for one in self.timers:
            one.start()

    def took(self, messages: list[Any]) -> list[Any]:
        return messages


def test_a_thread_waits_on_after_what_is_over() -> None:
    reading: Any = Reading()
    began = time.monotonic()
    assert TopicConsumer(reading).take(WAIT_S) == []
    assert time.monotonic() - began >= WAIT_S
    assert TopicConsumer(reading).take(0.0) == []


def test_a_coroutine_waits_on_after_what_is_over() -> None:
    async def story() -> None:
        reading: Any = Reading()
        began = time.monotonic()
        assert await AsyncTopicConsumer(reading).take(WAIT_S) == []
        assert time.monotonic() - began >= WAIT_S
        assert await AsyncTopicConsumer(reading).take(0.0) == []

    asyncio.run(story())
