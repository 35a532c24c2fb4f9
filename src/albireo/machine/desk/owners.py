"""Owners: whose each name is: of a producer, of a follower, of an item.

A producer's name belongs to the principal that opened it. Names that say who somebody is, such as an adapter's, are for
nobody else to take.

An item belongs to the name that declared it first, for as long as that name declares it. Another name's hello with it
is refused as a whole. There are two ways over to another name:

    the topology    an adapter that this node's topology configures may take any item but CORE's own: the file says
                    whose it is, and names each item once
    its owner       says hello without it; from then on, in this tenure, whoever declares it first has it

Batches and gap records carry their own producer's items only. That is one look-up of whole columns per batch.

Decisions: ADR-0147 (items), ADR-0149 (names).
"""

from collections.abc import Collection, Iterable
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from albireo.codec.message import ProducerHello
from albireo.codec.record import GapFound
from albireo.model.item import KnownItem
from albireo.model.principal import PrincipalKind, kind_of
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.samples import SampleBatch

OWN_ADAPTER: Final = "core"
"""Owner of CORE's diagnostics items."""
ACTORS: Final = frozenset({"boot", "core", "history", "logger"})
"""Actors of every node; as producers they would speak in its name."""
OTHER_NAME: Final = "start the program under another name"
NAME_CHARS_MAX: Final = 200
"""Most characters in the name of a producer or an item."""


class Owners:
    """Owners of one tenure: by name for hellos, by id for batches."""

    def __init__(self, known: Iterable[KnownItem], adapters: frozenset[str]) -> None:
        """
        Args:
            known: items that are declared in the log.
            adapters: names of the adapters that this node's topology configures.
        """
        self._adapters = adapters
        self._owner_of: dict[str, str] = {}
        """Owner by local name of the item, the items of hellos that are still being declared too."""
        self._numbers: dict[str, int] = {}
        """Number of each owner in the column below."""
        self._by_id: NDArray[np.int32] = np.zeros(1, np.int32)
        """Number of the owner by item id; 0: nobody's, as the last entry always is, to which higher ids are clipped."""
        for one in known:
            self.declared(one)

    def name_taken(self, name: str, principal: str, owner: str) -> Refusal | None:
        """Reason why a principal can't be the producer `name`; None: it can.

        Args:
            owner: principal that the name belongs to; empty: nobody's.
        """
        if name in ACTORS or kind_of(name) not in (PrincipalKind.PROGRAM, PrincipalKind.ANYBODY):
            return reserved(name)
        kind, owner_kind = kind_of(principal), kind_of(owner)
        if kind is PrincipalKind.LOCAL:
            return None
        if name in self._adapters:
            cause = f"{name!r} is an adapter of this node, which speaks on its machine only"
            return Refusal(RefusalCode.NOT_OWNER, cause, OTHER_NAME)
        if owner == principal or owner_kind is PrincipalKind.ANYBODY or kind is PrincipalKind.ANYBODY:
            return None
        holder = "a program on the node's machine" if owner_kind is PrincipalKind.LOCAL else f"the key {owner!r}"
        cause = f"the name {name!r} belongs to {holder}, not to {principal!r}"
        return Refusal(RefusalCode.NOT_OWNER, cause, OTHER_NAME)

    def item_taken(self, hello: ProducerHello) -> Refusal | None:
        """Refusal by the first item of `hello` that another name owns; None: it may have them all."""
        names = (*(one.name for one in hello.items), *self._former(hello))
        if hello.producer in self._adapters:
            found = (name for name in names if self._owner_of.get(name) == OWN_ADAPTER)
        else:
            free = (None, "", hello.producer)
            found = (name for name in names if self._owner_of.get(name) not in free)
        name = next(found, None)
        if name is None:
            return None
        return Refusal(
            RefusalCode.NOT_OWNER,
            f"item {name!r} belongs to {self._owner_of[name]!r}, not to {hello.producer!r}",
            "give the item another name, or start its owner without it, or move it to an adapter of this node's "
            "topology",
        )

    def _former(self, hello: ProducerHello) -> list[str]:
        """Names that items of `hello` had before, and give up with it."""
        return [one.was for one in hello.items if one.was and one.name not in self._owner_of]

    def claim(self, hello: ProducerHello) -> None:
        """Give the items of a hello that was taken to its producer, and set those free that it has no longer."""
        kept = {one.name for one in hello.items}
        for name in self._former(hello):
            self._owner_of.pop(name, None)
        for name in [name for name, owner in self._owner_of.items() if owner == hello.producer and name not in kept]:
            del self._owner_of[name]
        self._owner_of |= dict.fromkeys(kept, hello.producer)

    def owner_of(self, name: str) -> str:
        """Owner of the item by its local name, in this tenure; empty: nobody declares it."""
        return self._owner_of.get(name, "")

    def numbers_of_items(self) -> dict[str, int]:
        """Number of items of each name that has any, by their last declarations. Cost: O(item ids), whole columns."""
        counts = np.bincount(self._by_id, minlength=1 + len(self._numbers))
        return {owner: int(counts[number]) for owner, number in self._numbers.items() if counts[number]}

    def items_of(self, name: str) -> list[int]:
        """Ids of the items of a name, by their last declarations. Cost: O(item ids), whole columns."""
        number = self._numbers.get(name, -1)
        ids: list[int] = np.flatnonzero(self._by_id == number).tolist()
        return ids

    def forgotten(self, known: KnownItem) -> None:
        """The item is nobody's, and no batch may carry it."""
        self._owner_of.pop(known.item.name, None)
        self._by_id[known.item_id] = 0

    def declared(self, known: KnownItem) -> None:
        """An item is declared: batches of this owner may carry it, those of others no longer."""
        item_id, owner = int(known.item_id), known.item.adapter
        is_new = owner == OWN_ADAPTER or known.item.name not in self._owner_of  # Others were entered by their claim.
        if is_new and not known.is_retired:
            self._owner_of[known.item.name] = owner
        if item_id >= len(self._by_id) - 1:
            table = np.zeros(max(2 * len(self._by_id), item_id + 2), np.int32)
            table[: len(self._by_id)] = self._by_id
            self._by_id = table
        self._by_id[item_id] = self._numbers.setdefault(owner, 1 + len(self._numbers))

    def owns(self, producer: str, content: SampleBatch | list[GapFound]) -> bool:
        """True: a batch, or gap records of its own, name this producer's items only. Cost: O(n), whole columns."""
        if isinstance(content, SampleBatch):
            return self._has_all(producer, content.item_id)
        return all(one.source == producer and self._has_all(producer, one.item_ids) for one in content)

    def _has_all(self, producer: str, item_ids: ArrayLike) -> bool:
        ids = np.asarray(item_ids, np.uint32)
        number = self._numbers.get(producer, -1)
        if len(ids) == 1:  # As most batches have under a light load: three calls of numpy cost more than the rest.
            only = int(ids[0])
            return only < len(self._by_id) and self._by_id[only] == number
        return bool((self._by_id.take(ids, mode="clip") == number).all())


def reserved_follower(
    name: str, principal: str, named: Collection[str], parent: str, parent_places: Collection[str]
) -> Refusal | None:
    """Refusal of a principal that can't follow under this name.

    Args:
        named: names of the followers for which records stay, on this machine but for the node above.
        parent: id of the node above, which follows under it; empty: there is none.
        parent_places: names of the keys of that node's members.
    """
    if kind_of(principal) is PrincipalKind.LOCAL:
        return None
    if parent and name == parent and (principal in parent_places or kind_of(principal) is PrincipalKind.ANYBODY):
        return None
    if name in ACTORS or name in named or kind_of(name) not in (PrincipalKind.PROGRAM, PrincipalKind.ANYBODY):
        return reserved(name)
    return None


def reserved(name: str) -> Refusal:
    """Refusal of a name that parts of a node have."""
    cause = f"{name!r} is reserved: a part of the node, a member or a witness has such a name"
    return Refusal(RefusalCode.NOT_OWNER, cause, OTHER_NAME)


def bad_name(name: str) -> str:
    """Reason why a producer or an item can't have this name; empty: it can."""
    if not 0 < len(name) <= NAME_CHARS_MAX:
        return f"a name of {len(name)} characters, not 1..{NAME_CHARS_MAX}"
    if not name.isprintable() or name != name.strip():
        return f"the name {name!r} has control characters, or begins or ends with a space"
    return ""
