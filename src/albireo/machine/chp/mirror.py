"""Mirror: the items of a node as a map of keys, and which part of it was published up to which sequence number.

    items, readings --> due (not published yet, latest value per key) --publish--> shown (as all publications made it)

A snapshot is always of `shown`, so it has exactly what was published up to `sequence`: what comes later has a higher
number, and nothing is in both.

Sequence numbers rise strictly, and begin at the position of the log, so that a server that starts anew or another
server of the same node goes on above what clients have seen (ADR-0175). Publications get lost below: with a slow
subscriber, or while one connects. So every key is published again, one after the other, in rounds.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from albireo.codec.chp import KEY_BYTES_MAX, KeyValue, encode_reading
from albireo.model.item import Control, KnownItem, Reading
from albireo.model.position import Position

SEQUENCES_PER_RECORD: Final = 1 << 20
"""Sequence numbers for each record of the log: as many as a node has items, so that all can change at one record."""
SEQUENCE_MAX: Final = 1 << 62
"""Highest sequence number that a position leads to: clients take numbers of 64 bit with a sign."""
GONE_MAX: Final = 1_000
"""Deleted keys that are deleted again in each round; the oldest are left out."""


class Mirror:
    """The map. It is changed by what the node tells, and read by what goes to clients."""

    def __init__(self, subtrees: Sequence[bytes] = ()) -> None:
        """`subtrees`: keys below these are served; none: all of them."""
        self.shown: dict[bytes, bytes] = {}
        """Value of each key as published up to `sequence`."""
        self.due: dict[bytes, bytes] = {}
        """Values to be published; an empty one deletes."""
        self.sequence = 0
        """Number of the last publication, or of the state with which it all began."""
        self.is_begun = False
        """The node has told its whole state once."""
        self.left_out: set[int] = set()
        """Items without a key: it would be too long, or another item has it."""
        self._subtrees = tuple(subtrees)
        self._floor = 0
        self._names: dict[bytes, tuple[str, int]] = {}
        """Full name and id of the item by key."""
        self._keys: dict[int, bytes] = {}
        self._selecting: set[int] = set()
        """Items that ask to be selected before they are written."""
        self._values: dict[int, bytes] = {}
        self._gone: dict[bytes, None] = {}
        self._round: Iterator[bytes] = iter(())

    def name_of(self, key: bytes) -> str | None:
        """Full name of the item that has this key; None: no item has it."""
        named = self._names.get(key)
        return None if named is None else named[0]

    def asks_selection(self, key: bytes) -> bool:
        """The item that has this key has to be selected before it is written."""
        named = self._names.get(key)
        return named is not None and named[1] in self._selecting

    def change(
        self, items: Sequence[KnownItem], readings: Sequence[Reading], position: Position, *, is_whole: bool
    ) -> None:
        """Take what the node tells. `is_whole`: these are all items and readings there are."""
        self._floor = min(position.sequence * SEQUENCES_PER_RECORD, SEQUENCE_MAX)
        if is_whole:
            for one in (self._names, self._keys, self._values):
                one.clear()
            self._selecting.clear()
            self.left_out.clear()
        self._values.update((one.item_id, encode_reading(one)) for one in readings)
        changed = [*self._declare(items), *(one.item_id for one in readings)]
        if is_whole:
            told = {key for item_id, key in self._keys.items() if item_id in self._values}
            for key in [one for one in [*self.shown, *self.due] if one not in told]:
                self._mark(key, b"")
        for item_id in changed:
            if item_id in self._keys and item_id in self._values:
                self._mark(self._keys[item_id], self._values[item_id])
        if not self.is_begun:
            self.is_begun = True
            self.shown, self.due = self.due, {}
            self.sequence = self._floor

    def publish(self, count: int) -> list[KeyValue]:
        """The next publications, at most so many."""
        return [self._published(key) for key in list(islice(self.due, count))]

    def repeat(self, count: int) -> None:
        """Have the next keys of the round published again, at most so many."""
        taken = list(islice(self._round, count))
        if len(taken) < count:
            self._round = iter([*self.shown, *self._gone])
            taken += islice(self._round, count - len(taken))
        for key in taken:
            self.due.setdefault(key, self.shown.get(key, b""))

    def delete_again(self, keys: Iterable[bytes]) -> None:
        """Publish the deletion of those of these keys that are not shown."""
        for key in keys:
            if key not in self.shown:
                self.due.setdefault(key, b"")

    def below(self, subtree: bytes) -> list[tuple[bytes, bytes]]:
        """Keys and values that begin with `subtree`, as published."""
        if not subtree:
            return list(self.shown.items())
        return [one for one in self.shown.items() if one[0].startswith(subtree)]

    def _declare(self, items: Sequence[KnownItem]) -> list[int]:
        """Give the items their keys; ids of those that have another one than before."""
        for known in items:
            change = self._selecting.discard if known.item.control is Control.DIRECT else self._selecting.add
            change(int(known.item_id))
        wanted = {int(one.item_id): (self._key_of(one), one.full_name) for one in items}
        changed = [item_id for item_id, (key, _) in wanted.items() if self._keys.get(item_id) != key]
        for item_id in changed:  # All are released before any is claimed: a new item may have a renamed one's name.
            released = self._keys.pop(item_id, None)
            if released is not None:
                del self._names[released]
                self._mark(released, b"")
        for item_id in changed:
            key, name = wanted[item_id]
            if key is None:
                continue
            if len(key) > KEY_BYTES_MAX or key in self._names:
                self.left_out.add(item_id)
                continue
            self._keys[item_id], self._names[key] = key, (name, item_id)
        return changed

    def _key_of(self, known: KnownItem) -> bytes | None:
        """`/<node>/<item>`; None: it is not served, as nobody declares it any more or it is in none of the subtrees."""
        key = f"/{known.node}/{known.item.name}".encode()
        is_wanted = not self._subtrees or key.startswith(self._subtrees)
        return key if is_wanted and not known.is_retired else None

    def _mark(self, key: bytes, value: bytes) -> None:
        if self.shown.get(key, b"") == value:
            self.due.pop(key, None)
        else:
            self.due[key] = value

    def _published(self, key: bytes) -> KeyValue:
        value = self.due.pop(key)
        self.sequence = max(self.sequence + 1, self._floor)
        if value:
            self.shown[key] = value
            self._gone.pop(key, None)
        else:
            self.shown.pop(key, None)
            self._gone[key] = None
            if len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]
        return KeyValue(key=key, sequence=self.sequence, value=value)
