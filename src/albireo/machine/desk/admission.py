"""Admission: the decision which of a producer's batches get into the log.

Decides on the *appended* view: a batch is taken only in the present life of its producer's name and only at last + 1,
whole and checked, with items of its own; a repeat is answered when its original is; a gap is refused with the number
wanted. A producer may append contents that declare how they are checked, such as samples and gap records; all others
are CORE's (`machine/fold/declared.py`).

Samples of forced items are recorded as measured ones: under other ids, in the same batch with the same number
(`machine/desk/detours.py`).

Spec: design/log-and-feed.md, Producers, Lives.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from albireo.codec import record, samples
from albireo.codec.crc import crc32c
from albireo.codec.errors import DecodeError
from albireo.codec.frame import BODY_BYTES_MAX
from albireo.codec.message import Append, Appended, AppendEntry, AppendRefused, Successor
from albireo.codec.record import GapFound, Stream
from albireo.machine.desk.detours import Detours
from albireo.machine.fold.contents import Contents
from albireo.machine.fold.declared import CONTENTS
from albireo.machine.fold.producers import KnownProducer, Producers
from albireo.machine.kernel.turn import Draft, NotAnswered, Turn
from albireo.machine.table.fold import Tables
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.samples import SampleBatch

CREDIT_BYTES: Final = 8 << 20
"""Bytes of bodies one producer may have on the way unanswered."""


class Counters(msgspec.Struct):
    """Numbers of batches that were not taken, by kind."""

    refused: int = 0
    malformed: int = 0
    repeated: int = 0
    superseded: int = 0


class Admission:
    """Admission of one tenure; holds nothing that is not rebuilt from the log."""

    def __init__(
        self,
        producers: Producers,
        sender_of: Callable[[int], bytes | None],
        receipt_of: Callable[[int, int], Appended | None],
        owns: Callable[[str, SampleBatch | list[GapFound]], bool],
        detours: Detours,
        tables: Tables,
    ) -> None:
        """
        Args:
            sender_of: gives the sender of the last hello of a producer id.
            receipt_of: gives the receipt for a producer's batch that was taken; None: not yet.
            owns: tells whether a batch names items of this producer's name only.
            detours: leads samples of forced items to their measured series.
            tables: what batches are judged by that name a row of one.
        """
        self.producers = producers
        self._sender_of = sender_of
        self._receipt_of = receipt_of
        self._owns = owns
        self._detours = detours
        self._tables = tables
        self.closed_because = ""
        """Cause of `refusal`; empty: open."""
        self.refusal: Refusal | None = None
        """Reason why nothing is admitted now, such as a full disk; None: it is."""
        self.body_bytes_max = BODY_BYTES_MAX
        """Largest body that fits into a segment of this log."""
        self.counters = Counters()

    def close(self, cause: str, *, is_passive: bool = False) -> None:
        """Admit nothing from now on; an empty cause: admit again."""
        code = RefusalCode.NOT_HOLDER if is_passive else RefusalCode.NOT_RECORDING
        remedy = "ask the member that leads, which `albireo status` names" if is_passive else ""
        self.closed_because = cause
        self.refusal = Refusal(code, f"nothing is recorded now: {cause}", remedy) if cause else None

    def check_open(self) -> None:
        """Raises NotAnswered: nothing is recorded now, so nothing is done."""
        if self.refusal is not None:
            raise NotAnswered(self.refusal)

    def append(self, sender: bytes, message: Append, raw: Sequence[bytes | memoryview], turn: Turn) -> None:
        """Take the batches of one message up to the first that can't be taken."""
        if len(raw) != len(message.entries):
            self._refuse(sender, 0, 0, _MALFORMED, turn)
            return
        for entry, body in zip(message.entries, raw, strict=True):
            if not self._take(sender, entry, body, turn):
                return

    def _take(self, sender: bytes, entry: AppendEntry, body: bytes | memoryview, turn: Turn) -> bool:
        try:
            producer_id, sequence = record.decode_producer(body)
        except DecodeError:
            self._refuse(sender, 0, 0, _MALFORMED, turn)
            return False
        is_known = self._sender_of(producer_id) == sender
        if is_known and self.producers.is_over(producer_id):
            # Before its number is looked at, which means nothing in another life.
            self._supersede(sender, producer_id, turn)
            return False
        last = self.producers.last_appended(producer_id)
        if not is_known or last is None:
            self._refuse(sender, producer_id, sequence, _UNKNOWN_PRODUCER, turn)
            return False
        if sequence <= last:
            self._repeat(sender, producer_id, sequence, turn)
            return True
        if sequence != last + 1:
            self._refuse(sender, producer_id, sequence, _GAP, turn, wanted=last + 1)
            return False
        contents = CONTENTS.get((entry.stream, entry.kind))
        refusal = self.refusal or (_NOT_RAISED if contents is not None and contents.level > turn.level else None)
        if refusal is not None:
            self._refuse(sender, producer_id, sequence, refusal, turn, wanted=sequence)
            return False
        is_whole = len(body) <= self.body_bytes_max and crc32c(body) == entry.body_crc
        draft = self._drafted(contents, entry, body, producer_id, sequence) if contents and is_whole else None
        if draft is None:
            self._refuse(sender, producer_id, sequence, _MALFORMED, turn, wanted=sequence)
            return False
        if contents and contents.judge:
            known = self.producers.get(producer_id)
            refusal = contents.judge(self._tables, draft.content, "" if known is None else known.principal)
        if refusal is not None:
            self._refuse(sender, producer_id, sequence, refusal, turn, wanted=sequence)
            return False
        turn.append(draft)
        self.producers.appended(producer_id, sequence)
        return True

    def _drafted(
        self, contents: Contents, entry: AppendEntry, body: bytes | memoryview, producer_id: int, sequence: int
    ) -> Draft | None:
        """Draft of a whole batch; None: not what the entry claims, out of bounds, or not this producer's to append."""
        if contents.check is None:
            return None
        try:
            content = contents.check(body, entry.record_count)
        except DecodeError:
            return None
        crc = entry.body_crc
        if entry.stream == Stream.SAMPLES:  # Samples and gaps name items, which have owners and may be forced.
            assert isinstance(content, SampleBatch | list)
            if not self._owns(self.producers.name_of(producer_id), content):
                return None
            came, divert_gaps = content, self._detours.divert_gaps
            content = self._detours.divert(came) if isinstance(came, SampleBatch) else divert_gaps(came)
            if content is not came:
                body = _body_of(producer_id, sequence, content)
                crc = crc32c(body)
        return Draft(entry.stream, entry.kind, entry.record_count, body, crc, producer_id, sequence, content)

    def _supersede(self, sender: bytes, producer_id: int, turn: Turn) -> None:
        """Refuse a batch of a life that is over. Until its successor is committed it is not told: that may be cut."""
        self.counters.superseded += 1
        by = self.producers.successor(producer_id)
        run = None if by is None else next((one.run for one in by.earlier if one.producer_id == producer_id), None)
        if by is not None and run is not None:
            turn.send(sender, superseded(producer_id, run, by))

    def _repeat(self, sender: bytes, producer_id: int, sequence: int, turn: Turn) -> None:
        """Answer a retry as its original was, or leave it to the answer that is on its way to the original."""
        self.counters.repeated += 1
        receipt = self._receipt_of(producer_id, sequence)
        if receipt is not None:
            turn.send(sender, receipt)

    def _refuse(
        self, sender: bytes, producer_id: int, sequence: int, refusal: Refusal, turn: Turn, wanted: int = 0
    ) -> None:
        if refusal is _MALFORMED:
            self.counters.malformed += 1
        else:
            self.counters.refused += 1
        turn.send(
            sender,
            AppendRefused(producer_id=producer_id, producer_sequence=sequence, refusal=refusal, wanted=wanted),
        )


def _body_of(producer_id: int, sequence: int, content: SampleBatch | list[GapFound]) -> bytes:
    if isinstance(content, SampleBatch):
        return samples.encode_body(producer_id, sequence, content)
    return record.encode_records(producer_id, sequence, list(content))


def superseded(producer_id: int, run: int, by: KnownProducer) -> AppendRefused:
    """Word to a program whose name another one has now; `by` tells of that one's life.

    Args:
        producer_id: number of the program's life; 0: not known.
        run: its run.
    """
    successor = Successor(producer_id=by.producer_id, run=by.run, since_ns=by.since_ns)
    refusal = Refusal(RefusalCode.SUPERSEDED, "a later program has this name", "end one of the two, or rename it")
    return AppendRefused(
        producer_id=producer_id, producer_sequence=0, refusal=refusal, is_final=True, run=run, successor=successor
    )


_MALFORMED: Final = Refusal(RefusalCode.MALFORMED, "the batch is not what its entry says, or not this producer's")
_NOT_RAISED: Final = Refusal(RefusalCode.NOT_RECORDING, "the other member can't read such a batch yet")
_UNKNOWN_PRODUCER: Final = Refusal(RefusalCode.UNKNOWN_PRODUCER, "no hello of this producer came on this link")
_GAP: Final = Refusal(RefusalCode.GAP, "an earlier batch is wanted first")
