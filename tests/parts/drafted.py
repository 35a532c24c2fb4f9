"""What a log makes of drafts, without a log: frames, one behind the other, and a view of them."""

from collections.abc import Sequence

from albireo.codec.frame import Frame, FrameHeader
from albireo.machine.kernel.turn import Moment, Turn
from albireo.model.log_view import Beginning, LogView
from albireo.model.position import BEGINNING, EpochHistory, Position


def end_of(frames: Sequence[Frame]) -> Position:
    return frames[-1].header.last if frames else BEGINNING


def view_of(
    frames: Sequence[Frame], history: EpochHistory, committed: Position, durable: Position = BEGINNING
) -> LogView:
    durable, end = max(durable, committed), end_of(frames)
    first = frames[0].header if frames else None
    last = 0 if first is None else first.first_sequence - 1  # Frames that a test took away were pruned.
    begin = Beginning(position=Position(0 if first is None or not last else first.epoch, last))
    return LogView(begin=begin, committed=committed, durable=durable, end=end, history=history)


def frames_of(
    turn: Turn, log_id: bytes, last: Frame | None, epoch: int, moment: Moment, committed: int = 0
) -> list[Frame]:
    """
    Args:
        last: of the log so far.
    """
    found: list[Frame] = []
    for draft in turn.drafts:
        before = found[-1].header if found else last.header if last is not None else None
        since = 0 if found else turn.elapsed_ms
        header = FrameHeader(
            log_id,
            epoch,
            1 + (before.last_sequence if before else 0),
            draft.record_count,
            draft.stream,
            draft.kind,
            len(draft.body),
            draft.body_crc,
            elapsed_ms=since,
            log_time_ms=since + (before.log_time_ms if before else 0),
            node_ns=moment.wall,
            committed_sequence=committed,
        )
        found.append(Frame(header, bytes(draft.body)))
    return found
