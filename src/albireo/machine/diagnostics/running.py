"""Items that say whether actors of this node run, one for each: CORE's own; false is a case with a message."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np

from albireo.machine.desk.owners import OWN_ADAPTER
from albireo.machine.desk.registry import Registry
from albireo.machine.kernel.turn import Moment, Turn
from albireo.model import quality
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType

MESSAGE_CHARS_MAX: Final = 400


class RunningItems:
    """The items of actors of one sort, in one tenure."""

    def __init__(
        self,
        sort: str,
        names: Iterable[str],
        item_of: Callable[[str], DataItem],
        registry: Registry,
        messages: dict[int, str],
    ) -> None:
        """
        Args:
            sort: word for such an actor, in the structured log.
            item_of: item of the actor of this name.
            messages: trouble by item id, for the cases that are raised of it; filled here.
        """
        self._sort = sort
        self.names = sorted(names)
        self._item_of = item_of
        self._registry = registry
        self._messages = messages
        self._ids: dict[str, int] = {}
        self._shown: dict[str, bool] = {}
        """Last sample of each, of this tenure."""

    def declare(self, turn: Turn) -> tuple[int, ...]:
        """Declare the items, as this node begins to lead; returns their ids."""
        ids = self._registry.declare(OWN_ADAPTER, tuple(map(self._item_of, self.names)), turn)
        self._ids = dict(zip(self.names, ids, strict=True))
        return ids

    def trouble_of(self, name: str) -> str:
        """Trouble of an actor, in words; empty: none, or it has no item."""
        return self._messages.get(self._ids.get(name, 0), "")

    def say(self, troubles: Mapping[str, str | None], moment: Moment, turn: Turn) -> None:
        """Append a sample of every actor that stopped or began to run.

        Args:
            troubles: words by name; empty: it runs. None: nobody can tell yet.
        """
        changed: dict[int, bool] = {}
        for name, item_id in self._ids.items():
            trouble = troubles.get(name)
            if trouble is None:
                continue
            if trouble:
                self._messages[item_id] = trouble[:MESSAGE_CHARS_MAX]
            else:
                self._messages.pop(item_id, None)
            before, runs = self._shown.get(name), not trouble
            if before is not runs:
                self._shown[name] = changed[item_id] = runs
                if trouble:
                    turn.note("warning", f"{self._sort}_lost", **{self._sort: name}, reason=trouble)
                elif before is not None:
                    turn.note("info", f"{self._sort}_runs", **{self._sort: name})
        if changed:
            turn.samples(_samples(changed, moment))


def _samples(running: dict[int, bool], moment: Moment) -> SampleBatch:
    """One sample for each item, by its id."""
    times = np.full(len(running), moment.wall, np.int64)
    return SampleBatch(
        value_type=ValueType.BOOL,
        item_id=np.array(list(running), np.uint32),
        source_ns=times,
        node_ns=times,
        value=np.array(list(running.values()), np.uint8),
        quality=np.full(len(running), quality.GOOD, np.uint32),
    )
