"""JSON values that a struct says: a key that says the default says nothing."""

from enum import Enum
from typing import Any

import msgspec


def said_of(value: object) -> Any:
    """JSON value in which a struct has the fields that differ from their defaults."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        said = {one.encode_name: (getattr(value, one.name), one) for one in fields}
        return {key: said_of(it) for key, (it, one) in said.items() if one.required or it != _default(one)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [said_of(one) for one in value]
    return value


def _default(field: msgspec.structs.FieldInfo) -> object:
    """Default of a field that is not required."""
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
