"""Writes the words between page and face as TypeScript: `python page/schema.py > page/src/wire/words.ts`.

A field that is always sent is never `undefined` in what the page hears; what it says itself may leave defaults out.
"""

import sys
from typing import Any

import msgspec

from albireo.face.web.words import FaceWord, PageWord

HEAD = "// Made by page/schema.py from albireo.face.web.words: change them there.\n"
LINE_MAX = 120
SIMPLE = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def structs(of: type[Any]) -> dict[str, type[Any]]:
    """All structs below `of`, by name; of two with one name the one that the words hold comes last."""
    found: dict[str, type[Any]] = {}
    for one in of.__subclasses__():
        found |= structs(one) | ({} if one.__name__ in found else {one.__name__: one})
    return found


def type_text(schema: dict[str, Any]) -> str:
    """TypeScript of one schema."""
    if "$ref" in schema:
        return str(schema["$ref"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(type_text(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(msgspec.json.encode(one).decode() for one in schema["enum"])
    kind = schema.get("type")
    if kind == "array" and "prefixItems" in schema:
        return f"[{', '.join(type_text(one) for one in schema['prefixItems'])}]"
    if kind == "array":
        items = type_text(schema["items"]) if schema.get("items") else "unknown"
        return f"({items})[]" if "|" in items else f"{items}[]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {type_text(values) if isinstance(values, dict) else 'unknown'}>"
    return SIMPLE.get(str(kind), "unknown")


def interface(name: str, schema: dict[str, Any], is_whole: bool) -> str:
    """One struct; `is_whole`: each of its fields is always sent."""
    if "properties" not in schema:
        return f"export type {name} = {type_text(schema)};\n"
    required = set(schema["properties"]) if is_whole else set(schema.get("required", ()))
    fields = [
        f"{field}{'' if field in required else '?'}: {type_text(one)};" for field, one in schema["properties"].items()
    ]
    short = f"export interface {name} {{ {' '.join(fields)} }}\n"
    if len(short) <= LINE_MAX:
        return short
    return "\n".join([f"export interface {name} {{", *(f"  {one}" for one in fields), "}\n"])


def main() -> None:
    said, said_names = msgspec.json.schema_components([PageWord], ref_template="{name}")
    heard, names = msgspec.json.schema_components([FaceWord], ref_template="{name}")
    known = structs(msgspec.Struct)
    parts = [HEAD]
    for name, schema in sorted((said_names | names).items()):
        struct = known.get(name)
        is_whole = name in names and struct is not None and not struct.__struct_config__.omit_defaults
        parts.append(interface(name, schema, is_whole))
    parts.append(f"export type PageWord = {type_text(said[0])};\nexport type FaceWord = {type_text(heard[0])};\n")
    sys.stdout.write("".join(parts))


if __name__ == "__main__":
    main()
