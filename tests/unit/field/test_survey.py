"""Survey of an unknown device: what answers is found with few requests, and guesses are careful."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.field.contract import DeviceLost
from albireo.field.modbus.guessing import RegisterStretch
from albireo.field.modbus.items import TableKind
from albireo.field.modbus.survey import OutOfRequests, Survey, SurveyLimits, Surveyor, used


class Device:
    """Answers for the addresses it has, refuses a read that touches any other; values may change at each look."""

    def __init__(self, values: Mapping[TableKind, Mapping[int, Sequence[int]]], block_max: int = 2_000) -> None:
        self.values = values
        self.block_max = block_max
        self.look = 0
        self.reads: list[tuple[TableKind, int, int]] = []

    async def read(self, kind: TableKind, address: int, count: int) -> Sequence[int] | None:
        self.reads.append((kind, address, count))
        there = self.values.get(kind, {})
        wanted = range(address, address + count)
        if count > self.block_max or any(one not in there for one in wanted):
            return None
        return [there[one][min(self.look, len(there[one]) - 1)] for one in wanted]

    async def pause(self) -> None:
        self.look += 1


def survey(device: Device, *, keeps_zeros: bool = False, limits: SurveyLimits | None = None) -> Survey:
    surveyor = Surveyor(device.read, limits or SurveyLimits(), lambda _: None)
    return asyncio.run(surveyor.look(device.pause, keeps_zeros=keeps_zeros))


def test_runs_are_found_wherever_they_begin_and_end() -> None:
    addresses = [*range(7), *range(30, 160), *range(500, 520), *range(1_984, 2_001)]
    device = Device({TableKind.HOLDING: {one: [5] for one in addresses}})
    stretches = asyncio.run(Surveyor(device.read, SurveyLimits(), lambda _: None).stretches(TableKind.HOLDING))
    assert stretches == [
        RegisterStretch(TableKind.HOLDING, 0, 7),
        RegisterStretch(TableKind.HOLDING, 30, 130),
        RegisterStretch(TableKind.HOLDING, 500, 20),
        RegisterStretch(TableKind.HOLDING, 1_984, 17),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 1_900), st.integers(16, 100)), max_size=6),
    st.lists(st.integers(0, 2_000), max_size=10),
)
@settings(max_examples=60, deadline=None)
def test_every_run_as_long_as_the_grid_is_found_whole(long: list[tuple[int, int]], short: list[int]) -> None:
    """Against the plain list of addresses: no stretch of 16 or more is missed or cut, nothing is invented."""
    there = {one for first, count in long for one in range(first, min(first + count, 2_001))} | set(short)
    device = Device({TableKind.INPUT: {one: [1] for one in there}})
    stretches = asyncio.run(Surveyor(device.read, SurveyLimits(), lambda _: None).stretches(TableKind.INPUT))
    found = {one for stretch in stretches for one in range(stretch.first, stretch.first + stretch.count)}
    assert found <= there
    assert sum(stretch.count for stretch in stretches) == len(found), "stretches don't overlap"
    for first, count in long:
        assert set(range(first, min(first + count, 2_001))) <= found


def test_an_empty_device_and_a_full_one_cost_few_requests() -> None:
    empty = Device({})
    assert survey(empty).guesses == ()
    assert len(empty.reads) < 700
    full = Device({kind: {one: [1] for one in range(2_001)} for kind in TableKind})
    assert survey(full, limits=SurveyLimits(items_max=10_000)).is_complete
    assert len(full.reads) < 250


def test_the_number_of_requests_is_bounded_and_what_was_found_is_kept() -> None:
    device = Device({TableKind.HOLDING: {one: [1] for one in range(0, 2_000, 2)}})
    limits = SurveyLimits(requests_max=50)
    answer = survey(device, limits=limits)
    assert not answer.is_complete
    assert 0 < len(answer.guesses) <= 50
    surveyor = Surveyor(device.read, limits, lambda _: None)
    with pytest.raises(OutOfRequests) as stopped:
        asyncio.run(surveyor.stretches(TableKind.HOLDING))
    assert stopped.value.args[0]


def test_a_device_that_goes_away_ends_the_survey() -> None:
    async def read(kind: TableKind, address: int, count: int) -> Sequence[int] | None:
        raise DeviceLost("connection lost")

    with pytest.raises(DeviceLost):
        asyncio.run(Surveyor(read, SurveyLimits(), lambda _: None).stretches(TableKind.COIL))


def test_a_run_that_vanishes_between_the_looks_makes_the_survey_incomplete() -> None:
    values = {0: [1], 1: [1]}
    device = Device({TableKind.HOLDING: values})

    async def pause() -> None:
        values.clear()

    answer = asyncio.run(Surveyor(device.read, SurveyLimits(), lambda _: None).look(pause))
    assert not answer.is_complete and answer.guesses == ()


def test_long_rows_of_zeros_are_left_out_unless_wanted() -> None:
    row = [3, *[0] * 7, 4, *[0] * 30, 5, *[0] * 9]
    assert used(row, row, 8) == [*range(9), 39]
    device = Device({TableKind.HOLDING: {at: [value] for at, value in enumerate(row)}})
    answer = survey(device)
    assert ([one.address for one in answer.guesses], answer.skipped) == ([*range(9), 39], 39)
    assert len(survey(device, keeps_zeros=True).guesses) == len(row)
