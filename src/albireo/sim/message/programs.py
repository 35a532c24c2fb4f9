"""Programs that receive at a simulated node: they ask for messages, take them, and go away as chance has it.

A program outlives the runs of its node. What it was given it takes at whichever run serves then, and asks again until
it has an answer, as the client does.
"""

from functools import partial
from typing import Final

import msgspec

from albireo.machine.message.events import HandOut
from albireo.machine.message.receiving.receivers import Receiver
from albireo.model.tree.message import MessageName
from albireo.sim.message.stage import MessagesStage, ServingRun

INBOX: Final = "notes"
"""Inbox of all programs of a world; there is another one that nobody reads."""
UNREAD: Final = "unread"
AGAIN_MS: Final = 30.0
TRIES_MAX: Final = 100


class Held(msgspec.Struct):
    """A note that a program was given and has not been told to have taken."""

    name: MessageName
    lease: int
    body: bytes
    tries: int = 0


class ReceivingProgram:
    """One program at one node; when it goes away, another one comes in its place over a link of its own."""

    def __init__(self, stage: MessagesStage, node: str, number: int) -> None:
        self._stage = stage
        self._name = f"{node} {number}"
        self._count = 0
        self._held: Held | None = None
        self.present = stage.present_of(node)
        stage.agenda.after_ms(stage.chance.uniform(10, 50), self._ask)

    @property
    def link(self) -> str:
        return f"{self._name} {self._count}"

    def _ask(self) -> None:
        stage, run = self._stage, self.present()
        if run is not None and self._held is None:
            run.ready(Receiver(self.link, INBOX), 1, self._handed)
        stage.agenda.after_ms(stage.chance.expovariate(1.0 / stage.swarm.receive_every_ms), self._ask)

    def _handed(self, given: HandOut) -> None:
        """Take what it is given, in a while; or go away with it, and let that be known, or not."""
        if given.receiver != self.link:
            return
        stage = self._stage
        chance = stage.chance.random()
        if stage.has_faults and chance < stage.swarm.leaves:
            leaving, self._held = self.link, None
            self._count += 1
            if chance < stage.swarm.leaves / 2 and (run := self.present()) is not None:
                run.lost(leaving)
            return
        if stage.has_faults and stage.swarm.gives_back and stage.chance.random() < stage.swarm.gives_back:
            stage.agenda.after_ms(
                stage.chance.random() * stage.swarm.device_ms, partial(self._give_back, given, self.present())
            )
            return
        self._held = held = Held(given.name, given.lease, given.body)
        stage.agenda.after_ms(stage.chance.random() * stage.swarm.device_ms, partial(self._take, held))

    def _give_back(self, given: HandOut, run: ServingRun | None) -> None:
        """Say once that nothing is done with a note; if that is not heard, the program is as good as gone."""
        if run is not None and run is self.present() and run.give_back(given.receiver, given.name, given.lease):
            self._stage.agenda.after_ms(AGAIN_MS, partial(self._say_again, given, run))

    def _say_again(self, given: HandOut, run: ServingRun) -> None:
        """Say it once more, as a client does that has heard no answer, whatever became of the note meanwhile."""
        if run is self.present() and not run.give_back(given.receiver, given.name, given.lease):
            self._stage.fail(f"{given.name} was given back, and then said not to be")

    def _take(self, held: Held) -> None:
        if self._held is not held:
            return
        held.tries += 1
        run = self.present()
        if run is not None and run.take(self.link, held.name, held.lease, partial(self._took, held)):
            self._held = None  # It is refused: another one may have it.
        elif held.tries < TRIES_MAX:
            self._stage.agenda.after_ms(AGAIN_MS, partial(self._take, held))
        else:
            self._held = None

    def _took(self, held: Held) -> None:
        if self._held is held:
            self._held = None
            self._stage.ledger.taken(held.name, held.lease, held.body)
