"""Kinds of faces, by name: what a face is told, and who makes it.

A face is an actor (`runtime/actor/actor.py`, Behaviour) that serves another protocol and is a client of its node. Its
kind is one value, `KIND = FaceKind(settings=..., create=...)`, named here or offered by another distribution under the
entry point group `albireo.faces`. It is loaded when a topology names it; `create` imports what only a running face
needs, as `made_of` does.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from albireo.runtime.errors import ConfigurationRefused
from albireo.runtime.kind_offers import KindOffers, object_at
from albireo.runtime.link.lines import LineTo

if TYPE_CHECKING:
    from albireo.runtime.actor.actor import Behaviour

ENTRY_POINTS: Final = "albireo.faces"
"""Group under which another distribution offers faces of its own: `kind = "module:KIND"`."""
_OWN: Final = {
    "chp": "albireo.face.chp.settings:KIND",
    "notify": "albireo.face.notify.settings:KIND",
    "pubsub": "albireo.face.pubsub.settings:KIND",
    "web": "albireo.face.web.settings:KIND",
}


class FacePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Place of a face: the node beside which it runs, and the ways to it."""

    name: str
    """Name of the face in its node."""
    node: str
    """Id of the node."""
    doors: tuple[LineTo, ...]
    """Doors of the node, of a pair the primary's first; an empty endpoint is that of the place itself."""
    keys: str = ""
    """Directory of the keys of the place; empty: none."""
    directory: str = ""
    """Directory of the topology: files that a face names stand there, unless it says otherwise."""
    zone: str = "UTC"
    """Time zone of the plant."""

    @property
    def own(self) -> int:
        """Index of the door of the place itself."""
        return next(index for index, one in enumerate(self.doors) if not one.endpoint)

    def file(self, name: str) -> Path:
        """A file that the settings name."""
        return Path(self.directory, name).absolute()

    def target(self, data: Path) -> tuple[LineTo, ...]:
        """Target for `connect` and `aconnect`: the doors, the own one by the data directory of the place."""
        return tuple(one if one.endpoint else LineTo(str(data)) for one in self.doors)


class FaceKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of face."""

    settings: type[msgspec.Struct]
    """Struct of its own keys in `[[node.face]]`: frozen, forbids unknown fields, and raises ValueError for what can't
    be."""
    create: "Callable[[Any, FacePlace], Behaviour]"
    """Makes a face, of an instance of `settings`. May raise ConfigurationRefused."""


def made_of(behaviour: str) -> "Callable[[Any, FacePlace], Behaviour]":
    """Makes faces of `module:class`, which is imported by the face that runs, with its libraries."""

    def create(settings: msgspec.Struct, place: FacePlace) -> "Behaviour":
        try:
            make: Any = object_at(behaviour)
        except ModuleNotFoundError as error:
            cause = f"face {place.name}: it needs {error.name}, which is missing"
            raise ConfigurationRefused(f"{cause}: pip install 'albireo[{behaviour.split('.')[2]}]'") from error
        made: Behaviour = make(settings, place)
        return made

    return create


def load_kind(name: str) -> FaceKind | str:
    """The kind of that name, or the reason why there is none."""
    return KindOffers(ENTRY_POINTS, FaceKind, _OWN).load(name)


def settings_of_kinds() -> dict[str, Callable[[], type[msgspec.Struct] | str]]:
    """Loads the struct of a kind's own keys, or says why not; by the name of each kind of this installation."""
    offers = KindOffers(ENTRY_POINTS, FaceKind, _OWN)
    return {name: partial(_settings, offers, name) for name in offers.names()}


def _settings(offers: KindOffers[FaceKind], name: str) -> type[msgspec.Struct] | str:
    kind = offers.load(name)
    return kind if isinstance(kind, str) else kind.settings
