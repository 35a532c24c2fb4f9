"""Settings of the door: its keys in `[[node.face]]`."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.face.kinds import FaceKind, made_of
from albireo.runtime.errors import EndpointRefused
from albireo.runtime.link.curve import host_and_port, is_loopback


class PubsubSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The door, as its user wants it."""

    bind: str = "tcp://127.0.0.1:5001"
    """tcp://ADDRESS:PORT, a loopback address. The clients that there are look for 5001 and 5002."""
    patience_ms: Annotated[int, Meta(ge=100, le=60_000)] = 2_000
    """Time after which a request is not answered: less than its client waits, of those that there are 2,500 ms."""

    def __post_init__(self) -> None:
        try:
            _, port = host_and_port(self.bind)
        except EndpointRefused as error:
            raise ValueError(str(error)) from error
        if not is_loopback(self.bind) or not port:
            raise ValueError(
                f"{self.bind!r} is no loopback address with a port, and the protocol knows nobody's name: use one such "
                "as tcp://127.0.0.1:5001; programs elsewhere have topics by `albireo.connect`"
            )


KIND: Final = FaceKind(settings=PubsubSettings, create=made_of("albireo.face.pubsub.actor:PubsubActor"))
