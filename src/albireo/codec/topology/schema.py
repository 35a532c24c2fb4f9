"""JSON Schema of the topology file, for editors and for other programs' checks.

msgspec makes the structure; the meaning of each field is taken from its docstring. The keys of an adapter follow from
its kind: those of a kind that is not known here are not judged beyond the common ones.
"""

import ast
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from albireo.model.topology import AdapterConfig, Topology

_REST: Final = "settings"
"""Field for all keys that its struct does not name."""
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def topology_schema(kinds: Mapping[str, type[AdapterConfig]], sources: Iterable[str]) -> dict[str, Any]:
    """The schema as JSON values.

    Args:
        kinds: settings of each kind of adapter.
        sources: texts of the modules of all structs, whose docstrings become the descriptions.
    """
    every = [Topology, AdapterConfig, *kinds.values()]
    (root, *_), defs = msgspec.json.schema_components(every, ref_template="#/$defs/{name}")
    _tell_kinds_apart(defs, kinds)
    meanings = {place: said for source in sources for place, said in field_meanings(source).items()}
    for name, definition in defs.items():
        properties = definition.get("properties", {})
        if properties.pop(_REST, None) is not None:
            definition["additionalProperties"] = True
        for field, said in properties.items():
            meaning = meanings.get((name, field))
            if meaning:
                said["description"] = meaning
    return {"$schema": DIALECT, "title": "Albireo topology", **root, "$defs": defs}


def _tell_kinds_apart(defs: dict[str, Any], kinds: Mapping[str, type[AdapterConfig]]) -> None:
    """Let the key `kind` say which keys an adapter may have beside the common ones."""
    common = defs[AdapterConfig.__name__]
    del common["additionalProperties"]
    common["allOf"] = []
    for kind, settings in kinds.items():
        keys: dict[str, Any] = {
            "propertyNames": {"enum": [one.encode_name for one in msgspec.structs.fields(settings)]}
        }
        if settings is not AdapterConfig:
            own = defs[settings.__name__]
            for key in common["properties"]:
                own["properties"].pop(key, None)
            own.pop("additionalProperties", None)
            keys["$ref"] = f"#/$defs/{settings.__name__}"
        common["allOf"].append({"if": {"properties": {"kind": {"const": kind}}}, "then": keys})


def schema_text(kinds: Mapping[str, type[AdapterConfig]], sources: Iterable[str]) -> str:
    """The published file: indented, one final newline."""
    return msgspec.json.format(msgspec.json.encode(topology_schema(kinds, sources)), indent=2).decode() + "\n"


def field_meanings(source: str) -> dict[tuple[str, str], str]:
    """Docstring below each field, by (class, field)."""
    found: dict[tuple[str, str], str] = {}
    for one in ast.parse(source).body:
        if not isinstance(one, ast.ClassDef):
            continue
        for field, below in zip(one.body, one.body[1:], strict=False):
            is_field = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if is_field and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                assert isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
                found[one.name, field.target.id] = " ".join(str(below.value.value).split())
    return found
