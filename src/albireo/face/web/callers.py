"""Callers: programs that ask over HTTP without a page. A bearer token says who they are, and never a cookie."""

import asyncio
from typing import Final

from starlette.requests import Request

from albireo.client import ClientError
from albireo.face.web.face import Face
from albireo.face.web.refusals import HttpRefused
from albireo.face.web.words import PagePerson
from albireo.model.refusal import Refusal, RefusalCode

TOKEN_CHARS_MAX: Final = 2_000
KNOWN_S: Final = 2.0
"""Time for which it is known who has a token."""
PERSONS_MAX: Final = 1_000
ASKING_MAX: Final = 4
"""Tokens of which the node is asked at once."""


class Callers:
    """Who asks, and from where."""

    def __init__(self, face: Face) -> None:
        self._face = face
        self._persons: dict[str, tuple[PagePerson | None, float]] = {}
        self._asking = asyncio.Semaphore(ASKING_MAX)

    async def looking(self, request: Request, *, is_near_enough: bool = False) -> PagePerson | None:
        """Who looks; None: the request has no token, and needs none.

        Args:
            is_near_enough: whoever asks from this machine may look.
        Raises:
            HttpRefused: the token is none that is good, there has to be one, or the page of somebody else asks.
        """
        headers = request.headers
        origin, host = headers.get("origin"), headers.get("host", "")
        if not self._face.addresses.knows_host(host):
            remedy = "name it in `urls` of the face"
            raise HttpRefused(421, Refusal(RefusalCode.ACCESS, f"{host[:200]!r} is no name of this face", remedy))
        if origin is not None and not self._face.addresses.knows_origin(origin, host):
            raise HttpRefused(403, Refusal(RefusalCode.ACCESS, f"no page of {origin[:200]!r} may ask here"))
        if "authorization" not in headers:
            if self._face.may_look(None) or (is_near_enough and _is_near(request)):
                return None
            raise no_token()
        scheme, _, token = headers["authorization"].partition(" ")
        is_one = scheme.lower() == "bearer" and len(token) <= TOKEN_CHARS_MAX
        person = await self._known(token.strip()) if is_one else None
        if person is None:
            cause = "the token is none that is good here, or it is over"
            raise HttpRefused(401, Refusal(RefusalCode.ACCESS, cause, "Authorization: Bearer TOKEN"))
        return person

    async def _known(self, token: str) -> PagePerson | None:
        """Who has a token, as the node said a moment ago."""
        person, until_s = self._persons.get(token, (None, 0.0))
        now_s = asyncio.get_running_loop().time()
        if now_s >= until_s:
            try:
                async with self._asking:
                    person = await self._face.logins.person(token)
            except ClientError as error:
                raise HttpRefused(503, Refusal(RefusalCode.NO_ANSWER, error.cause, error.remedy)) from error
            if len(self._persons) >= PERSONS_MAX:
                self._persons.clear()
            self._persons[token] = person, now_s + KNOWN_S
        return person


def no_token() -> HttpRefused:
    """Refusal of a request that needs a token and has none."""
    return HttpRefused(401, Refusal(RefusalCode.ACCESS, "this needs a token", "Authorization: Bearer TOKEN"))


def _is_near(request: Request) -> bool:
    host = "" if request.client is None else request.client.host
    return host == "::1" or host.startswith("127.")
