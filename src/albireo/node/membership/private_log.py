"""The private log: samples that are not replicated, on the disk of the member that took them.

    letter --> payload: frame of the private log --synced--> root machine --> reference: frame of the pair's log
                                                                                  |
    feed, replay of this member  <---- whole frame <---- payload, if it is here --+--> the other member: as it stands

The pair's log says of every batch that it was taken, in one order on both members: its sequences, its producer's
numbers, its time. Only the columns of values stay here.

Invariants
    payload first:  nobody hears of a producer's batch, neither disk nor other member, before its payload is on the
                    disk here. So values of what a takeover leaves committed are on the member whose epoch it was.
    in order:       letters of one sender wait behind each other; other senders don't wait for them.
    one place:      whoever reads the pair's log for somebody on this member reads it through here.

CORE's own samples have no producer that is told of them, and do not wait. A batch that is stored and then refused
leaves a payload to which nothing leads; it goes with its segment.

Not decided here: which stream is private (topology), what a missing payload means (machine.fold.folds, node.history).
Spec: design/log-and-feed.md, Streams; ADR-0130.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgspec

from albireo.codec import frame as codec
from albireo.codec import reference
from albireo.codec.errors import DecodeError
from albireo.codec.frame import BODY_BYTES_MAX, HEADER_BYTES, RECORDS_MAX, Frame, body_crc, frames
from albireo.codec.message import Append, AppendEntry
from albireo.codec.record import PRODUCER, Kind
from albireo.log import Corrupted, FileSystem, LogConfig, OpenFailed, Pruned, ReadFailed, StoreIdentity
from albireo.log.log import Log
from albireo.log.write.appending import Entry
from albireo.log.write.commit import LogFailure
from albireo.machine.fold.declared import CONTENTS, streams
from albireo.machine.kernel.events import OneLetter
from albireo.machine.kernel.turn import Draft
from albireo.model.instant import LogTime
from albireo.model.position import EpochEntry, Position
from albireo.node.membership.pair_arguments import PairArguments
from albireo.runtime import ActorContext
from albireo.runtime.errors import ConfigurationRefused

DIRECTORY: Final = "private"
"""Folder of the private log, beside the pair's log."""
RELEASED_MAX: Final = 128
"""Most letters that one turn releases, as many as CORE takes from its links in one."""
READ_BYTES: Final = 256 << 10
LOOKED_BYTES: Final = 1 << 20
"""Bytes of the pair's log that are looked through in one go for the oldest reference."""

Body = bytes | memoryview


def entry_of(draft: Draft) -> Entry:
    return Entry(draft.stream, draft.kind, draft.record_count, draft.body, draft.body_crc, origin=draft.origin)


class PrivateLog:
    """The private log of one run of CORE; see the module."""

    def __init__(
        self,
        log: Log,
        pair: Log,
        streams: frozenset[int],
        segment_bytes: int,
        damaged: Callable[[Exception], None],
    ) -> None:
        """
        Args:
            pair: the log that is replicated.
            streams: those that are private from now on.
            damaged: told why a payload that belongs here can't be read.
        """
        self.log = log
        self._pair = pair
        self._streams = streams
        self._damaged = damaged
        self._waiting: deque[tuple[int, OneLetter]] = deque()
        """Letters in order, each with the sequence up to which this log must be on the disk before."""
        self._stored: dict[int, tuple[Body, Frame]] = {}
        """Payloads that no draft has asked for yet, by identity of the body."""
        self._at_hand: dict[int, Frame] = {}
        """Payloads that were read together, by first sequence."""
        self._body_bytes_max = min(BODY_BYTES_MAX, segment_bytes - HEADER_BYTES)
        self._looked_to = 0
        """Sequence of the pair's log up to which no reference leads to this log."""

    def start(
        self,
        call: Callable[..., object],
        tell: Callable[[list[OneLetter]], None],
        failed: Callable[[LogFailure], None],
    ) -> None:
        """Begin to sync, and to release letters.

        Args:
            call: has a function called in a turn of its own; for any thread.
            tell: is given letters that need not wait any more.
        """

        def turn() -> None:
            if self.release(tell):
                call(turn)

        def synced(_: Position) -> None:
            call(turn)

        self.log.start(synced, failed)

    def hold(
        self, letters: Sequence[OneLetter], node_ns: int, is_admitted: Callable[[OneLetter], bool]
    ) -> list[OneLetter]:
        """Store the payloads that letters bring; returns the letters that need not wait for them.

        Args:
            is_admitted: tells whether the batches of a letter may be taken now; otherwise there is nothing to store.
        """
        free: list[OneLetter] = []
        senders = {waiting[0] for _, waiting in self._waiting}
        for one in letters:
            sender, message, raw, _ = one
            if isinstance(message, Append) and len(raw) == len(message.entries) and is_admitted(one):
                if self._store(message.entries, raw, node_ns):
                    senders.add(sender)
            if sender in senders:
                self._waiting.append((self.log.end.sequence, one))
            else:
                free.append(one)
        return free

    def _store(self, entries: Sequence[AppendEntry], raw: Sequence[Body], node_ns: int) -> bool:
        """Store what is private; True: there was some. What can't be a batch is left out: admission will say so."""
        found = [
            (body, Entry(one.stream, one.kind, one.record_count, body, one.body_crc))
            for one, body in zip(entries, raw, strict=True)
            if self._is_private(one.stream, one.kind)
            and 0 < one.record_count <= RECORDS_MAX
            and PRODUCER.size < len(body) <= self._body_bytes_max
            and body_crc(body) == one.body_crc
        ]
        if found:
            stored = self.log.append([entry for _, entry in found], elapsed_ms=0, node_ns=node_ns)
            self._stored |= {id(body): (body, frame) for (body, _), frame in zip(found, stored, strict=True)}
        return bool(found)

    def release(self, tell: Callable[[list[OneLetter]], None]) -> bool:
        """Tell of the letters whose payloads are on the disk by now, a turn's worth at most; True: there may be more.

        A payload that was stored for them and is not drafted then never will be.
        """
        log, found = self.log, list[OneLetter]()
        log.commit(log.durable)
        while self._waiting and self._waiting[0][0] <= log.durable.sequence:
            if len(found) == RELEASED_MAX:
                break
            found.append(self._waiting.popleft()[1])
        if found:
            tell(found)
        for _, _, raw, _ in found:
            for body in raw:
                self._stored.pop(id(body), None)
        return len(found) == RELEASED_MAX

    def append(self, drafts: Sequence[Draft], *, elapsed_ms: int, node_ns: int) -> list[Frame]:
        """Append to the pair's log, private drafts as references; returns the whole frames, as `Log.append` does."""
        payloads = [self._payload_of(one, node_ns) for one in drafts]
        entries = [
            entry_of(draft) if payload is None else _entry_for(payload)
            for draft, payload in zip(drafts, payloads, strict=True)
        ]
        appended = self._pair.append(entries, elapsed_ms=elapsed_ms, node_ns=node_ns)
        return [
            frame if payload is None else reference.whole(frame, reference.decode(frame.body), payload.body)
            for frame, payload in zip(appended, payloads, strict=True)
        ]

    def _payload_of(self, draft: Draft, node_ns: int) -> Frame | None:
        """Payload of a draft, stored now if it is not yet; None: the draft is replicated."""
        if not self._is_private(draft.stream, draft.kind):
            return None
        stored = self._stored.pop(id(draft.body), None)
        if stored is not None:
            return stored[1]
        return self.log.append([entry_of(draft)], elapsed_ms=0, node_ns=node_ns)[0]

    def _is_private(self, stream: int, kind: int) -> bool:
        contents = CONTENTS.get((stream, kind)) if stream in self._streams else None
        return contents is not None and contents.may_be_private

    def select(self, after: int, bytes_max: int, streams: Collection[int]) -> tuple[bytes, int]:
        """Read the pair's log as `Log.select` does, with every payload that is here; raises as that does."""
        chunk, looked_to = self._pair.select(after, bytes_max, streams)
        parts: list[bytes] = []
        size, offset = 0, 0
        for header, body in frames(chunk, verify=False):
            found = Frame(header, body)
            whole = self.whole(found)
            length = whole.header.frame_bytes
            if parts and size + length > bytes_max:
                return b"".join(parts), header.first_sequence - 1
            parts.append(chunk[offset : offset + length] if whole is found else codec.encode(whole))
            size += length
            offset += header.frame_bytes
        return b"".join(parts), looked_to

    def whole(self, frame: Frame) -> Frame:
        """The frame with its payload; as it stands if it is no reference, or the payload is not here.

        Raises:
            ReadFailed: the file system refused; the payload may be there.
        """
        if not reference.is_reference(frame):
            return frame
        try:
            meant = reference.decode(frame.body)
            payload = self._payload(meant) if meant.log_id == self.log.log_id else None
        except (Corrupted, Pruned, DecodeError) as error:
            self._damaged(error)
            return frame
        return frame if payload is None else reference.whole(frame, meant, payload.body)

    def _payload(self, meant: reference.Reference) -> Frame | None:
        """Payload that is meant; None: something else stands there, for the log was replaced or lost its end."""
        if meant.sequence not in self._at_hand:
            chunk = self.log.read_appended(meant.sequence - 1, READ_BYTES)
            found = (Frame(header, body) for header, body in frames(chunk))
            self._at_hand = {one.header.first_sequence: one for one in found}
        payload = self._at_hand.get(meant.sequence)
        if payload is None or (payload.header.kind, body_crc(payload.body)) != (meant.kind, meant.body_crc):
            return None
        return payload

    def prune(self) -> int:
        """Let go of payloads that no reference leads to any more; returns how many segments went."""
        low = self._oldest()
        if low is None:
            return 0
        log = self.log
        if log.committed > log.snapshot:  # A log keeps what is above its oldest snapshot; the private log has no folds.
            log.save_snapshot(log.committed, LogTime(0), {})
        return len(log.prune(low))

    def _oldest(self) -> int | None:
        """First sequence of this log that is still wanted; None: the next look may tell."""
        after = max(self._looked_to, self._pair.begin_sequence - 1)
        try:
            chunk = self._pair.read(after, LOOKED_BYTES)
        except (Corrupted, Pruned, ReadFailed):
            return None
        # Letters overtake each other by a few: the first reference need not lead to the first payload.
        wanted = [frame.header.first_sequence for _, frame in self._stored.values()]
        is_first = True
        for header, body in frames(chunk, verify=False):
            if header.kind == Kind.REFERENCE and body_of_own(body, self.log.log_id):
                wanted.append(reference.decode(body).sequence)
                is_first = False
            if is_first:
                self._looked_to = header.last_sequence
        is_all = not chunk and after >= self._pair.end.sequence
        return min(wanted, default=self.log.end.sequence + 1) if is_all or not is_first else None


def body_of_own(body: bytes | memoryview, log_id: bytes) -> bool:
    """True: the reference in `body` leads to the log `log_id`."""
    try:
        return reference.decode(body).log_id == log_id
    except DecodeError:
        return False


def _entry_for(payload: Frame) -> Entry:
    """Entry for the pair's log that refers to a payload."""
    body = reference.encode(payload)
    return Entry(payload.header.stream, Kind.REFERENCE, payload.header.record_count, body, body_crc(body))


def stream_numbers(pair: PairArguments) -> tuple[frozenset[int], frozenset[int]]:
    """Numbers of the local and of the private streams of a member, as frames have them.

    Raises:
        ConfigurationRefused: a stream is to be private that must be on both members, or that there is not.
    """
    numbers = streams()
    may_be = {one.stream.name.lower() for one in CONTENTS.values() if one.may_be_private}
    if refused := [one for one in pair.private_streams if one not in may_be]:
        raise ConfigurationRefused(f"no stream {refused[0]} may stay with one member; only {sorted(may_be)} may")
    local, private = pair.local_streams, pair.private_streams
    return frozenset(numbers[one] for one in local), frozenset(numbers[one] for one in private)


def opened(
    kind: type[Log],
    pair_log: Log,
    actor: ActorContext,
    cluster: str,
    pair: PairArguments | None,
    config: LogConfig,
    files: FileSystem,
    entropy: Callable[[int], bytes],
) -> PrivateLog | None:
    """Open the private log, which has an id of its own and is led by this member; None: nothing is or was private.

    Raises:
        OpenRefused: as `Log.open`.
        ConfigurationRefused: as `stream_numbers`.
    """
    try:
        if pair is None or not (pair.private_streams or DIRECTORY in files.names(actor.data)):
            return None
    except OSError as error:
        raise OpenFailed(str(actor.data), error) from error
    identity = StoreIdentity(cluster=cluster, node=pair.place)
    log, report = kind.open(actor.data / DIRECTORY, identity, config, files, entropy)
    epoch, first = log.history.epoch + 1, log.end.sequence + 1
    log.grant(EpochEntry(epoch=epoch, first_sequence=first, branch_id=int.from_bytes(entropy(8))))
    log.commit(log.durable)
    actor.log.info("private_log_opened", **msgspec.to_builtins(report))

    def damaged(error: Exception) -> None:
        actor.log.limited("payload_unreadable", "private", reason=str(error))

    return PrivateLog(log, pair_log, stream_numbers(pair)[1], config.segment_bytes, damaged)


def append_all(
    log: Log, private: PrivateLog | None, drafts: Sequence[Draft], elapsed_ms: int, node_ns: int
) -> list[Frame]:
    """Append to the pair's log, by way of the private log if there is one."""
    if private is not None:
        return private.append(drafts, elapsed_ms=elapsed_ms, node_ns=node_ns)
    return log.append([entry_of(draft) for draft in drafts], elapsed_ms=elapsed_ms, node_ns=node_ns)


def whole(private: PrivateLog | None, frame: Frame) -> Frame:
    """The frame as `PrivateLog.whole` gives it; as it stands if there is no private log."""
    return frame if private is None else private.whole(frame)


__all__ = ["OneLetter", "PrivateLog", "append_all", "opened", "stream_numbers", "whole"]
