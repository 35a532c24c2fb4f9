"""The kind `notify`. Its module is loaded to judge a topology, what sends by the face that runs."""

from typing import TYPE_CHECKING, Final

from albireo.face.kinds import FaceKind, FacePlace
from albireo.face.notify.settings import NotifySettings

if TYPE_CHECKING:
    from albireo.runtime.actor.actor import Behaviour


def _create(settings: NotifySettings, place: FacePlace) -> "Behaviour":
    from albireo.face.notify.actor import NotifyActor

    return NotifyActor(settings, place)


KIND: Final = FaceKind(settings=NotifySettings, create=_create)
