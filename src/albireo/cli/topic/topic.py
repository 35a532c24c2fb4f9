"""`albireo topic`: declare, list and end topics, subscribe to them, put messages and read them."""

import base64
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import click

from albireo.cli.display import time_text
from albireo.cli.output import Output, TextTable, printed, progress, tell, until_interrupted
from albireo.cli.target import Place, node_client, place_option, user_option
from albireo.cli.timespan import DURATION, SecondsType, WholeNumber
from albireo.client import NewMessage, Sharing, TopicMessage, TopicPolicy, WhenFull
from albireo.client.topic_sharing import AT_ONCE_MAX
from albireo.codec.questions.topics import TopicReader
from albireo.model.instant import SECOND
from albireo.model.settings import StreamReplication
from albireo.model.topic import matcher
from albireo.model.topic_lease import LEASE_S_MAX

_Command = TypeVar("_Command", bound=Callable[..., Any])
BATCH_MAX: Final = 1_000
"""Messages in one batch."""
BATCH_BYTES: Final = 400_000
"""Bytes of the messages of one batch, or of one transaction."""
MOVED_MAX: Final = 100
"""Messages that are moved in one transaction."""
_PATTERNS = click.argument("patterns", nargs=-1, required=True)
_SUBSCRIBER = click.option("--subscriber", required=True, help="Name under which messages are kept and read.")
_REASON = click.option("--reason", default="", help="Why; it is kept in the audit journal.")


def _policy_options(command: _Command) -> _Command:
    """The options of a policy."""
    options = (
        click.option("--max-messages", type=WholeNumber(0), default=0, help="Most messages that are kept."),
        click.option("--max-bytes", type=WholeNumber(0), default=0, help="Most bytes of them."),
        click.option("--max-age", type=DURATION, default=None, help="Time to live, such as 1h: older messages go."),
        click.option("--keep", type=DURATION, default=None, help="Time for which read messages are kept, too."),
        click.option(
            "--when-full",
            type=click.Choice([one.value for one in WhenFull]),
            default=WhenFull.DROP_OLDEST.value,
            show_default=True,
            help="Fate of a message for which there is no room.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _policy(max_messages: int, max_bytes: int, max_age: int | None, keep: int | None, when_full: str) -> TopicPolicy:
    age_s, keep_s = (0 if one is None else -(-one // SECOND) for one in (max_age, keep))
    return TopicPolicy(
        max_messages=max_messages, max_bytes=max_bytes, max_age_s=age_s, keep_s=keep_s, when_full=WhenFull(when_full)
    )


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
    rows = ((one.name, one.count, one.size_bytes, one.replication.value, time_text(one.since_ns)) for one in found)
    columns = ("topic", "messages", "bytes", "replication", "since (UTC)")
    table = TextTable(columns, rows, empty="there are no topics")
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
        (
            one.subscription.subscriber,
            one.unread,
            _shared(one),
            " ".join(one.subscription.patterns),
            one.subscription.principal,
        )
        for one in readers
    )
    columns = ("subscriber", "unread", "with consumers", "subscribed to", "whose")
    return Output({"topic": name, "readers": readers}, TextTable(columns, rows, empty="nobody subscribes to it"))


def _shared(reader: TopicReader) -> str:
    return "" if reader.subscription.sharing is None else str(reader.leased)


@command.command()
@click.argument("name")
@_policy_options
@click.option(
    "--replication",
    type=click.Choice([one.value for one in StreamReplication]),
    default=None,
    help="Which member of a pair has its messages: both, or the one that took them.",
)
@_REASON
@user_option
@place_option
@printed
def create(name: str, replication: str | None, reason: str, user: str, place: Place, **policy: Any) -> Output:
    """Declare the topic NAME. It needs the role engineer; a topic of this name that there is stays as it is.

    Without any limit it keeps each message until all subscriptions have acknowledged it.
    """
    with node_client(place, user) as client:
        topic = client.topics.create(name, _policy(**policy), reason, replication=replication)
    return Output(topic, f"the topic {topic.name} exists since {time_text(topic.since_ns)}")


@command.command()
@click.argument("name")
@_policy_options
@_REASON
@user_option
@place_option
@printed
def change(name: str, reason: str, user: str, place: Place, **policy: Any) -> Output:
    """Give the topic NAME the policy that the options say. Messages that it does not keep go at once."""
    with node_client(place, user) as client:
        topic = client.topics.change(name, _policy(**policy), reason)
    return Output(topic, f"the topic {topic.name} has another policy")


@command.command()
@click.argument("name")
@_REASON
@user_option
@place_option
@printed
def purge(name: str, reason: str, user: str, place: Place) -> Output:
    """Let go of all messages that the topic NAME was put so far; whoever lacks any is told how many."""
    with node_client(place, user) as client:
        topic = client.topics.purge(name, reason)
    return Output(topic, f"{topic.count - topic.gone} messages of the topic {topic.name} are gone")


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
@click.option("--key", default=None, help="The message's subject, such as a machine.")
@click.option("--header", "headers", type=(str, str), multiple=True, metavar="NAME TEXT", help="Word beside the body.")
@user_option
@place_option
@printed
def put(
    name: str, text: str | None, key: str | None, headers: tuple[tuple[str, str], ...], user: str, place: Place
) -> Output:
    """Put TEXT, or each line of standard input, to the topic NAME: on the disks of both members when this returns."""
    lines = [text.encode()] if text is not None else sys.stdin.buffer.read().splitlines()
    if not lines:
        raise click.UsageError("give a TEXT, or lines on standard input")
    bodies: list[bytes | NewMessage] = list(lines)
    if key is not None or headers:
        bodies = [NewMessage(one, None if key is None else key.encode(), dict(headers)) for one in lines]
    with node_client(place, user) as client:
        for first in range(0, len(bodies), BATCH_MAX):
            receipt = client.topics.put_many(name, bodies[first : first + BATCH_MAX])
    told = {"topic": name, "messages": len(bodies), "position": str(receipt.position), "members": receipt.members}
    return Output(told, f"{len(bodies)} {'message is' if len(bodies) == 1 else 'messages are'} put to {name}")


@command.command()
@_PATTERNS
@_SUBSCRIBER
@click.option("--count", type=WholeNumber(1), default=1, show_default=True, help="Most messages that are taken.")
@click.option("--wait", type=SecondsType(), default=0.5, show_default=True, help="Longest wait for one, in seconds.")
@user_option
@place_option
@printed
def get(patterns: tuple[str, ...], subscriber: str, count: int, wait: float, user: str, place: Place) -> Output:
    """Take messages of a subscription to PATTERNS, and acknowledge them: they do not come again.

    Their bodies go to standard output, a line each; --json shows all of them. Without any it ends with 1.
    """
    at_once = min(count, AT_ONCE_MAX)
    with (
        node_client(place, user) as client,
        client.topics.consumer(patterns, subscriber=subscriber, at_once=at_once) as consumer,
    ):
        found = []
        for message in consumer.messages(wait):
            found.append(message)
            if len(found) == count:
                break
        if found:
            consumer.acknowledge(found[-1])
    told = {"messages": list(map(_told, found))}
    return Output(told, "\n".join(map(_text, found)) if found else "no message", exit_code=0 if found else 1)


@command.command()
@_PATTERNS
@_SUBSCRIBER
@user_option
@place_option
@printed
def watch(patterns: tuple[str, ...], subscriber: str, user: str, place: Place) -> None:
    """Take messages of a subscription to PATTERNS as they come, until Ctrl-C; each is acknowledged once it is shown."""
    with until_interrupted(True), node_client(place, user) as client:
        for message in client.topics.messages(patterns, subscriber=subscriber):
            tell(Output(_told(message), f"{message.topic} {message.number}  {_text(message)}"))


def _parts(messages: Sequence[TopicMessage]) -> Iterator[Sequence[TopicMessage]]:
    """The messages in parts that fit into a transaction each."""
    part: list[TopicMessage] = []
    size = 0
    for one in messages:
        size += len(one.body)
        if part and (size > BATCH_BYTES or len(part) == MOVED_MAX):
            yield part
            part, size = [], len(one.body)
        part.append(one)
    if part:
        yield part


def _text(message: TopicMessage) -> str:
    return message.body.decode(errors="backslashreplace")


def _told(message: TopicMessage) -> dict[str, Any]:
    """A message in JSON: a body that is no UTF-8 comes as base64."""
    names = ("topic", "number", "at_ns", "headers", "is_redelivered", "deliveries", "lost_before")
    told: dict[str, Any] = {name: getattr(message, name) for name in names} | {"position": str(message.position)}
    for name, data in (("key", message.key), ("body", message.body)):
        try:
            told[name] = None if data is None else data.decode()
        except UnicodeDecodeError:
            told[f"{name}_base64"] = base64.b64encode(data or b"").decode()
    return told


@command.command()
@_PATTERNS
@click.argument("target")
@_SUBSCRIBER
@click.option("--count", type=WholeNumber(1), default=None, help="Most messages that are moved; all there are.")
@click.option("--wait", type=SecondsType(), default=1.0, show_default=True, help="Longest wait for one, in seconds.")
@user_option
@place_option
@printed
def move(
    patterns: tuple[str, ...], target: str, subscriber: str, count: int | None, wait: float, user: str, place: Place
) -> Output:
    """Put what a subscription to PATTERNS has still to read to the topic TARGET, such as dead letters to their jobs.

    Each message is put there and acknowledged here together, with key and headers, or stays as it is.
    """
    if matcher(patterns).fullmatch(target):
        raise click.UsageError(f"{target} is one of the topics that are read: messages would come back")
    moved = 0
    with (
        node_client(place, user) as client,
        client.topics.consumer(patterns, subscriber=subscriber, at_once=AT_ONCE_MAX) as consumer,
        progress("moving", count) as told,
    ):
        while (count is None or moved < count) and (found := consumer.take(wait)):
            for some in _parts(found[: None if count is None else count - moved]):
                with client.transaction() as transaction:
                    for one in some:
                        transaction.put(target, one.body, key=one.key, headers=one.headers)
                        transaction.acknowledge(one)
                moved += len(some)
                told(len(some), f"{moved:,} messages")
    return Output({"moved": moved, "target": target}, f"{moved} messages are moved to {target}")


@command.command()
@click.option("--seconds", type=SecondsType(), default=5.0, show_default=True, help="Time of putting.")
@click.option("--size", type=WholeNumber(1, 100_000), default=100, show_default=True, help="Bytes of a message.")
@click.option("--batch", type=WholeNumber(1, BATCH_MAX), default=BATCH_MAX, show_default=True, help="In one put.")
@user_option
@place_option
@printed
def bench(seconds: float, size: int, batch: int, user: str, place: Place) -> Output:
    """Put messages to a topic of its own for a time, one batch after the other, read them all, and end the topic.

    It needs the role engineer, and is a load on the node like any other.
    """
    batch = min(batch, max(1, BATCH_BYTES // size))
    name, body = f"bench.{secrets.token_hex(4)}", [b"x" * size] * batch
    times: list[float] = []
    with node_client(place, user) as client, progress("putting", seconds) as told:
        client.topics.create(name)
        try:
            client.topics.subscribe(name, subscriber=name)
            began = time.perf_counter()
            while (now := time.perf_counter()) < began + seconds:
                client.topics.put_many(name, body)
                times.append(time.perf_counter() - now)
                told(times[-1], f"{len(times) * batch:,} messages")
            count, put_s, began = len(times) * batch, time.perf_counter() - began, time.perf_counter()
            with client.topics.consumer(name, subscriber=name) as consumer:
                left = count
                while left and (found := consumer.take(seconds)):
                    left -= len(found)
                    consumer.acknowledge(found[-1], waits=left <= 0)
            read_s = time.perf_counter() - began
        finally:
            client.topics.delete(name)
    p50_ms = sorted(times)[len(times) // 2] * 1e3
    rates = {"put_per_s": round(count / put_s), "read_per_s": round((count - left) / read_s)}
    told_all = {"messages": count, "size": size, "batch": batch, **rates, "p50_ms": round(p50_ms, 2), "left": left}
    put, read = rates.values()
    text = f"put {put:,} messages a second, {p50_ms:.1f} ms a batch; read {read:,} a second"
    return Output(told_all, text, exit_code=0 if not left else 1)


@command.command()
@_PATTERNS
@_SUBSCRIBER
@click.option("--from-first", is_flag=True, help="Get the messages that are kept, too.")
@click.option("--shared", is_flag=True, help="A work queue: each message is for one of several consumers.")
@click.option("--lease", type=DURATION, default=None, help="Time that a consumer has for a message, 30s by default.")
@click.option("--deliveries-max", type=WholeNumber(0), default=0, help="Failed deliveries after which it is dead.")
@click.option("--dead-letters", default="", metavar="TOPIC", help="Topic for messages that are dead.")
@_REASON
@user_option
@place_option
@printed
def subscribe(
    patterns: tuple[str, ...],
    subscriber: str,
    from_first: bool,
    shared: bool,
    lease: int | None,
    deliveries_max: int,
    dead_letters: str,
    reason: str,
    user: str,
    place: Place,
) -> Output:
    """Subscribe to the topics that PATTERNS mean, 16 at most: to every message that is put from now on."""
    if not shared and (lease is not None or deliveries_max or dead_letters):
        raise click.UsageError("--lease, --deliveries-max and --dead-letters are of a subscription with --shared")
    lease_s = Sharing().lease_s if lease is None else -(-lease // SECOND)
    if not 1 <= lease_s <= LEASE_S_MAX:
        raise click.UsageError("--lease is 1s at least, and one day at most")
    sharing = Sharing(lease_s=lease_s, deliveries_max=deliveries_max, dead_letters=dead_letters)
    with node_client(place, user) as client:
        one = client.topics.subscribe(
            patterns,
            subscriber=subscriber,
            from_first=from_first,
            shared=sharing if shared else False,
            reason=reason,
        )
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
