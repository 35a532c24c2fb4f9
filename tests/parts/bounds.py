"""Fields of what peers say, each with its bounds, as the decoder knows them; and values at and beyond these bounds."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect as msgspec_inspect

INTEGERS = (-(2**63), -1, 0, 1, 2**16, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
OPEN = (msgspec_inspect.AnyType, msgspec_inspect.CustomType)
"""Types of a field that holds anything: `Any`, `object`."""
RANDOM = frozenset({"run", "to_run", "generation", "nonce", "branch_id"})
"""Random numbers, which have all 64 bits of the wire: they are compared, and nothing is reckoned with them."""
LISTS_MAX = 100_000
"""Longest list that is made to look for its bound; longer ones take too long."""


def structs(root: Any) -> list[msgspec_inspect.StructType]:
    """Every struct of a type or a union."""
    found = msgspec_inspect.type_info(root)
    types = found.types if isinstance(found, msgspec_inspect.UnionType) else (found,)
    return [one for one in types if isinstance(one, msgspec_inspect.StructType)]


def unbounded(kind: Any, where: str) -> Iterator[str]:
    """Names of the places in a type, at any depth, that have no bound."""
    match kind:
        case msgspec_inspect.StructType():
            for field in kind.fields:
                yield from unbounded(field.type, f"{kind.cls.__name__}.{field.name}")
        case msgspec_inspect.IntType():
            is_random = where.rpartition(".")[2] in RANDOM
            if (kind.ge is None and kind.gt is None) or (kind.le is None and kind.lt is None and not is_random):
                yield where
        case msgspec_inspect.StrType() | msgspec_inspect.BytesType():
            if kind.max_length is None and getattr(kind, "pattern", None) is None:
                yield where
        case msgspec_inspect.VarTupleType() | msgspec_inspect.ListType() | msgspec_inspect.SetType():
            if kind.max_length is None:
                yield where
            yield from unbounded(kind.item_type, f"{where}[]")
        case msgspec_inspect.DictType():
            if kind.max_length is None or isinstance(kind.value_type, OPEN):
                yield where
                return
            yield from unbounded(kind.key_type, f"{where} key")
            yield from unbounded(kind.value_type, f"{where} value")
        case msgspec_inspect.TupleType():
            for index, one in enumerate(kind.item_types):
                yield from unbounded(one, f"{where}[{index}]")
        case msgspec_inspect.UnionType():
            for one in kind.types:
                yield from unbounded(one, where)
        case (
            msgspec_inspect.BoolType()
            | msgspec_inspect.FloatType()
            | msgspec_inspect.NoneType()
            | msgspec_inspect.EnumType()
            | msgspec_inspect.LiteralType()
        ):
            pass
        case _:
            yield where


def least(kind: Any) -> Any:
    """A plain value of this type, as small as it may be, in the form of the wire."""
    match kind:
        case msgspec_inspect.StructType():
            fields = {one.encode_name: least(one.type) for one in kind.fields if one.required or kind.array_like}
            if kind.array_like:
                return list(fields.values())
            return ({kind.tag_field: kind.tag} if kind.tag_field else {}) | fields
        case msgspec_inspect.IntType():
            return max(0, kind.ge or 0)
        case msgspec_inspect.EnumType():
            return next(iter(kind.cls)).value
        case msgspec_inspect.UnionType():
            return least(kind.types[0])
        case msgspec_inspect.TupleType():
            return [least(one) for one in kind.item_types]
        case msgspec_inspect.VarTupleType() | msgspec_inspect.ListType():
            return [least(kind.item_type)] * (kind.min_length or 0)
        case msgspec_inspect.DictType() | msgspec_inspect.AnyType() | msgspec_inspect.CustomType():
            return {}
        case msgspec_inspect.StrType():
            return "x" * (kind.min_length or 0)
        case msgspec_inspect.BytesType():
            return b""
        case msgspec_inspect.BoolType():
            return False
        case msgspec_inspect.FloatType():
            return 0.0
        case _:
            return None


def extremes(kind: Any) -> Iterator[tuple[Any, bool]]:
    """Values at and beyond the bounds of a type, each with whether it is within them."""
    match kind:
        case msgspec_inspect.IntType():
            for value in INTEGERS:
                yield value, (kind.ge is None or value >= kind.ge) and (kind.le is None or value <= kind.le)
        case msgspec_inspect.StrType() if kind.max_length is not None:
            yield "ü" * kind.max_length, True
            yield "ü" * (kind.max_length + 1), False
        case msgspec_inspect.BytesType() if kind.max_length is not None:
            yield bytes(kind.max_length), True
            yield bytes(kind.max_length + 1), False
        case msgspec_inspect.VarTupleType() | msgspec_inspect.ListType():
            one = least(kind.item_type)
            if kind.max_length is not None and kind.max_length <= LISTS_MAX:
                yield [one] * kind.max_length, True
                yield [one] * (kind.max_length + 1), False
            for value, is_within in extremes(kind.item_type):
                yield [value], is_within
        case msgspec_inspect.TupleType():
            for index, part in enumerate(kind.item_types):
                for value, is_within in extremes(part):
                    whole = [least(one) for one in kind.item_types]
                    whole[index] = value
                    yield whole, is_within
        case msgspec_inspect.StructType() if not hasattr(kind.cls, "__post_init__"):  # That has rules of its own.
            yield from changed(kind)
        case msgspec_inspect.UnionType():
            for one in kind.types:
                if isinstance(one, msgspec_inspect.StructType):
                    yield from extremes(one)
        case _:
            pass


def changed(kind: msgspec_inspect.StructType) -> Iterator[tuple[Any, bool]]:
    """The least value of a struct with one field, at any depth, at or beyond its bounds."""
    for index, field in enumerate(kind.fields):
        for value, is_within in extremes(field.type):
            whole = least(kind)
            if isinstance(whole, list):
                whole[index] = value
            else:
                whole[field.encode_name] = value
            yield whole, is_within


def encoded(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)
