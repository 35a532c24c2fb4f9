"""The contents of the log and the tables that there are.

Whoever admits, folds, keeps back or forwards a batch goes through the first list, whoever folds, tells, mirrors or
watches a table through the other, so that a further stream, or table, is one more line here.
"""

from collections.abc import Mapping
from typing import Any, Final

from albireo.codec import record, samples
from albireo.codec.errors import DecodeError
from albireo.codec.frame import FrameHeader
from albireo.codec.record import GapFound, Kind, Record, Stream
from albireo.machine.fold.alarms.cases import CASES
from albireo.machine.fold.commands.commands import RECEIPTS
from albireo.machine.fold.commands.selections import Selections
from albireo.machine.fold.contents import Body, Content, Contents
from albireo.machine.fold.items.forces import Forces
from albireo.machine.fold.origins import read_envelope
from albireo.machine.fold.people.persons import CookieKeys, People
from albireo.machine.fold.people.sessions import SessionFold
from albireo.machine.fold.topics.keys import TopicKeys
from albireo.machine.fold.topics.puts import PUTS
from albireo.machine.fold.topics.subscriptions import Cursors, Subscriptions
from albireo.machine.fold.topics.topics import Topics
from albireo.machine.table.fold import TableFold
from albireo.machine.table.told import AnyShape
from albireo.model.instant import WALL_NS_MAX
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType

RECORD_COST: Final = 25
BATCH_COST: Final = 60
SAMPLES_PER_COST: Final = 10
ENVELOPED_BYTES_PER_COST: Final = 128
"""An envelope costs by its size, for it does not say how many frames are inside: reading one takes 4 to 5 us."""


def _read_samples(header: FrameHeader, body: Body) -> SampleBatch:
    return samples.decode_body(body, header.kind, header.record_count)


def _read_records(header: FrameHeader, body: Body) -> list[Record]:
    return record.decode_records(body, header.record_count)


def _check_gaps(body: Body, record_count: int) -> list[GapFound]:
    """Gap records, the only ones that a producer may append."""
    records = record.decode_records(body, record_count)
    gaps = [one for one in records if isinstance(one, GapFound) and _is_timely(one)]
    if len(gaps) != len(records):
        raise DecodeError(0, "a record that is no gap, or is out of bounds")
    return gaps


def _is_timely(gap: GapFound) -> bool:
    """True: no difference of its times, or of others with them, overflows 64 bits."""
    return -WALL_NS_MAX <= min(gap.from_ns, gap.to_ns) and max(gap.from_ns, gap.to_ns) <= WALL_NS_MAX


def _samples(kind: ValueType) -> Contents:
    return Contents(
        stream=Stream.SAMPLES,
        kind=kind,
        read=_read_samples,
        cost=lambda header: BATCH_COST + header.record_count // SAMPLES_PER_COST,
        check=lambda body, record_count: samples.decode_body(body, kind, record_count),
        may_be_private=True,
        goes_up=True,
    )


def _records(stream: Stream) -> Contents:
    return Contents(
        stream=stream,
        kind=Kind.RECORDS,
        read=_read_records,
        cost=lambda header: RECORD_COST * header.record_count,
        check=_check_gaps if stream is Stream.SAMPLES else None,
        goes_up=stream is not Stream.PEOPLE,
        is_secret=stream is Stream.PEOPLE,
    )


_OF_RECORDS: Final = [one for one in Stream if one not in (Stream.BELOW, Stream.PUTS, Stream.OWN_PUTS)]
"""Streams whose batches are records."""
_ENVELOPES: Final = Contents(
    stream=Stream.BELOW,
    kind=Kind.ENVELOPE,
    read=read_envelope,
    cost=lambda header: RECORD_COST + header.body_bytes // ENVELOPED_BYTES_PER_COST,
    goes_up=True,
)

CONTENTS: Final[dict[tuple[int, int], Contents]] = {
    (one.stream, one.kind): one for one in (*map(_samples, ValueType), *map(_records, _OF_RECORDS), _ENVELOPES, *PUTS)
}
"""Declarations by stream and kind."""


def streams() -> dict[str, int]:
    """Numbers of the streams by their names, as settings and status have them."""
    return {one.stream.name.lower(): int(one.stream) for one in CONTENTS.values()}


def upward() -> tuple[int, ...]:
    """Streams that a node above follows."""
    return tuple(sorted({int(one.stream) for one in CONTENTS.values() if one.goes_up}))


def followed() -> tuple[int, ...]:
    """Streams that followers of the log are given."""
    return tuple(sorted({int(one.stream) for one in CONTENTS.values() if not one.is_secret}))


def fold_cost(header: FrameHeader) -> int:
    """Cost of reading and folding a batch, in microseconds; that of a reference, or of what is not known, is small."""
    contents = CONTENTS.get((header.stream, header.kind))
    return BATCH_COST if contents is None else contents.cost(header)


def read(header: FrameHeader, body: Body) -> Content:
    """The part of a batch that the folds take.

    Raises:
        DecodeError: it is malformed, or of contents that this version does not know.
    """
    contents = CONTENTS.get((header.stream, header.kind))
    if contents is None:
        raise DecodeError(0, f"contents of stream {header.stream}, kind {header.kind} are not known")
    return contents.read(header, body)


FOLDS: tuple[type[TableFold[Any, Any]], ...] = (
    Forces,
    SessionFold,
    Selections,
    Topics,
    Subscriptions,
    Cursors,
    TopicKeys,
    People,
    CookieKeys,
)


def shapes() -> Mapping[str, AnyShape]:
    """Declarations of the tables, by name."""
    found: list[AnyShape] = [CASES, RECEIPTS, *(one.shape for one in FOLDS if one.shape.is_told)]
    return {one.name: one for one in found}
