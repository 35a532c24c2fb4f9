"""The actor `history` above others: it hears answers about a log of the node that gives them, and gives its own."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest

from albireo.codec.history_copy import GroupAsked, GroupSent, PieceAsked, PieceSent, Word, decode_word, encode_word
from albireo.codec.tree.stored import StoredAsked, StoredGiven
from albireo.machine.history.giving import group_sent
from albireo.node.history.actor import Historian, HistoryArguments
from albireo.runtime import Letter, SyncLink, running
from tests.parts.core_pair import aside, until
from tests.parts.history import LOG_ID, MemoryLog
from tests.parts.history_actor import LogServer
from tests.parts.history_copy import source_of
from tests.parts.history_filling import NORTH, above_of, site_log
from tests.parts.waiting import PATIENCE_S

OTHER_LOG = b"O" * 16


class Lacking(msgspec.Struct):
    """What `stats` tells of the history of one node below, as far as it matters here."""

    copy: dict[str, object]
    lacks: list[dict[str, object]]


class Core(LogServer):
    """CORE as far as the history needs it, which notes the questions about stored history."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log)
        self.asked: list[tuple[StoredAsked, Word]] = []

    def drained(self, letters: Sequence[Letter]) -> None:
        self.asked += [
            (one.message, decode_word(one.raw[0])) for one in letters if isinstance(one.message, StoredAsked)
        ]
        super().drained(letters)


def given(data: Path, node: str, log_id: bytes, word: Word) -> Word:
    """Say something to the history as CORE does, and ask: both are heard once there is an answer."""
    link = SyncLink(data, "history")
    try:
        link.send(StoredGiven(node=node, log_id=log_id), [encode_word(word)])
        return told(link, NORTH, OTHER_LOG, GroupAsked(number=1, log_id="", first_sequence=1, last_sequence=2))
    finally:
        link.close()


def told(link: SyncLink, node: str, log_id: bytes, ask: Word) -> Word:
    link.send(StoredAsked(node=node, log_id=log_id, member=1), [encode_word(ask)])
    received = link.receive(PATIENCE_S)
    assert received is not None
    message, raw = received
    assert message == StoredGiven(node=node, log_id=log_id, member=1)
    return decode_word(raw[0])


@pytest.mark.parametrize(("node", "log_id"), [("root/south", LOG_ID), (NORTH, OTHER_LOG), (NORTH, LOG_ID)])
def test_an_answer_counts_for_the_log_of_the_node_that_gives_it(tmp_path: Path, node: str, log_id: bytes) -> None:
    log, first, last = site_log()
    source = source_of(tmp_path / "site", log, node=NORTH)
    data = tmp_path / "above"
    above_of(data, log, first, last)
    core, historian = Core(MemoryLog()), Historian(HistoryArguments(node="root"))

    async def story() -> None:
        async with running(core, data), running(historian, data):
            await until(lambda: bool(core.asked), "asked")
            message, ask = core.asked[0]
            assert (message.node, message.log_id) == (NORTH, LOG_ID)
            assert isinstance(ask, GroupAsked)
            assert (ask.node, ask.first_sequence, ask.last_sequence) == (NORTH, first, last)
            answer = group_sent(source.manifest, ask, is_final=True)
            assert answer.files > 0
            barrier = await aside(partial(given, data, node, log_id, answer))
            assert isinstance(barrier, GroupSent)
            assert barrier.reason == "other_log"
            (row,) = msgspec.convert(historian._fillings.figures(), list[Lacking])
            assert (row.copy["files"] != 0) == ((node, log_id) == (NORTH, LOG_ID))
            assert [(one["first"], one["last"]) for one in row.lacks] == [(first, last)]

    asyncio.run(story())


def test_a_node_gives_its_own_rows_and_those_of_nodes_below_it(tmp_path: Path) -> None:
    """Under the right names only; a lone node says of its own holes that nobody has what lies there."""
    log, first, last = site_log()
    data = tmp_path / "above"
    above_of(data, log, first, last)
    historian = Historian(HistoryArguments(node="root"))
    ask = GroupAsked(number=5, log_id=LOG_ID.hex(), first_sequence=1, last_sequence=log.end, node=NORTH)

    def asked() -> list[Word]:
        link = SyncLink(data, "history")
        try:
            return [
                told(link, NORTH, LOG_ID, ask),
                told(link, "root/south", LOG_ID, ask),
                told(link, "root", LOG_ID, ask),
                told(link, NORTH, OTHER_LOG, PieceAsked(number=6, path="x", offset=0)),
            ]
        finally:
            link.close()

    async def story() -> None:
        async with running(Core(MemoryLog()), data), running(historian, data):
            whole, south, root, piece = await aside(asked)
            assert isinstance(whole, GroupSent)
            assert (whole.reason, bool(whole.entries)) == ("", True)
            assert [(one.first_sequence, one.is_settled) for one in whole.holes] == [(first, False)]
            for one in (south, root):
                assert isinstance(one, GroupSent)
                assert (one.reason, one.entries) == ("other_log", ())
            assert isinstance(piece, PieceSent)
            assert piece.reason == "gone"

    asyncio.run(story())
