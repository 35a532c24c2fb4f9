"""The kinds of orders that there are, each declared in the folder of its owner: a further one is one more line here."""

from collections.abc import Callable
from typing import Protocol

from albireo.machine.orders.case.kinds import ActingRoot, ActOnCase
from albireo.machine.orders.force.kinds import ForceItem, ForceRoot, ReleaseItem
from albireo.machine.orders.kind import AnyKind
from albireo.machine.orders.message.kinds import MessageRoot, SendMessage
from albireo.machine.orders.selection.kinds import Deselect, Select, SelectionRoot
from albireo.machine.orders.session.kinds import EndingRoot, EndSession
from albireo.machine.orders.write.kinds import Write, WriteRoot


class OrdersRoot(ActingRoot, ForceRoot, MessageRoot, EndingRoot, WriteRoot, SelectionRoot, Protocol):
    """The root machine, as far as orders need it."""


KINDS: tuple[Callable[[OrdersRoot], AnyKind], ...] = (
    Write,
    ForceItem,
    ReleaseItem,
    Select,
    Deselect,
    EndSession,
    ActOnCase,
    SendMessage,
)


def kinds(root: OrdersRoot) -> tuple[AnyKind, ...]:
    """One object of each kind, for a root machine."""
    return tuple(one(root) for one in KINDS)
