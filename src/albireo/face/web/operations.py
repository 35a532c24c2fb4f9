"""Operations: what `/api/v1` offers: the methods of the page, and what a program asks beside them; as OpenAPI 3.1 too.

GET /api/v1/NAME?argument=...      whatever reads; lists with commas
POST /api/v1/NAME                  whatever does something; its arguments are the JSON body
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from albireo import __version__
from albireo.codec.questions.history import PIECE_ROWS_MAX, Aggregate
from albireo.face.web.callers import CallerRefusal
from albireo.face.web.method import Arguments, Count
from albireo.face.web.methods import methods_of
from albireo.face.web.trends import Trends
from albireo.face.web.words import ChangesTold, ItemPattern, Shown
from albireo.model.bounded import Text
from albireo.model.item import DataItem

PREFIX: Final = "/api/v1"
_REFERENCE: Final = "#/components/schemas/{name}"
JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
CSV: Final = "text/csv"
SSE: Final = "text/event-stream"
PAGE_MAX: Final = 1_000
"""Most items of one answer."""
NAMES_MAX: Final = 100
"""Most items that one question names."""
Pattern = Annotated[ItemPattern, Meta(min_length=1)]
Names = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=300)], ...], Meta(min_length=1, max_length=NAMES_MAX)
]


class ItemsListed(Arguments, frozen=True):
    """Arguments of `items`."""

    pattern: Pattern = "*"
    """Full name with * and ?; without a colon items of this node are meant, `*:*` those of all."""
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100
    cursor: Annotated[str, Meta(max_length=300)] = ""
    """`next` of the answer before."""


class ItemsRead(Arguments, frozen=True):
    """Arguments of `read`."""

    names: Names


class HistoryRead(Arguments, frozen=True):
    """Arguments of `history`."""

    items: Names
    start_ms: Count
    end_ms: Count | None = None
    """None: now."""
    aggregate: Aggregate = ""
    """Empty: the rows themselves."""
    every_s: Annotated[float, Meta(ge=0, le=366 * 86_400)] = 0.0
    """Length of an interval, for aggregates."""
    limit: Annotated[int, Meta(ge=1, le=PIECE_ROWS_MAX)] = 1_000
    cursor: Text = ""
    """Header `albireo-next` of the answer before; it had none: that was all."""


class ItemsWatched(Arguments, frozen=True):
    """Arguments of `watch`."""

    pattern: Annotated[tuple[Pattern, ...], Meta(min_length=1, max_length=20)]


class ItemTold(msgspec.Struct, frozen=True, kw_only=True):
    """An item, and its latest value."""

    name: str
    """Full name."""
    node: str
    item: DataItem
    value: Shown = None
    """None: no value is known."""
    quality: int | None = None
    source_ms: int | None = None


class ItemsTold(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `items` and `read`."""

    at_ms: int
    """Time of the face."""
    items: list[ItemTold]
    stale: dict[str, int]
    """Nodes that are not heard: their values are old; with the time since when, 0: never."""
    next: str = ""
    """`cursor` of the next question; empty: that is all."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation."""

    name: str
    arguments: type[msgspec.Struct]
    meaning: str
    is_reading: bool = True
    media: tuple[str, ...] = (JSON,)
    answer: Any = None
    """Type of the answer; None: that of the client's method, its times in ms."""
    needs_token: bool = False
    """The node is asked, as a person."""


OPERATIONS: Final[Mapping[str, Operation]] = {
    one.name: one
    for one in (
        Operation(name="items", arguments=ItemsListed, meaning="items with their latest values", answer=ItemsTold),
        Operation(name="read", arguments=ItemsRead, meaning="latest values of named items", answer=ItemsTold),
        Operation(
            name="watch",
            arguments=ItemsWatched,
            meaning="what changes, as server-sent events `changes` and, once a second, `alive`",
            media=(SSE,),
            answer=ChangesTold,
        ),
        Operation(
            name="history",
            arguments=HistoryRead,
            meaning="stored values, or aggregates of them, in pieces: header `albireo-next`",
            media=(LINES, CSV),
            answer=dict[str, Any],
            needs_token=True,
        ),
        *(
            Operation(
                name=one.name, arguments=one.arguments, meaning=one.meaning, is_reading=one.is_reading, needs_token=True
            )
            for one in methods_of(Trends()).values()
        ),
    )
}


def full_name(name: str, node: str) -> str:
    """A full name, or a pattern of such."""
    return name if ":" in name else f"{node}:{name}"


def lists_of(one: Operation) -> frozenset[str]:
    """Names of the arguments that are lists."""
    shape = msgspec.inspect.type_info(one.arguments)
    assert isinstance(shape, msgspec.inspect.StructType)
    return frozenset(field.name for field in shape.fields if isinstance(field.type, msgspec.inspect.VarTupleType))


def openapi() -> dict[str, Any]:
    """The document of `/api/v1`, made from the structs of its operations."""
    answers = [one.answer for one in OPERATIONS.values() if one.answer is not None]
    types = [*(one.arguments for one in OPERATIONS.values()), *answers, CallerRefusal]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schema_of = dict(zip(types, schemas, strict=True))
    paths = {}
    for name, one in OPERATIONS.items():
        described = _described(one, schema_of, components)
        paths[f"{PREFIX}/{name}"] = {"get" if one.is_reading else "post": described}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Albireo", "version": __version__, "summary": "A node, for programs."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _described(one: Operation, schema_of: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    answer = {} if one.answer is None else schema_of[one.answer]
    refusal = {"application/json": {"schema": schema_of[CallerRefusal]}}
    described: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.meaning,
        "responses": {
            "200": {"description": one.meaning, "content": {media: {"schema": answer} for media in one.media}},
            "default": {"description": "It is refused: docs/refusals.md.", "content": refusal},
        },
    }
    if not one.needs_token:
        described["security"] = [{}, {"token": []}]
    if one.is_reading:
        shape = components[one.arguments.__name__]
        described["parameters"] = [
            {
                "name": name,
                "in": "query",
                "required": name in shape.get("required", ()),
                "schema": schema,
                **({"style": "form", "explode": False} if schema.get("type") == "array" else {}),
            }
            for name, schema in shape["properties"].items()
        ]
    else:
        content = {"application/json": {"schema": schema_of[one.arguments]}}
        described["requestBody"] = {"required": True, "content": content}
    return described
