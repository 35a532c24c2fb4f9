"""Structured log lines: an event name that never changes, and fields.

A line goes to the `logger` actor as a `Logged` message. While logger cannot be reached lines are held (bounded, drop
oldest and count); lines older than `HELD_NS` go to stderr instead, so that nothing is silent when logger is dead.

Not done here: where the lines end up (node/logger.py).
"""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec

from albireo.codec.message import Logged
from albireo.model.instant import MS, SECOND, Duration, Instant, WallTime
from albireo.runtime.mailbox import Mailbox, Overflow

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
LINES_HELD_MAX: Final = 1000
HELD_NS: Final = Duration(5 * SECOND)
"""Time that a line waits for logger before stderr gets it; longer than logger needs to start."""
FIELD_CHARS_MAX: Final = 4096
FIELDS_MAX: Final = 64
RATE_NS: Final = Duration(10 * SECOND)
"""Least time between two lines of a rate-limited event; the second has the count of those kept back."""
KEYS_MAX: Final = 256
"""Rate-limited events remembered at a time. While that many are, all further ones of one name share a limit."""
KEY_CHARS_MAX: Final = 200
"""Characters by which two keys are told apart."""


def plain(value: object) -> object:
    """`value` as something every encoder takes; long text is cut. Never raises."""
    match value:
        case None | bool() | float():
            return value
        case int():
            return int(value) if -(1 << 63) <= value < 1 << 63 else str(value)
        case str():
            text = str(value)
        case bytes() | memoryview():
            text = bytes(value[:FIELD_CHARS_MAX]).hex()
        case _:
            text = repr(value)
    if len(text) > FIELD_CHARS_MAX:
        text = text[:FIELD_CHARS_MAX] + "..."
    return text.encode("utf-8", "backslashreplace").decode()


def render_json(line: Logged) -> str:
    """One JSON object on one line. The names of the envelope win over equal field names."""
    fields = {name: plain(value) for name, value in line.fields.items()}
    envelope = {"at": render_time(line.at_ns), "level": line.level, "actor": line.actor, "event": line.event}
    return msgspec.json.encode({**envelope, **{k: v for k, v in fields.items() if k not in envelope}}).decode()


def render_text(line: Logged) -> str:
    """Line for people: time, level, actor, event, then name=value."""
    fields = " ".join(f"{name}={_quoted(plain(value))}" for name, value in line.fields.items())
    return f"{render_time(line.at_ns)} {line.level:<7} {line.actor} {line.event} {fields}".rstrip()


def render_time(at_ns: int) -> str:
    """ISO 8601, UTC, milliseconds; a time outside the calendar as its number."""
    try:
        return f"{datetime.fromtimestamp(at_ns // SECOND, UTC):%Y-%m-%dT%H:%M:%S}.{at_ns // MS % 1000:03d}Z"
    except (ValueError, OverflowError, OSError):
        return str(at_ns)


def _quoted(value: object) -> str:
    text = str(value)
    return text if text.isprintable() and " " not in text and text else msgspec.json.encode(text).decode()


class Journal:
    """The log of one actor: `log.info("lease_lost", peer=...)`. For the actor's own thread only."""

    def __init__(
        self,
        actor: str,
        deliver: Callable[[Logged], bool],
        wall_ns: Callable[[], WallTime],
        now: Callable[[], Instant],
        level: str = "info",
    ) -> None:
        """`deliver` hands a line on and answers False when nobody takes it right now."""
        self.actor = actor
        self.lowest = LEVELS[level]
        self._deliver = deliver
        self._wall_ns = wall_ns
        self._now = now
        self._held: Mailbox[tuple[Instant, Logged]] = Mailbox("journal", LINES_HELD_MAX, Overflow.DROP_OLDEST)
        self._told_dropped = 0
        self._kept_back: dict[str, tuple[Instant, int]] = {}

    def debug(self, event: str, **fields: object) -> None:
        self._write("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._write("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Write a line that tells a human to act."""
        self._write("error", event, fields)

    def limited(self, event: str, key: str = "", **fields: object) -> None:
        """Write a warning that a hostile or broken peer can cause: at most one per `key` and RATE_NS, with a count."""
        now, known = self._now(), self._kept_back
        name = f"{event} {key[:KEY_CHARS_MAX]}"
        if name not in known and len(known) >= KEYS_MAX:
            self._kept_back = known = {one: kept for one, kept in known.items() if now - kept[0] < RATE_NS}
            name = event if len(known) >= KEYS_MAX else name  # Whoever varies the key is limited all the same.
        last, kept_back = known.get(name, (None, 0))
        if last is not None and now - last < RATE_NS:
            known[name] = (last, kept_back + 1)
            return
        known[name] = (now, 0)
        self.warning(event, **fields, kept_back=kept_back)

    def redirect(self, deliver: Callable[[Logged], bool]) -> None:
        """Hand lines to `deliver` from now on: logger's own lines stay with logger."""
        self._deliver = deliver

    @property
    def dropped(self) -> int:
        return self._held.dropped

    @property
    def is_holding(self) -> bool:
        """True if `flush` should be called again soon."""
        return len(self._held) > 0

    def flush(self, *, is_last: bool = False) -> None:
        """Hand on lines that are held; those that nobody takes go to stderr if they are too old, or if `is_last`."""
        now = self._now()
        held = self._held.take(LINES_HELD_MAX)
        while held and self._deliver(held[0][1]):
            held.pop(0)
        while held and (is_last or now - held[0][0] >= HELD_NS):
            self._to_stderr(held.pop(0)[1])
        self._held.put_back(held)

    def _write(self, level: str, event: str, fields: dict[str, object]) -> None:
        if LEVELS[level] < self.lowest:
            return
        told = {name: plain(value) for name, value in list(fields.items())[:FIELDS_MAX]}
        line = Logged(at_ns=self._wall_ns(), level=level, actor=self.actor, event=event, fields=told)
        if len(self._held) == 0 and self._deliver(line):
            return
        self._held.put((self._now(), line))
        if self.dropped > self._told_dropped:
            self._tell_dropped()

    def _tell_dropped(self) -> None:
        """Tell stderr of lost lines, once per LINES_HELD_MAX of them."""
        if self.dropped - self._told_dropped >= LINES_HELD_MAX or self._told_dropped == 0:
            fields: dict[str, object] = {"count": self.dropped - self._told_dropped}
            self._told_dropped = self.dropped
            line = Logged(
                at_ns=self._wall_ns(), level="warning", actor=self.actor, event="log_lines_dropped", fields=fields
            )
            self._to_stderr(line)

    @staticmethod
    def _to_stderr(line: Logged) -> None:
        print(render_text(line), file=sys.stderr, flush=True)  # noqa: T201  # The last resort, and meant to be one.
