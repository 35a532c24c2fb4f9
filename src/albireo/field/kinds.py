"""Making of adapters: the one that its arguments describe, by the kind that they name (offered.py)."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from albireo.codec.topology.adapter_kind import AdapterKind
from albireo.field.contract import Adapter, ConfigurationError, PairAdapter
from albireo.field.journal import AdapterJournal
from albireo.field.offered import KnownKinds
from albireo.model.instant import Instant, WallTime
from albireo.model.topology import AdapterConfig, Guard
from albireo.runtime.actor.first_use import settle_types
from albireo.runtime.actor.keep import Keep
from albireo.runtime.clock import wall_ns
from albireo.runtime.kind_offers import object_at

ROWS: Final = "items"
"""Key of an adapter's item rows among its arguments; in the file it names their table."""


def no_journal() -> AdapterJournal:
    raise ConfigurationError("there is no node here that keeps a journal")


class Surroundings(msgspec.Struct, frozen=True):
    """All that an adapter may know of the node it runs in."""

    data: Path
    """The node's data directory."""
    now: Callable[[], Instant]
    """Boot clock."""
    wall_ns: Callable[[], WallTime] = wall_ns
    """Unix ns, UTC."""
    keep: Keep | None = None
    """Sockets that outlive the process; None: it runs alone."""
    journal: Callable[[], AdapterJournal] = no_journal
    """Makes the journal of this adapter, for one life of it."""


Rows = Sequence[Mapping[str, str]]
"""Cells of each row of the item table."""
Create = Callable[[Any, Rows, Surroundings], Adapter]
"""Makes the adapter of the given settings, which are of the kind's own struct. Raises ConfigurationError."""


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
    create = cast(Create, object_at(_kind(arguments).create))
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
        raise ConfigurationError(f"no adapter of kind {name!r}; there are {', '.join(known)}")
    kind = known[name]
    if kind.trouble:
        raise ConfigurationError(f"the kind {name!r} can't be had: {kind.trouble}")
    return kind
