"""Methods of the page: what became of each of several acknowledgements is told, and what nobody knows as unknown."""

from albireo.client import CaseMeant, NodeRefused, NotInTime, OutcomeUnknown
from albireo.client.cases import CaseOutcome
from albireo.client.errors import ClientError
from albireo.face.web.methods import acks_told
from albireo.model.refusal import Refusal, RefusalCode

REFUSED = NodeRefused("case_action", Refusal(RefusalCode.NOT_POSSIBLE, "another activation is the present one"))


def told(asked: int, *errors: ClientError | None) -> list[tuple[str, bool]]:
    became = [CaseOutcome(meant=CaseMeant(case_id=number), error=error) for number, error in enumerate(errors)]
    return [(one.why, one.is_unknown) for one in acks_told(became, asked)]


def test_each_acknowledgement_is_told_by_itself() -> None:
    done, refused = told(2, None, REFUSED)
    assert done == ("", False)
    assert "another activation" in refused[0] and not refused[1]


def test_one_without_an_answer_is_unknown_and_those_behind_it_were_never_asked() -> None:
    first, second, third = told(3, None, OutcomeUnknown("case_action", "the line was lost"))
    assert first == ("", False)
    assert "the line was lost" in second[0] and second[1]
    assert "not asked" in third[0] and not third[1]


def test_where_nobody_was_reached_it_is_known_that_nothing_was_done() -> None:
    (one,) = told(1, NotInTime("nobody acts"))
    assert one[0] and not one[1]
