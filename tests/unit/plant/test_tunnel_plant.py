"""The plant: scenarios by name, set points of its PLCs, and what it does with nonsense."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from albireo.plant.tunnel.plant import Plant
from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.plant.tunnel.plc.wire import (
    Done,
    FaultsAsked,
    Image,
    Message,
    PlcFaults,
    PlcHello,
    PointsWritten,
    ScenarioAsked,
    connected,
    framed,
    receive,
)
from albireo.plant.tunnel.scenario import DELAY_MS, PLC_OFF_S, TEAR_MS, Scenario
from tests.parts.waiting import PATIENCE_S


def test_a_plc_that_is_off_comes_back_by_itself() -> None:
    plant = Plant(seed=1)
    assert plant.asked(ScenarioAsked(scenario=Scenario.PLC_OFF, plc="p2"), now=100.0) == Done()
    plant.tick(100.0 + PLC_OFF_S - 1)
    assert plant.faults["p2"].is_off and not plant.faults["p1"].is_off
    plant.tick(100.0 + PLC_OFF_S)
    assert not plant.faults["p2"].is_off


def test_clear_brings_every_plc_back() -> None:
    plant = Plant(seed=1)
    plant.asked(ScenarioAsked(scenario=Scenario.PLC_OFF), now=0.0)
    plant.asked(FaultsAsked(plc="p2", faults=PlcFaults(is_frozen=True)), now=0.0)
    plant.asked(ScenarioAsked(scenario=Scenario.CLEAR), now=0.0)
    assert set(plant.faults.values()) == {PlcFaults()}


def test_a_plc_tears_and_delays_until_all_is_clear() -> None:
    plant = Plant(seed=1)
    plant.asked(ScenarioAsked(scenario=Scenario.PLC_TEAR), now=0.0)
    plant.asked(ScenarioAsked(scenario=Scenario.PLC_DELAY), now=0.0)
    assert plant.faults == {"p1": PlcFaults(tear_ms=TEAR_MS, others_delay_ms=DELAY_MS), "p2": PlcFaults()}
    plant.asked(ScenarioAsked(scenario=Scenario.CLEAR), now=0.0)
    assert plant.faults["p1"] == PlcFaults()


def test_a_plc_that_is_not_running_can_not_be_restarted() -> None:
    told = Plant(seed=1).asked(ScenarioAsked(scenario=Scenario.PLC_RESTART), now=0.0)
    assert "no PLC 'p1' is running" in told.error


def test_scenarios_begin_at_the_place_that_is_named() -> None:
    plant = Plant(seed=1)
    plant.asked(ScenarioAsked(scenario=Scenario.FIRE, target=2), now=0.0)
    plant.asked(ScenarioAsked(scenario=Scenario.FAN_TRIP, target=9), now=0.0)
    assert (plant.state.incidents.fire_section, plant.state.incidents.damaged_fan) == (2, 9)


@pytest.mark.parametrize(
    "asked",
    [
        ScenarioAsked(scenario=Scenario.FIRE, target=8),
        ScenarioAsked(scenario=Scenario.FAN_TRIP, target=10),
        ScenarioAsked(scenario=Scenario.FIRE, target=-1),
        ScenarioAsked(scenario=Scenario.PLC_OFF, plc="p9"),
        FaultsAsked(plc="p9", faults=PlcFaults()),
    ],
)
def test_places_that_do_not_exist_are_refused(asked: ScenarioAsked | FaultsAsked) -> None:
    plant = Plant(seed=1)
    assert plant.asked(asked, now=0.0).error
    assert plant.state.incidents.fire_section is None


def conversation(directory: Path, *said: bytes, answers: int = 1) -> tuple[Plant, list[Message | None]]:
    """Says `said` to a plant on one connection; the plant afterwards, and what it answered."""

    async def talk() -> tuple[Plant, list[Message | None]]:
        plant, is_ready = Plant(seed=1), asyncio.Event()
        running = asyncio.create_task(plant.run(directory, is_ready))
        await is_ready.wait()
        async with asyncio.timeout(PATIENCE_S), connected(directory) as (reader, writer):
            for one in said:
                writer.write(one)
            heard = [await receive(reader) for _ in range(answers)]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return plant, heard

    return asyncio.run(talk())


def test_a_plc_gets_images_and_its_set_points_act(tmp_path: Path) -> None:
    plant, heard = conversation(
        tmp_path,
        framed(PlcHello(plc="p1")),
        framed(PointsWritten(values={"vent_auto": 0, "vent_stage_set": 4})),
        answers=3,
    )
    images = [one for one in heard if isinstance(one, Image)]
    assert len(images) == 3
    assert len(np.frombuffer(images[0].values, "<f8")) == len(PLCS["p1"].live)
    assert plant.state.fans.stage == 4


def test_a_deep_directory_is_no_hindrance(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a-rather-long-name"] * 10)
    deep.mkdir(parents=True)
    assert len(str(deep)) > 107
    _, heard = conversation(deep, framed(ScenarioAsked(scenario=Scenario.FIRE)))
    assert heard == [Done()]


@pytest.mark.parametrize(
    "said",
    [
        b"\xff\xff\xff\xff",
        (4).to_bytes(4, "little") + b"\x81\xc1\xc1\xc1",
        framed(PointsWritten(values={"vent_auto": 1})),
        framed(PlcHello(plc="p1")) + framed(PointsWritten(values={"co_1": 1})),
        framed(PlcHello(plc="p1")) + framed(PointsWritten(values={"vent_stage_set": float("nan")})),
        framed(PlcHello(plc="p7")),
        framed(Done()),
        b"\x09\x00",
    ],
    ids=["too-long", "no-message", "no-hello", "no-set-point", "not-finite", "no-plc", "not-to-the-plant", "torn"],
)
def test_nonsense_ends_its_connection_and_nothing_else(tmp_path: Path, said: bytes) -> None:
    """Goal: the plant lives on. Method: nonsense, then a scenario on a connection of its own."""

    async def talk() -> list[Message | None]:
        plant, is_ready = Plant(seed=1), asyncio.Event()
        running = asyncio.create_task(plant.run(tmp_path, is_ready))
        await is_ready.wait()
        async with asyncio.timeout(PATIENCE_S):
            async with connected(tmp_path) as (reader, writer):
                writer.write(said)
                writer.write_eof()
                while isinstance(await receive(reader), Image):
                    pass
            async with connected(tmp_path) as (reader, writer):
                writer.write(framed(ScenarioAsked(scenario=Scenario.JAM)))
                answer = await receive(reader)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return [answer]

    assert asyncio.run(talk()) == [Done()]
