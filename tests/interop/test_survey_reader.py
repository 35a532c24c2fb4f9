"""Survey at devices with habits of their own, over a real connection: it copes with what the adapter copes with."""

from collections.abc import Callable

import pytest

from albireo.field.contract import DeviceLost
from albireo.field.modbus import survey_reader
from albireo.field.modbus.items import TableKind
from albireo.field.modbus.survey import Survey, SurveyLimits, Surveyor
from albireo.field.modbus.survey_reader import SurveyReader
from albireo.field.modbus.wire import TAKEN, Address, Wire
from albireo.model.instant import SECOND
from albireo.plant.unruly.device import Manner, UnitAsked, UnrulyDevice, UnrulyLine, exception, frame
from albireo.plant.unruly.manners import honest
from tests.parts.steady import run_steadily

pytestmark = pytest.mark.slow

TWENTY = tuple(range(20))
LIMITS = SurveyLimits(address_max=24)
TIMEOUT_S = 0.2


def has_twenty(refuse: Callable[[UnitAsked, UnrulyLine], None], manner: Manner = honest) -> Manner:
    """Registers 0..19 of the holding table, none other."""

    async def whole(asked: UnitAsked, line: UnrulyLine) -> None:
        if asked.function == 3 and asked.address + asked.count <= len(TWENTY):
            await manner(asked, line)
        else:
            refuse(asked, line)

    return whole


def refused(code: int) -> Callable[[UnitAsked, UnrulyLine], None]:
    return lambda asked, line: line.send(frame(asked, exception(asked, code)))


def not_at_all(asked: UnitAsked, line: UnrulyLine) -> None:
    """It does not answer for what it lacks."""


def hanging_up(asked: UnitAsked, line: UnrulyLine) -> None:
    line.close()


def ends_after_each(manner: Manner) -> Manner:
    async def whole(asked: UnitAsked, line: UnrulyLine) -> None:
        await manner(asked, line)
        line.close()

    return whole


def busy_every(number: int, manner: Manner) -> Manner:
    asked_before = 0

    async def whole(asked: UnitAsked, line: UnrulyLine) -> None:
        nonlocal asked_before
        asked_before += 1
        if asked_before % number:
            await manner(asked, line)
        else:
            line.send(frame(asked, exception(asked, 6)))

    return whole


async def gives_eight(asked: UnitAsked, line: UnrulyLine) -> None:
    """A longer answer is cut off."""
    body = line.device.answer(asked)
    line.send(frame(asked, bytes([body[0], min(body[1], 16)]) + body[2:18]))


async def surveyed(device: UnrulyDevice, limits: SurveyLimits) -> Survey:
    await device.start()
    wire = Wire(Address("127.0.0.1", device.port), int(TIMEOUT_S * SECOND))
    await wire.connect()
    try:
        reader = SurveyReader(wire, 1, TIMEOUT_S, 0.0)
        assert await reader.trouble() == ""

        async def pause() -> None:
            """The registers of this device stand still."""

        return await Surveyor(reader, limits, lambda _: None).look(pause)
    finally:
        await wire.closed()
        await device.stop()


@pytest.mark.parametrize(
    "manner",
    [
        *(has_twenty(refused(code)) for code in (1, 2, 3, 4)),
        ends_after_each(has_twenty(refused(2))),
        busy_every(7, has_twenty(refused(2))),
        busy_every(2, has_twenty(refused(2))),
        has_twenty(refused(2), gives_eight),
        has_twenty(not_at_all),
        has_twenty(hanging_up),
    ],
    ids=[
        "1",
        "2",
        "3",
        "4",
        "hangs up after each",
        "busy 7",
        "busy 2",
        "cut off",
        "silent",
        "hangs up at what it lacks",
    ],
)
def test_a_device_of_twenty_registers_is_found_whole_whatever_its_habits(manner: Manner) -> None:
    async def story() -> None:
        answer = await surveyed(UnrulyDevice({1: manner}), LIMITS)
        assert [(one.kind, one.address) for one in answer.guesses] == [(TableKind.HOLDING, one) for one in TWENTY]
        assert answer.is_complete
        assert [one.ended for one in answer.tables] == ["looked at each address to 24"] * 4

    run_steadily(story())


def test_a_table_that_is_silent_for_too_long_is_left_and_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_reader, "VAIN_S_MAX", 1.5)

    async def story() -> None:
        answer = await surveyed(UnrulyDevice({1: has_twenty(not_at_all)}), LIMITS)
        assert [one.found for one in answer.tables] == [20, 0, 0, 0]
        assert not answer.tables[1].complete
        assert "it was silent or busy for 1.5 s" in answer.tables[1].ended

    run_steadily(story())


def test_a_device_that_goes_away_ends_the_survey() -> None:
    async def story() -> None:
        device = UnrulyDevice({1: has_twenty(refused(2))})

        async def gone(asked: UnitAsked, line: UnrulyLine) -> None:
            if len(device.asked) < 50:
                await has_twenty(refused(2))(asked, line)

        device.manners[1] = gone
        with pytest.raises(DeviceLost, match="no answer to 3 requests in a row"):
            await surveyed(device, LIMITS)

    run_steadily(story())


@pytest.mark.parametrize(
    ("manner", "trouble"),
    [
        (not_at_all, "no answer"),
        (hanging_up, TAKEN),
        (refused(11), "the gateway says exception 11 (gateway target silent)"),
        (
            lambda asked, line: line.send(b"HTTP/1.1 400 Bad Request\r\n"),
            "not Modbus: it says b'HTTP/1.1 400 Bad Request'",
        ),
        (
            lambda asked, line: line.send(frame(asked, line.device.answer(asked), unit=7)),
            "it answers as unit 7, and unit 1 was asked",
        ),
    ],
)
def test_a_unit_that_is_not_there_is_told_with_what_came(
    manner: Callable[[UnitAsked, UnrulyLine], None], trouble: str
) -> None:
    async def whole(asked: UnitAsked, line: UnrulyLine) -> None:
        manner(asked, line)

    async def story() -> None:
        device = UnrulyDevice({1: whole})
        await device.start()
        wire = Wire(Address("127.0.0.1", device.port), int(TIMEOUT_S * SECOND))
        await wire.connect()
        assert await SurveyReader(wire, 1, TIMEOUT_S, 0.0).trouble() == trouble
        await wire.closed()
        await device.stop()

    run_steadily(story())
