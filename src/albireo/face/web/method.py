"""A method of the page: a name, its arguments, and what it asks the node as the person."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

from albireo.client import AsyncClient

ArgumentsT = TypeVar("ArgumentsT", bound=msgspec.Struct)
Count = Annotated[int, Meta(ge=0, le=2**53)]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the arguments of a method."""


class Method(msgspec.Struct, Generic[ArgumentsT], frozen=True, kw_only=True):
    """One method."""

    name: str
    arguments: type[ArgumentsT]
    run: Callable[[AsyncClient, ArgumentsT], Awaitable[object]]
    meaning: str
    """Words for people: what it gives or does."""
    is_reading: bool = False
    is_for_lookers: bool = False
    """Whoever may look may ask for it without a login: it tells of the plant, and not what people did."""


Methods = Mapping[str, Method[Any]]


class NoArguments(Arguments, frozen=True):
    """A method without arguments."""
