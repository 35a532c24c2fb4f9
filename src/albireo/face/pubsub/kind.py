"""The kind `pubsub`. Its module is loaded to judge a topology, the door and its client by the face that runs."""

from typing import TYPE_CHECKING, Final

from albireo.face.kinds import FaceKind, FacePlace
from albireo.face.pubsub.settings import PubsubSettings

if TYPE_CHECKING:
    from albireo.runtime.actor.actor import Behaviour


def _create(settings: PubsubSettings, place: FacePlace) -> "Behaviour":
    from albireo.face.pubsub.actor import PubsubActor

    return PubsubActor(settings, place)


KIND: Final = FaceKind(settings=PubsubSettings, create=_create)
