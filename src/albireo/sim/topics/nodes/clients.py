"""Programs of the world: they put, or read, as the client library does, at whichever member leads."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from albireo.codec.message import AnyMessage
from albireo.machine.producer.config import RUN_MAX, ProducerConfig
from albireo.machine.producer.flight import PutOffer
from albireo.machine.producer.producer import Offered
from albireo.machine.producer.seeking import LineDown, LineUp, SeekConfig
from albireo.machine.producer.sending import Acknowledged, BatchRefused, Heard, PairSender, SayTo, Superseded
from albireo.model.instant import MS, TimePassed
from albireo.runtime.link.link import DEFAULT_LIMITS
from albireo.sim.nodes.clients import SimulatedClient
from albireo.sim.nodes.network import Host, Parts, StagedLink
from albireo.sim.nodes.stage import NodeStage
from albireo.sim.topics.programs import SimProgram

TICK_MS = 30.0
"""Time between two deeds of a program that reads."""


class PutProgram(SimulatedClient):
    """Program that puts batches, each of which has a fate."""

    def __init__(
        self,
        stage: NodeStage,
        host: Host,
        name: str,
        endpoints: Sequence[str],
        told: Callable[[str, PutOffer, bool], object],
    ) -> None:
        """`told`: hears the name, a batch, and whether it is on record."""
        super().__init__(stage, host, name)
        run = 1 + stage.chance.randrange(RUN_MAX)
        self.machine = PairSender(name, [], run=run, config=ProducerConfig(), seek=SeekConfig(), now=self.now())
        self.under_way: deque[tuple[int, PutOffer]] = deque()
        self._told = told
        self._offered = 0
        self._members = self.dial_members(endpoints, self._changed)

    def offer(self, offer: PutOffer) -> None:
        self._offered += 1
        self.under_way.append((self._offered, offer))
        self._perform(self.machine.step(Offered(batches=(offer,)), self.now()))

    def post(self, link: StagedLink, sender: bytes, message: AnyMessage, raw: Parts) -> None:
        self._perform(self.machine.step(Heard(self._members.index(link), message), self.now()))

    def pass_time(self) -> None:
        self._perform(self.machine.step(TimePassed(), self.now()))

    def _changed(self, member: int, is_up: bool) -> None:
        self._perform(self.machine.step((LineUp if is_up else LineDown)(member), self.now()))

    def _perform(self, effects: Sequence[SayTo | Acknowledged | BatchRefused | Superseded]) -> None:
        for effect in effects:
            match effect:
                case SayTo(member, message, raw):
                    self._members[member].send(message, raw)
                case Acknowledged(batch):
                    while self.under_way and self.under_way[0][0] <= batch:
                        self._told(self.name, self.under_way.popleft()[1], True)
                case BatchRefused(batch):
                    (refused,) = [one for one in self.under_way if one[0] == batch]
                    self.under_way.remove(refused)
                    self._told(self.name, refused[1], False)
                case Superseded(by):
                    self.stage.fail(f"{self.name} is told that {by} has its name")
        self.arm(self.machine.deadline())


class ReadProgram(SimulatedClient):
    """Program that reads, and acknowledges now and then; its line leads to the member that it is told of."""

    def __init__(
        self,
        stage: NodeStage,
        host: Host,
        program: SimProgram,
        doors: Sequence[str],
        leader: Callable[[], int | None],
        *,
        is_eager: bool = False,
    ) -> None:
        """
        Args:
            doors: where each member's actor `topics` is reached.
            leader: tells the member that leads, or one that does not.
            is_eager: it acknowledges all that it has at once.
        """
        super().__init__(stage, host, program.name)
        self.program = program
        self._doors = doors
        self._leader = leader
        self._is_eager = is_eager
        self._line: StagedLink | None = None
        program.begin(self._now_ms)
        self._tick()

    @property
    def _now_ms(self) -> int:
        return self.stage.agenda.at // MS

    def _tick(self) -> None:
        if not self.is_alive or self.program.is_over:
            return
        program, now_ms, chance = self.program, self._now_ms, self.stage.chance
        program.passes_time(now_ms)
        if program.is_asking and self._line is None:
            self._dial()
        if not program.consumer:
            program.acknowledge(len(program.got) if self._is_eager else chance.randrange(4), now_ms)
        elif program.line is not None:
            program.take(chance.choice([1, 2, 5]), now_ms)
            program.settle(chance, now_ms)
        self._flush()
        self.stage.agenda.after_ms(TICK_MS * chance.uniform(0.5, 1.5), self._tick)

    def _dial(self) -> None:
        member = self._leader()
        if member is None:
            self.program.told(None, self._now_ms)
            return
        self._line = self.dial(self._doors[member], DEFAULT_LIMITS)
        self._line.on_connection = partial(self._changed, self._line, member)

    def _changed(self, line: StagedLink, member: int, is_up: bool) -> None:
        if line is not self._line:
            return
        if is_up:
            self.program.told(member, self._now_ms)
        else:
            self.program.cut(self._now_ms)
            self._hang_up()
        self._flush()

    def post(self, link: StagedLink, sender: bytes, message: AnyMessage, raw: Parts) -> None:
        if link is self._line and self.program.line is not None:
            self.program.inbox.append((message, tuple(bytes(one) for one in raw)))
            self.program.hears(self._now_ms)
            self._flush()

    def _flush(self) -> None:
        while self.program.outbox and self._line is not None:
            if not self._line.send(self.program.outbox.popleft()):
                self.program.cut(self._now_ms)
        if self._line is not None and self._line.is_up and self.program.line is None:
            self._hang_up()

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._links.remove(self._line)
            self._line = None
