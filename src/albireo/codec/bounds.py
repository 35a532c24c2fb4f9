"""Bounds of messages as a whole; those of their fields are in model/bounded.py."""

from typing import Final

MESSAGE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Largest map or raw part taken from a socket (also the socket's ZMQ_MAXMSGSIZE)."""
PARTS_MAX: Final = 4096
"""Most parts of one message, its map included."""
TOTAL_BYTES_MAX: Final = 2 * MESSAGE_BYTES_MAX
"""Most bytes of all parts of one message: the largest map, and as much beside it."""
OPEN_BYTES_MAX: Final = 1024 * 1024
"""Largest map of a message with a field of any content, save an answer that was asked for. 32 MiB of empty lists take
2.3 GiB and 14 s to decode; of bounded fields they are refused before anything is made of them."""
