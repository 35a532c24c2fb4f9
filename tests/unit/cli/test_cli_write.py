"""What a value on the command line means, by the type of the item."""

import json

import click
import msgspec
import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.cli.node.write import EXPIRES_S_MAX, NegativeNumbers, parsed
from albireo.cli.output import Failure
from albireo.cli.timespan import SecondsType
from albireo.client import ItemReading
from albireo.model.item import DataItem, Reading
from albireo.model.item_states import ItemState
from albireo.model.order_text import EXPIRES_MS_MAX
from albireo.model.value import Value, ValueType


@pytest.mark.parametrize(
    ("text", "value_type", "value"),
    [
        ("12", ValueType.STRING, "12"),
        ("true", ValueType.STRING, "true"),
        ("12", ValueType.INT64, 12),
        ("12", ValueType.FLOAT64, 12.0),
        ("1e3", ValueType.FLOAT64, 1000.0),
        ("on", ValueType.BOOL, True),
        ("False", ValueType.BOOL, False),
        ("0", ValueType.BOOL, False),
        ("0x10", ValueType.INT64, 16),
        ("+007", ValueType.INT64, 7),
        (" .5", ValueType.FLOAT64, 0.5),
    ],
)
def test_a_value_means_what_the_item_takes(text: str, value_type: ValueType, value: Value) -> None:
    found = parsed(text, an_item(value_type))
    assert (found, type(found)) == (value, type(value))


NO_NUMBERS = ["1_5", "٤٢", "４２", "9" * 400, "nan", "inf", "-inf", "1e999", "0x1.8p3", "1,5", "1 5", "", "--5", "fast"]


@pytest.mark.parametrize(
    ("text", "value_type"),
    [
        *((one, ValueType.FLOAT64) for one in (*NO_NUMBERS, "0x10")),
        *((one, ValueType.INT64) for one in (*NO_NUMBERS, "12.5", "1e3", "9" * 20)),
        *((one, ValueType.BOOL) for one in ("2", "ja", "")),
    ],
)
def test_what_is_no_value_of_the_item_is_refused_in_a_line(text: str, value_type: ValueType) -> None:
    with pytest.raises(Failure, match=r"co takes .*: .* is (no|neither|beyond)") as refused:
        parsed(text, an_item(value_type))
    assert len(refused.value.message) < 100 and refused.value.remedy


def an_item(value_type: ValueType) -> ItemReading:
    reading = Reading(item_id=1, name="co", value=None, quality=0, source_ns=0, node_ns=0)
    return ItemReading(name="co", item_id=1, item=DataItem(name="co", value_type=value_type), reading=reading)


@pytest.mark.parametrize("text", ["1_5", "٤٢", "9" * 400, "nan", "1e999", "0x1.8p3", "1,5", "0b1"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("events", "--limit"),
        ("events", "--from"),
        ("history", "co", "--every"),
        ("command", "list", "--limit"),
        ("topology", "new", "--device-id"),
        ("topology", "new", "--address-max"),
        ("topic", "take", "t", "--count"),
        ("topic", "create", "t", "--max-age"),
        ("message", "receive", "--count"),
        ("node", "run", "--feature-level"),
        ("force", "co", "1", "--for"),
        ("hexabus", "query", "lo"),
        ("demo", "--for"),
        ("demo", "--seed"),
        ("drill", "chaos", "--minutes"),
        ("simulate", "--seeds"),
        ("cases", "ack"),
        ("cases", "shelve", "1", "--for"),
    ],
)
def test_a_number_that_a_person_types_is_read_by_one_rule(arguments: tuple[str, ...], text: str) -> None:
    """It is refused before a node is looked for."""
    result = CliRunner().invoke(cli, [*arguments, text, "--json"])
    assert result.exit_code == 2, result.output
    (line,) = result.stdout.splitlines()
    assert len(json.loads(line)["error"]) < 200


@click.command(cls=NegativeNumbers)
@click.argument("item")
@click.argument("value")
@click.option("--reason", default="")
def sample(item: str, value: str, reason: str) -> None:
    """The arguments of `write`."""
    click.echo(f"{item} {value} {reason}")


@pytest.mark.parametrize("value", ["-55", "-.5", "-1e3", "-inf"])
def test_a_number_below_zero_is_no_option(value: str) -> None:
    for arguments in ([value, "--reason", "test"], ["--reason", "test", value], ["--reason", "test", "--", value]):
        result = CliRunner().invoke(sample, ["temp_1", *arguments])
        assert (result.exit_code, result.stdout) == (0, f"temp_1 {value} test\n"), result.stderr


def test_a_number_below_zero_behind_an_option_is_that_of_the_option() -> None:
    result = CliRunner().invoke(sample, ["temp_1", "-5", "--reason", "-7"])
    assert result.stdout == "temp_1 -5 -7\n", result.stderr


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e300", "-1", "0", "3601", "2h", "soon"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("write", "north:fan", "1", "--expires"),
        ("message", "send", "north", __file__, "--expires"),
        ("message", "receive", "--wait"),
        ("message", "show", "ID", "--wait"),
        ("watch", "--for"),
        ("cases", "shelve", "1", "--for"),
    ],
)
def test_a_time_that_can_not_be_meant_is_a_usage_error(arguments: tuple[str, ...], seconds: str) -> None:
    """It is refused before a node is looked for; `nan` lies within no bounds, and outside of none."""
    if (seconds in ("3601", "2h") and arguments[0] != "write") or (seconds == "0" and "--wait" in arguments):
        return
    result = CliRunner().invoke(cli, [*arguments, seconds, "--json"])
    assert result.exit_code == 2, result.output
    told = json.loads(result.stdout.splitlines()[-1])
    assert told["exit"] == 2 and "is no time from " in told["error"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90.0), ("1.5", 1.5), ("10s", 10.0), ("5m", 300.0), ("200ms", 0.2)]
)
def test_a_time_is_a_number_of_seconds_or_has_its_unit(text: str, seconds: float) -> None:
    assert SecondsType().convert(text, None, None) == seconds


def test_the_longest_time_to_live_is_that_of_the_node() -> None:
    assert EXPIRES_S_MAX * 1000 == EXPIRES_MS_MAX


def test_an_option_that_nobody_knows_stays_a_usage_error() -> None:
    assert CliRunner().invoke(sample, ["temp_1", "5", "--reson", "x"]).exit_code == 2
    assert CliRunner().invoke(sample, ["temp_1", "5", "-x"]).exit_code == 2


@pytest.mark.parametrize(
    ("text", "value"), [("closed", True), ("OPEN", False), ("true", True), ("0", False), ("on", False), ("off", False)]
)
def test_a_value_is_meant_by_its_word_before_anything_else(text: str, value: bool) -> None:
    words = (ItemState(0, "on" if text == "on" else "open"), ItemState(1, "closed"))
    item = DataItem(name="co", value_type=ValueType.BOOL, states=words)
    assert parsed(text, msgspec.structs.replace(an_item(ValueType.BOOL), item=item)) is value
