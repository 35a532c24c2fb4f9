"""`albireo write`: set one item, and say what became of it."""

import contextlib
import re
import sys
from typing import Final

import click
import msgspec

from albireo.cli.display import quality_text, where_listed
from albireo.cli.output import ExitCode, Failure, Output, printed, say
from albireo.cli.target import Place, node_client, place_option, refused, user_option
from albireo.cli.timespan import SecondsType
from albireo.client import Client, ClientError, ItemReading, ItemSelection, NodeRefused
from albireo.model.command import Outcome, Receipt
from albireo.model.item import Control
from albireo.model.item_states import value_named
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.value import Value, value_text

EXPIRES_S_MAX: Final = 3600.0
"""Longest time to live of an order; that of the node (machine/orders/write/orders.py), which costs 80 ms to import."""


class NegativeNumbers(click.Command):
    """A command whose arguments may be numbers below zero, which are no options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" not in args:
            asking = {
                name for one in self.params if isinstance(one, click.Option) and not one.is_flag for name in one.opts
            }
            places = [
                place
                for place, one in enumerate(args)
                if re.fullmatch(r"-(\.?[0-9]|inf|nan).*", one) and (place == 0 or args[place - 1] not in asking)
            ]
            numbers = [args[place] for place in places]
            args = [*(one for place, one in enumerate(args) if place not in places), "--", *numbers]
        return super().parse_args(ctx, args)


class OrderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The order as the command line has it, besides the value."""

    item: str
    reason: str
    expires_s: float


@click.command("write", cls=NegativeNumbers)
@click.argument("item")
@click.argument("value")
@click.option("--reason", default="", help="Why; kept in the audit journal.")
@user_option
@click.option(
    "--expires",
    "expires_s",
    type=SecondsType(EXPIRES_S_MAX),
    default=10.0,
    show_default=True,
    help="Seconds after which it is not sent; an hour at most.",
)
@click.option("--yes", "is_sure", is_flag=True, help="Write an item that asks to be selected first without asking.")
@place_option
@printed
def command(item: str, value: str, reason: str, user: str, expires_s: float, is_sure: bool, place: Place) -> Output:
    """Set ITEM to VALUE: a number, true or false (on, off), or text, as the item's type asks, or a word of its states.

    An item whose table says `control` = `select` is selected first: nobody else can write it then. Its present value
    and the new one are shown, and it is written only if you say yes; if not, it is given back.

    Exit code 0 only if the device took the value (verified, or executed where there is no read-back).
    """
    order = OrderOptions(item=item, reason=reason, expires_s=expires_s)
    selection: ItemSelection | None = None
    with node_client(place, user, told_by="albireo command list") as client:
        known = known_item(client, item)
        wanted = parsed(value, known)
        if known.item.control is Control.SELECT:
            selection, receipt = _selected_and_written(client, order, known, wanted, is_sure=is_sure)
        else:
            receipt = client.write(item, wanted, reason, expires_s=expires_s)
        elsewhere = _elsewhere(client, known.name) if receipt.outcome is Outcome.EXPIRED else ""
    text = f"{item} = {value}: {receipt.outcome}"
    if receipt.read_back is not None:
        text += f", read back {known.item.shown(receipt.read_back)}"
    if receipt.detail:
        text += f" ({receipt.detail})"
    told = msgspec.to_builtins(receipt)
    step = {} if selection is None else {"selection": msgspec.to_builtins(selection)}
    if receipt.outcome not in (Outcome.VERIFIED, Outcome.EXECUTED):
        raise Failure(
            text, remedy_of(receipt.outcome, item, receipt.command_id, elsewhere), details={**step, "receipt": told}
        )
    return Output({**step, **told}, text)


def known_item(client: Client, item: str) -> ItemReading:
    """The item of this name as the node has it now; Failure if there is none."""
    known = client.items(item)
    if not known:
        raise refused(Refusal(RefusalCode.UNKNOWN_ITEM, f"no item {item}", where_listed(item)))
    return known[0]


def _selected_and_written(
    client: Client, order: OrderOptions, known: ItemReading, wanted: Value, *, is_sure: bool
) -> tuple[ItemSelection, Receipt]:
    """Select the item, have somebody say yes, and write it; whatever else happens gives it back."""
    if not is_sure and not sys.stdin.isatty():
        remedy = "run it in a terminal and answer there, or say beforehand that it is to be written: --yes"
        raise Failure(
            f"{order.item} is selected before it is written, and nobody can be asked here", remedy, ExitCode.USAGE
        )
    selection = client.select(order.item, order.reason)
    try:
        if not is_sure:
            _confirm(client, order.item, known, wanted, selection)
        return selection, client.write(order.item, wanted, order.reason, expires_s=order.expires_s, selection=selection)
    except (click.Abort, KeyboardInterrupt, Failure, NodeRefused):
        with contextlib.suppress(ClientError):  # It is over, or ends by itself.
            client.deselect(selection)
        raise


def _confirm(client: Client, item: str, known: ItemReading, wanted: Value, selection: ItemSelection) -> None:
    """Show what is there and what will be, and ask.

    Raises:
        Failure: the answer is no.
        click.Abort: the question was broken off.
    """
    now = client.read(item)
    say(f"{known.name}" + (f"  ({known.item.description})" if known.item.description else ""))
    say(f"  now   {known.item.shown(now.value)}  {quality_text(now.quality)}")
    say(f"  then  {known.item.shown(wanted)}")
    if not click.confirm(f"Write it? It is yours for {selection.left_ms / 1000:g} s", default=False, err=True):
        raise Failure("nothing was written", f"albireo write {item} {value_text(wanted)}")


def parsed(text: str, known: ItemReading) -> Value:
    """The value that `text` means for the item.

    Raises:
        Failure: it means none.
    """
    try:
        return value_named(known.item.states, text, known.item.value_type)
    except ValueError as error:
        remedy = "write digits with a decimal point, such as 1.5, or for a bool item true or false"
        raise refused(
            Refusal(RefusalCode.BAD_VALUE, f"{known.name} takes {known.item.value_type.name.lower()}: {error}", remedy)
        ) from error


def _elsewhere(client: Client, name: str) -> str:
    """The other node to which the item of a full name belongs; empty: it is of the node that is asked, or nobody says.

    What became of the order is known already, so a node that does not answer now hides nothing of it.
    """
    from albireo.cli.node.far_history import far_node  # It brings Arrow, which a write that succeeds does not need.

    with contextlib.suppress(ClientError):
        return far_node(client, name)
    return ""


def remedy_of(outcome: Outcome, item: str, command_id: str, elsewhere: str = "") -> str:
    """The next step after a write that did not succeed; it stands for itself, as in the JSON.

    Args:
        elsewhere: other node that has the item; empty: the one that was asked has it.
    """
    match outcome:
        case Outcome.UNKNOWN:
            return (
                f"nobody can tell whether the device took it: read it before you order again: albireo items {item}; "
                f"a late outcome is told by: albireo command show {command_id}"
            )
        case Outcome.EXPIRED if elsewhere:
            return (
                f"it was never sent; `albireo tree` says whether {elsewhere} is heard; if it is, `albireo status` at "
                f"{elsewhere} tells of the adapter that owns the item"
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
