"""Settings of the page: its keys in `[[node.face]]`."""

from typing import Annotated, Final
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Meta

from albireo.face.kinds import FaceKind, made_of
from albireo.runtime.errors import EndpointRefused
from albireo.runtime.link.curve import is_loopback

URLS_MAX: Final = 16


class WebSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The page, as its user wants it."""

    bind: str = "http://127.0.0.1:8080"
    """https://ADDRESS:PORT, or http:// at a loopback address."""
    urls: Annotated[tuple[str, ...], Meta(max_length=URLS_MAX)] = ()
    """Where browsers find the page, of a pair that of the primary first: https://HOST:PORT. Pages move between them,
    and no page from anywhere else is heard. None: where it is bound."""
    certificate: str = ""
    """File with the certificate and those above it, PEM; empty: one of its own, kept with the data of the node."""
    certificate_key: str = ""
    """File with the private key of `certificate`, PEM."""
    pictures: str = ""
    """Directory of the pictures; empty: there are none."""
    report: str = ""
    """Directory of a pipeline's output, whose reports are shown; empty: `pipeline` with the data of the node."""
    open: bool = True
    """True: whoever reaches it may look without logging in."""

    def __post_init__(self) -> None:
        parts = url_parts(self.bind)
        try:
            is_here = is_loopback(f"tcp://{parts.netloc}")
        except EndpointRefused as error:
            raise ValueError(str(error)) from error
        if parts.scheme == "http" and not is_here:
            raise ValueError(
                f"bind {self.bind!r}: http is for loopback addresses; https needs nothing else: it makes a certificate"
            )
        for one in self.urls:
            url_parts(one)
        if bool(self.certificate) != bool(self.certificate_key):
            raise ValueError("certificate and certificate_key go together: name both files, or none of them")

    @property
    def is_secure(self) -> bool:
        return self.bind.startswith("https:")


def url_parts(url: str) -> SplitResult:
    """The parts of an address such as https://scada.plant:8443.

    Raises:
        ValueError: it is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not parts.port or parts.path not in ("", "/"):
        raise ValueError(f"{url!r} is no http://HOST:PORT or https://HOST:PORT")
    return parts


KIND: Final = FaceKind(settings=WebSettings, create=made_of("albireo.face.web.actor:WebActor"))
