"""State of a feed: the sample columns that travel beside a `FeedState`, one raw part for each type of value."""

from collections.abc import Sequence

from albireo.codec import samples
from albireo.codec.errors import DecodeError
from albireo.codec.message import FeedState
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType


def decode_state(state: FeedState, raw: Sequence[bytes | memoryview]) -> list[SampleBatch]:
    """The sample columns beside a `FeedState`.

    Raises:
        DecodeError: the parts do not fit their description.
    """
    if len(raw) != len(state.value_parts):
        raise DecodeError(0, f"{len(raw)} parts, {len(state.value_parts)} described")
    try:
        return [
            samples.decode(part, ValueType(value_type), count)
            for part, (value_type, count) in zip(raw, state.value_parts, strict=True)
        ]
    except ValueError as error:
        raise DecodeError(0, str(error)) from error
