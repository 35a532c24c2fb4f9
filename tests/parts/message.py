"""One message of each type, with the least that its fields must have."""

from typing import get_args

import msgspec
from msgspec import inspect

from albireo.codec.message import AnyMessage

MESSAGES: tuple[type[AnyMessage], ...] = get_args(AnyMessage)


def plain(kind: type[AnyMessage]) -> AnyMessage:
    """A message of that type; texts are `x`, numbers 1, bytes `x`, lists empty."""
    made: AnyMessage = msgspec.convert(_least(inspect.type_info(kind)), kind)
    return made


def _least(kind: inspect.Type) -> object:
    match kind:
        case inspect.StructType():
            values = {field.encode_name: _least(field.type) for field in kind.fields if field.required}
            tagged = {} if kind.tag_field is None else {kind.tag_field: kind.tag}
            return list(values.values()) if kind.array_like else tagged | values
        case inspect.UnionType(types=types):
            return _least(types[0])
        case inspect.EnumType(cls=cls):
            return next(iter(cls)).value
        case inspect.BoolType():
            return False
        case inspect.IntType() | inspect.FloatType():
            return 1
        case inspect.StrType():
            return "x"
        case inspect.BytesType():
            return b"x"
        case inspect.VarTupleType():
            return ()
        case inspect.NoneType():
            return None
        case _:
            raise NotImplementedError(f"no least value of {kind}")
