"""Parts that tests share: messages as columns, from plain rows and back."""

import numpy as np

from albireo.codec.puts import Extra
from albireo.codec.served import MessageColumns

Row = tuple[int, int, int, bytes]
"""Topic, number, sequence, body."""


def columns(rows: list[Row], extras: dict[int, Extra] | None = None) -> MessageColumns:
    lengths = np.array([len(row[3]) for row in rows], np.uint32)
    ends = np.cumsum(lengths, dtype=np.int64)
    topic_id, number, sequence = (np.array([row[one] for row in rows], np.uint64) for one in range(3))
    epoch, at_ns = np.ones(len(rows), np.uint64), np.arange(len(rows), dtype=np.int64)
    body = b"".join(row[3] for row in rows)
    return MessageColumns(topic_id, number, epoch, sequence, at_ns, lengths, ends - lengths, body, extras or {})


def rows_of(found: MessageColumns) -> list[Row]:
    view = memoryview(found.buffer)
    return [
        (topic, number, sequence, bytes(view[start : start + length]))
        for topic, number, sequence, start, length in zip(
            found.topic_id.tolist(),
            found.number.tolist(),
            found.sequence.tolist(),
            found.starts.tolist(),
            found.lengths.tolist(),
            strict=True,
        )
    ]
