"""The kind `chp`. Its module is loaded to judge a topology, the server and its client by the face that runs."""

from typing import TYPE_CHECKING, Final

from albireo.face.chp.settings import ChpSettings
from albireo.face.kinds import FaceKind, FacePlace

if TYPE_CHECKING:
    from albireo.runtime.actor.actor import Behaviour


def _create(settings: ChpSettings, place: FacePlace) -> "Behaviour":
    from albireo.face.chp.actor import ChpActor

    return ChpActor(settings, place)


KIND: Final = FaceKind(settings=ChpSettings, create=_create)
