"""Requests: what a client asks a node, and how it understands the answers; the same for threads and for coroutines.

The questions are listed in docs/node-protocol.md.
"""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from albireo.client.conversation import Conversation, understood
from albireo.client.history import pieces
from albireo.client.live import matches
from albireo.client.questions import Request
from albireo.model.case import Action, Case
from albireo.model.command import Receipt
from albireo.model.instant import SECOND
from albireo.model.item import DataItem, KnownItem, Reading
from albireo.model.value import Value

if TYPE_CHECKING:
    import pyarrow as pa

GRACE_S: Final = 5.0
"""The answer of a command that runs out comes this much later than its time at most."""
NAMES_MAX: Final = 2_000
"""Names in one question: a node takes no question above 1 MiB."""
ACTION_S: Final = 20.0
"""Longest time that an action which has to be committed may take."""


class ItemReading(msgspec.Struct, frozen=True, kw_only=True):
    """An item with its latest reading."""

    name: str
    """Full name, `<node>:<name>`."""
    item_id: int
    item: DataItem
    reading: Reading


class ItemCase(Case, frozen=True, kw_only=True, gc=False):
    """A case, with the full name of its item."""

    item: str = ""


def items(patterns: Sequence[str]) -> Conversation[list[ItemReading]]:
    """Items with their readings."""
    reply = yield Request(what="items")
    known = [one for one in understood("items", reply.result, list[KnownItem]) if matches(one, patterns)]
    if not known:
        return []
    found: list[Reading] = []
    for first in range(0, len(known), NAMES_MAX):
        found += yield from readings([one.full_name for one in known[first : first + NAMES_MAX]])
    by_id = {one.item_id: one for one in found}
    return [
        ItemReading(name=one.full_name, item_id=one.item_id, item=one.item, reading=by_id[one.item_id])
        for one in known
        if one.item_id in by_id
    ]


def readings(names: Sequence[str]) -> Conversation[list[Reading]]:
    """Latest readings of these items, in this sequence."""
    if not names:  # To a node no names are all names.
        return []
    reply = yield Request(what="read", arguments={"names": list(names)})
    return understood("read", reply.result, list[Reading])


def write(item: str, value: Value, user: str, reason: str, expires_s: float) -> Conversation[Receipt]:
    """Order a write."""
    arguments: dict[str, Any] = {
        "item": item,
        "value": value,
        "command_id": str(uuid.uuid4()),
        "user": user,
        "reason": reason,
        "expires_ms": round(expires_s * 1000),
    }
    reply = yield Request(what="write", arguments=arguments, wait_s=expires_s + GRACE_S)
    return understood("write", reply.result, Receipt)


def cases(*, include_closed: bool) -> Conversation[list[ItemCase]]:
    """Cases, the most severe first."""
    reply = yield Request(what="cases", arguments={"include_closed": include_closed})
    found = understood("cases", reply.result, list[ItemCase])
    return sorted(found, key=lambda one: (-one.severity, -one.case_id))


def seen_activation(case: Case | int, activation: int | None) -> tuple[int, int]:
    """Case id, and the activation that somebody saw: that of the case at hand, unless another is named."""
    if isinstance(case, Case):
        return case.case_id, case.activations if activation is None else activation
    return case, 1 if activation is None else activation


def activation_argument(activation: int) -> dict[str, Any]:
    """Argument of `case_action` that names an activation. The first needs none, so that a node of 0.1.0 takes it."""
    return {"activation": activation} if activation > 1 else {}


def act(
    action: Action, case_id: int, user: str, comment: str, duration_s: float | None = None, activation: int = 1
) -> Conversation[list[Case]]:
    """Act on a case; the cases that changed."""
    arguments: dict[str, Any] = {"action": action.value, "case_id": case_id, "user": user, "comment": comment}
    arguments |= activation_argument(activation)
    if duration_s is not None:
        arguments["duration_ms"] = round(duration_s * 1000)
    elif action is Action.SHELVE:
        arguments["action"] = Action.SHELVE_ONCE.value
    reply = yield Request(what="case_action", arguments=arguments, wait_s=ACTION_S)
    return understood("case_action", reply.result, list[Case])


def status(member: int | None) -> Conversation[dict[str, Any]]:
    """State of the node, as it says it itself."""
    reply = yield Request(what="status", member=member)
    return understood("status", reply.result, dict[str, Any])


def history(
    names: Sequence[str],
    start: datetime | int,
    end: datetime | int | None,
    aggregate: str,
    every_s: float,
    cursor: str,
) -> Conversation["pa.Table"]:
    """Rows of items, or an aggregate of them per interval."""
    arguments = {
        "names": list(names),
        "from_ns": wall_ns(start),
        "to_ns": wall_ns(end),
        "aggregate": aggregate,
        "bucket_ns": round(every_s * SECOND),
        "cursor": cursor,
    }
    return pieces("history_piece", arguments)


def events(start: datetime | int, end: datetime | int | None, kind: str, cursor: str) -> Conversation["pa.Table"]:
    """The journal."""
    arguments = {"from_ns": wall_ns(start), "to_ns": wall_ns(end), "kind": kind, "cursor": cursor}
    return pieces("events_piece", arguments)


def patterns_of(names: str | Sequence[str]) -> list[str]:
    """One name or pattern, or several."""
    return [names] if isinstance(names, str) else list(names)


def wall_ns(moment: datetime | int | None) -> int:
    """Wall time in ns: of a datetime, UTC if it names no zone; None: now."""
    if isinstance(moment, int):
        return moment
    if moment is None:
        moment = datetime.now(UTC)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = moment - datetime.fromtimestamp(0, UTC)
    return (since // timedelta(seconds=1)) * SECOND + since.microseconds * 1000
