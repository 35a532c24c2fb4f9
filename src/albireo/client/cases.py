"""Cases: what a client asks about alarm cases, and what it does to them."""

import fnmatch
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from albireo.client.conversation import Conversation, all_rows, asks
from albireo.client.conversed import AnyClient, conversed
from albireo.client.errors import ClientError, NodeRefused
from albireo.client.nodes import listed_nodes, node_of
from albireo.client.orders import ACTION_S
from albireo.client.questions import milliseconds
from albireo.codec.questions.cases import CASE_ACTION, CASES, CaseActionAsked, CasesAsked
from albireo.codec.questions.node import ITEMS, ItemsAsked
from albireo.model.case import Action, Case, ItemCase, Shelving, case_label
from albireo.model.item import Condition, name_parts

_WAITING: Final[dict[Action, Callable[[ItemCase], bool]]] = {
    Action.ACK: lambda case: not case.is_acked and not case.is_unasked,
    Action.ACK_ALL: lambda case: not case.is_acked and not case.is_unasked,
    Action.RESET: lambda case: case.is_latched,
    Action.SHELVE: lambda case: case.shelving is Shelving.UNSHELVED,
    Action.SHELVE_ONCE: lambda case: case.shelving is Shelving.UNSHELVED,
    Action.UNSHELVE: lambda case: case.shelving is not Shelving.UNSHELVED,
    Action.OUT_OF_SERVICE: lambda case: not case.is_out_of_service,
    Action.IN_SERVICE: lambda case: case.is_out_of_service,
    Action.COMMENT: lambda _case: True,
}
"""Which open cases an action by a pattern means."""


class CaseMeant(msgspec.Struct, frozen=True, kw_only=True):
    """A case that is acted upon, by its number, or a rule, by its item and condition."""

    node: str = ""
    """Another node that has it; empty: the one that is asked."""
    case_id: int = 0
    activation: int = 1
    """The one that was seen."""
    item: str = ""
    """Local name of the item of a rule; empty: a case is meant."""
    condition: Condition | None = None

    @property
    def label(self) -> str:
        """As commands take it: 12.2, north:12, north:co_1/hi."""
        of = f"{self.item}/{self.condition}" if self.item else case_label(self.case_id, self.activation)
        return f"{self.node}:" * bool(self.node) + of


class CaseOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of an action on one case or rule."""

    meant: CaseMeant
    changed: list[Case] = []
    """Cases that changed; none of another node, whose state tells it."""
    error: ClientError | None = None
    """Why it was not done; None: it was."""


class CaseClient(AnyClient):
    """A client, as far as it acts on cases."""

    @conversed
    def cases(self, *, include_closed: bool = False, node: str = "") -> Conversation[list[ItemCase]]:
        """Open cases, the most severe first. `node`: another node, of which the open ones are known here."""
        return _cases(node, include_closed=include_closed)

    @conversed
    def ack(self, case: Case | int, comment: str = "", *, activation: int | None = None) -> Conversation[list[Case]]:
        """Acknowledge the activation that somebody saw. Gives the cases that changed, as all actions do.

        Args:
            case: the case as it was shown; a number alone means its first activation.
            activation: number of the activation (`Case.activations`), if it is not that of `case`.
        Raises:
            NodeRefused: another activation is the present one; the words say which.
        """
        case_id, seen = (case.case_id, case.activations) if isinstance(case, Case) else (case, 1)
        return self._acts(Action.ACK, case_id, comment, activation=seen if activation is None else activation)

    @conversed
    def ack_all(self, comment: str = "") -> Conversation[list[Case]]:
        """Acknowledge every activation of this node that waits for it now. Gives those that changed at once; of very
        many the rest follows."""
        asked = CaseActionAsked(action=Action.ACK_ALL, user=self.user, comment=comment)
        return (yield from asks(CASE_ACTION, asked, ACTION_S))

    @conversed
    def reset(self, case_id: int, comment: str = "") -> Conversation[list[Case]]:
        """End the latch of a case whose cause is gone."""
        return self._acts(Action.RESET, case_id, comment)

    @conversed
    def shelve(self, case_id: int, comment: str = "", *, duration_s: float | None = None) -> Conversation[list[Case]]:
        """Shelve for a time; None: until it next clears."""
        return self._acts(Action.SHELVE, case_id, comment, duration_s)

    @conversed
    def unshelve(self, case_id: int, comment: str = "") -> Conversation[list[Case]]:
        """Bring a shelved case back."""
        return self._acts(Action.UNSHELVE, case_id, comment)

    @conversed
    def out_of_service(self, case_id: int, comment: str = "") -> Conversation[list[Case]]:
        """Take the alarm out of service."""
        return self._acts(Action.OUT_OF_SERVICE, case_id, comment)

    @conversed
    def in_service(self, case_id: int, comment: str = "") -> Conversation[list[Case]]:
        """Put the alarm back into service."""
        return self._acts(Action.IN_SERVICE, case_id, comment)

    @conversed
    def comment(self, case_id: int, comment: str) -> Conversation[list[Case]]:
        """Add a comment to a case."""
        return self._acts(Action.COMMENT, case_id, comment)

    @conversed
    def act(
        self,
        action: Action,
        case_id: int,
        comment: str,
        duration_s: float | None = None,
        activation: int = 1,
        node: str = "",
    ) -> Conversation[list[Case]]:
        """Any of these actions by its name.

        Args:
            activation: the one that is acknowledged.
            node: another node that has the case; what changed is in its state then, and none is returned.

        Raises: as `write`.
        """
        return self._acts(action, case_id, comment, duration_s, activation, node)

    @conversed
    def waiting(self, action: Action, pattern: str = "*") -> Conversation[list[CaseMeant]]:
        """Open cases for which an action is still to be done, each with the activation that there is now.

        Args:
            pattern: local names of items with * and ?, of the node that is asked; `north:*` of another one that is
                known there, `*:*` of it and all others.
        """
        return _waiting(action, pattern)

    @conversed
    def act_on(
        self, action: Action, meant: Sequence[CaseMeant], comment: str = "", *, duration_s: float | None = None
    ) -> Conversation[list[CaseOutcome]]:
        """One action on several cases or rules, of whatever nodes, one after the other; one that is refused stops none.

        Returns:
            What became of each. Fewer, if nobody answers any more: the others would wait as long.
        """
        return self._acts_on(action, meant, comment, duration_s)

    @conversed
    def act_on_matching(
        self, action: Action, pattern: str = "*", comment: str = "", *, duration_s: float | None = None
    ) -> Conversation[list[CaseOutcome]]:
        """`act_on` for all that are `waiting`: acknowledges what there is as it is called, and no later activation."""
        return (yield from self._acts_on(action, (yield from _waiting(action, pattern)), comment, duration_s))

    def _acts_on(
        self, action: Action, meant: Sequence[CaseMeant], comment: str, duration_s: float | None
    ) -> Conversation[list[CaseOutcome]]:
        if action is Action.ACK_ALL:
            action = Action.ACK  # All of these, and no other one.
        became: list[CaseOutcome] = []
        for one in meant:
            try:
                if one.item:
                    acts = self._acts_on_rule(action, one, comment, duration_s)
                else:
                    acts = self._acts(action, one.case_id, comment, duration_s, one.activation, one.node)
                became.append(CaseOutcome(meant=one, changed=(yield from acts)))
            except ClientError as error:
                became.append(CaseOutcome(meant=one, error=error))
                if not isinstance(error, NodeRefused):
                    break
        return became

    def _acts_on_rule(
        self, action: Action, meant: CaseMeant, comment: str, duration_s: float | None
    ) -> Conversation[list[Case]]:
        node = yield from node_of(meant.node)
        (known,) = yield from asks(ITEMS, ItemsAsked(names=(meant.item,), node=node))
        return (
            yield from self._acts(
                action, None, comment, duration_s, node=node, item_id=known.item_id, condition=meant.condition
            )
        )

    def _acts(
        self,
        action: Action,
        case_id: int | None,
        comment: str,
        duration_s: float | None = None,
        activation: int = 1,
        node: str = "",
        item_id: int | None = None,
        condition: Condition | None = None,
    ) -> Conversation[list[Case]]:
        if action is Action.SHELVE and duration_s is None:
            action = Action.SHELVE_ONCE
        asked = CaseActionAsked(
            action=action,
            case_id=case_id,
            user=self.user,
            comment=comment,
            item_id=item_id,
            condition=condition,
            activation=activation if action is Action.ACK else None,
            duration_ms=None if duration_s is None else milliseconds(duration_s),
            node=(yield from node_of(node)),
        )
        return (yield from asks(CASE_ACTION, asked, ACTION_S))


def _cases(node: str, *, include_closed: bool = False) -> Conversation[list[ItemCase]]:
    found = yield from all_rows(CASES, CasesAsked(include_closed=include_closed, node=node))
    return sorted(found, key=lambda one: (-one.severity, -one.case_id))


def _waiting(action: Action, pattern: str) -> Conversation[list[CaseMeant]]:
    node, name = name_parts(pattern)
    found: list[CaseMeant] = []
    for at in (yield from listed_nodes(node)) if node else ("",):
        found += [
            CaseMeant(node=at, case_id=one.case_id, activation=one.activations)
            for one in (yield from _cases(at))
            if _WAITING[action](one) and fnmatch.fnmatchcase(name_parts(one.item)[1], name)
        ]
    return found
