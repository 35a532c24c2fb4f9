"""Which adapter a kind names. Loaded when it is asked for, so that a node pays for the protocols it speaks."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, cast

import msgspec

from albireo.field import ENTRY_POINTS
from albireo.field.contract import Adapter, ConfigurationError
from albireo.model.instant import Instant
from albireo.runtime.actor.first_use import settle_types

_OWN: Final = {"modbus": "albireo.field.modbus.adapter:create", "host": "albireo.field.host:create"}


class Surroundings(msgspec.Struct, frozen=True):
    """All that an adapter may know of the node it runs in."""

    data: Path
    """The node's data directory."""
    now: Callable[[], Instant]
    """Boot clock."""


Create = Callable[[Mapping[str, object], Surroundings], Adapter]


def create_adapter(kind: str, arguments: Mapping[str, object], surroundings: Surroundings) -> Adapter:
    """The adapter of `kind` with `arguments` (JSON).

    Raises:
        ConfigurationError: nobody offers that kind, or the arguments can't work.
    """
    create = _factory(kind)
    settle_types()
    return create(arguments, surroundings)


def _factory(kind: str) -> Create:
    place = _OWN.get(kind)
    if place is None:
        from importlib.metadata import entry_points  # Takes 3 MB, which adapters of our own are spared.

        offered = {one.name: one for one in entry_points(group=ENTRY_POINTS)}
        if kind not in offered:
            known = ", ".join(sorted({*_OWN, *offered}))
            raise ConfigurationError(f"no adapter of kind {kind!r}; there are {known}")
        return cast(Create, offered[kind].load())
    module, _, name = place.partition(":")
    return cast(Create, getattr(import_module(module), name))
