"""JSON Schema of the topology file, for editors and for other programs' checks.

msgspec makes the structure; the meaning of each field is taken from its docstring in `model/topology.py` and
`model/settings.py`.
"""

import ast
from typing import Any, Final

import msgspec

from albireo.model.topology import Topology

_REST: Final = "settings"
"""Field for all keys that its struct does not name."""
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def topology_schema(*model_sources: str) -> dict[str, Any]:
    """The schema as JSON values.

    Args:
        model_sources: texts of `model/topology.py` and `model/settings.py`, whose docstrings become the descriptions.
    """
    schema = msgspec.json.schema(Topology)
    meanings = {place: said for source in model_sources for place, said in field_meanings(source).items()}
    for name, definition in schema["$defs"].items():
        properties = definition.get("properties", {})
        if properties.pop(_REST, None) is not None:
            definition["additionalProperties"] = True
        for field, said in properties.items():
            meaning = meanings.get((name, field))
            if meaning:
                said["description"] = meaning
    return {"$schema": DIALECT, "title": "Albireo topology", **schema}


def schema_text(*model_sources: str) -> str:
    """The published file: indented, one final newline."""
    return msgspec.json.format(msgspec.json.encode(topology_schema(*model_sources)), indent=2).decode() + "\n"


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
