"""What a value on the command line means, by the type of the item."""

import json

import click
import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.cli.node.write import EXPIRES_S_MAX, NegativeNumbers, parsed
from albireo.cli.timespan import SecondsType
from albireo.model.order_text import EXPIRES_MS_MAX
from albireo.model.value import Value, ValueType


@pytest.mark.parametrize(
    ("text", "value_type", "value"),
    [
        ("12", ValueType.STRING, "12"),
        ("true", ValueType.STRING, "true"),
        ("12", ValueType.INT64, 12),
        ("12.5", ValueType.INT64, 12.5),
        ("12", ValueType.FLOAT64, 12),
        ("1e3", ValueType.FLOAT64, 1000.0),
        ("on", ValueType.BOOL, True),
        ("False", ValueType.BOOL, False),
        ("0", ValueType.BOOL, False),
        ("2", ValueType.BOOL, "2"),
        ("fast", ValueType.FLOAT64, "fast"),
    ],
)
def test_a_value_means_what_the_item_takes(text: str, value_type: ValueType, value: Value) -> None:
    found = parsed(text, value_type)
    assert (found, type(found)) == (value, type(value))


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
