"""Questions to one member of a pair: actions of its admins."""

from typing import Annotated, Final

from msgspec import Meta

from albireo.codec.questions.kind import Answerer, Asked, QuestionKind, UserAsked
from albireo.model.access import AccessRole
from albireo.model.bounded import Name, Text
from albireo.model.position import Position


class LeadHandover(UserAsked, frozen=True, kw_only=True):
    """Arguments of `switchover`."""

    reason: Text = ""


class MaintenanceAsked(UserAsked, frozen=True, kw_only=True):
    """Arguments of `maintenance`."""

    is_on: bool = True
    reason: Text = ""


class StopNowAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `stop_now`."""

    position: Position
    shutdown_id: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}(?!\n)$")]
    """Id of the stop, the same for both members: written into both store headers."""
    user: Text = ""


class ResetAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `voter_reset`."""

    voter: Name
    """Name as in the list, `witness:w1`; `w1` will do where no other voter has that name."""
    user: Text = ""


SWITCHOVER: Final = QuestionKind(
    name="switchover",
    shape=LeadHandover,
    answer=object,
    answerer=Answerer.MEMBER,
    role=AccessRole.ENGINEER,
    meaning="let the other member lead",
    told="who leads now (docs/pair.md)",
)
MAINTENANCE: Final = QuestionKind(
    name="maintenance",
    shape=MaintenanceAsked,
    answer=object,
    answerer=Answerer.MEMBER,
    role=AccessRole.ENGINEER,
    meaning="keep a member from leading",
    told="since when the member is in maintenance",
)
PAIR_SEEN: Final = QuestionKind(
    name="pair_seen",
    shape=UserAsked,
    answer=object,
    answerer=Answerer.MEMBER,
    role=AccessRole.OPERATE,
    meaning="somebody has looked at a loss",
    told="the cases that ended here",
)
PAIR_INIT: Final = QuestionKind(
    name="pair_init",
    shape=UserAsked,
    answer=object,
    answerer=Answerer.MEMBER,
    role=AccessRole.ADMIN,
    meaning="begin a pair",
    told="the voters that have its first record (docs/pair.md)",
)
VOTER_RESET: Final = QuestionKind(
    name="voter_reset",
    shape=ResetAsked,
    answer=object,
    answerer=Answerer.MEMBER,
    role=AccessRole.ADMIN,
    meaning="a voter that lost its store votes again",
    told="what the voter promises now",
)
PROMOTE: Final = QuestionKind(
    name="promote",
    shape=UserAsked,
    answer=object,
    answerer=Answerer.MEMBER,
    role=AccessRole.ADMIN,
    meaning="lead by force",
    told="the epoch, and where the log ended (docs/pair.md)",
)
STOP_HOLD: Final = QuestionKind(
    name="stop_hold",
    shape=UserAsked,
    answer=object,
    answerer=Answerer.MEMBER,
    role=AccessRole.ADMIN,
    meaning="stop both members level, step 1",
    told="where its log ends",
)
STOP_LEVEL: Final = QuestionKind(
    name="stop_level",
    shape=UserAsked,
    answer=object,
    answerer=Answerer.MEMBER,
    role=AccessRole.ADMIN,
    meaning="step 2",
    told="the position at which both logs end",
)
STOP_NOW: Final = QuestionKind(
    name="stop_now",
    shape=StopNowAsked,
    answer=object,
    answerer=Answerer.MEMBER,
    role=AccessRole.ADMIN,
    meaning="step 3",
    told="the id of the stop",
)
KINDS: Final = (
    SWITCHOVER,
    MAINTENANCE,
    PAIR_SEEN,
    PAIR_INIT,
    VOTER_RESET,
    PROMOTE,
    STOP_HOLD,
    STOP_LEVEL,
    STOP_NOW,
)
