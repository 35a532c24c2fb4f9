"""Answers about rows: from the history of the node that a question names, made in a thread beside the actor.

A question names its node by itself, or by the names of its items (`root/north:co_1`); none at all is about this node.
The end of an id will do (`north:co_1`), as far as it is that of one node only.
Each answer comes from one view of one hot tail, taken at once, and from the manifest that is read afterwards.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from albireo.codec.history import Manifest
from albireo.codec.message import Answer, Ask
from albireo.codec.questions.history import (
    EVENTS,
    EVENTS_PIECE,
    GAPS_PIECE,
    HISTORY,
    HISTORY_ITEM,
    HISTORY_PIECE,
    AnyPieceQuestion,
    HotQuestion,
    ItemQuestion,
    RowsQuestion,
    StoreQuestion,
)
from albireo.codec.questions.kind import Handled, QuestionKind, ShapeT
from albireo.machine.history.declared import Row
from albireo.model.item import name_parts
from albireo.model.refusal import Refusal, RefusalCode
from albireo.node.history.below.folders import node_asked, node_meant
from albireo.node.history.below.origins import HistoryBelow
from albireo.node.history.errors import QueryRefused, UnknownNode, refusal_of
from albireo.node.history.files.hot import HotContent, HotTail
from albireo.node.history.files.joined import NodeStore
from albireo.node.history.files.store import HistoryStore
from albireo.node.history.hot_answer import hot_answer
from albireo.node.history.paging import PagedHistory
from albireo.node.history.threads import HistoryThreads
from albireo.runtime import Letter

READING_MAX: Final = 16
"""Most questions about rows that are being answered, each with a view of a hot tail of its own."""
Handler: TypeAlias = Callable[[Letter, Ask, ShapeT], Refusal | None]
"""Answers a question, now or soon; or gives a refusal that is to be said."""


def handled(
    kind: QuestionKind[ShapeT, Any], handler: Callable[[Letter, Ask, ShapeT], Refusal | None]
) -> Handled[Handler[Any]]:
    """Bind a handler to a question."""
    return Handled(kind, handler)


class HistoryAnswers:
    """The answers, for the loop of the actor."""

    def __init__(
        self,
        store: HistoryStore,
        hot: HotTail,
        below: HistoryBelow,
        threads: HistoryThreads,
        log_id: Callable[[], bytes],
    ) -> None:
        """
        Args:
            store, hot: of this node.
            log_id: gives the id of the own log.
        """
        self._store = store
        self._hot = hot
        self._below = below
        self._threads = threads
        self._reading = 0
        """Number of questions that are being answered."""
        self._log_id = log_id
        self.handlers = (
            handled(HISTORY, self._hot_samples),
            handled(EVENTS, self._events),
            handled(HISTORY_ITEM, self._item),
            handled(HISTORY_PIECE, self._piece),
            handled(EVENTS_PIECE, self._piece),
            handled(GAPS_PIECE, self._piece),
        )

    def _events(self, letter: Letter, ask: Ask, wanted: StoreQuestion) -> None:
        hot, place = self._one(wanted)
        content = hot.content()
        result = {**place, "events": list(content.events), "items": list(content.items)}
        letter.link.send(Answer(request_id=ask.request_id, result=result), to=letter.sender)

    def _chosen(self, node: str) -> list[tuple[HistoryStore, HotTail]]:
        """The histories that answer for a node, that of its latest store last; no name: the own one."""
        node = node_meant(node, [self._store.manifest.node, *self._below.nodes])
        if node in ("", self._store.manifest.node):
            return [(self._store, self._hot)]
        if found := self._below.of_node(node, self._log_id()):
            return [(one.store, one.hot) for one in found]
        raise UnknownNode(node, self._below.nodes)

    def _one(self, wanted: StoreQuestion) -> tuple[HotTail, Row]:
        """The one hot tail that a reader of files asks for, and how far it is."""
        found = self._chosen(wanted.node)
        folders = [store.root.name for store, _ in found]
        store, hot = found[folders.index(wanted.folder) if wanted.folder in folders else -1]
        return hot, {"node": store.manifest.node, "folders": folders, **place_of(store.manifest, hot)}

    def _hot_samples(self, letter: Letter, ask: Ask, wanted: HotQuestion) -> None:
        """Answer with the rows that no file has: one raw part, an Arrow stream of codec.history.SAMPLES.

        A reader asks for them first and loads the manifest afterwards: rows up to its position are in its files then.
        """
        hot, place = self._one(wanted)

        def work(contents: Sequence[HotContent]) -> tuple[bytes, Row]:
            raw, more = hot_answer(contents[0], wanted)
            return raw, {**place, **more}

        self._answer_aside(letter, ask, [hot], work)

    def _piece(self, letter: Letter, ask: Ask, wanted: AnyPieceQuestion) -> None:
        """Answer with one piece of a long answer, from the files and the hot tail."""
        names = wanted.names if isinstance(wanted, RowsQuestion) else ()
        found = self._chosen(node_asked(wanted.node, names))
        if isinstance(wanted, RowsQuestion):
            wanted = msgspec.structs.replace(wanted, names=_with_whole_ids(names, found[0][0].manifest.node))
        self._answer_aside(letter, ask, _hot(found), lambda contents: _paged(found, contents).piece(wanted).encoded())

    def _item(self, letter: Letter, ask: Ask, wanted: ItemQuestion) -> None:
        """Answer with an item as it was declared last."""
        found = self._chosen(node_asked(wanted.node, (wanted.name,)))
        self._answer_aside(letter, ask, _hot(found), lambda contents: (b"", _paged(found, contents).item(wanted.name)))

    def _answer_aside(
        self,
        letter: Letter,
        ask: Ask,
        tails: Sequence[HotTail],
        work: Callable[[Sequence[HotContent]], tuple[bytes, Row]],
    ) -> None:
        """Have an answer made in a thread from views of hot tails as they are now."""
        if self._reading >= READING_MAX:
            raise QueryRefused(f"{READING_MAX} questions are being answered", "ask again later", RefusalCode.BUSY)
        self._reading += 1
        contents = [one.content() for one in tails]

        def done(outcome: tuple[bytes, Row] | Exception) -> None:
            self._reading -= 1
            if isinstance(outcome, Exception):
                refused = Answer(request_id=ask.request_id, refusal=refusal_of(outcome))
                letter.link.send(refused, to=letter.sender)
                return
            raw, result = outcome
            letter.link.send(Answer(request_id=ask.request_id, result=result), [raw] if raw else [], to=letter.sender)

        self._threads.read(lambda: work(contents), done)


def _hot(found: Sequence[tuple[HistoryStore, HotTail]]) -> list[HotTail]:
    return [hot for _, hot in found]


def _paged(found: Sequence[tuple[HistoryStore, HotTail]], contents: Sequence[HotContent]) -> PagedHistory:
    # Declared items and manifest are replaced, never changed.
    return PagedHistory([NodeStore(one.root, one.manifest, one.declared) for one, _ in found], contents)


def _with_whole_ids(names: Sequence[str], node: str) -> tuple[str, ...]:
    """The names of items with the id of this node where they have the end of it."""
    parts = [(name, *name_parts(name)) for name in names]
    return tuple(f"{node}:{local}" if head and node.endswith(f"/{head}") else name for name, head, local in parts)


def place_of(manifest: Manifest, hot: HotTail) -> Row:
    """How far a history is."""
    return {
        "position": [manifest.position.epoch, manifest.position.sequence],
        "complete_to_ns": manifest.complete_to_ns,
        "known_to_ns": hot.complete_to_ns,
    }
