"""Kind offers: kinds of one sort (adapters, faces) by name, our own ones and those of other distributions.

A kind is one value that its module declares. It is imported when somebody asks for it, so that a process pays for what
it runs; whatever a module of others raises then is an answer, for boot asks too and lives on.
"""

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from albireo.runtime.actor.first_use import settle_types

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_Kind = TypeVar("_Kind")


class KindOffers(Generic[_Kind]):
    """One look at what this installation offers."""

    def __init__(self, group: str, shape: type[_Kind], own: Mapping[str, str]) -> None:
        """
        Args:
            group: entry point group of other distributions.
            shape: class of every kind.
            own: place of each of ours, `module:name`. No other distribution takes its name.
        """
        self._group, self._shape, self._own = group, shape, own
        self._loaded: dict[str, _Kind | str] = {}

    @cached_property
    def _offered(self) -> Mapping[str, "EntryPoint"]:
        from importlib.metadata import entry_points  # Takes 3 MB, which kinds of our own are spared.

        return {one.name: one for one in entry_points(group=self._group)}

    def names(self) -> list[str]:
        return sorted({*self._own, *self._offered})

    def load(self, name: str) -> _Kind | str:
        """The kind of that name, or why it can't be had."""
        if name not in self._loaded:
            self._loaded[name] = self._own_kind(name) if name in self._own else self._kind_of_others(name)
        return self._loaded[name]

    def _own_kind(self, name: str) -> _Kind:
        return cast(_Kind, object_at(self._own[name]))

    def _kind_of_others(self, name: str) -> _Kind | str:
        if name not in self._offered:
            return f"nobody offers it; there are {', '.join(self.names())}"
        try:
            kind = self._offered[name].load()
        except Exception as error:  # noqa: BLE001  # Foreign code is imported here, which may raise anything.
            return f"{type(error).__name__}: {error}"
        settle_types()
        return kind if isinstance(kind, self._shape) else f"it offers {kind!r}, which is no {self._shape.__name__}"


def object_at(place: str) -> object:
    """The object that `module:name` means."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
