"""Methods of the page: what a page may ask for, each by the name and the arguments of the client's method.

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
from albireo.face.web.load import LoadArguments, load
from albireo.face.web.method import Arguments, Count, Method, Methods, NoArguments
from albireo.face.web.people import PEOPLE_METHODS
from albireo.face.web.plain import plain
from albireo.face.web.trends import MarksArguments, TrendArguments, Trends, marks
from albireo.model.bounded import Text
from albireo.model.case import Action
from albireo.model.instant import MS
from albireo.model.value import Value
from albireo.runtime.clock import boot_ns

LIST_MAX: Final = 1_000
"""Most cases of one acknowledgement, and rows of one answer."""
EXPIRES_S_MAX: Final = 300.0
"""Longest time that an order of a person may wait for its begin."""


class SeenCase(Arguments, frozen=True):
    """An activation of a case, as somebody saw it."""

    case_id: Count
    node: Text
    activation: Annotated[int, Meta(ge=1)] = 1


class AckArguments(Arguments, frozen=True):
    cases: Annotated[tuple[SeenCase, ...], Meta(min_length=1, max_length=LIST_MAX)]
    comment: Text = ""


class ActArguments(Arguments, frozen=True):
    action: Action
    case_id: Count
    node: Text
    comment: Text = ""
    duration_s: Annotated[float, Meta(ge=1, le=31 * 86_400)] | None = None


class WriteArguments(Arguments, frozen=True):
    item: Text
    value: Value
    command_id: Annotated[str, Meta(min_length=8, max_length=64)]
    """Drawn by the page, which asks by it what became of the order."""
    reason: Text = ""
    expires_s: Annotated[float, Meta(ge=0.1, le=EXPIRES_S_MAX)] = 10.0
    selection: Text = ""


class SelectArguments(Arguments, frozen=True):
    item: Text
    reason: Text = ""
    for_s: Annotated[float, Meta(ge=1, le=300)] = 60.0


class ForceArguments(Arguments, frozen=True):
    item: Text
    value: Value
    reason: Text
    for_s: Annotated[float, Meta(ge=1, le=31 * 86_400)]


class ItemArguments(Arguments, frozen=True):
    item: Text
    reason: Text = ""


class CommandArguments(Arguments, frozen=True):
    command_id: Text


class CancelArguments(Arguments, frozen=True):
    command_id: Text
    reason: Text = ""


class ListArguments(Arguments, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=LIST_MAX)] = 100


class CasesArguments(Arguments, frozen=True):
    node: Text = ""
    include_closed: bool = False


class EventsArguments(Arguments, frozen=True):
    start_ms: Count
    end_ms: Count
    node: Text = ""
    kind: EventKind = ""
    newest_first: bool = False
    limit: Annotated[int, Meta(ge=1, le=LIST_MAX)] = 200
    cursor: Text = ""
    """`next` of the answer before."""


class SessionArguments(Arguments, frozen=True):
    session_id: Count
    node: Text = ""
    reason: Text = ""


class ReasonArguments(Arguments, frozen=True, kw_only=True):
    reason: Text = ""


class MaintenanceArguments(ReasonArguments, frozen=True, kw_only=True):
    begin: bool


class AckTold(msgspec.Struct, frozen=True):
    """Outcome of one acknowledgement."""

    why: str = ""
    """Why it was not done; empty: it was."""
    is_unknown: bool = False
    """True: whether it was done is not known."""


async def _ack(client: AsyncClient, asked: AckArguments) -> object:
    meant = [CaseMeant(node=one.node, case_id=one.case_id, activation=one.activation) for one in asked.cases]
    return acks_told(await client.act_on(Action.ACK, meant, asked.comment), len(meant))


def acks_told(became: Sequence[CaseOutcome], asked: int) -> list[AckTold]:
    """Outcome of each of so many acknowledgements; behind one that nobody answered none was asked for."""
    errors = [one.error for one in became]
    told = [AckTold("" if one is None else str(one), isinstance(one, OutcomeUnknown)) for one in errors]
    left = AckTold("it was not asked for, because nobody answered the one before it")
    return told + [left] * (asked - len(told))


async def _act(client: AsyncClient, asked: ActArguments) -> object:
    return await client.act(asked.action, asked.case_id, asked.comment, asked.duration_s, node=asked.node)


async def _write(client: AsyncClient, asked: WriteArguments) -> object:
    order = WriteAsked(
        item=asked.item,
        value=asked.value,
        command_id=asked.command_id,
        user=client.user,
        reason=asked.reason,
        expires_ms=round(asked.expires_s * 1000),
        selection=asked.selection,
    )
    return await client.ask_kind(WRITE, order, asked.expires_s + 5.0)


async def _events(client: AsyncClient, asked: EventsArguments) -> object:
    table = await client.events(
        asked.start_ms * MS,
        asked.end_ms * MS,
        kind=asked.kind,
        newest_first=asked.newest_first,
        cursor=asked.cursor,
        limit=asked.limit,
        node=asked.node,
    )
    return {"events": table.to_pylist(), "next": table.schema.metadata.get(b"next", b"").decode()}


async def _switchover(client: AsyncClient, asked: ReasonArguments) -> object:
    order = LeadHandover(user=client.user, reason=asked.reason)
    return await client.ask_kind(SWITCHOVER, order, member=client.acting)


async def _maintenance(client: AsyncClient, asked: MaintenanceArguments) -> object:
    return await client.ask_kind(
        MAINTENANCE, MaintenanceAsked(is_on=asked.begin, user=client.user, reason=asked.reason)
    )


async def _deselect(client: AsyncClient, asked: ItemArguments) -> object:
    for one in await client.selections(asked.item):
        if one.item == asked.item:
            await client.deselect(one, asked.reason)
    return None


_METHODS: Final[dict[str, Method[Any]]] = {
    one.name: one
    for one in (
        Method(
            name="status",
            arguments=NoArguments,
            run=lambda client, _: client.status(),
            meaning="the node as the acting member tells it",
            is_reading=True,
            is_for_lookers=True,
        ),
        Method(
            name="tree",
            arguments=NoArguments,
            run=lambda client, _: client.tree(),
            meaning="the other nodes",
            is_reading=True,
            is_for_lookers=True,
        ),
        Method(
            name="cases",
            arguments=CasesArguments,
            run=lambda client, asked: client.cases(include_closed=asked.include_closed, node=asked.node),
            meaning="cases, the most severe first",
            is_reading=True,
            is_for_lookers=True,
        ),
        Method(name="ack", arguments=AckArguments, run=_ack, meaning="acknowledge activations of cases"),
        Method(name="act", arguments=ActArguments, run=_act, meaning="act on a case"),
        Method(name="write", arguments=WriteArguments, run=_write, meaning="set an item"),
        Method(
            name="select",
            arguments=SelectArguments,
            run=lambda client, asked: client.select(asked.item, asked.reason, for_s=asked.for_s),
            meaning="have an item for oneself before writing it",
        ),
        Method(name="deselect", arguments=ItemArguments, run=_deselect, meaning="give a selection back"),
        Method(
            name="force",
            arguments=ForceArguments,
            run=lambda client, asked: client.force(asked.item, asked.value, asked.reason, for_s=asked.for_s),
            meaning="put a value in the place of what a device measures",
        ),
        Method(
            name="release",
            arguments=ItemArguments,
            run=lambda client, asked: client.release(asked.item, asked.reason),
            meaning="end a force",
        ),
        Method(
            name="forces",
            arguments=NoArguments,
            run=lambda client, _: client.forces(),
            meaning="forced items",
            is_reading=True,
            is_for_lookers=True,
        ),
        Method(
            name="command",
            arguments=CommandArguments,
            run=lambda client, asked: client.command(asked.command_id),
            meaning="what became of an order",
            is_reading=True,
        ),
        Method(
            name="commands",
            arguments=ListArguments,
            run=lambda client, asked: client.commands(limit=asked.limit),
            meaning="what became of the latest orders",
            is_reading=True,
        ),
        Method(
            name="cancel",
            arguments=CancelArguments,
            run=lambda client, asked: client.cancel(asked.command_id, asked.reason),
            meaning="take an order back",
        ),
        Method(
            name="marks",
            arguments=MarksArguments,
            run=marks,
            meaning="what happened to some items and their nodes in a range",
            is_reading=True,
        ),
        Method(
            name="load",
            arguments=LoadArguments,
            run=load,
            meaning="new alarms of the last days, per ten minutes, by severity and by rule",
            is_reading=True,
            is_for_lookers=True,
        ),
        Method(name="events", arguments=EventsArguments, run=_events, meaning="the journal", is_reading=True),
        Method(
            name="sessions",
            arguments=NoArguments,
            run=lambda client, _: client.sessions(),
            meaning="who is present",
            is_reading=True,
        ),
        Method(
            name="end_session",
            arguments=SessionArguments,
            run=lambda client, asked: client.end_session(asked.session_id, asked.reason, node=asked.node),
            meaning="end a session",
        ),
        Method(
            name="switchover",
            arguments=ReasonArguments,
            run=_switchover,
            meaning="let the other member of the pair lead",
        ),
        Method(
            name="maintenance",
            arguments=MaintenanceArguments,
            run=_maintenance,
            meaning="keep a member from leading, or end that",
        ),
    )
} | {one.name: one for one in PEOPLE_METHODS}


def methods_of(trends: Trends) -> Methods:
    """The methods of a face by name; `trends`: those that it keeps."""
    trend = Method(
        name="trend",
        arguments=TrendArguments,
        run=lambda client, asked: trends.trend(client, asked, boot_ns()),
        meaning="bands of some items: minimum, maximum, first, last, mean of each interval",
        is_reading=True,
        is_for_lookers=True,
    )
    return {**_METHODS, trend.name: trend}


async def answered(methods: Methods, client: AsyncClient, name: str, arguments: dict[str, Any]) -> Any:
    """The answer of a method, as a browser takes it.

    Raises:
        ClientError: as the client's method; ValueError: there is no such method, or it takes other arguments.
    """
    method = methods.get(name)
    if method is None:
        raise ValueError(f"there is no method {name!r:.80}")
    return plain(await method.run(client, msgspec.convert(arguments, method.arguments)))
