"""Answers about selections: of items of this node, and of those of the nodes below."""

from collections.abc import Iterator
from operator import itemgetter
from typing import Final, Protocol

from albireo.codec.questions.orders import DESELECT, SELECT, SELECTIONS, DeselectAsked, SelectAsked, SelectionsAsked
from albireo.machine.answers.below import AnswersBelow, RoleNeeded, check_role, not_done
from albireo.machine.answers.forces import ForcingRoot, check_open
from albireo.machine.fold.commands.selections import SELECTIONS as SELECTION_TABLE
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import NotAnswered, Question, Turn, answer_to, granted
from albireo.machine.message.events import SendAsked
from albireo.machine.orders.selection.bodies import DeselectBody, SelectBody, encode_selection
from albireo.machine.orders.selection.selecting import EndedBy, SelectionWanted
from albireo.machine.orders.write.orders import Orders
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.access import AccessRole
from albireo.model.command import ItemSelection, Selection
from albireo.model.instant import MS, WallTime
from albireo.model.order_text import TEXT_CHARS_MAX
from albireo.model.refusal import id_reused

SELECT_EXPIRES_MS: Final = 10_000
"""Time within which an item of a node below may be selected there; people wait for it."""


class SelectingRoot(ForcingRoot, Protocol):
    """The root machine, as far as these answers need it."""

    config: RootConfig
    orders: Orders


class SelectAnswers:
    """The part of the answers that is about selections."""

    def __init__(self, root: SelectingRoot, below: AnswersBelow) -> None:
        self._root = root
        self._below = below
        self.handlers = (
            handled(SELECT, self._select),
            handled(DESELECT, self._select),
            handled(SELECTIONS, self._selections),
        )

    def _select(self, question: Question, asked: SelectAsked | DeselectAsked, turn: Turn) -> None:
        root = self._root
        check_open(root)
        owner = self._below.owner_of(asked.item)
        if isinstance(asked, DeselectAsked) and asked.of_others:
            subject = f"deselect {asked.item} of another principal"
            needed = RoleNeeded(owner or root.config.node, subject, asked.user, AccessRole.ADMIN)
            check_role(root.access, question, needed, turn)
        if owner:
            self._select_below(question, asked, owner, turn)
            return
        result: object
        if isinstance(asked, DeselectAsked):
            ended_by = EndedBy(asked.user, asked.reason) if asked.of_others else None
            done = root.orders.selecting.release(question, asked.item, asked.selection_id, turn, ended_by)
            result = {"item": granted(done)}
        elif root.tree.knows(asked.selection_id):
            raise NotAnswered(id_reused(asked.selection_id, "item"))
        else:
            wanted = SelectionWanted(
                item=asked.item,
                selection_id=asked.selection_id,
                for_ms=asked.for_ms,
                user=asked.user,
                reason=asked.reason,
            )
            result = granted(root.orders.selecting.ask(question, wanted, turn))
        root.after(turn.end, question.sender, answer_to(question.request_id, result), turn)

    def _selections(self, question: Question, asked: SelectionsAsked, turn: Turn) -> None:
        mirror = self._below.mirror(asked.node)
        if mirror is None:
            rows = self._root.orders.selecting.rows(asked.after, question.moment.now)
        else:
            rows = selections_below(mirror, asked.after, question.moment.wall)
        turn.answer(question, asked.told(rows))

    def _select_below(self, question: Question, asked: SelectAsked | DeselectAsked, owner: str, turn: Turn) -> None:
        """Send the order to the node below that owns the item; the role is judged here, for that node.

        A selection has its id for the id of the message, so that the same one asked for again is the same message.
        """
        tree, local = self._root.tree, asked.item.rpartition(":")[2]
        is_select = isinstance(asked, SelectAsked)
        if isinstance(asked, SelectAsked):
            kind, body = encode_selection(SelectBody(local, asked.selection_id, asked.for_ms))
        else:
            kind, body = encode_selection(DeselectBody(local, asked.selection_id, asked.of_others))
        check_role(self._root.access, question, RoleNeeded(owner, f"{kind} {owner}:{local}", asked.user), turn)
        sent = SendAsked(
            command_id=asked.selection_id if is_select else tree.draw_id(kind),
            owner=owner,
            kind=kind,
            body=body,
            expires_ms=SELECT_EXPIRES_MS,
            user=asked.user,
            principal=question.principal,
            reason=asked.reason,
            subject=f"{owner}:{local}"[:TEXT_CHARS_MAX],
        )

        def told(receipt: MessageReceipt) -> object:
            if (refusal := not_done(receipt, "select it again: a selection ends by itself")) is not None:
                return refusal
            if isinstance(asked, SelectAsked):
                return _selected_below(asked, f"{owner}:{local}", receipt)
            return {"item": f"{owner}:{local}"}

        granted(tree.send(question, sent, turn, told))


def selections_below(mirror: NodeMirror, after: int, wall: WallTime) -> Iterator[tuple[int, ItemSelection]]:
    """Selected items of another node with an id above `after`, by rising id.

    What is left is reckoned by the wall clocks of both nodes: elapsed time there is not known here.
    """
    for item_id, one in sorted(((each.item_id, each) for each in mirror.table(SELECTION_TABLE)), key=itemgetter(0)):
        known = mirror.dim.by_id(item_id)
        if item_id > after and known is not None:
            left_ms = min(one.for_ms, max(0, one.for_ms - (wall - one.since_ns) // MS))
            fields = {name: getattr(one, name) for name in Selection.__struct_fields__ if name != "item_id"}
            row = ItemSelection(**fields, item=known.full_name, left_ms=left_ms, stale_since_ns=mirror.stale_since_ns)
            yield item_id, row


def _selected_below(asked: SelectAsked, full_name: str, receipt: MessageReceipt) -> ItemSelection:
    """A selection at a node below, as its receipt tells it."""
    return ItemSelection(
        selection_id=asked.selection_id,
        item=full_name,
        user=receipt.user,
        principal=receipt.principal,
        reason=receipt.reason,
        since_ns=receipt.end.ended_ns,
        for_ms=asked.for_ms,
        left_ms=asked.for_ms,
    )
