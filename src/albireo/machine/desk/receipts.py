"""Receipts: answers and receipts that wait until the log has what they tell of.

    answer            said once everything up to a sequence is committed, in the order in which they were left here
    receipt           of a producer's batches: once they are committed
    early receipt     of a stream whose durability is `local`: once the own disk has them, whoever else has them by then

An early receipt says how many of the batches are not committed yet: these may be cut by a takeover, so their producer
keeps them. What was told early is not told again at the commit, save when nothing of that producer is left uncommitted:
then no later receipt would say that it may let go.

Invariants
    welcome first:  a welcome says where its producer stood at the hello, so no later batch is told of as committed
                    before it. The producer would take the older number for the one to go on with.
    last words:     a life is told that it is over behind every receipt for what it appended before.
    early is rare:  without a stream of durability `local` nothing is noted and nothing is looked up.

Spec: design/log-and-feed.md, Streams; ADR-0122.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from albireo.codec.frame import Frame
from albireo.codec.message import ENDS_MAX, Answer, AnyMessage, Appended, AppendRefused
from albireo.codec.record import Stream
from albireo.machine.desk.pending import PendingFrame
from albireo.machine.desk.role import Batch, Role
from albireo.machine.fold.producers import Producers
from albireo.machine.kernel.turn import OWN_PRODUCER, Draft, Turn
from albireo.model.position import Position
from albireo.model.refusal import Refusal, RefusalCode

ANSWERS_MAX: Final = 10_000
"""Answers that wait for a commit, from which on nobody may ask for what would need another."""
_LEFT: Final = Refusal(
    RefusalCode.MOVED,
    "this member leads no more, and may have lost what was ordered",
    "ask the one that leads (`albireo status`) whether it was done, then order again",
)


class Receipts:
    """Answers and receipts that one tenure has still to send."""

    def __init__(self, producers: Producers, sender_of: Callable[[int], bytes | None], role: Role) -> None:
        """
        Args:
            sender_of: gives the sender of the last hello of a producer id.
        """
        self._producers = producers
        self._sender_of = sender_of
        self._role = role
        self._answers: deque[tuple[int, bytes, AnyMessage]] = deque()
        self._unsynced: deque[tuple[int, Batch]] = deque()
        """Batches to be told of early, each behind its producer id, in log order."""
        self._told: dict[int, Batch] = {}
        """Newest batch that was told of early, by producer id."""

    @property
    def waits_for_disk(self) -> bool:
        """True: a producer is to be told as soon as the own disk has its batch."""
        return bool(self._unsynced)

    @property
    def is_crowded(self) -> bool:
        """True: so many answers wait for a commit that no more are to be added."""
        return len(self._answers) >= ANSWERS_MAX

    def after(self, sequence: int, to: bytes, message: AnyMessage) -> None:
        """Say `message` once everything up to `sequence` is committed, which is still to come."""
        self._answers.append((sequence, to, message))

    def give_up(self, turn: Turn) -> None:
        """Tell waiting questions that nobody knows: this node commits nothing any more. Producers say hello again."""
        while self._answers:
            _, sender, message = self._answers.popleft()
            if isinstance(message, Answer):
                turn.send(sender, Answer(request_id=message.request_id, refusal=_LEFT))

    def appended(self, frames: Sequence[Frame], drafts: Sequence[Draft]) -> None:
        """Note which of the drafts that now stand in the log are to be told of early."""
        streams = self._role.config.local_streams
        if not streams:
            return
        for frame, draft in zip(frames, drafts, strict=True):
            if draft.stream in streams and draft.producer_id != OWN_PRODUCER:
                self._unsynced.append((draft.producer_id, Batch(draft.producer_sequence, frame.header.last)))

    def durable(self, turn: Turn) -> None:
        """Send early receipts for what the own disk has; of what is committed as well, the commit tells."""
        newest: dict[int, Batch] = {}
        while self._unsynced and self._unsynced[0][1].position.sequence <= turn.log.durable.sequence:
            producer_id, batch = self._unsynced.popleft()
            if batch.position.sequence > turn.log.committed.sequence:
                newest[producer_id] = batch
        for producer_id, batch in newest.items():
            sender = self._sender_of(producer_id)
            if sender is not None:
                self._told[producer_id] = batch
                turn.send(sender, self._early(producer_id, batch))

    def committed(self, frames: Sequence[PendingFrame], turn: Turn) -> None:
        """Send what waited for these frames to be committed; they come in the order of the log."""
        to = frames[-1].frame.header.last_sequence if frames else 0
        last_words: list[tuple[bytes, AppendRefused]] = []
        while self._answers and self._answers[0][0] <= to:
            _, sender, message = self._answers.popleft()
            if isinstance(message, AppendRefused):
                last_words.append((sender, message))
            else:
                turn.send(sender, message)
        batches: dict[int, Batch] = {}
        ends: dict[int, list[int]] = {}
        for frame, draft in frames:
            if draft is not None and draft.producer_id != OWN_PRODUCER:
                is_private = draft.stream in self._role.config.private_streams
                batches[draft.producer_id] = Batch(draft.producer_sequence, frame.header.last, is_private)
                if draft.stream in (Stream.PUTS, Stream.OWN_PUTS):
                    ends.setdefault(draft.producer_id, []).append(frame.header.last_sequence)
        for producer_id, batch in batches.items():
            whom = self._sender_of(producer_id)
            if whom is not None and not (self._told and self._is_told(producer_id, batch)):
                told = tuple(ends.get(producer_id, ())[-ENDS_MAX:])
                turn.send(whom, self._role.receipt(producer_id, batch, ends=told))
        for sender, refused in last_words:
            turn.send(sender, refused)

    def _is_told(self, producer_id: int, batch: Batch) -> bool:
        """True: the batch was told of early, and another receipt will follow that says how far all is committed."""
        told = self._told.get(producer_id)
        if told is None or told.producer_sequence < batch.producer_sequence:
            return False
        if self._producers.last_appended(producer_id) != batch.producer_sequence:
            return True
        del self._told[producer_id]
        return False

    def of(self, producer_id: int, producer_sequence: int) -> Appended | None:
        """Receipt for a batch that came again; None: not yet, that of the original will come."""
        known = self._producers.get(producer_id)
        if known is not None and known.last_sequence >= producer_sequence:
            position = Position(known.last_epoch, known.last_position)
            may_be_private = bool(self._role.config.private_streams)
            return self._role.receipt(producer_id, Batch(known.last_sequence, position, may_be_private))
        told = self._told.get(producer_id)
        if told is None or told.producer_sequence < producer_sequence:
            return None
        return self._early(producer_id, told)

    def _early(self, producer_id: int, batch: Batch) -> Appended:
        known = self._producers.get(producer_id)
        uncommitted = batch.producer_sequence - (0 if known is None else known.last_sequence)
        return self._role.receipt(producer_id, batch, uncommitted)
