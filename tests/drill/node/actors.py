"""Actors for the drills of the runtime. They misbehave when told to, by an `Ask` on their link."""

import os
import signal
import time
from collections.abc import Sequence

from albireo.codec.message import Answer, Ask
from albireo.model.instant import Instant
from albireo.runtime import ActorContext, ConfigurationRefused, Letter, StoreRefused


class Drilled:
    """Binds its own name and does what it is asked."""

    def __init__(self, arguments: dict[str, object]) -> None:
        self.name = str(arguments["name"])
        self.arguments = arguments

    async def start(self, actor: ActorContext) -> None:
        if self.arguments.get("refuse"):
            raise ConfigurationRefused("there is no such device")
        if self.arguments.get("damaged"):
            raise StoreRefused("its data are damaged", may_pass=False)
        if self.arguments.get("crash_at_start"):
            raise RuntimeError("born to die")
        self.actor = actor
        self.link = actor.bind(self.name)
        actor.log.info("drilled_started", arguments=self.arguments)

    def drained(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            if isinstance(letter.message, Ask):
                self._obey(letter, letter.message)

    def _obey(self, letter: Letter, ask: Ask) -> None:
        result: object = None
        match ask.what:
            case "ping":
                result = [os.getpid(), os.getppid()]
            case "crash":
                raise RuntimeError("told to crash")
            case "fail":
                self.actor.fail("told to fail")
            case "hang":
                time.sleep(float(str(ask.arguments["seconds"])))
            case "exit":
                os.kill(os.getpid(), signal.SIGKILL)
        letter.link.send(Answer(request_id=ask.request_id, result=result), to=letter.sender)

    def ticked(self, now: Instant) -> None:
        pass

    async def stop(self) -> None:
        if self.arguments.get("hang_at_stop"):
            time.sleep(30)  # noqa: ASYNC251  # It hangs: that is its purpose.


def create(arguments: dict[str, object]) -> Drilled:
    return Drilled(arguments)
