"""Methods: what a page and a program may ask, each declared once, as a function.

    @method(is_reading=True)
    async def command(client: AsyncClient, *, command_id: Text) -> object:
        "What became of an order."

Its parameters by keyword are the arguments: of them the struct is made that judges what is asked, and OpenAPI.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, get_type_hints

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=0, le=2**53)]
JSON: Final = "application/json"


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """One method."""

    name: str
    arguments: type[msgspec.Struct]
    function: Callable[..., Awaitable[Any]]
    meaning: str
    """Words for people: what it gives or does."""
    is_reading: bool = False
    is_for_lookers: bool = False
    """Whoever may look may ask for it without a login: it tells of the plant, and not what people did."""
    is_for_pages: bool = False
    """For pages alone: REST has none of it."""
    needs_token: bool = True
    """A program asks for it as a person."""
    media: tuple[str, ...] = (JSON,)
    answer: Any = None
    """Type of the answer; None: that of the client's method, its times in ms."""

    async def run(self, *by: object, asked: msgspec.Struct) -> Any:
        """Run it. `by`: what the function takes beside its arguments, such as the client of the person who asks."""
        return await self.function(*by, **{name: getattr(asked, name) for name in asked.__struct_fields__})


Methods = Mapping[str, Method]


def method(**options: Any) -> Callable[[Callable[..., Awaitable[Any]]], Method]:
    """Make a method of a function, whose name and first words it has. `options`: further fields of `Method`."""

    def made(function: Callable[..., Awaitable[Any]]) -> Method:
        name, hints = function.__name__.lstrip("_"), get_type_hints(function, include_extras=True)
        fields = [
            (one.name, hints[one.name]) if one.default is one.empty else (one.name, hints[one.name], one.default)
            for one in inspect.signature(function).parameters.values()
            if one.kind is one.KEYWORD_ONLY
        ]
        shape = f"{name.title().replace('_', '')}Arguments"
        return Method(
            name=name,
            arguments=msgspec.defstruct(shape, fields, frozen=True, kw_only=True, forbid_unknown_fields=True),
            function=function,
            meaning=(function.__doc__ or "").partition("\n")[0],
            **options,
        )

    return made


def named(*methods: Method) -> dict[str, Method]:
    """Methods by their names."""
    return {one.name: one for one in methods}
