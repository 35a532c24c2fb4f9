"""What the next version adds is known where it is declared, held back below its level, and passed over elsewhere."""

from collections.abc import Sequence
from typing import Any

import pytest

from albireo.codec import record
from albireo.codec.errors import DecodeError
from albireo.codec.frame import Frame, FrameHeader, body_crc
from albireo.codec.record import FeatureRaised, Kind, Marked, Record, Stream, decode_records, encode_records, may_append
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.events import LevelAgreed
from tests.own.next_version.remarks import LEVEL, Remark, Remarked, Remarks, known
from tests.parts.root import World

NOTED: Any = Remarked(text="so")


def frame_of(records: Sequence[Record], sequence: int) -> Frame:
    body = encode_records(0, 0, list(records))
    numbers = (len(records), Stream.STATE, Kind.RECORDS, len(body), body_crc(body))
    return Frame(FrameHeader(b"", 1, sequence, *numbers, log_time_ms=1), body)


def folded(*records: Record) -> Folds:
    folds = Folds()
    for sequence, one in enumerate(records, 1):
        folds.replay(frame_of([one], sequence))
    return folds


def test_its_records_are_read_where_they_are_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    body = encode_records(0, 0, [NOTED])
    with pytest.raises(DecodeError, match="remarked"):
        decode_records(body, 1)
    with monkeypatch.context() as for_a_while:
        known(for_a_while)
        assert decode_records(body, 1) == [NOTED]
        assert decode_records(encode_records(0, 0, [Marked()]), 1) == [Marked()]
    assert Remarked not in record.LEVELS
    with pytest.raises(DecodeError):
        decode_records(body, 1)


def test_a_log_takes_them_from_its_level_on(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch)
    assert [may_append(NOTED, level) for level in (LEVEL - 1, LEVEL)] == [False, True]
    one = World()
    answer = one.ask("remark", text="so")
    assert "at feature level 1, and notes need 2" in str(answer.refusal)
    one.step(LevelAgreed(LEVEL))
    one.sync()
    assert one.ask("remark", text="so").result == "so"
    assert one.ask("remarks").result == {"so": 1}


def test_the_table_survives_a_snapshot_and_begins_behind_one_that_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = folded(FeatureRaised(level=LEVEL)).snapshot()
    assert "remarks" not in before
    known(monkeypatch)
    after = Folds.restore(before, 1)
    after.replay(frame_of([NOTED, NOTED], 2))
    assert list(Folds.restore(after.snapshot(), 1).of(Remarks)) == [Remark(text="so", count=2)]


def test_who_does_not_know_it_counts_its_frames_and_passes_over_its_section(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as for_a_while:
        known(for_a_while)
        sections = folded(FeatureRaised(level=LEVEL), NOTED).snapshot()
    today = Folds.restore(sections, 1)
    assert "remarks" not in today.snapshot()
    today.replay(frame_of([NOTED], 3))
    assert today.unreadable == 1
