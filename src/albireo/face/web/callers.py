"""Callers: programs that ask over HTTP without a page. A bearer token says who they are, and never a cookie."""

import asyncio
from typing import Final, Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from albireo.client import ClientError
from albireo.face.web.metrics import Facts
from albireo.face.web.pages import PageHost
from albireo.face.web.site import Addresses
from albireo.face.web.words import PagePerson
from albireo.model.refusal import Refusal, RefusalCode

TOKEN_CHARS_MAX: Final = 2_000
KNOWN_S: Final = 2.0
"""Time for which it is known who has a token."""
PERSONS_MAX: Final = 1_000
ASKING_MAX: Final = 4
"""Tokens of which the node is asked at once."""
AGAIN: Final = frozenset({429, 503})
"""Statuses behind which the same may be asked again a little later."""


class CallerHost(PageHost, Protocol):
    """The face, as programs need it beside what pages do."""

    def facts(self) -> Facts:
        """Facts that the face knows by itself."""

    def now_ms(self) -> int: ...


class CallerRefusal(Refusal, frozen=True, omit_defaults=True):
    """Body of every refusal, with a code of docs/refusals.md."""

    is_unknown: bool = False
    """True: whether it was done is not known."""


class CallerRefused(Exception):
    """A request is refused, with a status of HTTP."""

    def __init__(self, status: int, refusal: Refusal, *, is_unknown: bool = False) -> None:
        super().__init__(refusal.cause)
        self.status = status
        self.refusal = CallerRefusal(refusal.code, refusal.cause, refusal.remedy, is_unknown)


def refused(error: CallerRefused) -> Response:
    """The answer to a request that is refused."""
    headers = {}
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    if error.status in AGAIN:
        headers["retry-after"] = "1"
    return Response(msgspec.json.encode(error.refusal), error.status, headers, "application/json")


class Callers:
    """Who asks, and from where."""

    def __init__(self, host: PageHost, addresses: Addresses) -> None:
        self._host = host
        self._addresses = addresses
        self._persons: dict[str, tuple[PagePerson | None, float]] = {}
        self._asking = asyncio.Semaphore(ASKING_MAX)

    async def person(self, request: Request) -> PagePerson | None:
        """Who has the token of a request; None: it has none.

        Raises:
            CallerRefused: the token is none that is good, or the page of somebody else asks.
        """
        headers = request.headers
        origin, host = headers.get("origin"), headers.get("host", "")
        if not self._addresses.knows_host(host):
            remedy = "name it in `urls` of the face"
            raise CallerRefused(421, Refusal(RefusalCode.ACCESS, f"{host[:200]!r} is no name of this face", remedy))
        if origin is not None and not self._addresses.knows_origin(origin, host):
            raise CallerRefused(403, Refusal(RefusalCode.ACCESS, f"no page of {origin[:200]!r} may ask here"))
        if "authorization" not in headers:
            return None
        scheme, _, token = headers["authorization"].partition(" ")
        is_one = scheme.lower() == "bearer" and len(token) <= TOKEN_CHARS_MAX
        person = await self._known(token.strip()) if is_one else None
        if person is None:
            cause = "the token is none that is good here, or it is over"
            raise CallerRefused(401, Refusal(RefusalCode.ACCESS, cause, "Authorization: Bearer TOKEN"))
        return person

    async def _known(self, token: str) -> PagePerson | None:
        """Who has a token, as the node said a moment ago."""
        person, until_s = self._persons.get(token, (None, 0.0))
        now_s = asyncio.get_running_loop().time()
        if now_s >= until_s:
            try:
                async with self._asking:
                    person = await self._host.person(token)
            except ClientError as error:
                raise CallerRefused(503, Refusal(RefusalCode.NO_ANSWER, error.cause, error.remedy)) from error
            if len(self._persons) >= PERSONS_MAX:
                self._persons.clear()
            self._persons[token] = person, now_s + KNOWN_S
        return person

    async def looking(self, request: Request, *, is_near_enough: bool = False) -> PagePerson | None:
        """Who looks.

        Args:
            is_near_enough: whoever asks from this machine may look.
        Raises:
            CallerRefused: as `person`, or somebody has to say who he is.
        """
        person = await self.person(request)
        if not self._host.may_look(person) and not (is_near_enough and _is_near(request)):
            raise no_token()
        return person


def no_token() -> CallerRefused:
    """Refusal of a request that needs a token and has none."""
    return CallerRefused(401, Refusal(RefusalCode.ACCESS, "this needs a token", "Authorization: Bearer TOKEN"))


def _is_near(request: Request) -> bool:
    host = "" if request.client is None else request.client.host
    return host == "::1" or host.startswith("127.")
