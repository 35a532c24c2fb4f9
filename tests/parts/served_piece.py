"""Parts that tests share: one message of a topic, as it came to a consumer."""

import numpy as np

from albireo.client.topic_line import CamePiece
from albireo.codec.served import decode_served, encode_served
from albireo.model.instant import Instant
from tests.parts.message_columns import columns


def piece(number: int, over_at: Instant | None) -> CamePiece:
    messages = columns([(1, number, number, b"job")])
    return CamePiece(decode_served(encode_served(messages, np.zeros(1, np.uint8), {1: "jobs"})), 0, over_at)
