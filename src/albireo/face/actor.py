"""Actor of a face: made of its arguments, by the name of its kind. Started by name, so that the node knows no face."""

from collections.abc import Mapping
from typing import Any

import msgspec

from albireo.face.kinds import FacePlace, load_kind
from albireo.runtime.actor.actor import Behaviour
from albireo.runtime.actor.first_use import settle_types
from albireo.runtime.errors import ConfigurationRefused


class FaceArguments(FacePlace, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a face, from boot."""

    kind: str
    settings: dict[str, Any]
    """The kind's own keys."""


def create(arguments: Mapping[str, object]) -> Behaviour:
    """The behaviour for one `[[node.face]]`.

    Raises:
        ConfigurationRefused: nobody offers the kind, or it does not take the settings.
    """
    place = msgspec.convert(arguments, FaceArguments)
    kind = load_kind(place.kind)
    if isinstance(kind, str):
        raise ConfigurationRefused(f"face {place.name}: no face of kind {place.kind!r}: {kind}")
    try:
        settings = msgspec.convert(place.settings, kind.settings)
    except msgspec.ValidationError as error:
        raise ConfigurationRefused(f"face {place.name}: {error}") from error
    settle_types()
    return kind.create(settings, place)
