"""Words of values as items declare them now, for commands whose answers have names of items and bare values."""

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from albireo.model.value import Value, value_text

if TYPE_CHECKING:
    from albireo.client import Client

Worded = Callable[[str, Value | None], str]


def worded_by(client: "Client", names: Iterable[str]) -> Worded:
    """How people read a value of each of these items, by full name.

    A value of an item that nobody declares, or whose node does not answer now, has no word: that hides nothing else.
    """
    from albireo.client import ClientError

    found = {}
    with contextlib.suppress(ClientError):
        found = {one.name: one.item for one in client.items(sorted(set(names)))}
    return lambda name, value: found[name].worded(value) if name in found else value_text(value)
