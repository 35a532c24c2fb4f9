"""The kind `web`. Its module is loaded to judge a topology, the server and its libraries by the face that runs."""

from typing import TYPE_CHECKING, Final

from albireo.face.kinds import FaceKind, FacePlace
from albireo.face.web.settings import WebSettings
from albireo.runtime.errors import ConfigurationRefused

if TYPE_CHECKING:
    from albireo.runtime.actor.actor import Behaviour


def _create(settings: WebSettings, place: FacePlace) -> "Behaviour":
    try:
        from albireo.face.web.actor import WebActor
    except ModuleNotFoundError as error:
        remedy = "pip install 'albireo[web]'"
        raise ConfigurationRefused(f"face {place.name}: the page needs {error.name}, which is missing: {remedy}") from (
            error
        )
    return WebActor(settings, place)


KIND: Final = FaceKind(settings=WebSettings, create=_create)
