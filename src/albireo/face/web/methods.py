"""Methods of pages and programs about the plant, by the names of the client's methods.

Whatever a person may or may not do is judged by the node: a question names the person.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from albireo.client import AsyncClient, CaseMeant, OutcomeUnknown
from albireo.client.cases import CaseOutcome
from albireo.codec.questions.history import EventKind
from albireo.codec.questions.orders import WRITE, WriteAsked
from albireo.codec.questions.pair import MAINTENANCE, SWITCHOVER, LeadHandover, MaintenanceAsked
from albireo.face.web.load import load
from albireo.face.web.method import Count, Method, Methods, method, named
from albireo.face.web.people import PEOPLE_METHODS
from albireo.face.web.plain import plain
from albireo.face.web.trends import Trends, marks
from albireo.model.bounded import Text
from albireo.model.case import Action
from albireo.model.instant import MS
from albireo.model.value import Value

LIST_MAX: Final = 1_000
"""Most cases of one acknowledgement, and rows of one answer."""
EXPIRES_S_MAX: Final = 300.0
"""Longest time that an order of a person may wait for its begin."""
MONTH_S: Final = 31 * 86_400
Limit = Annotated[int, Meta(ge=1, le=LIST_MAX)]


class SeenCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An activation of a case, as somebody saw it."""

    case_id: Count
    node: Text
    activation: Annotated[int, Meta(ge=1)] = 1


class AckTold(msgspec.Struct, frozen=True):
    """Outcome of one acknowledgement."""

    why: str = ""
    """Why it was not done; empty: it was."""
    is_unknown: bool = False
    """True: whether it was done is not known."""


@method(is_reading=True, is_for_lookers=True)
async def status(client: AsyncClient) -> object:
    """The node as the acting member tells it."""
    return await client.status()


@method(is_reading=True, is_for_lookers=True)
async def tree(client: AsyncClient) -> object:
    """The other nodes."""
    return await client.tree()


@method(is_reading=True, is_for_lookers=True)
async def cases(client: AsyncClient, *, node: Text = "", include_closed: bool = False) -> object:
    """Cases, the most severe first."""
    return await client.cases(include_closed=include_closed, node=node)


@method()
async def ack(
    client: AsyncClient,
    *,
    cases: Annotated[tuple[SeenCase, ...], Meta(min_length=1, max_length=LIST_MAX)],
    comment: Text = "",
) -> object:
    """Acknowledge activations of cases."""
    meant = [CaseMeant(**msgspec.structs.asdict(one)) for one in cases]
    return acks_told(await client.act_on(Action.ACK, meant, comment), len(meant))


def acks_told(became: Sequence[CaseOutcome], asked: int) -> list[AckTold]:
    """Outcome of each of so many acknowledgements; behind one that nobody answered none was asked for."""
    errors = [one.error for one in became]
    told = [AckTold("" if one is None else str(one), isinstance(one, OutcomeUnknown)) for one in errors]
    left = AckTold("it was not asked for, because nobody answered the one before it")
    return told + [left] * (asked - len(told))


@method()
async def act(
    client: AsyncClient,
    *,
    action: Action,
    case_id: Count,
    node: Text,
    comment: Text = "",
    duration_s: Annotated[float, Meta(ge=1, le=MONTH_S)] | None = None,
) -> object:
    """Act on a case."""
    return await client.act(action, case_id, comment, duration_s, node=node)


@method()
async def write(
    client: AsyncClient,
    *,
    item: Text,
    value: Value,
    command_id: Annotated[str, Meta(min_length=8, max_length=64)],
    reason: Text = "",
    expires_s: Annotated[float, Meta(ge=0.1, le=EXPIRES_S_MAX)] = 10.0,
    selection: Text = "",
) -> object:
    """Set an item; `command_id` is drawn by whoever asks, to ask by it what became of the order."""
    order = WriteAsked(
        item=item,
        value=value,
        command_id=command_id,
        user=client.user,
        reason=reason,
        expires_ms=round(expires_s * 1000),
        selection=selection,
    )
    return await client.ask_kind(WRITE, order, expires_s + 5.0)


@method()
async def select(
    client: AsyncClient, *, item: Text, reason: Text = "", for_s: Annotated[float, Meta(ge=1, le=300)] = 60.0
) -> object:
    """Have an item for oneself before writing it."""
    return await client.select(item, reason, for_s=for_s)


@method()
async def deselect(client: AsyncClient, *, item: Text, reason: Text = "") -> None:
    """Give a selection back."""
    for one in await client.selections(item):
        if one.item == item:
            await client.deselect(one, reason)


@method()
async def force(
    client: AsyncClient, *, item: Text, value: Value, reason: Text, for_s: Annotated[float, Meta(ge=1, le=MONTH_S)]
) -> object:
    """Put a value in the place of what a device measures."""
    return await client.force(item, value, reason, for_s=for_s)


@method()
async def release(client: AsyncClient, *, item: Text, reason: Text = "") -> None:
    """End a force."""
    await client.release(item, reason)


@method(is_reading=True, is_for_lookers=True)
async def forces(client: AsyncClient) -> object:
    """Forced items."""
    return await client.forces()


@method(is_reading=True)
async def command(client: AsyncClient, *, command_id: Text) -> object:
    """The course of an order, and what became of it."""
    return await client.command(command_id)


@method(is_reading=True)
async def commands(client: AsyncClient, *, limit: Limit = 100) -> object:
    """The courses of the latest orders."""
    return await client.commands(limit=limit)


@method()
async def cancel(client: AsyncClient, *, command_id: Text, reason: Text = "") -> object:
    """Take an order back."""
    return await client.cancel(command_id, reason)


@method(is_reading=True)
async def events(
    client: AsyncClient,
    *,
    start_ms: Count,
    end_ms: Count,
    node: Text = "",
    kind: EventKind = "",
    newest_first: bool = False,
    limit: Limit = 200,
    cursor: Text = "",
) -> object:
    """The journal; `cursor`: `next` of the answer before."""
    table = await client.events(
        start_ms * MS, end_ms * MS, kind=kind, newest_first=newest_first, cursor=cursor, limit=limit, node=node
    )
    return {"events": table.to_pylist(), "next": table.schema.metadata.get(b"next", b"").decode()}


@method(is_reading=True)
async def sessions(client: AsyncClient) -> object:
    """Who is present."""
    return await client.sessions()


@method()
async def end_session(client: AsyncClient, *, session_id: Count, node: Text = "", reason: Text = "") -> None:
    """End a session."""
    await client.end_session(session_id, reason, node=node)


@method()
async def switchover(client: AsyncClient, *, reason: Text = "") -> object:
    """Let the other member of the pair lead."""
    return await client.ask_kind(SWITCHOVER, LeadHandover(user=client.user, reason=reason), member=client.acting)


@method()
async def maintenance(client: AsyncClient, *, begin: bool, reason: Text = "") -> object:
    """Keep a member from leading, or end that."""
    return await client.ask_kind(MAINTENANCE, MaintenanceAsked(is_on=begin, user=client.user, reason=reason))


_PLANT: Final = (status, tree, cases, ack, act, load, sessions, end_session, switchover, maintenance)
_ORDERS: Final = (write, select, deselect, force, release, forces, command, commands, cancel)


def methods_of(trends: Trends) -> dict[str, Method]:
    """The methods of a face by name, but for those of its machine; `trends`: those that it keeps."""
    return named(*_PLANT, *_ORDERS, trends.method, marks, events, *PEOPLE_METHODS)


async def answered(methods: Methods, client: AsyncClient, name: str, arguments: dict[str, Any]) -> Any:
    """The answer of a method, as a browser takes it.

    Raises:
        ClientError: as the client's method; ValueError: there is no such method, or it takes other arguments.
    """
    asked = methods.get(name)
    if asked is None:
        raise ValueError(f"there is no method {name!r:.80}")
    return plain(await asked.run(client, asked=msgspec.convert(arguments, asked.arguments)))
