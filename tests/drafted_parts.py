"""What a log makes of drafts: frames, one behind the other, without a log."""

from collections.abc import Sequence

from albireo.codec.frame import Frame, FrameHeader
from albireo.machine.node.root import Root
from albireo.machine.node.turn import Draft, Moment


def frames_of(
    drafts: Sequence[Draft], root: Root, last: Frame | None, epoch: int, moment: Moment, committed: int = 0
) -> list[Frame]:
    """
    Args:
        root: whose drafts they are; the time since the frame before is taken from it.
        last: of the log so far.
    """
    found: list[Frame] = []
    elapsed = root.elapsed_ms(moment.now) if drafts else 0
    for draft in drafts:
        before = found[-1].header if found else last.header if last is not None else None
        since = 0 if found else elapsed
        header = FrameHeader(
            root.log_id,
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
