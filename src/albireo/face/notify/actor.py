"""NotifyActor: the machine beside two clients of its node, and a key-value store of it as the record of notices.

    follower (own member) --cases--> NotifyMachine --RecordNotice, ForgetNotice--> store `notify.NAME`, both members
                                          ^  |-----SendNotice--> sending --> people
                                          |--+-----TellUnreached--> items `NAME/...` of the node, with alarms

Only the face beside the member that acts sends. Each change of a notice names the version that it is made of, so of two
faces that both mean to lead one is refused, and begins anew with what is on record.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from albireo.client import ClientError, NodeRefused, aconnect
from albireo.client.aio import AsyncSampleProducer
from albireo.client.live import Changes
from albireo.client.store import StoreEntry
from albireo.codec.topology.zone import zone_named
from albireo.face.behaviour import FOR_GOOD, FaceBehaviour
from albireo.face.follower import PlantFollower
from albireo.face.kinds import FacePlace
from albireo.face.notify.machine import Effect, ForgetNotice, NotifyMachine, RecordNotice, SendNotice, TellUnreached
from albireo.face.notify.notice import Notice
from albireo.face.notify.rules import NotifyRules, load_rules
from albireo.face.notify.sending import send
from albireo.face.notify.settings import NotifySettings
from albireo.model.instant import MS, SECOND
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.refusal import RefusalCode
from albireo.model.samples import SampleBatch, column_of
from albireo.model.topic import TopicPolicy
from albireo.model.value import Value, ValueType
from albireo.runtime.actor.actor import ActorContext

LOOK_NS: Final = 200 * MS
RULES_LOOK_NS: Final = 2 * SECOND
"""Time between two looks whether the files of rules have changed."""
LOADED_AT_ONCE: Final = 50
AGAIN_S: Final = 0.3
REMEDY: Final = "albireo notify check FILE names it"


class _Overtaken(Exception):  # It is what happened.
    """Somebody else has changed the notice."""


class NotifyActor(FaceBehaviour):
    """Behaviour of the actor."""

    def __init__(self, settings: NotifySettings, place: FacePlace) -> None:
        super().__init__(place)
        self._file = place.file(settings.rules)
        self._zone = zone_named(place.zone)
        self._items = _items(place.name)
        self._machine = NotifyMachine(f"{place.node}:{one.name}" for one in self._items)
        self._rules: NotifyRules | None = None
        self._trouble = self._looked = ""
        self._unreached = TellUnreached(0, "")
        self._reign = 0
        self._is_leading = False
        self._told: tuple[Value, ...] = ()
        self._producer: AsyncSampleProducer | None = None

    async def start(self, actor: ActorContext) -> None:
        self._actor = actor
        place = self._place
        target = place.target(actor.data)
        self._pinned = await aconnect(target[place.own], name=place.name, waits=False, is_pinned=True)
        name = f"{place.name}.{place.own}"  # A name puts for one program only, and the other member has a face too.
        self._client = await aconnect(target, keys=place.keys or None, name=name, waits=False)
        self._store = self._client.store(f"notify.{place.name}")
        follower = PlantFollower(self._pinned, self._take, actor.now, partial(self._take, Changes(is_live=False)))
        for work in (follower.run(), self._read_rules(), self._lead()):
            self._begin(work)

    async def stop(self) -> None:
        await self._end_tasks()
        await self._pinned.close(0.0)
        with contextlib.suppress(ClientError):
            await self._client.close(1.0)

    # What it knows.

    def _take(self, changes: Changes) -> None:
        self._machine.heard(changes.cases, changes.stale, is_whole=changes.is_whole, is_live=changes.is_live)
        self._look()

    def _look(self) -> None:
        self._do(self._machine.passed(self._actor.now(), self._actor.wall_ns()))

    async def _read_rules(self) -> None:
        """Read the rules whenever their files change; those from before hold until all is right."""
        while True:
            looked = await asyncio.to_thread(_stamp, self._file)
            if looked != self._looked:
                self._looked = looked
                rules, mistakes = await asyncio.to_thread(load_rules, self._file, self._zone)
                self._trouble = "" if rules is not None else f"{mistakes[0]}"
                if rules is None:
                    self._actor.log.error("rules_not_read", why=self._trouble, mistakes=len(mistakes), remedy=REMEDY)
                else:
                    self._rules = rules
                    self._machine.ruled(rules)
                    self._actor.log.info("rules_read", rules=len(rules.rules))
            await asyncio.sleep(RULES_LOOK_NS / SECOND)

    # Leading.

    async def _lead(self) -> None:
        while True:
            is_acting = self._client.acting == self._place.own
            leads = is_acting and self._rules is not None
            try:
                if leads and not self._is_leading:
                    notices = await self._loaded()
                    self._machine.loaded(notices, self._actor.now(), self._actor.wall_ns())
                    self._is_leading = True
                    self._actor.log.info("notify_leads", notices=len(notices))
                elif self._is_leading and not leads:
                    self._lose()
                await self._tell(is_acting=is_acting)
            except FOR_GOOD:
                raise
            except ClientError as error:
                self._actor.log.limited("not_on_record", type(error).__name__, why=str(error))
            self._look()
            await asyncio.sleep(LOOK_NS / SECOND)

    def _lose(self) -> None:
        self._is_leading = False
        self._reign += 1
        self._machine.lost()

    async def _loaded(self) -> dict[str, tuple[Notice, int]]:
        """The notices on record, with their versions."""
        await self._client.topics.create(self._store.name, TopicPolicy(last_value=True), replication="all")
        numbers = await self._store.keys()
        found: dict[str, tuple[Notice, int]] = {}
        for at in range(0, len(numbers), LOADED_AT_ONCE):
            part = numbers[at : at + LOADED_AT_ONCE]
            for number, entry in zip(part, await asyncio.gather(*map(self._store.entry, part)), strict=True):
                notice = None if entry is None else self._read(number, entry)
                if entry is not None and notice is not None:
                    found[number] = notice, entry.version
        return found

    def _read(self, number: str, entry: StoreEntry) -> Notice | None:
        try:
            notice = msgspec.json.decode(entry.value, type=Notice)
        except (msgspec.DecodeError, ValueError) as error:
            self._actor.log.limited("notice_void", number, number=number, why=str(error))
            return None
        return notice if notice.number == number else None

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case RecordNotice(notice, version):
                    self._begin(self._record(notice.number, msgspec.json.encode(notice), version))
                case ForgetNotice(number, version):
                    self._begin(self._record(number, None, version))
                case SendNotice():
                    self._begin(self._send(effect))
                case TellUnreached():
                    self._unreached = effect

    async def _record(self, number: str, value: bytes | None, version: int) -> None:
        reign = self._reign
        while True:
            try:
                version = await self._put(number, value, version)
                break
            except FOR_GOOD:
                raise
            except _Overtaken:
                self._actor.log.info("notice_overtaken", number=number)
                if reign == self._reign:
                    self._lose()
                return
            except ClientError as error:
                self._actor.log.limited("not_on_record", type(error).__name__, why=str(error))
            await asyncio.sleep(AGAIN_S)
        if reign == self._reign:
            self._do(self._machine.recorded(number, version, self._actor.now()))
            self._look()

    async def _put(self, number: str, value: bytes | None, version: int) -> int:
        """Put a notice in the place of this version, or let it be gone; the new version."""
        try:
            if value is not None:
                return await self._store.put(number, value, version=version)
            await self._store.delete(number, version=version)
        except NodeRefused as error:
            if error.code != RefusalCode.CHANGED:
                raise
            try:
                found = await self._store.entry(number)
            except NodeRefused as refusal:  # A member on another machine leads, and only that one has it.
                raise _Overtaken from refusal
            if (None if found is None else found.value) != value:  # Else it is ours, and its answer was lost.
                raise _Overtaken from error
            return 0 if found is None else found.version
        return 0

    async def _send(self, effect: SendNotice) -> None:
        rules = self._rules
        assert rules is not None
        notice, to = effect.notice, effect.to
        outcome, why = await send(notice, to, rules, self._place.node, may_be_second=effect.may_be_second)
        told = {"number": notice.number, "to": to.name, "kind": to.kind, "attempt": to.attempt, "why": why}
        self._actor.log.info("notice_tried", outcome=outcome.value, **told)
        now, wall_ns = self._actor.now(), self._actor.wall_ns()
        self._do(self._machine.sent(notice.number, outcome, why, now, wall_ns))

    # Items of the face.

    async def _tell(self, *, is_acting: bool) -> None:
        """Keep the items of the face as they are, at the member that acts."""
        if not is_acting:
            if self._producer is not None:
                producer, self._producer, self._told = self._producer, None, ()
                with contextlib.suppress(ClientError):
                    await producer.close(0.0)
            return
        why = self._trouble or self._unreached.why
        values: tuple[Value, ...] = (self._unreached.count, bool(self._trouble), f"{why} - {REMEDY}" if why else "")
        if values == self._told:
            return
        if self._producer is None:
            self._producer = self._client.producer(f"face.{self._place.name}", self._items)
        now = np.array([self._actor.wall_ns()])
        self._producer.offer([_row(index, one, now, self._items[index]) for index, one in enumerate(values)])
        self._told = values


def _items(name: str) -> tuple[DataItem, ...]:
    unreached = "Notices that reached nobody: look who is on duty, and at the mail server"
    wrong = "The rules or a roster can't be read: those from before hold"
    return (
        DataItem(
            name=f"{name}/unreached",
            value_type=ValueType.INT64,
            description=unreached,
            alarm=AlarmSettings(hi=0.0, severity=800),
        ),
        DataItem(
            name=f"{name}/rules_wrong",
            value_type=ValueType.BOOL,
            description=wrong,
            alarm=AlarmSettings(off_normal=True, severity=700),
        ),
        DataItem(name=f"{name}/why", value_type=ValueType.STRING, description="Cause and remedy of both"),
    )


def _row(index: int, value: Value, now: "np.ndarray[Any, Any]", item: DataItem) -> SampleBatch:
    return SampleBatch(
        value_type=item.value_type,
        item_id=np.array([index], np.uint32),
        source_ns=now,
        node_ns=now,
        value=column_of([value], item.value_type),
        quality=np.zeros(1, np.uint32),
    )


def _stamp(file: Path) -> str:
    """Changes when one of the files does."""
    found = sorted([file, *file.parent.glob("*.csv")])[:1_000]
    told = []
    for one in found:
        with contextlib.suppress(OSError):
            known = one.stat()
            told.append(f"{one.name} {known.st_mtime_ns} {known.st_size} {known.st_ino}")
    return "\n".join(told) or "none"
