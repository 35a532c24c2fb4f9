"""The conformance suite: what field/contract.py says, asked of every adapter in the same words.

A new adapter adds one World, here or as `WORLD` of a `world.py` anywhere below tests. What it can't do it says in its
quality.yaml (`exempt`, with the reason), and the case is skipped with that reason. An adapter that is told has a device
that can tell (`TellingWorld`), and is asked the rest of the contract as well; what its device has not, such as times,
its World says by the names of the cases (`not_asked`, with the reason), and they are skipped so. One that
leads is led from the start; one that keeps a journal has that of its World (`journal`).
"""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import msgspec
import numpy as np
import pytest

import albireo.field.comm
from albireo.field.comm import Comm
from albireo.field.contract import (
    GOES_ON,
    Adapter,
    ConfigurationError,
    DeviceLost,
    LedAdapter,
    ToldAdapter,
    WriteTenure,
)
from albireo.field.dead_band import DeadBand
from albireo.field.journal import AdapterJournal
from albireo.field.kinds import Surroundings, create_adapter
from albireo.model.command import Outcome
from albireo.model.instant import WallTime
from albireo.model.item import NAME_PATTERN
from albireo.model.quality import BAD_NO_COMMUNICATION, GOOD, UNCERTAIN, UNCERTAIN_ENGINEERING_UNITS_EXCEEDED
from albireo.model.samples import Strings
from albireo.model.value import Value, ValueType
from albireo.plant.unruly.cases import ADDRESSES, cases
from albireo.plant.unruly.manners import honest
from albireo.runtime.actor.actor import running
from albireo.runtime.clock import boot_ns
from albireo.runtime.kind_offers import object_at
from tests.parts.field import LONG_MS, Plc, RecordingCore, comm, in_loop, until
from tests.parts.port import free_port
from tests.parts.steady import run_steadily
from tests.parts.unruly import TIMEOUT_S, UnrulySite
from tests.parts.waiting import PATIENCE_S

FIELD = Path(__file__).resolve().parents[2] / "src" / "albireo" / "field"

RULES = frozenset(
    "stable-ids connect-lost-reconnect back-off-with-jitter quality-on-loss unknown-is-never-zero quality-mapping "
    "source-time block-read-planning dead-band write-with-read-back write-at-most-once bounded-memory log-once "
    "rate-limits diagnostics-items hostile-input configuration-errors independent-peer known-limits".split()
)
RULE = re.compile(r'^  (?P<rule>[a-z-]+): \{status: (?P<status>done|exempt)(, reason: "(?P<reason>[^"]+)")?\}', re.M)


class World(Protocol):
    """A device that a test can switch, and the arguments that reach it."""

    kind: str
    quality: Path
    writes: Mapping[str, Value]
    """Writable items and a value for each that the device does not hold yet."""
    wrong_arguments: tuple[dict[str, object], ...]
    told: Mapping[str, ValueType]
    """Items that the device tells by itself; every other one is polled."""
    offered_in: Path | None
    """Folder of the distribution that offers the kind; None: it is our own."""

    def arguments(self) -> dict[str, object]: ...
    async def begin(self) -> None: ...
    async def lose(self) -> None: ...
    async def end(self) -> None: ...


class TellingWorld(World, Protocol):
    """A device that tells by itself what a test says, and hears the words about it, as far as it is asked that."""

    ranged: str
    """Item of numbers with the range 0..100."""
    banded: str
    """Item of numbers with a dead band of 1."""
    not_asked: Mapping[str, str]
    """Names of cases that are not asked of it, and why."""

    @property
    def is_heard(self) -> bool:
        """The adapter listens."""
        ...

    @property
    def words(self) -> Sequence[tuple[str, int]]:
        """`committed` or `let_go`, and the number of what was told, in the order in which they came."""
        ...

    def tell(self, name: str, values: Sequence[Value], times: Sequence[int], quality: int = GOOD) -> int:
        """Tell values of one item; returns the number of it, 1, 2, 3..."""
        ...

    def tell_row(
        self, row: int, value_type: ValueType, values: Sequence[Value], times: Sequence[int], quality: int = GOOD
    ) -> int:
        """The same of a row that may be no item's."""
        ...


class ModbusWorld:
    kind = "modbus"
    told: Mapping[str, ValueType] = {}
    offered_in: Path | None = None
    quality = FIELD / "modbus" / "quality.yaml"
    writes: Mapping[str, Value] = {"set_point": 12.5, "fan": True, "mode": 3, "ready": True, "label": "abc"}
    rows = (
        {"name": "co", "kind": "input", "address": "0", "type": "float32", "dead_band": "0.5"},
        {"name": "energy", "kind": "input", "address": "4", "type": "uint64", "word_order": "little"},
        {"name": "set_point", "kind": "holding", "address": "0", "type": "float32", "writable": "true"},
        {"name": "mode", "kind": "holding", "address": "50", "type": "uint16", "writable": "true"},
        {"name": "ready", "kind": "holding", "address": "51", "type": "bool", "bit": "9", "writable": "true"},
        {"name": "label", "kind": "holding", "address": "60", "type": "string", "length": "10", "writable": "true"},
        {"name": "fan", "kind": "coil", "address": "1", "writable": "true"},
        {"name": "door", "kind": "discrete", "address": "2"},
    )
    wrong_arguments: tuple[dict[str, object], ...] = (
        {"url": "http://127.0.0.1"},
        {"url": "tcp://127.0.0.1:99999"},
        {"items": []},
        {"items": [{"name": "x"}]},
        {"items": "p1.csv"},
        {"timeout_ms": "soon"},
    )

    def __init__(self) -> None:
        self._device = Plc(free_port())

    def arguments(self) -> dict[str, object]:
        return {
            "name": "a1",
            "kind": self.kind,
            "url": f"tcp://127.0.0.1:{self._device.port}",
            "items": list(self.rows),
            "timeout_ms": LONG_MS,
            "poll_ms": 20,
        }

    async def begin(self) -> None:
        await self._device.start()

    async def lose(self) -> None:
        await self._device.stop()

    async def end(self) -> None:
        await self._device.stop()


class HostWorld:
    kind = "host"
    told: Mapping[str, ValueType] = {}
    offered_in: Path | None = None
    quality = FIELD / "host" / "quality.yaml"
    writes: Mapping[str, Value] = {}
    wrong_arguments: tuple[dict[str, object], ...] = ({"device_id": 1}, {"name": 5})

    def arguments(self) -> dict[str, object]:
        return {"name": "a1", "kind": self.kind, "poll_ms": 20}

    async def begin(self) -> None: ...
    async def lose(self) -> None: ...
    async def end(self) -> None: ...


TESTS = Path(__file__).resolve().parents[1]
FOUND = tuple(
    import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts)).WORLD
    for path in sorted(TESTS.rglob("world.py"))
)
WORLDS: tuple[Callable[[], World], ...] = (ModbusWorld, HostWorld, *FOUND)
TOLD: tuple[Callable[[], TellingWorld], ...] = tuple(one for one in FOUND if one.told)
LEADS = WriteTenure(epoch=1, member=0, is_paired=False)


def offered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    if objection := getattr(world, "objection", ""):
        pytest.skip(f"{world.kind}: {objection}")
    if world.offered_in is not None:
        monkeypatch.syspath_prepend(str(world.offered_in))
    if journal := getattr(world, "journal", ""):
        monkeypatch.setattr(albireo.field.comm, "JOURNAL", journal)


def left(world: World) -> None:
    """Leave what a test that failed did not end."""
    if leave := getattr(world, "leave", None):
        leave()


@pytest.fixture(params=WORLDS, ids=lambda world: world.kind)
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    found: World = request.param()
    offered(found, monkeypatch)
    yield found
    left(found)


@pytest.fixture(params=TOLD, ids=lambda world: world.kind)
def telling(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[TellingWorld]:
    found: TellingWorld = request.param()
    if reason := found.not_asked.get(request.function.__name__):
        pytest.skip(f"{found.kind}: {reason}")
    offered(found, monkeypatch)
    yield found
    left(found)


def status_of(world: World) -> dict[str, tuple[str, str]]:
    """rule -> (status, reason) of the adapter's quality.yaml."""
    found = {one["rule"]: (one["status"], one["reason"] or "") for one in RULE.finditer(world.quality.read_text())}
    return found


def needs(world: World, rule: str) -> None:
    status, reason = status_of(world)[rule]
    if status == "exempt":
        pytest.skip(f"{world.kind}: {reason}")


def make(world: World, data: Path, **more: object) -> Adapter:
    surroundings = Surroundings(data, boot_ns)
    if place := getattr(world, "journal", ""):
        kept = cast(Callable[[str, None, Path], AdapterJournal], object_at(place))
        surroundings = msgspec.structs.replace(surroundings, journal=lambda: kept("a1", None, data))
    adapter = create_adapter({**world.arguments(), **more}, surroundings)
    if isinstance(adapter, LedAdapter):
        adapter.led(LEADS, lambda: GOES_ON)
    return adapter


async def lost(adapter: Adapter) -> None:
    """Poll until the loss is noticed: at once by who asks the device, within a second or so by who is told."""
    with pytest.raises(DeviceLost):
        await adapter.poll()
        for _ in range(int(PATIENCE_S * 100) if isinstance(adapter, ToldAdapter) else 0):
            await asyncio.sleep(0.01)
            await adapter.poll()


def test_quality_yaml_answers_every_rule_and_reasons_every_exemption(world: World) -> None:
    found = status_of(world)
    assert set(found) == RULES
    assert [rule for rule, (status, reason) in found.items() if (status == "exempt") != bool(reason)] == []
    assert f"adapter: {world.kind}\n" in world.quality.read_text()


def test_items_are_declared_once_and_alike_at_each_start(world: World, tmp_path: Path) -> None:
    items = make(world, tmp_path).items
    assert list(items) == list(make(world, tmp_path).items)
    names = [one.name for one in items]
    assert len(set(names)) == len(names) > 0
    assert all(re.match(NAME_PATTERN, name) for name in names)
    assert {one.adapter for one in items} == {"a1"}


def test_dead_bands_and_counters_have_the_shape_that_comm_needs(world: World, tmp_path: Path) -> None:
    adapter = make(world, tmp_path)
    assert adapter.dead_bands.shape == (len(adapter.items),)
    assert (adapter.dead_bands >= 0).all()
    counters = adapter.counters()
    assert "errors" in counters
    assert set(counters.values()) == {0}


def test_a_poll_gives_every_polled_item_once_in_one_column_per_type(world: World, tmp_path: Path) -> None:
    async def story() -> None:
        adapter = make(world, tmp_path)
        polled_rows = [row for row, one in enumerate(adapter.items) if one.name not in world.told]
        await world.begin()
        await adapter.connect()
        for _ in range(2):
            polled = await adapter.poll()
            assert len({one.value_type for one in polled}) == len(polled)
            assert sorted(row for one in polled for row in one.rows.tolist()) == polled_rows
            for column in polled:
                assert (np.diff(column.rows) > 0).all()
                assert len(column.value) == len(column.quality) == len(column.rows)
                assert column.quality.dtype == np.uint32
                assert {adapter.items[row].value_type for row in column.rows.tolist()} == {column.value_type}
                if not isinstance(column.value, Strings):
                    assert np.isfinite(column.value[column.quality == GOOD]).all()
        band = DeadBand(
            adapter.items,
            adapter.dead_bands,
            np.full(len(adapter.items), 10**9),
            WallTime(1),
        )
        news = band.take(polled, boot_ns(), WallTime(2), WallTime(3))
        assert sum(len(batch) for batch in news.batches) == len(polled_rows)
        await adapter.close()
        await world.end()

    in_loop(story)


def test_close_may_come_twice_and_connect_begins_afresh(world: World, tmp_path: Path) -> None:
    async def story() -> None:
        adapter = make(world, tmp_path)
        await world.begin()
        for _ in range(2):
            await adapter.connect()
            await adapter.poll()
            await adapter.close()
            await adapter.close()
        await world.end()

    in_loop(story)


def test_a_device_that_is_away_is_lost_and_found_again(world: World, tmp_path: Path) -> None:
    if world.kind == "host":
        pytest.skip(
            "host: the machine can't be away from itself; a reading that hangs is in tests/unit/field/test_host.py"
        )

    async def story() -> None:
        adapter = make(world, tmp_path)
        with pytest.raises(DeviceLost):
            await adapter.connect()
        await world.begin()
        await adapter.connect()
        await adapter.poll()
        await world.lose()
        await lost(adapter)
        await adapter.close()
        await world.begin()
        await adapter.connect()
        polled = await adapter.poll()
        assert {int(one) for column in polled for one in column.quality} == ({GOOD} if polled else set())
        await adapter.close()
        await world.end()

    in_loop(story)


def test_writes_are_read_back(world: World, tmp_path: Path) -> None:
    needs(world, "write-with-read-back")

    async def story() -> None:
        adapter = make(world, tmp_path)
        await world.begin()
        await adapter.connect()
        names = [one.name for one in adapter.items]
        for name, value in world.writes.items():
            written = await adapter.write(names.index(name), value, lambda: "")
            assert (written.outcome, written.read_back) == (Outcome.VERIFIED, value), name
        await adapter.close()
        await world.end()

    in_loop(story)


def test_the_guard_is_asked_once_and_its_no_is_final(world: World, tmp_path: Path) -> None:
    needs(world, "write-at-most-once")

    async def story() -> None:
        adapter = make(world, tmp_path)
        await world.begin()
        await adapter.connect()
        row = [one.name for one in adapter.items].index(next(iter(world.writes)))
        asked = 0

        def no() -> str:
            nonlocal asked
            asked += 1
            return "its time has run out"

        before = await adapter.poll()
        written = await adapter.write(row, next(iter(world.writes.values())), no)
        assert (written.outcome, asked) == (Outcome.REJECTED, 1)
        assert "its time has run out" in written.detail
        after = await adapter.poll()
        for old, new in zip(before, after, strict=True):
            if isinstance(old.value, Strings) or isinstance(new.value, Strings):
                continue
            assert old.value.tolist() == new.value.tolist()
        await adapter.close()
        await world.end()

    in_loop(story)


def test_a_write_without_a_connection_is_rejected_and_never_an_exception(world: World, tmp_path: Path) -> None:
    async def story() -> None:
        adapter = make(world, tmp_path)
        written = await adapter.write(0, 1.0, lambda: "")
        assert written.outcome is Outcome.REJECTED
        for row in range(len(adapter.items)):
            assert (await adapter.write(row, "no such value", lambda: "")).outcome is Outcome.REJECTED

    in_loop(story)


def test_arguments_that_cannot_work_are_refused_in_words(world: World, tmp_path: Path) -> None:
    for wrong in world.wrong_arguments:
        with pytest.raises(ConfigurationError, match=r"\w{3}"):
            make(world, tmp_path, **wrong)


def test_an_unknown_kind_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="host, modbus"):
        create_adapter({"kind": "telepathy"}, Surroundings(tmp_path, boot_ns))


@pytest.mark.slow
def test_hosted_by_comm_it_declares_publishes_and_stops_with_everything_committed(world: World, tmp_path: Path) -> None:
    async def story() -> None:
        core = RecordingCore()
        await world.begin()
        async with running(core, tmp_path):
            async with running(comm(world.arguments()), tmp_path):
                await until(lambda: core.last_of("a1/connected") == (True, GOOD))
                await until(lambda: (core.last_of("a1/poll_ms") or (0, 1))[1] == GOOD)
                own = [one.name for one in make(world, tmp_path).items]
                await until(lambda: all(core.history(name) for name in own), "a sample of every item")
            names = [one.name for one in core.items]
            assert names[: len(own)] == own
            assert {"a1/errors", "a1/acquired", "a1/dropped", "a1/overruns", "a1/reconnects"} <= set(names)
            alarm = core.items[names.index("a1/connected")].alarm
            assert alarm is not None
            assert alarm.is_device_state
            assert alarm.off_normal is False
            assert core.last_of("a1/acquired") == (sum(len(batch) for batch in core.batches), GOOD)
        await world.end()

    in_loop(story)


def test_a_poll_can_be_given_up(world: World, tmp_path: Path) -> None:
    """Goal: a stop in the middle of a poll leaves an adapter that can be closed."""

    async def story() -> None:
        adapter = make(world, tmp_path)
        await world.begin()
        await adapter.connect()
        poll = asyncio.ensure_future(adapter.poll())
        await asyncio.sleep(0)
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
        await adapter.close()
        await world.end()

    in_loop(story)


# What an adapter that is told is asked beside that.


def test_it_can_be_told_exactly_if_its_device_tells(world: World, tmp_path: Path) -> None:
    assert isinstance(make(world, tmp_path), ToldAdapter) is bool(world.told)


@contextlib.asynccontextmanager
async def hosted(world: TellingWorld, data: Path, **more: object) -> AsyncIterator[tuple[RecordingCore, Comm]]:
    """The adapter in a real COMM, at a core that records; the device is heard."""
    core, behaviour = RecordingCore(), comm({**world.arguments(), **more})
    await world.begin()
    try:
        async with running(core, data), running(behaviour, data):
            await until(lambda: world.is_heard and all(core.history(name) for name in world.told), "it is heard")
            yield core, behaviour
    finally:
        await world.end()


def counted(core: RecordingCore, name: str) -> Value | None:
    found = core.last_of(f"a1/{name}")
    return found and found[0]


NOW_NS = time.time_ns()
SOME: Mapping[ValueType, Sequence[Value]] = {
    ValueType.FLOAT64: (1.5, 1.5, 3.25),
    ValueType.INT64: (7, 7, 2**60),
    ValueType.BOOL: (True, True, False),
    ValueType.STRING: ("a", "a", "ü"),
}


QUIET_MS = 10_000
"""Time between polls, for an adapter that asks what tells nothing: what is on record then was told."""


@pytest.mark.parametrize("made", TOLD, ids=lambda world: world.kind)
def test_what_is_not_asked_of_a_device_is_a_case_of_this_suite(made: Callable[[], TellingWorld]) -> None:
    assert [name for name in made().not_asked if not callable(globals().get(name))] == []


def test_all_that_was_told_is_on_record_in_order(telling: TellingWorld, tmp_path: Path) -> None:
    """Equal values too: an arrival is an event."""

    async def story() -> None:
        async with hosted(telling, tmp_path, poll_ms=QUIET_MS) as (core, _):
            for name, value_type in telling.told.items():
                telling.tell(name, SOME[value_type], [NOW_NS, NOW_NS, NOW_NS + 1])
            for name, value_type in telling.told.items():
                wanted = [(value, GOOD) for value in SOME[value_type][1 if name == telling.banded else 0 :]]
                await until(lambda: core.history(name)[1:] == wanted, f"{name}: {wanted}")  # noqa: B023  # At once.

    in_loop(story)


def test_what_was_told_has_its_source_times_and_its_word(telling: TellingWorld, tmp_path: Path) -> None:

    async def story() -> None:
        async with hosted(telling, tmp_path) as (core, _):
            wanted: dict[str, list[tuple[Value, int]]] = {}
            for name, value_type in telling.told.items():
                values, times = SOME[value_type], [NOW_NS, NOW_NS, NOW_NS + 1]
                telling.tell(name, values, times)
                wanted[name] = list(zip(values, times, strict=True))
            await until(lambda: len(telling.words) == len(wanted), "a word for each")
            assert telling.words == [("committed", number) for number in range(1, len(wanted) + 1)]
            del wanted[telling.banded]
            for name, rows in wanted.items():
                assert core.timed(name)[-3:] == rows, name

    in_loop(story)


def test_the_dead_band_holds_between_what_is_told_at_once(telling: TellingWorld, tmp_path: Path) -> None:
    async def story() -> None:
        async with hosted(telling, tmp_path, poll_ms=QUIET_MS) as (core, _):
            telling.tell(telling.banded, [5.0, 5.9, 6.1, 6.0, 4.0], range(NOW_NS, NOW_NS + 5))
            await until(lambda: core.history(telling.banded)[-1] == (4.0, GOOD), "the last")
            assert core.history(telling.banded)[1:] == [(5.0, GOOD), (6.1, GOOD), (4.0, GOOD)]

    in_loop(story)


def test_nothing_is_committed_before_core_says_so_and_a_deaf_core_gets_it_once(
    telling: TellingWorld, tmp_path: Path
) -> None:
    async def story() -> None:
        async with hosted(telling, tmp_path) as (core, behaviour):
            name, value_type = next(iter(telling.told.items()))
            core.is_deaf = True
            for at in range(3):
                telling.tell(name, SOME[value_type][:1], [NOW_NS + at])
            told = behaviour._told
            assert told is not None
            await until(lambda: told.inspection.counters()["arrived"] == 3, "all are given")
            assert telling.words == []
            core.is_deaf = False
            await until(lambda: len(telling.words) == 3, "the words")
            assert telling.words == [("committed", number) for number in (1, 2, 3)]
            assert [at for _, at in core.timed(name)[1:]] == [NOW_NS, NOW_NS + 1, NOW_NS + 2]

    in_loop(story)


def test_nonsense_is_refused_or_named_and_counted_and_the_rest_goes_on(telling: TellingWorld, tmp_path: Path) -> None:
    async def story() -> None:
        async with hosted(telling, tmp_path) as (core, _):
            name = telling.ranged
            telling.tell_row(-1, ValueType.FLOAT64, [1.0], [NOW_NS])
            telling.tell_row(10_000, ValueType.FLOAT64, [1.0], [NOW_NS])
            telling.tell_row(0, ValueType.STRING, ["no number"], [NOW_NS])
            telling.tell_row(0, ValueType.FLOAT64, [1.0, 2.0], [NOW_NS])
            telling.tell(name, [1e9, 50.0], [NOW_NS, NOW_NS + 1])
            telling.tell(name, [51.0, 52.0], [NOW_NS + 10**15, -5])
            telling.tell(name, [53.0], [NOW_NS - 10])
            await until(lambda: len(telling.words) == 7, "the words")
            assert sorted(telling.words) == sorted(
                [("let_go", one) for one in (1, 2, 3, 4)] + [("committed", one) for one in (5, 6, 7)]
            )
            rows = core.history(name)[1:]
            assert rows[0] == (1e9, UNCERTAIN_ENGINEERING_UNITS_EXCEEDED)
            assert rows[1:] == [(50.0, GOOD), (51.0, UNCERTAIN), (52.0, UNCERTAIN), (53.0, GOOD)]
            assert core.timed(name)[-1] == (53.0, NOW_NS - 10)
            for counter, count in (("refused", 5), ("out_of_range", 1), ("impossible_times", 2), ("out_of_order", 1)):
                await until(lambda: counted(core, counter) == count, f"{counter} = {count}")  # noqa: B023  # At once.
            assert (True, GOOD) in core.history("a1/tells_nonsense"), "a case is open"
            await until(lambda: counted(core, "tells_nonsense") is False, "it ends with the nonsense")

    in_loop(story)


def test_what_is_told_while_the_member_stands_by_is_let_go(telling: TellingWorld, tmp_path: Path) -> None:
    async def story() -> None:
        async with hosted(telling, tmp_path) as (core, _):
            name, value_type = next(iter(telling.told.items()))
            value = SOME[value_type][:1]
            telling.tell(name, value, [NOW_NS])
            await until(lambda: telling.words == [("committed", 1)], "the first")
            core.is_deaf = True
            telling.tell(name, value, [NOW_NS + 1])
            core.tell_role(is_acting=False)
            await until(lambda: telling.words[1:] == [("let_go", 2)], "what was not committed")
            telling.tell(name, value, [NOW_NS + 2])
            await until(lambda: telling.words[2:] == [("let_go", 3)], "what nobody records")

    in_loop(story)


def test_told_items_of_a_lost_device_are_bad_and_good_again(telling: TellingWorld, tmp_path: Path) -> None:
    async def story() -> None:
        async with hosted(telling, tmp_path) as (core, _):
            for name, value_type in telling.told.items():
                telling.tell(name, SOME[value_type][:1], [NOW_NS])
            for wanted in (GOOD, BAD_NO_COMMUNICATION):
                await until(lambda: {core.history(one)[-1][1] for one in telling.told} == {wanted}, "they are so")  # noqa: B023  # At once.
                if wanted == GOOD:
                    await telling.lose()
            await telling.begin()
            await until(lambda: telling.is_heard and core.last_of("a1/connected") == (True, GOOD), "it is back")
            for name, value_type in telling.told.items():
                telling.tell(name, SOME[value_type][-1:], [NOW_NS + 5])
                await until(lambda: core.history(name)[-1] == (SOME[value_type][-1], GOOD), "it came again")  # noqa: B023  # At once.

    in_loop(story)


def test_told_items_that_come_back_wait_for_their_next_arrival(telling: TellingWorld, tmp_path: Path) -> None:
    async def story() -> None:
        async with hosted(telling, tmp_path) as (core, _):
            name, value_type = next(iter(telling.told.items()))
            telling.tell(name, SOME[value_type][:1], [NOW_NS])
            await until(lambda: core.history(name)[-1][1] == GOOD, "it came")
            await telling.lose()
            await until(lambda: core.history(name)[-1][1] == BAD_NO_COMMUNICATION, "it is marked")
            await telling.begin()
            await until(lambda: telling.is_heard and core.last_of("a1/connected") == (True, GOOD), "it is back")
            assert core.history(name)[-1][1] == BAD_NO_COMMUNICATION, "nothing was told of it yet"
            telling.tell(name, SOME[value_type][-1:], [NOW_NS + 5])
            await until(lambda: core.history(name)[-1] == (SOME[value_type][-1], GOOD), "it came again")
            gap = next(one for one in core.gaps if core.id_of(name) in one.item_ids)
            assert (gap.from_ns, gap.to_ns) == (NOW_NS, NOW_NS + 5)

    in_loop(story)


CASES = cases(TIMEOUT_S)
POLLS = 24
"""Polls, a second apart, within which everything about a device is learnt."""
LAST = 10
REQUESTS_MAX = 6
"""Requests of one poll to a unit of three blocks: one more for each address that it lacks, and a try now and then."""


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_unit_that_misbehaves_costs_itself_only(case: str) -> None:
    """Goal: its neighbours on the line are good in every poll, and no value is ever good and wrong.

    Unit 2 misbehaves between units 1 and 3. Once it is known, what it does right is shown, and asking it takes little.
    """
    unruly = CASES[case]

    async def story() -> None:
        async with UnrulySite({1: honest, 2: unruly.manner, 3: honest}) as site:
            asked = 0
            for number in range(POLLS):
                if number == POLLS - LAST:
                    asked = site.asked_of(2)
                shown = await site.poll()
                good = {place: value for place, value in shown.items() if value is not None}
                assert {(unit, one) for unit in (1, 3) for one in ADDRESSES} <= good.keys(), number
                assert {place: value for place, value in good.items() if not site.is_right(place, value)} == {}, number
            assert {one for one in ADDRESSES if shown[2, one] is None} == set(unruly.bad)
            assert site.losses == 0
            assert unruly.hangs_up or site.device.connections == 1
            is_away = site.adapter.counters()["units_away"]
            assert site.asked_of(2) - asked <= (LAST // 5 + 1 if is_away else LAST * REQUESTS_MAX)

    run_steadily(story())
