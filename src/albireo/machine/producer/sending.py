"""PairSender: one producer whose node may be led by another member at any time.

The exactly-once part is the producer machine (machine/producer/producer.py), used as it is: same name, same life, same
numbers, whichever member it speaks to, because both have the same log. The seeker says which member that is. A takeover
is nothing but a hello to another member: its answer says how far the log has come, and every later batch goes out again
at once, in as few messages as possible.

    offered --> [producer] --message--> the chosen member, nobody while none is chosen
    members --> [seeker] --Chose(m)--> producer says hello to m

Invariants
    bounded:   `offer` refuses what does not fit into the queue. Nothing offered is ever dropped to make room.
    one voice: the producer hears the chosen member only; messages of another member are late and dropped.
    upward:    no number of a life that was acknowledged is given again.
    one end:   once superseded it says nothing any more, to no member.

Spec: design/pair.md, What may be promised; design/log-and-feed.md, Producers, Lives.
"""

from collections.abc import Mapping, Sequence

import msgspec

from albireo.codec.message import (
    AnyMessage,
    Appended,
    AppendRefused,
    ProducerHello,
    ProducerWelcome,
    RoleAsked,
    RoleTold,
    Successor,
)
from albireo.machine.producer.batch_queue import queued_bytes
from albireo.machine.producer.config import ProducerConfig
from albireo.machine.producer.flight import Batch
from albireo.machine.producer.producer import Event as ProducerEvent
from albireo.machine.producer.producer import LinkOpened, Offered, Producer
from albireo.machine.producer.seeking import (
    AskRole,
    Chose,
    Effect,
    FellSilent,
    LineDown,
    LineUp,
    RoleHeard,
    SeekConfig,
    Seeker,
    TurnedAway,
)
from albireo.model.instant import Instant, TimePassed
from albireo.model.item import DataItem
from albireo.model.position import Position
from albireo.model.refusal import Refusal, RefusalCode


class Heard(msgspec.Struct, frozen=True, eq=False):
    """A message of a member."""

    member: int
    message: AnyMessage


class SayTo(msgspec.Struct, frozen=True, eq=False):
    """Effect: send this to a member. Only the answer shows whether it arrived."""

    member: int
    message: AnyMessage
    raw: tuple[bytes, ...] = ()


class Acknowledged(msgspec.Struct, frozen=True):
    """Effect: every batch up to this one is recorded, except those that were refused."""

    batch: int
    """Number of the batch, counted from 1 in the sequence of offering."""
    position: Position
    """Position in the log, at or behind the last record of that batch."""
    durability: str
    """`both`: on the disks of both members; `local`: on the disk of one."""
    members: tuple[int, ...] = ()
    """Indexes of the members that have it; empty: the node is no pair."""
    may_be_cut: bool = False
    """A takeover may still cut the batch (the stream's durability is `local`). This sender then sends it again: it is
    lost only if the program dies as well."""
    ends: Mapping[int, int] = {}
    """Sequences of the last records of batches of messages, by number of the batch; a takeover may leave some out."""
    is_exact: bool = False
    """True: `position` is that of the last record of this batch, and not of a later one."""


class BatchRefused(msgspec.Struct, frozen=True):
    """Effect: the node can't take this batch, now or ever (too large, no valid samples, no such topic). A gap stands in
    the place of samples."""

    batch: int
    refusal: Refusal | None = None
    """Word of the node; None: it did not say so, as the batch never left."""


class Superseded(msgspec.Struct, frozen=True):
    """Effect: another program has the name now. Of the batches that are not acknowledged some may be recorded, up to
    one of them; nothing is sent any more."""

    by: Successor


Event = LineUp | LineDown | Heard | Offered | TimePassed
Effects = list[SayTo | Acknowledged | BatchRefused | Superseded]


class PairSender:
    """The machine. `step` takes an event and gives the effects, in order; nothing else changes the state."""

    def __init__(
        self, name: str, items: Sequence[DataItem], *, run: int, config: ProducerConfig, seek: SeekConfig, now: Instant
    ) -> None:
        """`run`: random number of this run of the program."""
        # The seeker judges silence: the producer must notice it as soon as a member may be left, and never later. If
        # the time grew with each lost hello, two would make a gap of ten seconds; a repeat is known by its run.
        patience = {"answer_timeout_ns": seek.settle_ns, "answer_timeout_ns_max": seek.settle_ns}
        self._name = name
        self._config = config
        self._producer = Producer(name, items, run=run, config=msgspec.structs.replace(config, **patience))
        self._seeker = Seeker(seek, now)
        self._acknowledged = Position()
        """Highest producer sequence that was acknowledged, with the highest epoch in which a batch was acknowledged."""
        self._is_pair = True
        """False: the last receipt was of a node that stands alone."""
        self.late_welcomes = 0
        """Welcomes of members that lacked what another had acknowledged; not taken."""

    @property
    def chosen(self) -> int | None:
        """Member that the sender talks to; None: nobody."""
        return self._seeker.chosen

    @property
    def lines(self) -> frozenset[int]:
        """Members that are connected."""
        return self._seeker.lines

    @property
    def is_streaming(self) -> bool:
        """The chosen member has said where to go on."""
        return self._seeker.chosen is not None and self._producer.is_streaming

    @property
    def successor(self) -> Successor | None:
        """Life that has the name now; None: it is this sender's."""
        word = self.last_word
        if word is None or word.refusal.code != RefusalCode.SUPERSEDED:
            return None
        return word.successor or Successor(producer_id=0, run=0)

    @property
    def last_word(self) -> AppendRefused | None:
        """Word of the pair that refuses this producer for good; None: no such word came."""
        return self._producer.last_word

    @property
    def held_up(self) -> Refusal | None:
        """Why nothing is taken for the time being; None: it is."""
        return self._producer.held_up

    @property
    def batches_offered(self) -> int:
        """Batches since the start."""
        return self._producer.batches.offered

    @property
    def epoch(self) -> int:
        """Highest epoch heard of."""
        return max(self._seeker.epoch, self._producer.epoch)

    @property
    def is_all_acknowledged(self) -> bool:
        """Every batch that was offered is acknowledged or refused."""
        return self._producer.is_all_acknowledged

    @property
    def greetings(self) -> int:
        """Welcomes so far: one at first, and one more for each change of the member."""
        return self._producer.greetings

    def has_room(self, batches: Sequence[Batch]) -> bool:
        """The batches may be offered now; otherwise wait for an acknowledgement."""
        return sum(map(queued_bytes, batches)) <= self.room_bytes

    @property
    def room_bytes(self) -> int:
        """Bytes that may be offered now, as `queued_bytes` counts them."""
        return self._config.queue_bytes_max - self._producer.queue_bytes

    def deadline(self) -> Instant | None:
        """When `TimePassed` is due."""
        if self.last_word is not None:
            return None
        own = self._producer.deadline() if self._seeker.chosen is not None else None
        due = [one for one in (own, self._seeker.deadline()) if one is not None]
        return min(due) if due else None

    def step(self, event: Event, now: Instant) -> Effects:
        if self.last_word is not None:
            return []
        match event:
            case Offered(batches=batches):
                assert self.has_room(batches), "ask has_room first: nothing offered may be dropped"
                return self._produce(event, now)
            case Heard(member, message):
                return self._heard(member, message, now)
            case TimePassed():
                effects = self._sought(self._seeker.step(event, now), now)
                due = self._producer.deadline()
                if due is not None and now >= due and self._seeker.chosen is not None:
                    effects += self._time_ran_out(now)
                return effects
            case _:
                return self._sought(self._seeker.step(event, now), now)

    def _heard(self, member: int, message: AnyMessage, now: Instant) -> Effects:
        if isinstance(message, RoleTold):
            return self._sought(self._seeker.step(RoleHeard(member, message), now), now)
        if member != self._seeker.chosen:
            return []
        match message:
            case AppendRefused(refusal=Refusal(code=RefusalCode.NOT_HOLDER)):
                return self._sought(self._seeker.step(TurnedAway(member), now), now)
            case ProducerWelcome() if self._is_late(message):
                self.late_welcomes += 1
                return self._sought(self._seeker.step(FellSilent(member), now), now)
            case ProducerWelcome() | Appended() | AppendRefused():
                self._learn(message)
                return self._produce(message, now)
            case _:
                return []

    def _is_late(self, welcome: ProducerWelcome) -> bool:
        """The welcome lacks acknowledged batches and is of an earlier epoch: its member was paused.

        Numbering anew after it would give numbers that are taken. In a higher epoch such a welcome is true: a forced
        promotion lost records. So is any of a node that stands alone: nobody else can have what its log lacks, which
        was restored from a backup, or begun anew.
        """
        return (
            self._is_pair
            and welcome.epoch < self._acknowledged.epoch
            and welcome.last_sequence < self._acknowledged.sequence
        )

    def _learn(self, message: ProducerWelcome | Appended | AppendRefused) -> None:
        match message:
            case Appended():
                self._is_pair = bool(message.members)
                last = max(self._acknowledged.sequence, message.producer_sequence)
                self._acknowledged = Position(max(self._acknowledged.epoch, message.position.epoch), last)
            case ProducerWelcome() if message.last_sequence < self._acknowledged.sequence:
                self._acknowledged = Position(message.epoch, message.last_sequence)
            case _:
                pass

    def _time_ran_out(self, now: Instant) -> Effects:
        """The producer's deadline has come: its pause is over, or nobody answers it.

        If it would say hello again, the chosen member has fallen silent, and the seeker decides.
        """
        sends = self._producer.step(TimePassed(), now)
        chosen = self._seeker.chosen
        assert chosen is not None
        if any(isinstance(one.message, ProducerHello) for one in sends):
            return self._sought(self._seeker.step(FellSilent(chosen), now), now)
        return [SayTo(chosen, one.message, one.raw) for one in sends]

    def _sought(self, effects: Sequence[Effect], now: Instant) -> Effects:
        done: Effects = []
        for effect in effects:
            match effect:
                case AskRole(member):
                    done.append(SayTo(member, RoleAsked(adapter=self._name)))
                case Chose(None):
                    pass
                case Chose():
                    done += self._produce(LinkOpened(), now)
        return done

    def _produce(self, event: ProducerEvent, now: Instant) -> Effects:
        before = self._producer.batches.acknowledged
        sends = self._producer.step(event, now)
        done: Effects = []
        batch = self._producer.batches.acknowledged
        if isinstance(event, Appended) and batch > before:
            cuttable = event.uncommitted > 0
            told = (event.position, event.durability, event.members, cuttable)
            done.append(Acknowledged(batch, *told, self._producer.batches.take_ends()))
        lost = self._producer.batches.lost
        while lost:
            number = lost.popleft()
            done.append(BatchRefused(number, self._producer.batches.refusals.pop(number, None)))
        if self.successor is not None:
            done.append(Superseded(self.successor))
        chosen = self._seeker.chosen
        if chosen is not None:
            done += [SayTo(chosen, one.message, one.raw) for one in sends]
        return done
