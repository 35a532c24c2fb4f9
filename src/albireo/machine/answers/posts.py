"""Answers about messages of programs: what became of one, and to take those that come to this node."""

from collections.abc import Callable
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

from albireo.machine.carry.node_tree import NodeTree
from albireo.machine.desk.admission import Admission
from albireo.machine.kernel.turn import Question, Turn, granted
from albireo.machine.orders.message.kinds import InboxName, proof_of
from albireo.machine.orders.text import OrderText
from albireo.model.bounded import Count
from albireo.model.instant import MS
from albireo.model.tree.message import (
    DEFAULT_INBOX,
    REPLY_BYTES_MAX,
    MessageName,
)

RECEIVE_MS_MAX: Final = 25_000
"""Longest time for which a receiver waits in one question: less than a lease lasts, so it is heard in between."""


class BecomeAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `message`."""

    command_id: Annotated[OrderText, Meta(min_length=1)]
    wait_ms: Annotated[int, Meta(ge=0, le=RECEIVE_MS_MAX)] = 0


class ReceiveAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `receive`."""

    wait_ms: Annotated[int, Meta(ge=0, le=RECEIVE_MS_MAX)] = 0
    inbox: InboxName = DEFAULT_INBOX


class TakeAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `take`."""

    name: MessageName
    lease: Count
    reply: Annotated[bytes, Meta(max_length=REPLY_BYTES_MAX)] | None = None


class GiveBackAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `give_back`."""

    name: MessageName
    lease: Count


class PostingRoot(Protocol):
    """The root machine, as far as these answers need it."""

    admission: Admission
    tree: NodeTree


class PostAnswers:
    """The part of the answers that is about messages of programs."""

    def __init__(self, root: PostingRoot) -> None:
        self._root = root
        self.known: dict[str, tuple[type[msgspec.Struct], Callable[..., None]]] = {
            "message": (BecomeAsked, self._become),
            "receive": (ReceiveAsked, self._receive),
            "take": (TakeAsked, self._take),
            "give_back": (GiveBackAsked, self._give_back),
        }
        """Shape and handler of each question."""

    def _become(self, question: Question, asked: BecomeAsked, turn: Turn) -> None:
        post = self._root.tree.post
        granted(post.become(question, asked.command_id, asked.wait_ms * MS, turn, proof_of))

    def _receive(self, question: Question, asked: ReceiveAsked, turn: Turn) -> None:
        granted(self._root.tree.receive(question, asked.inbox, asked.wait_ms * MS, turn))

    def _take(self, question: Question, asked: TakeAsked, turn: Turn) -> None:
        self._root.admission.check_open()
        granted(self._root.tree.take(question, asked.name, asked.lease, asked.reply, turn))

    def _give_back(self, question: Question, asked: GiveBackAsked, turn: Turn) -> None:
        self._root.admission.check_open()
        granted(self._root.tree.give_back(question, asked.name, asked.lease, turn))
