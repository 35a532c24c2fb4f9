"""OpenAPI 3.1: the document of `/api/v1`, made of what the methods say of themselves."""

from typing import Any, Final

import msgspec

from albireo import __version__
from albireo.face.web.method import JSON, Method, Methods
from albireo.face.web.refusals import HttpRefusal

PREFIX: Final = "/api/v1"
_REFERENCE: Final = "#/components/schemas/{name}"


def lists_of(one: Method) -> frozenset[str]:
    """Names of the arguments that are lists."""
    shape = msgspec.inspect.type_info(one.arguments)
    assert isinstance(shape, msgspec.inspect.StructType)
    return frozenset(field.name for field in shape.fields if isinstance(field.type, msgspec.inspect.VarTupleType))


def openapi(methods: Methods) -> dict[str, Any]:
    """The document of `/api/v1`, made from the structs of its methods."""
    answers = [one.answer for one in methods.values() if one.answer is not None]
    types = [*(one.arguments for one in methods.values()), *answers, HttpRefusal]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schema_of = dict(zip(types, schemas, strict=True))
    paths = {}
    for name, one in methods.items():
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


def _described(one: Method, schema_of: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    answer = {} if one.answer is None else schema_of[one.answer]
    refusal = {JSON: {"schema": schema_of[HttpRefusal]}}
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
        content = {JSON: {"schema": schema_of[one.arguments]}}
        described["requestBody"] = {"required": True, "content": content}
    return described
