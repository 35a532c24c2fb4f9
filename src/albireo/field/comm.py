"""COMM: the actor that hosts one adapter.

It is the side towards CORE: hands over what is news (dead_band.py) as a named producer (machine/producer/producer.py),
says how the device is (diagnostics.py), and takes the role that CORE tells (role.py). The tasks in its loop are the
side towards the device:

    device.py      keeps the connection, polls
    told.py        takes what the device tells by itself, and says what became of it
    carrier.py     carries out orders
    voter_line.py  carries out the requests of CORE's register voter, if this device holds its registers

A lost device: every item once BadNoCommunication with the time of the poll that failed, one log line; at its return
one log line and a gap record from the last value before to the first one after. Memory does not grow meanwhile.

Standing by: no sample and no write leaves; CORE is told so at once, and each second that the adapter is there. Acting
again: a new run of the producer, so CORE writes the gap.

Letters and timers come as in every actor; nothing here waits for CORE.

Spec: docs/ARCHITECTURE.md, walks 1 and 2; ADR-0032, ADR-0108; field/contract.py (what an adapter owes).
"""

import asyncio
import contextlib
import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import msgspec
import numpy as np

from albireo.codec.message import AnyMessage, Appended, AppendRefused, ProducerWelcome, RoleAsked, RoleTold, WriteOrder
from albireo.codec.register_block import VoterHangUp, VoterLost, VoterReadAsked, VoterWriteAsked
from albireo.field.carrier import Carrier
from albireo.field.config import CommConfig
from albireo.field.contract import (
    Adapter,
    Arrivals,
    ConfigurationError,
    LedAdapter,
    PairAdapter,
    PolledColumns,
    ToldAdapter,
    WatchedAdapter,
)
from albireo.field.dead_band import DeadBand, PollNews
from albireo.field.device import Device
from albireo.field.diagnostics import AdapterDiagnostics, Health
from albireo.field.journal import AdapterJournal, JournalPlace
from albireo.field.kinds import Surroundings, create_adapter, settings_of
from albireo.field.leading import Leading
from albireo.field.role import BOUNDED_BY_TIME, AdapterRole
from albireo.field.told import ToldSide
from albireo.field.voter_line import VoterLine
from albireo.machine.producer.config import ProducerConfig
from albireo.machine.producer.producer import Event, LinkOpened, Offered, Producer
from albireo.machine.producer.starts import RANDOM_BITS, run_of_start
from albireo.model.instant import MS, SECOND, Instant, TimePassed, WallTime, soonest
from albireo.model.item import DataItem
from albireo.model.refusal import RefusalCode
from albireo.model.topology import AdapterConfig
from albireo.runtime.actor.actor import ActorContext
from albireo.runtime.errors import ConfigurationRefused
from albireo.runtime.kind_offers import object_at
from albireo.runtime.link.sockets import Letter, Link

ROLE_ASKED_NS: Final = SECOND
"""Interval at which a member that stands by says that it is there."""
PERMIT_ASKED_NS: Final = 100 * MS
"""Interval at which a member that acts asks for its permit, for an adapter that sends without orders."""
JOURNAL: Final = "albireo.field.topic_journal:TopicJournal"
"""Named, not imported: most adapters keep no journal, and need no client."""
STOP_WAIT_NS: Final = 2 * SECOND
"""Longest time that a clean stop waits for CORE to commit what was handed over."""
SAMPLES_WITHIN: Final = 4
"""Samples of a standing item within its `stale_s`: a poll that is late by half of it is no stale case."""


class Comm:
    """Behaviour of the actor."""

    def __init__(self, config: CommConfig, settings: AdapterConfig, arguments: Mapping[str, object]) -> None:
        """`arguments`: those of the adapter, its settings among them."""
        self.name = f"comm.{settings.name}"
        self._config = config
        self._settings = settings
        self._arguments = arguments
        self._is_all_acknowledged = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_known = False
        """Whether the device is there was found out once."""
        self._role = AdapterRole(is_acting=config.begins_acting)
        self._line: VoterLine | None = None
        self._dropped_before = 0
        self._reconnects = 0
        self._polls = 0
        self._polls_ns = 0
        self._conditions: Mapping[str, bool] = {}
        self._diagnostics_due = Instant(0)
        self._role_due = Instant(0)
        self._greetings = 0
        self._refused_before = 0
        """Rows that the device told and that were refused, at the last diagnostics."""
        self._run = 0
        """Run of the adapter; rises with each start on this machine (ADR-0153)."""

    # The actor's life.

    async def start(self, actor: ActorContext) -> None:
        self._actor = actor
        config, settings = self._config, self._settings
        try:
            self._adapter = create_adapter(self._arguments, self._surroundings(actor))
        except ConfigurationError as error:
            raise ConfigurationRefused(f"adapter {settings.name}: {error}") from error
        self._core: Link = actor.connect("core")
        self._know_abilities(self._adapter)
        names = tuple(self._counters()), tuple(self._conditions_now())
        self._diagnostics = AdapterDiagnostics(settings.name, names[0], len(self._adapter.items), names[1])
        write_max_ns = settings.write_max_ms * MS if settings.guard in BOUNDED_BY_TIME else 0
        self._carrier = Carrier(
            self._adapter, actor, self._core.send, lambda item_id: self._producer.row_of(item_id), write_max_ns
        )
        self._carrier.show = lambda reading, now, at_ns: self._offer(self._band.take(reading, now, at_ns, at_ns))
        draw = random.Random(secrets.randbits(64) if config.seed is None else config.seed)
        self._device = Device(self._adapter, settings, actor, self, draw)
        self._carrier.role = self._device.role = self._role
        actor.at_end(self._leave)
        self._begin_run()
        if self._role.is_acting:
            self._step(LinkOpened())
            self._offer(self._band.waiting(actor.now(), actor.wall_ns()))
            self._publish()
        else:
            self._ask_role()
        jobs = [self._device.live(), self._carrier.serve()]
        if isinstance(self._adapter, ToldAdapter) and self._told is not None:
            self._adapter.listen(self._given)
            jobs.append(self._told.serve())
        if settings.voter_waits is not None and self._pair_adapter is not None:
            first, hung_up = secrets.randbits(31), self._device.hung_up
            self._line = VoterLine(settings.name, self._pair_adapter, self._voter_says, actor.now, first, hung_up)
            self._device.line = self._line
            jobs.append(self._line.serve())
        self._tasks = [actor.loop.create_task(job) for job in jobs]
        for task in self._tasks:
            task.add_done_callback(self._task_ended)

    def _know_abilities(self, adapter: Adapter) -> None:
        self._pair_adapter = adapter if isinstance(adapter, PairAdapter) else None
        self._watched = adapter if isinstance(adapter, WatchedAdapter) else None
        write_max_ns = self._settings.write_max_ms * MS
        self._leading: Leading | None = None
        if isinstance(adapter, LedAdapter):
            self._leading = Leading(adapter, self._actor.now, write_max_ns)
        self._told = ToldSide(adapter) if isinstance(adapter, ToldAdapter) else None

    def _surroundings(self, actor: ActorContext) -> Surroundings:
        def journal() -> AdapterJournal:
            make = cast(Callable[[str, JournalPlace, Path], AdapterJournal], object_at(JOURNAL))
            return make(self._settings.name, JournalPlace(self._config.doors, self._config.keys), actor.data)

        return Surroundings(actor.data, actor.now, actor.wall_ns, actor.keep, journal)

    def _begin_run(self) -> None:
        """Everything is news, and what was not committed before is no more: CORE writes the gap."""
        if self._told is not None:
            self._told.forget()
        own = tuple(self._adapter.items)
        self._band = DeadBand(
            own,
            self._adapter.dead_bands,
            np.array([heartbeat_of(one, self._config.heartbeat_ms) for one in own], np.int64),
            self._actor.wall_ns(),
        )
        self._run = run_of_start(self._actor.now(), secrets.randbits(RANDOM_BITS), self._run)
        self._producer = Producer(
            self._settings.name,
            (*own, *self._diagnostics.items),
            run=self._run,
            config=ProducerConfig(queue_bytes_max=self._config.queue_mib << 20),
            takes_orders=any(one.is_writable for one in own),
        )
        self._greetings = self._acquired = 0

    def drained(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            match letter.message:
                case ProducerWelcome() | Appended() | AppendRefused() as event:
                    if self._role.is_acting:
                        self._step(event)
                case WriteOrder() as order:
                    self._carrier.ordered(order)
                case RoleTold() as told:
                    self._role_told(told)
                case VoterReadAsked() | VoterWriteAsked() | VoterHangUp() as request:
                    if self._line is not None:
                        self._line.asked(request)
                case other:
                    self._actor.log.limited("message_unexpected", type(other).__name__, type=type(other).__name__)
        if self._producer.greetings > self._greetings:
            # CORE knows us (again): what it may have missed goes out once more.
            self._greetings = self._producer.greetings
            self._carrier.repeat()

    def ticked(self, now: Instant) -> None:
        if now >= self._diagnostics_due:
            self._publish()
        if now >= self._role_due and self._asks_role:
            self._ask_role()
        if self._line is not None:
            self._line.tick(now)
        self._step(TimePassed())

    async def stop(self) -> None:
        self._leave()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._device.close()
        self._carrier.stopped()
        self._publish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_WAIT_NS / SECOND):
                await self._is_all_acknowledged.wait()
        self._actor.log.info(
            "adapter_stopped",
            adapter=self._settings.name,
            acquired=self._acquired,
            dropped=self._producer.dropped,
            uncommitted_bytes=self._producer.queue_bytes,
        )

    def _leave(self) -> None:
        """Have the tasks end. NB: asyncio.wait_for of Python 3.11 (in pymodbus) swallows a cancellation that meets an
        answer; the flag does not get lost, and nobody waits behind it. An actor that crashes cancels its tasks, too."""
        self._device.is_stopping = self._carrier.is_stopping = True
        self._device.wake()
        self._carrier.changed()
        if self._line is not None:
            self._line.is_stopping = True

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._actor.fail(f"{type(error).__name__}: {error}")

    # Role.

    def _role_told(self, told: RoleTold) -> None:
        before, self._role = self._role, self._role.told(told)
        self._carrier.role = self._device.role = self._role
        if before.is_acting and not self._role.is_acting:
            self._stand_by()
        elif self._role.is_acting and not before.is_acting:
            self._act()
        elif self._role.is_acting and not self._producer.is_streaming:
            self._step(LinkOpened())
        self._carrier.changed()
        self._lead()
        if not self._role.is_acting:
            self._carrier.stands_by(told.stand_down)

    def _lead(self) -> None:
        if self._leading is not None:
            self._leading.role_is(self._role, self._carrier.epoch)

    def _stand_by(self) -> None:
        """No sample, no write; CORE has the log of another holder now, and what waited here belongs to none."""
        self._actor.log.info(
            "standing_by",
            adapter=self._settings.name,
            epoch=self._role.epoch,
            uncommitted_bytes=self._producer.queue_bytes,
        )
        self._dropped_before += self._producer.dropped
        self._begin_run()
        self._ask_role()
        self._device.wake()

    def _act(self) -> None:
        """A new run: the first poll is on its way at once, what is lost already is said at once."""
        self._actor.log.info("acting", adapter=self._settings.name, epoch=self._role.epoch)
        self._begin_run()
        self._step(LinkOpened())
        now, at_ns = self._actor.now(), self._actor.wall_ns()
        if self._device.is_connected is None:
            self._offer(self._band.waiting(now, at_ns))
        elif not self._device.is_connected:
            self._offer(self._band.lost(now, at_ns))
        self._publish()
        self._device.wake()

    @property
    def _asks_role(self) -> bool:
        """True: CORE is asked again and again; one that sends without orders needs a permit all the time."""
        return not self._role.is_acting or (self._leading is not None and self._leading.needs_permit)

    def _ask_role(self) -> None:
        self._role_due = Instant(self._actor.now() + (PERMIT_ASKED_NS if self._role.is_acting else ROLE_ASKED_NS))
        self._core.send(RoleAsked(adapter=self._settings.name, reaches=self._device.is_connected))
        self._arm()

    # Towards CORE.

    def _step(self, event: Event) -> None:
        for send in self._producer.step(event, self._actor.now()):
            # A full pipe needs no care here: what gets no answer is sent again.
            self._core.send(send.message, send.raw)
        if self._told is not None:
            self._told.hear(self._producer)
        if self._producer.last_word is not None:
            self._actor.fail(_refusal(self._settings.name, self._producer.last_word))
        if self._producer.is_all_acknowledged:
            self._is_all_acknowledged.set()
        else:
            self._is_all_acknowledged.clear()
        if self._producer.epoch > self._carrier.epoch:
            self._carrier.epoch = self._producer.epoch
            self._carrier.changed()
            self._lead()
        self._arm()

    def _arm(self) -> None:
        role_due = self._role_due if self._asks_role else None
        line_due = self._line.deadline() if self._line else None
        self._actor.arm(soonest(self._producer.deadline(), self._diagnostics_due, line_due, role_due))

    def _voter_says(self, message: AnyMessage) -> None:
        if isinstance(message, VoterLost) and self._line is not None:
            reason = self._line.lost_reason
            self._actor.log.limited("voter_line_lost", reason, adapter=self._settings.name, reason=reason)
        self._core.send(message)
        self._arm()

    def _offer(self, news: PollNews) -> None:
        if news.batches or news.losses:
            self._acquired += sum(len(batch) for batch in news.batches)
            self._step(Offered(losses=news.losses, batches=news.batches))

    def _publish(self) -> None:
        """AdapterDiagnostics, all of them; nothing on a member that stands by."""
        now, at_ns = self._actor.now(), self._actor.wall_ns()
        self._diagnostics_due = Instant(now + self._config.diagnostics_ms * MS)
        if not self._role.is_acting:
            self._step(TimePassed())
            return
        self._acquired += len(self._diagnostics.items)
        poll_ms = self._polls_ns / (self._polls * MS) if self._polls else None
        self._polls = self._polls_ns = 0
        self._conditions = self._conditions_now()
        self._refused_before = 0 if self._told is None else self._told.inspection.refused
        counts = {
            "acquired": self._acquired,
            "dropped": self._dropped_before + self._producer.dropped,
            "queue_bytes": self._producer.queue_bytes,
            "overruns": self._device.overruns,
            "reconnects": self._reconnects,
            **self._counters(),
        }
        health = Health(
            is_connected=self._device.is_connected, poll_ms=poll_ms, counts=counts, conditions=self._conditions
        )
        self._step(Offered(batches=self._diagnostics.batches(health, at_ns)))

    def _counters(self) -> dict[str, int]:
        return {**self._adapter.counters(), **({} if self._told is None else self._told.inspection.counters())}

    def _conditions_now(self) -> dict[str, bool]:
        conditions = {} if self._watched is None else dict(self._watched.conditions())
        if self._told is not None:
            conditions["tells_nonsense"] = self._told.inspection.refused > self._refused_before
        return conditions

    # What the device tells by itself.

    def _given(self, arrivals: Sequence[Arrivals]) -> int:
        told, now, node_ns = self._told, self._actor.now(), self._actor.wall_ns()
        assert told is not None, "only a ToldAdapter was handed this"
        token, refused = told.next_token(), told.inspection.refused
        if not self._role.is_acting:
            told.let_go(token)
            return token
        news = told.news(arrivals, self._band, now, node_ns)
        first = self._producer.batches.offered + 1
        if told.inspection.refused > refused:
            self._actor.log.limited("arrivals_refused", self._settings.name, adapter=self._settings.name)
            told.let_go(token)
        else:
            told.promise(token, first, self._producer.batches.offered + len(news.batches))
        self._offer(news)
        return token

    # Calls of `Device`.

    def polled(self, polled: Sequence[PolledColumns], began: Instant, source_ns: WallTime) -> None:
        now = self._actor.now()
        self._polls += 1
        self._polls_ns += now - began
        polled = self._carrier.read_backs.still_news(polled, began)
        self._offer(self._band.take(polled, now, source_ns, self._actor.wall_ns()))
        if any(self._conditions.get(name) is not is_wrong for name, is_wrong in self._conditions_now().items()):
            self._publish()
        if self._pair_adapter is not None and self._pair_adapter.needs_mending:
            self._carrier.changed()

    def reach_changed(self, at_ns: WallTime, reason: str) -> None:
        """Say it once; a member that acts marks every item."""
        is_connected = self._device.is_connected is True
        self._carrier.is_connected = is_connected
        self._carrier.changed()
        if is_connected:
            self._reconnects += self._is_known
            event = "device_returned" if self._is_known else "device_connected"
            self._actor.log.info(event, adapter=self._settings.name)
        else:
            self._actor.log.warning("device_lost", adapter=self._settings.name, reason=reason)
        self._is_known = True
        if not self._role.is_acting:
            self._ask_role()
            return
        if not is_connected:
            self._offer(self._band.lost(self._actor.now(), at_ns))
        self._publish()


def _refusal(name: str, word: AppendRefused) -> str:
    if word.refusal.code != RefusalCode.SUPERSEDED:
        return f"adapter {name!r} is refused: {word.refusal}"
    by = f"life {word.successor.producer_id} (run {word.successor.run})" if word.successor else "a later life"
    return f"another adapter has the name {name!r}: {by}; what to do: give each a name of its own in the topology"


def heartbeat_of(item: DataItem, heartbeat_ms: int) -> int:
    """Longest time between two samples: four fit into the times by which CORE judges that polls no longer confirm the
    item, or confirm the same number for ever."""
    alarm = item.alarm
    limits = () if alarm is None else (alarm.stale_s, alarm.frozen_s)
    return min([heartbeat_ms * MS, *(int(one * SECOND / SAMPLES_WITHIN) for one in limits if one is not None)])


def create(arguments: Mapping[str, object]) -> Comm:
    """The behaviour for one `[[node.adapter]]`; started by name, so that nothing below the field knows it.

    Raises:
        ConfigurationRefused: the arguments can't work.
    """
    try:
        config = msgspec.convert(arguments, CommConfig)
        of_adapter = {key: one for key, one in arguments.items() if key not in config.__struct_fields__}
        return Comm(config, settings_of(of_adapter), of_adapter)
    except ValueError as error:  # So are msgspec.ValidationError and ConfigurationError.
        raise ConfigurationRefused(f"adapter {arguments.get('name', '?')}: {error}") from error
