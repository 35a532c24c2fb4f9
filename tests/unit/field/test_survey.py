"""Survey of an unknown device: what answers is found with few requests, and guesses are careful."""

import asyncio
from collections.abc import Collection, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.field.contract import DeviceLost
from albireo.field.modbus.guessing import RegisterStretch
from albireo.field.modbus.items import TableKind
from albireo.field.modbus.survey import NotGiven, Survey, SurveyEnds, SurveyLimits, Surveyor, TableSurvey, used


class Device:
    """Answers for the addresses it has, refuses a read that touches any other; values may change at each look."""

    def __init__(
        self,
        values: Mapping[TableKind, Mapping[int, Sequence[int]]],
        block_max: int = 2_000,
        pairs: Collection[int] = (),
        borders: Collection[int] = (),
    ) -> None:
        """
        Args:
            pairs: addresses that are only given together with the next one.
            borders: addresses that no read may reach over.
        """
        self.values = values
        self.block_max = block_max
        self.pairs = pairs
        self.borders = borders
        self.look = 0
        self.reads: list[tuple[TableKind, int, int]] = []

    async def read(self, kind: TableKind, address: int, count: int) -> Sequence[int] | NotGiven:
        self.reads.append((kind, address, count))
        there = self.values.get(kind, {})
        wanted = range(address, address + count)
        if count > self.block_max or any(one not in there for one in wanted):
            return NotGiven.REFUSED
        if any((one in wanted) != (one + 1 in wanted) for one in self.pairs):
            return NotGiven.REFUSED
        if any(one in wanted and one != address for one in self.borders):
            return NotGiven.REFUSED
        return [there[one][min(self.look, len(there[one]) - 1)] for one in wanted]

    async def pause(self) -> None:
        self.look += 1


def survey(device: Device, *, keeps_zeros: bool = False, limits: SurveyLimits | None = None) -> Survey:
    surveyor = Surveyor(device.read, limits or SurveyLimits(), lambda _: None)
    return asyncio.run(surveyor.look(device.pause, keeps_zeros=keeps_zeros))


def searched(device: Device, kind: TableKind) -> list[RegisterStretch]:
    return asyncio.run(Surveyor(device.read, SurveyLimits(), lambda _: None).stretches(TableSurvey(kind=kind)))


def test_runs_are_found_wherever_they_begin_and_end() -> None:
    addresses = [*range(7), *range(30, 160), *range(500, 520), *range(1_984, 2_001)]
    device = Device({TableKind.HOLDING: {one: [5] for one in addresses}})
    stretches = searched(device, TableKind.HOLDING)
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
    stretches = searched(device, TableKind.INPUT)
    found = {one for stretch in stretches for one in range(stretch.first, stretch.first + stretch.count)}
    assert found <= there
    assert sum(stretch.count for stretch in stretches) == len(found), "stretches don't overlap"
    for first, count in long:
        assert set(range(first, min(first + count, 2_001))) <= found


def test_an_empty_device_and_a_full_one_cost_few_requests() -> None:
    empty = Device({})
    assert survey(empty).guesses == ()
    assert len(empty.reads) < 1_800
    full = Device({kind: {one: [1] for one in range(2_001)} for kind in TableKind})
    assert len(survey(full, limits=SurveyLimits(items_max=10_000)).guesses) == 4 * 2_001
    assert len(full.reads) < 250


def test_the_number_of_requests_is_bounded_and_what_was_found_is_kept() -> None:
    device = Device({TableKind.HOLDING: {one: [1] for one in range(0, 2_000, 2)}})
    answer = survey(device, limits=SurveyLimits(requests_max=50))
    assert not answer.is_complete
    assert 0 < len(answer.guesses) <= 50
    assert answer.tables[0].ended == "stopped at address 25: 50 requests are the limit of a survey"
    assert [one.found for one in answer.tables] == [len(answer.guesses), 0, 0, 0]


def test_a_device_that_goes_away_ends_the_survey() -> None:
    async def read(kind: TableKind, address: int, count: int) -> Sequence[int] | NotGiven:
        raise DeviceLost("connection lost")

    with pytest.raises(DeviceLost):
        asyncio.run(Surveyor(read, SurveyLimits(), lambda _: None).stretches(TableSurvey(kind=TableKind.COIL)))


def test_a_run_that_vanishes_between_the_looks_makes_the_survey_incomplete() -> None:
    values = {0: [1], 1: [1]}
    device = Device({TableKind.HOLDING: values})

    async def pause() -> None:
        values.clear()

    answer = asyncio.run(Surveyor(device.read, SurveyLimits(), lambda _: None).look(pause))
    assert not answer.is_complete and answer.guesses == ()


def test_long_rows_of_zeros_are_left_out_unless_wanted() -> None:
    row = [3, *[0] * 7, 4, *[0] * 30, 5, *[0] * 9]
    assert used(RegisterStretch(TableKind.HOLDING, 0, len(row)), row, row) == [*range(9), 39]
    pairs = [0, 5, *[0] * 8, 0, 7]
    assert used(RegisterStretch(TableKind.HOLDING, 0, 12, 2), pairs, pairs) == [0, 1, 10, 11], "no pair is torn"
    device = Device({TableKind.HOLDING: {at: [value] for at, value in enumerate(row)}})
    answer = survey(device)
    assert ([one.address for one in answer.guesses], answer.skipped) == ([*range(9), 39], 39)
    assert len(survey(device, keeps_zeros=True).guesses) == len(row)


# Habits of real devices.

HUNDRED = {one: [1_000 + 3 * one] for one in range(100)}


@pytest.mark.parametrize("most", [1, 2, 3, 10, 16, 50, 64, 99, 100])
def test_a_limit_of_the_count_hides_nothing(most: int) -> None:
    device = Device({TableKind.HOLDING: {one: [7] for one in (*range(100), *range(1_000, 1_100))}}, most)
    answer = survey(device)
    assert [one.address for one in answer.guesses] == [*range(100), *range(1_000, 1_100)]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.sets(st.integers(0, 150), max_size=80), st.sets(st.integers(0, 150), max_size=6))
def test_where_each_address_is_looked_at_nothing_is_missed_and_the_survey_says_so(
    most: int, there: set[int], borders: set[int]
) -> None:
    device = Device({TableKind.INPUT: {one: [5] for one in there}}, most, borders=borders)
    answer = survey(device, limits=SurveyLimits(address_max=150, grid=1))
    assert [one.address for one in answer.guesses] == sorted(there)
    assert answer.is_complete
    assert [one.found for one in answer.tables] == [0, len(there), 0, 0]


def test_a_survey_in_steps_does_not_say_that_it_is_complete() -> None:
    device = Device({TableKind.HOLDING: {**HUNDRED, **{one: [1] for one in range(1_001, 1_008)}}})
    answer = survey(device)
    assert (len(answer.guesses), answer.is_complete) == (100, False)
    assert answer.tables[0].ended == "looked at each address to 127, every 16th to 2000: short runs may be missed"
    assert len(survey(device, limits=SurveyLimits(grid=1, requests_max=20_000)).guesses) == 107


@pytest.mark.parametrize("first", [0, 1, 7, 300, 301, 1_000, 1_001])
@pytest.mark.parametrize("most", [2, 3, 20, 125])
def test_registers_that_are_given_in_pairs_only_are_found(first: int, most: int) -> None:
    places = range(first, first + 40)
    device = Device({TableKind.HOLDING: {one: [one % 2, 9][one % 2 :] for one in places}}, most, pairs=places[::2])
    answer = survey(device)
    assert [(one.address, one.type) for one in answer.guesses] == [(one, "uint32") for one in places[::2]]


def test_pairs_beside_single_registers_are_found() -> None:
    places = (*range(10), *range(12, 18), *range(19, 25))
    answer = survey(Device({TableKind.HOLDING: {one: [one + 1] for one in places}}, pairs=(12, 14, 16, 19)))
    assert [one.address for one in answer.guesses] == [*range(10), 12, 14, 16, 19, *range(21, 25)]


class ReadsPastItsEnd(Device):
    """Gives a block from an address that it has, however long, as servers do that look at the first address only."""

    async def read(self, kind: TableKind, address: int, count: int) -> Sequence[int] | NotGiven:
        there = self.values.get(kind, {})
        inside = address in there and count <= self.block_max
        return [there.get(one, [0])[0] for one in range(address, address + count)] if inside else NotGiven.REFUSED


@pytest.mark.parametrize("count", [1, 2, 63, 100, 960, 1_500])
def test_a_device_that_reads_past_its_end_has_the_addresses_that_answer_alone(count: int) -> None:
    answer = survey(ReadsPastItsEnd({TableKind.COIL: {one: [1] for one in range(count)}}))
    assert [one.address for one in answer.guesses] == list(range(count))


def test_what_is_given_once_and_then_no_more_costs_itself_only() -> None:
    values = {one: [7] for one in range(40)}
    device = Device({TableKind.HOLDING: values})

    async def pause() -> None:
        values.pop(20, None)

    surveyor = Surveyor(device.read, SurveyLimits(address_max=100), lambda _: None)
    answer = asyncio.run(surveyor.look(pause))
    assert [one.address for one in answer.guesses] == [one for one in range(40) if one != 20]
    assert not answer.is_complete
    assert answer.tables[0].ended == "looked at each address to 100; 1 addresses answered and then no more"


def test_a_device_that_stays_busy_makes_the_survey_incomplete() -> None:
    class Busy(Device):
        async def read(self, kind: TableKind, address: int, count: int) -> Sequence[int] | NotGiven:
            return NotGiven.BUSY if address == 50 else await super().read(kind, address, count)

    answer = survey(Busy({TableKind.HOLDING: HUNDRED}), limits=SurveyLimits(address_max=100))
    assert not answer.is_complete
    assert [one.complete for one in answer.tables] == [True, False, False, False], "the first was read in one block"
    assert answer.tables[1].ended == "looked at each address to 100; the device stayed busy"


def test_a_table_that_takes_too_long_is_left_and_the_others_are_looked_at() -> None:
    class Slow(Device):
        async def read(self, kind: TableKind, address: int, count: int) -> Sequence[int] | NotGiven:
            if kind is TableKind.HOLDING and address > 20:
                raise SurveyEnds("it was silent")
            return await super().read(kind, address, count)

    device = Slow({TableKind.HOLDING: {1: [5]}, TableKind.INPUT: HUNDRED})
    answer = survey(device, limits=SurveyLimits(address_max=100))
    assert [(one.found, one.ended) for one in answer.tables[:2]] == [
        (1, "stopped at address 21: it was silent"),
        (100, "looked at each address to 100"),
    ]
    assert not answer.is_complete
