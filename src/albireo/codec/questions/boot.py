"""Questions to boot, which are asked on the machine of the node only."""

from typing import Annotated, Any, Final

from msgspec import Meta

from albireo.codec.questions.kind import Answerer, Asked, Nothing, QuestionKind
from albireo.model.access import AccessRole
from albireo.model.bounded import Text
from albireo.model.tree.navigation import Navigation


class ApplyAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `apply`."""

    file: Annotated[Text, Meta(min_length=1)]
    """Absolute path of the topology file."""
    trial: bool = False
    """True: only the plan is told."""


ACTORS: Final = QuestionKind(
    name="actors",
    shape=Nothing,
    answer=list[dict[str, Any]],
    answerer=Answerer.BOOT,
    role=AccessRole.ADMIN,
    meaning="the actors of the node",
    told="name, process, state, restarts of each actor, why it last died, deaths of the last minute, whether it was "
    "killed for its silence",
    is_reading=True,
)
STOP: Final = QuestionKind(
    name="stop",
    shape=Nothing,
    answer=bool,
    answerer=Answerer.BOOT,
    role=AccessRole.ADMIN,
    meaning="stop the node",
    told="true: it stops",
)
TOPOLOGY: Final = QuestionKind(
    name="topology",
    shape=Nothing,
    answer=dict[str, Any],
    answerer=Answerer.BOOT,
    role=AccessRole.ADMIN,
    meaning="by which topology it runs",
    told="`place`, `hash` of the topology by which it runs",
)
NAVIGATION: Final = QuestionKind(
    name="navigation",
    shape=Nothing,
    answer=Navigation,
    answerer=Answerer.BOOT,
    role=AccessRole.ADMIN,
    meaning="what people are led to",
    told="labels of nodes, objects and groups of the topology by which it runs",
    is_reading=True,
)
APPLY: Final = QuestionKind(
    name="apply",
    shape=ApplyAsked,
    answer=dict[str, Any],
    answerer=Answerer.BOOT,
    role=AccessRole.ADMIN,
    meaning="take up a changed topology",
    told="the plan: `taken`, `refused`, `elsewhere`, `started_anew`, the hashes, and whether it was `applied` "
    "(ADR-0180)",
)
KINDS: Final = (ACTORS, STOP, TOPOLOGY, NAVIGATION, APPLY)
