"""Questions about alarm cases."""

from typing import Final

from albireo.codec.questions.kind import Answerer, Asked, Nothing, QuestionKind
from albireo.codec.questions.pieces import InPieces
from albireo.model.access import AccessRole
from albireo.model.bounded import Name, Signed, Text
from albireo.model.case import Action, Case, ItemCase
from albireo.model.item import Condition


class ActionAsked(Asked, frozen=True, kw_only=True):
    """An operator's action as it comes from outside: at a case, or at a rule by item and condition."""

    action: Action
    user: Text
    comment: Text = ""
    case_id: Signed | None = None
    item_id: Signed | None = None
    condition: Condition | None = None
    activation: Signed | None = None
    """ACK: number of the activation that the operator saw; None: the first."""
    duration_ms: Signed | None = None
    """Length of a shelve. SHELVE needs one; SHELVE_ONCE without one takes the longest."""


class CasesAsked(InPieces, frozen=True, kw_only=True):
    """Arguments of `cases`: open ones only, or all that are remembered."""

    include_closed: bool = False
    node: Name = ""
    """Node below whose cases are meant, of which open ones only are known here; empty: this node."""


class CaseActionAsked(ActionAsked, frozen=True, kw_only=True):
    """Arguments of `case_action`."""

    node: Name = ""
    """Node below whose case is meant; empty: this node."""

    @property
    def reason(self) -> str:
        return self.comment


CASES: Final = QuestionKind(
    name="cases",
    shape=CasesAsked,
    answer=list[ItemCase],
    answerer=Answerer.CORE,
    meaning="alarm cases",
    told="cases; of a node below the open ones",
    is_reading=True,
)
FLOOD: Final = QuestionKind(
    name="flood",
    shape=Nothing,
    answer=dict[str, object],
    answerer=Answerer.CORE,
    meaning="alarm load",
    told="alarm rates, standing and worst",
    is_reading=True,
)
CASE_ACTION: Final = QuestionKind(
    name="case_action",
    shape=CaseActionAsked,
    answer=list[Case],
    answerer=Answerer.ACTING,
    role=AccessRole.OPERATE,
    meaning="act on a case, by action",
    told="the cases that changed, once committed; of a node below none, once that has said that it is done",
    subject="action",
    roles={Action.OUT_OF_SERVICE: AccessRole.ENGINEER, Action.IN_SERVICE: AccessRole.ENGINEER},
)
KINDS: Final = (CASES, FLOOD, CASE_ACTION)
