"""Kinds of adapters that this installation has, by name: our own, and those that other distributions offer.

A kind is declared in the folder of its adapter (`kind.py`, codec/topology/adapter_kind.py) and imported when somebody
asks for it, so that a process pays for the protocols that it speaks. The loader of topologies is handed all of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from albireo.codec.topology.adapter_kind import AdapterKind
from albireo.field import ENTRY_POINTS
from albireo.field.contract import Adapter, ConfigurationError, PairAdapter
from albireo.model.instant import Instant
from albireo.model.topology import AdapterConfig, Guard
from albireo.runtime.actor.first_use import settle_types

_OWN: Final = {"modbus": "albireo.field.modbus.kind:KIND", "host": "albireo.field.host.kind:KIND"}
ROWS: Final = "items"
"""Key of an adapter's item rows among its arguments; in the file it names their table."""


class Surroundings(msgspec.Struct, frozen=True):
    """All that an adapter may know of the node it runs in."""

    data: Path
    """The node's data directory."""
    now: Callable[[], Instant]
    """Boot clock."""


Rows = Sequence[Mapping[str, str]]
"""Cells of each row of the item table."""
Create = Callable[[Any, Rows, Surroundings], Adapter]
"""Makes the adapter of the given settings, which are of the kind's own struct. Raises ConfigurationError."""


class KnownKinds(Mapping[str, AdapterKind]):
    """Kinds by name, each imported when it is asked for."""

    def __getitem__(self, name: str) -> AdapterKind:
        if name in _OWN:
            return cast(AdapterKind, _at(_OWN[name]))
        return _declared(_offered()[name])

    def __iter__(self) -> Iterator[str]:
        return iter({**_OWN, **_offered()})

    def __len__(self) -> int:
        return len({**_OWN, **_offered()})


def settings_of(arguments: Mapping[str, object]) -> AdapterConfig:
    """The settings of an adapter among its arguments (JSON), as the struct of its kind.

    Raises:
        ConfigurationError: nobody offers that kind, or the settings can't work.
    """
    kind = _kind(arguments)
    try:
        return msgspec.convert({key: one for key, one in arguments.items() if key != ROWS}, kind.settings)
    except msgspec.ValidationError as error:
        raise ConfigurationError(str(error)) from error


def create_adapter(arguments: Mapping[str, object], surroundings: Surroundings) -> Adapter:
    """The adapter that `arguments` (JSON) describe.

    Raises:
        ConfigurationError: nobody offers its kind, or the arguments can't work.
    """
    settings = settings_of(arguments)
    try:
        rows = msgspec.convert(arguments.get(ROWS, []), list[dict[str, str]])
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{ROWS}: {error}") from error
    create = cast(Create, _at(_kind(arguments).create))
    settle_types()
    adapter = create(settings, rows, surroundings)
    if not isinstance(adapter, PairAdapter):
        _check_alone(settings)
    return adapter


def _check_alone(settings: AdapterConfig) -> None:
    """Nothing is configured that only a PairAdapter can do."""
    kind, guard = settings.kind, settings.guard.value
    if settings.voter_waits is not None:
        raise ConfigurationError(f"an adapter of kind {kind!r} reaches no voter")
    if settings.guard not in (Guard.LEASE, Guard.GATE):
        raise ConfigurationError(f"guard = {guard!r}: kind {kind!r} has none; write lease or gate")


def _kind(arguments: Mapping[str, object]) -> AdapterKind:
    known = KnownKinds()
    name = str(arguments.get("kind", ""))
    if name not in known:
        raise ConfigurationError(f"no adapter of kind {name!r}; there are {', '.join(sorted(known))}")
    kind = known[name]
    if kind.trouble:
        raise ConfigurationError(f"the kind {name!r} can't be had: {kind.trouble}")
    return kind


def _at(place: str) -> object:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _offered() -> Mapping[str, Any]:
    """Entry points of other distributions, by kind."""
    from importlib.metadata import entry_points  # Takes 3 MB, which adapters of our own are spared.

    return {one.name: one for one in entry_points(group=ENTRY_POINTS) if one.name not in _OWN}


@cache
def _declared(offered: Any) -> AdapterKind:
    """The kind that an entry point names. Whatever its module raises is a mistake of the file that asks for it: a node
    that runs reads a file anew, and must not end of it."""
    try:
        kind = offered.load()
    except Exception as error:  # noqa: BLE001  # Foreign code is imported here, which may raise anything.
        return AdapterKind(trouble=f"{offered.value} raises {type(error).__name__}: {error}")
    if not isinstance(kind, AdapterKind) or not issubclass(kind.settings, AdapterConfig):
        return AdapterKind(trouble=f"{offered.value} is no AdapterKind with settings of its own")
    settle_types()
    return kind
