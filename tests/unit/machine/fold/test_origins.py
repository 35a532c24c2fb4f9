"""Envelopes keep frames of another log untouched; the fold knows where each copy ends and how items are named."""

import numpy as np
import pytest

from albireo.codec import samples
from albireo.codec.errors import DecodeError
from albireo.codec.frame import Frame, FrameHeader, Origin, body_crc, encode, seal
from albireo.codec.message import FeedState
from albireo.codec.record import (
    ItemDeclared,
    ItemForgotten,
    Kind,
    OriginDeclared,
    OriginForked,
    OriginGap,
    Stream,
    encode_records,
)
from albireo.codec.slices import SLICE_ROWS, sliced
from albireo.codec.tree.envelope import encode_envelope, open_envelope
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.origins import Origins
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.item import DataItem, KnownItem
from albireo.model.position import Position
from albireo.model.samples import SampleBatch
from albireo.model.value import ItemId, ValueType

LOG_ID = b"the log above..."
SITE_LOG = bytes(range(16))
SITE = "root/north"


def inner(
    sequence: int, body: bytes, stream: Stream, kind: Kind, *, epoch: int = 3, count: int = 1, at_ns: int = 0
) -> bytes:
    """A frame of the site's log."""
    at_ns = at_ns or sequence * 1_000
    header, _ = seal(
        FrameHeader(SITE_LOG, epoch, sequence, count, stream, kind, len(body), body_crc(body), node_ns=at_ns)
    )
    return encode(Frame(header, body))


def declared(sequence: int, item_id: int, name: str, node: str = SITE) -> bytes:
    item = DataItem(name=name, value_type=ValueType.FLOAT64)
    record = ItemDeclared(item_id=item_id, node=node, item=item)  # type: ignore[arg-type]
    return inner(sequence, encode_records(0, 0, [record]), Stream.STATE, Kind.RECORDS)


def sampled(sequence: int, count: int = 2, at_ns: int = 0) -> bytes:
    times = np.arange(count, dtype=np.int64)
    batch = SampleBatch(
        value_type=ValueType.FLOAT64,
        item_id=np.ones(count, np.uint32),
        source_ns=times,
        node_ns=times,
        value=times.astype(np.float64),
        quality=np.zeros(count, np.uint32),
    )
    return inner(
        sequence, samples.encode_body(1, sequence, batch), Stream.SAMPLES, Kind.FLOAT64, count=count, at_ns=at_ns
    )


def own(sequence: int, body: bytes, kind: Kind, origin: Origin | None = None, wall_ns: int = 1_000_000) -> Frame:
    """A frame of the log above."""
    stream = Stream.BELOW if kind is Kind.ENVELOPE else Stream.CONTROL
    header = FrameHeader(
        LOG_ID, 1, sequence, 1, stream, kind, len(body), body_crc(body), origin=origin, node_ns=wall_ns
    )
    return Frame(seal(header)[0], body)


def enveloped(
    sequence: int, first: int, *frames: bytes, epoch: int = 3, wall_ns: int = 1_000_000, index: int = 1
) -> Frame:
    return own(sequence, encode_envelope(b"".join(frames)), Kind.ENVELOPE, Origin(index, epoch, first), wall_ns)


def introduced() -> Folds:
    folds = Folds()
    record = OriginDeclared(index=1, node=SITE, origin_log=SITE_LOG)
    folds.replay(own(1, encode_records(0, 0, [record]), Kind.RECORDS))
    return folds


def test_frames_inside_an_envelope_are_those_of_the_origin_byte_for_byte() -> None:
    frames = declared(7, 1, "co"), sampled(8, 5)
    found = enveloped(2, 7, *frames)
    inside = list(open_envelope(found.header, found.body, verify=True))
    assert [encode(Frame(header, bytes(body))) for header, body in inside] == list(frames)


def test_fold_knows_where_the_copy_ends_and_what_items_are_called() -> None:
    folds = introduced()
    folds.replay(enveloped(2, 7, declared(7, 1, "co"), sampled(8, 5)))
    origin = folds.origins.of_node(SITE)
    assert origin is not None
    assert (origin.last, origin.records, origin.complete_to_ns) == (Position(3, 12), 6, 8_000)
    assert [one.full_name for one in origin.items.values()] == ["root/north:co"]
    assert len(folds.dim) == 0, "an item of another node became an own one"


def test_repeated_envelope_changes_nothing() -> None:
    folds = introduced()
    folds.replay(enveloped(2, 7, declared(7, 1, "co"), sampled(8, 5)))
    before = folds.snapshot()["origins"]
    folds.replay(enveloped(3, 7, declared(7, 1, "other"), sampled(8, 5)))
    assert folds.snapshot()["origins"] == before


def test_item_of_another_node_is_not_taken_and_is_counted() -> None:
    folds = introduced()
    folds.replay(enveloped(2, 7, declared(7, 1, "co", node="root/south")))
    origin = folds.origins.of_node(SITE)
    assert origin is not None
    assert (origin.items, origin.unreadable) == ({}, 1)


def test_forgotten_item_goes() -> None:
    folds = introduced()
    forgotten = inner(8, encode_records(0, 0, [ItemForgotten(item_ids=(1,))]), Stream.STATE, Kind.RECORDS)
    folds.replay(enveloped(2, 7, declared(7, 1, "co"), forgotten))
    origin = folds.origins.of_node(SITE)
    assert origin is not None
    assert origin.items == {}


def test_branch_of_a_lower_epoch_is_taken_behind_a_fork() -> None:
    """A restored store begins an epoch that the branch that was left had long passed."""
    folds = introduced()
    folds.replay(enveloped(2, 7, sampled(7, 5), epoch=3))
    fork = OriginForked(index=1, epoch=2, sequence=5)
    folds.replay(own(3, encode_records(0, 0, [fork]), Kind.RECORDS))
    body = encode_records(0, 0, [ItemForgotten(item_ids=(9,))])
    folds.replay(enveloped(4, 6, inner(6, body, Stream.STATE, Kind.RECORDS, epoch=3), epoch=3))
    origin = folds.origins.of_node(SITE)
    assert origin is not None
    assert origin.last == Position(3, 6)


def watermark(folds: Folds) -> int:
    origin = folds.origins.of_node(SITE)
    assert origin is not None
    return origin.complete_to_ns


def test_watermark_is_never_beyond_what_was_heard_by_the_own_clock() -> None:
    folds = introduced()
    folds.replay(enveloped(2, 7, sampled(7), wall_ns=6_500))
    assert watermark(folds) == 6_500, "the origin's clock says 7_000"
    folds.replay(enveloped(3, 9, sampled(9), wall_ns=99_000))
    assert watermark(folds) == 9_000


def test_watermark_goes_back_with_the_origins_clock() -> None:
    folds = introduced()
    folds.replay(enveloped(2, 700, sampled(700), wall_ns=900_000))
    assert watermark(folds) == 700_000
    folds.replay(enveloped(3, 702, sampled(702, at_ns=5_000), wall_ns=901_000))
    assert watermark(folds) == 5_000, "rows with times from there on may still come"


def test_node_of_several_stores_is_told_by_the_one_that_was_heard_last() -> None:
    folds = introduced()
    folds.replay(enveloped(2, 7, sampled(7)))
    assert folds.origins.set_back(0) == ()
    record = OriginDeclared(index=2, node=SITE, origin_log=b"new hardware....")
    folds.replay(own(3, encode_records(0, 0, [record]), Kind.RECORDS, wall_ns=50_000))
    assert [one.index for one in folds.origins.stores_of(SITE)] == [1, 2]
    assert folds.origins.of_node(SITE) is folds.origins.at(2)
    assert folds.origins.set_back(49_999) == (SITE,) and folds.origins.set_back(50_000) == ()
    folds.replay(enveloped(4, 9, sampled(9)))
    assert folds.origins.of_node(SITE) is folds.origins.at(1), "the old hardware is there again"


def test_store_that_is_restored_from_a_backup_has_come_back_behind_what_is_known() -> None:
    folds = introduced()
    folds.replay(enveloped(2, 7, sampled(7, 5), epoch=3))
    fork = OriginForked(index=1, epoch=2, sequence=5)
    folds.replay(own(3, encode_records(0, 0, [fork]), Kind.RECORDS, wall_ns=50_000))
    assert folds.origins.set_back(49_999) == (SITE,)
    assert Origins.restore(folds.snapshot()["origins"]).set_back(49_999) == (SITE,)


def test_snapshot_gives_the_same_fold() -> None:
    folds = introduced()
    folds.replay(enveloped(2, 7, declared(7, 1, "co"), sampled(8, 5)))
    section = folds.snapshot()["origins"]
    assert Origins.restore(section).snapshot() == section


def many(count: int) -> Origins:
    origins = introduced().origins
    origin = origins.of_node(SITE)
    assert origin is not None
    for number in range(1, count + 1):
        item = DataItem(name=f"item_{number}", value_type=ValueType.FLOAT64)
        origin.items[number] = KnownItem(item_id=ItemId(number), node=SITE, item=item)
    return origins


def test_snapshot_of_many_items_is_encoded_in_slices() -> None:
    origins = many(3 * SLICE_ROWS + 1)
    slices = list(origins.snapshot_slices())
    assert len(slices) == 2 + 4
    assert max(map(len, slices)) < 100 * SLICE_ROWS
    again = Origins.restore(b"".join(slices))
    assert again.snapshot() == origins.snapshot()


def test_a_snapshot_that_lacks_a_slice_is_refused() -> None:
    slices = list(many(SLICE_ROWS + 1).snapshot_slices())
    for lacking in range(1, len(slices)):
        with pytest.raises(DecodeError):
            Origins.restore(b"".join(slices[:lacking]))
    with pytest.raises(DecodeError, match="items of 0 logs"):
        Origins.restore(slices[0] + sliced([]))
    with pytest.raises(DecodeError, match="lacks items"):
        Origins.restore(b"".join(slices[:2]) + sliced([]))


@pytest.mark.parametrize(("name", "is_shared"), [("co", True), ("other", False)])
def test_a_declaration_that_the_mirror_has_already_is_not_kept_twice(name: str, is_shared: bool) -> None:
    shown = KnownItem(item_id=ItemId(1), node=SITE, item=DataItem(name=name, value_type=ValueType.FLOAT64))
    folds = introduced()
    folds.origins.shown = lambda node, item_id: shown if (node, item_id) == (SITE, 1) else None
    folds.replay(enveloped(2, 7, declared(7, 1, "co")))
    origin = folds.origins.of_node(SITE)
    assert origin is not None
    assert (origin.items[1] is shown) is is_shared
    assert origin.items[1].item.name == "co"


@pytest.mark.parametrize(("name", "is_shared"), [("co", True), ("other", False)])
def test_a_declaration_that_the_copy_has_already_is_not_kept_twice(name: str, is_shared: bool) -> None:
    copied, told = (
        KnownItem(item_id=ItemId(1), node=SITE, item=DataItem(name=one, value_type=ValueType.FLOAT64))
        for one in (name, "co")
    )
    mirror = NodeMirror(SITE)
    at = mirror.position
    mirror.take(FeedState(epoch=1, position=at, previous=at, is_snapshot=True, items=(told,)), [], {1: copied}.get)
    found = mirror.dim.by_id(1)
    assert found == told
    assert (found is copied) is is_shared


@pytest.mark.parametrize("cut", [0, 10, 17, 40, 200])
def test_envelope_that_is_cut_short_is_refused(cut: int) -> None:
    whole = enveloped(2, 7, declared(7, 1, "co"), sampled(8, 5))
    folds = introduced()
    folds.replay(Frame(whole.header, bytes(whole.body)[:cut]))
    origin = folds.origins.of_node(SITE)
    assert origin is not None
    assert (folds.unreadable, origin.last) == (1, Position())


def test_envelope_inside_an_envelope_is_refused() -> None:
    nested = inner(7, encode_envelope(sampled(8)), Stream.BELOW, Kind.ENVELOPE)
    found = enveloped(2, 7, nested)
    with pytest.raises(DecodeError, match="does not belong here"):
        list(open_envelope(found.header, found.body))


def test_gap_counts_once_and_the_watermark_goes_on_behind_it() -> None:
    folds = introduced()
    folds.replay(enveloped(2, 7, sampled(7, 5)))
    gap = encode_records(0, 0, [OriginGap(index=1, first=12, epoch=3, sequence=20, from_ns=7_000, to_ns=20_000)])
    folds.replay(own(3, gap, Kind.RECORDS))
    folds.replay(own(4, gap, Kind.RECORDS))
    folds.replay(enveloped(5, 20, sampled(20, 5)))
    origin = folds.origins.of_node(SITE)
    assert origin is not None
    assert (origin.last, origin.missing, origin.complete_to_ns) == (Position(3, 24), 8, 20_000)
