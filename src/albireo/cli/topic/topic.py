"""`albireo topic`: declare, list and end topics, and subscribe to them."""

import sys
from typing import Final

import click

from albireo.cli.display import time_text
from albireo.cli.output import Output, TextTable, printed
from albireo.cli.target import Place, node_client, place_option, user_option

BATCH_MAX: Final = 1_000
"""Messages in one batch."""
_PATTERNS = click.argument("patterns", nargs=-1, required=True)
_SUBSCRIBER = click.option("--subscriber", required=True, help="Name under which messages are kept and read.")
_REASON = click.option("--reason", default="", help="Why; it is kept in the audit journal.")


@click.group("topic")
def command() -> None:
    """Durable topics of this node, and who has still to read what.

    A name is levels with dots between them, such as plant.events. A pattern has * for any one level, and > at its end
    for all below.
    """


@command.command("list")
@place_option
@printed
def list_topics(place: Place) -> Output:
    """List the topics with how many messages each was put."""
    with node_client(place) as client:
        found = client.topics.all()
    rows = ((one.name, one.count, one.size_bytes, time_text(one.since_ns)) for one in found)
    table = TextTable(("topic", "messages", "bytes", "since (UTC)"), rows, empty="there are no topics")
    return Output({"topics": found}, table)


@command.command()
@click.argument("name")
@place_option
@printed
def show(name: str, place: Place) -> Output:
    """Show who subscribes to the topic NAME, and how many of its messages each has still to read."""
    with node_client(place) as client:
        readers = client.topics.readers(name)
    rows = (
        (one.subscription.subscriber, one.unread, " ".join(one.subscription.patterns), one.subscription.principal)
        for one in readers
    )
    columns = ("subscriber", "unread", "subscribed to", "whose")
    return Output({"topic": name, "readers": readers}, TextTable(columns, rows, empty="nobody subscribes to it"))


@command.command()
@click.argument("name")
@_REASON
@user_option
@place_option
@printed
def create(name: str, reason: str, user: str, place: Place) -> Output:
    """Declare the topic NAME. It needs the role engineer; a topic of this name that there is stays as it is."""
    with node_client(place, user) as client:
        topic = client.topics.create(name, reason)
    return Output(topic, f"the topic {topic.name} exists since {time_text(topic.since_ns)}")


@command.command()
@click.argument("name")
@_REASON
@user_option
@place_option
@printed
def delete(name: str, reason: str, user: str, place: Place) -> Output:
    """End the topic NAME, with its messages and the subscriptions that name no other topic."""
    with node_client(place, user) as client:
        topic = client.topics.delete(name, reason)
    return Output(topic, f"the topic {topic.name} is gone, and with it {topic.count} messages")


@command.command()
@click.argument("name")
@click.argument("text", required=False)
@user_option
@place_option
@printed
def put(name: str, text: str | None, user: str, place: Place) -> Output:
    """Put TEXT, or each line of standard input, to the topic NAME: on the disks of both members when this returns."""
    bodies = [text.encode()] if text is not None else sys.stdin.buffer.read().splitlines()
    if not bodies:
        raise click.UsageError("give a TEXT, or lines on standard input")
    with node_client(place, user) as client:
        for first in range(0, len(bodies), BATCH_MAX):
            receipt = client.topics.put_many(name, bodies[first : first + BATCH_MAX])
    told = {"topic": name, "messages": len(bodies), "position": str(receipt.position), "members": receipt.members}
    return Output(told, f"{len(bodies)} {'message is' if len(bodies) == 1 else 'messages are'} put to {name}")


@command.command()
@_PATTERNS
@_SUBSCRIBER
@_REASON
@user_option
@place_option
@printed
def subscribe(patterns: tuple[str, ...], subscriber: str, reason: str, user: str, place: Place) -> Output:
    """Subscribe to the topics that PATTERNS mean, 16 at most: to every message that is put from now on."""
    with node_client(place, user) as client:
        one = client.topics.subscribe(patterns, subscriber=subscriber, reason=reason)
    return Output(one, f"{one.subscriber} is subscribed to {' '.join(one.patterns)} since {time_text(one.since_ns)}")


@command.command()
@_PATTERNS
@_SUBSCRIBER
@_REASON
@user_option
@place_option
@printed
def unsubscribe(patterns: tuple[str, ...], subscriber: str, reason: str, user: str, place: Place) -> Output:
    """End the subscription of a subscriber to PATTERNS, which are those that it subscribed to."""
    with node_client(place, user) as client:
        one = client.topics.unsubscribe(patterns, subscriber=subscriber, reason=reason)
    return Output(one, f"{one.subscriber} is not subscribed to {' '.join(one.patterns)} any more")
