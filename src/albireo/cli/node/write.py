"""`albireo write`: set one item, and say what became of it."""

import contextlib
import getpass
import re

import click
import msgspec

from albireo.cli.display import value_text
from albireo.cli.output import Failure, emit, json_option, show
from albireo.cli.target import Place, node_client, place_option
from albireo.model.command import Outcome
from albireo.model.value import Value, ValueType


class NegativeNumbers(click.Command):
    """A command whose arguments may be numbers below zero, which are no options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" not in args:
            numbers = [one for one in args if re.fullmatch(r"-(\d|\.\d|inf).*", one)]
            args = [*(one for one in args if one not in numbers), "--", *numbers]
        return super().parse_args(ctx, args)


@click.command("write", cls=NegativeNumbers)
@click.argument("item")
@click.argument("value")
@click.option("--reason", default="", help="Why; kept in the audit journal.")
@click.option("--user", default=getpass.getuser, help="Who orders; the login name by default.")
@click.option("--expires", "expires_s", default=10.0, show_default=True, help="Seconds after which it is not sent.")
@place_option
@json_option
def command(item: str, value: str, reason: str, user: str, expires_s: float, place: Place, as_json: bool) -> None:
    """Set ITEM to VALUE: a number, true or false (on, off), or text, as the item's type asks.

    Exit code 0 only if the device took the value (verified, or executed where there is no read-back).
    """
    with node_client(place, user) as client:
        known = client.items(item)
        if not known:
            raise Failure(f"no item {item}", "`albireo items` lists them")
        wanted = parsed(value, known[0].item.value_type)
        receipt = client.write(item, wanted, reason, expires_s=expires_s)
    text = f"{item} = {value}: {receipt.outcome}"
    if receipt.read_back is not None:
        text += f", read back {value_text(receipt.read_back)}"
    if receipt.detail:
        text += f" ({receipt.detail})"
    told = msgspec.to_builtins(receipt)
    if receipt.outcome not in (Outcome.VERIFIED, Outcome.EXECUTED):
        raise Failure(text, remedy_of(receipt.outcome, item, receipt.command_id), details={"receipt": told})
    if as_json:
        emit(told)
    else:
        show(text)


def parsed(text: str, value_type: ValueType) -> Value:
    """The value that `text` means for an item of this type; what does not fit is left for the node to refuse."""
    lowered = text.strip().lower()
    match value_type:
        case ValueType.STRING:
            return text
        case ValueType.BOOL if lowered in ("true", "on", "1", "false", "off", "0"):
            return lowered in ("true", "on", "1")
        case ValueType.INT64 | ValueType.FLOAT64:
            for kind in (int, float):
                with contextlib.suppress(ValueError):
                    return kind(lowered)
    return text


def remedy_of(outcome: Outcome, item: str, command_id: str) -> str:
    """The next step after a write that did not succeed; it stands for itself, as in the JSON."""
    match outcome:
        case Outcome.UNKNOWN:
            return (
                f"nobody can tell whether the device took it: read it before you order again: albireo items {item}; "
                f"a late outcome is told by: albireo command show {command_id}"
            )
        case Outcome.EXPIRED:
            return "it was never sent; see `albireo status` for the adapter that owns the item"
        case Outcome.MISMATCHED:
            return "the device holds another value: it may limit or override the set point"
        case _:
            return (
                f"nothing was written, for the reason in brackets: `albireo items {item}` shows what it has now, the "
                "item table whether it may be written and its limits, `albireo status` whether its device answers"
            )
