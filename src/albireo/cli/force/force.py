"""`albireo force`: put a value to an item for a time, or end that; `albireo forces`: which items are forced."""

import click
import msgspec

from albireo.cli.display import left_text, quality_text, time_text, who_text
from albireo.cli.node.write import NegativeNumbers, known_item, parsed
from albireo.cli.output import Output, TextTable, printed
from albireo.cli.target import Place, node_client, place_option, user_option
from albireo.cli.timespan import DURATION
from albireo.model.force import ForcedItem
from albireo.model.instant import SECOND
from albireo.model.item_states import word_of
from albireo.model.value import Value, value_text


@click.command("force", cls=NegativeNumbers)
@click.argument("item")
@click.argument("value", required=False)
@click.option("--for", "for_ns", type=DURATION, default=None, help="How long, such as 10m or 2h; 7 days at most.")
@click.option("--reason", default="", help="Why; everybody sees it, and it is kept in the audit journal.")
@click.option("--release", "is_release", is_flag=True, help="End the force of ITEM now.")
@user_option
@place_option
@printed
def command(
    item: str, value: str | None, for_ns: int | None, reason: str, is_release: bool, user: str, place: Place
) -> Output:
    """Put VALUE to ITEM in the place of what its device measures, for a time.

    Everybody sees the value with the quality GoodLocalOverride, alarms judge it, and what is measured goes on being
    recorded as ITEM/measured. Nothing is written to the device. It ends with --release, or when its time is over: a
    restart does not end it.
    """
    if is_release == (value is not None):
        raise click.UsageError("give a VALUE to force ITEM to, or --release to end that")
    if not is_release and for_ns is None:
        raise click.UsageError("say how long, such as --for 10m: no force lasts for ever")
    with node_client(place, user, told_by="albireo forces") as client:
        if is_release:
            client.release(item, reason)
            return Output({"item": item, "released": True}, f"{item} is released")
        wanted = parsed(value or "", known_item(client, item))
        forced = client.force(item, wanted, reason, for_s=(for_ns or 0) / SECOND)
    lasts = f"{_text(forced, forced.value)} for {left_text(forced.left_ms)}"
    return Output(forced, f"{forced.item} is forced to {lasts}")


@click.command("forces")
@place_option
@printed
def forces(place: Place) -> Output:
    """List forced items here and at the nodes below: to what, what is measured now, by whom, why, how long still."""
    with node_client(place) as client:
        found = client.forces()
    rows = (
        (
            one.item,
            _text(one, one.value),
            _measured_text(one),
            who_text(one.user, one.principal),
            one.reason,
            time_text(one.since_ns),
            left_text(one.left_ms),
        )
        for one in found
    )
    columns = ("item", "value", "measured now", "who", "why", "since (UTC)", "left")
    return Output({"forces": [_told(one) for one in found]}, TextTable(columns, rows, empty="nothing is forced"))


def _told(one: ForcedItem) -> dict[str, object]:
    told: dict[str, object] = msgspec.to_builtins(one)
    return {
        **told,
        "measured": {**msgspec.to_builtins(one.measured), "quality_name": quality_text(one.measured.quality)},
    }


def _text(one: ForcedItem, value: Value | None) -> str:
    return value_text(value, one.unit, word_of(one.states, value))


def _measured_text(one: ForcedItem) -> str:
    text, name = _text(one, one.measured.value), quality_text(one.measured.quality)
    return text if name == "Good" else f"{text} {name}"
