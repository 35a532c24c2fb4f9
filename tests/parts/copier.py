"""Parts that tests share: the copier takes what continues the copy of a log."""

from albireo.codec.frame import Frame, FrameHeader, Origin, body_crc, encode, seal
from albireo.codec.record import (
    Kind,
    Marked,
    Record,
    Stream,
    encode_records,
)
from albireo.model.instant import SECOND

SITE, SITE_LOG = "root/north", b"the log of north"


class SiteLog:
    """Frames of a log, chained."""

    def __init__(self, log_id: bytes, epoch: int = 1) -> None:
        self.log_id, self.epoch = log_id, epoch
        self.end = self.crc = 0

    def frame(
        self, *records: Record, kind: Kind = Kind.RECORDS, body: bytes = b"", origin: Origin | None = None
    ) -> bytes:
        """The next frame, appended a second after the one before it."""
        body = body or encode_records(0, 0, list(records or [Marked()]))
        stream = Stream.BELOW if kind is Kind.ENVELOPE else Stream.CONTROL
        count = max(1, len(records))
        header, _ = seal(
            FrameHeader(
                self.log_id,
                self.epoch,
                self.end + 1,
                count,
                stream,
                kind,
                len(body),
                body_crc(body),
                self.crc,
                origin=origin,
                node_ns=(self.end + 1) * SECOND,
            )
        )
        self.end, self.crc = header.last_sequence, header.header_crc
        return encode(Frame(header, body))
