"""Cases: what a client asks about alarm cases, and what it does to them."""

from albireo.client.conversation import Conversation, all_rows, asks
from albireo.client.conversed import AnyClient, conversed
from albireo.client.nodes import node_of
from albireo.client.orders import ACTION_S
from albireo.client.questions import milliseconds
from albireo.codec.questions.cases import CASE_ACTION, CASES, CaseActionAsked, CasesAsked
from albireo.model.case import Action, Case, ItemCase


class CaseClient(AnyClient):
    """A client, as far as it acts on cases."""

    @conversed
    def cases(self, *, include_closed: bool = False, node: str = "") -> Conversation[list[ItemCase]]:
        """Open cases, the most severe first. `node`: another node, of which the open ones are known here."""
        found = yield from all_rows(CASES, CasesAsked(include_closed=include_closed, node=node))
        return sorted(found, key=lambda one: (-one.severity, -one.case_id))

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

    def _acts(
        self,
        action: Action,
        case_id: int,
        comment: str,
        duration_s: float | None = None,
        activation: int = 1,
        node: str = "",
    ) -> Conversation[list[Case]]:
        if action is Action.SHELVE and duration_s is None:
            action = Action.SHELVE_ONCE
        asked = CaseActionAsked(
            action=action,
            case_id=case_id,
            user=self.user,
            comment=comment,
            activation=activation if action is Action.ACK else None,
            duration_ms=None if duration_s is None else milliseconds(duration_s),
            node=(yield from node_of(node)),
        )
        return (yield from asks(CASE_ACTION, asked, ACTION_S))
