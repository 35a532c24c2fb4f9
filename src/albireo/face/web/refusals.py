"""Refusals over HTTP: a status, and a body with a code of docs/refusals.md. Pages are told the same without it."""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from albireo.client.errors import ClientBusy, ClientError, NodeRefused, OutcomeUnknown
from albireo.model.refusal import Refusal, RefusalCode, kind_of_code

_BY_STATUS: Final[Mapping[int, str]] = {
    401: "session_over",
    403: "access ticket not_owner",
    404: "unknown_question unknown_item unknown_topic unknown_node unknown_name",
    413: "too_much",
    422: "malformed bad_value ambiguous",
    429: "busy",
    503: "full not_holder not_recording disk_failed damaged",
    504: "no_answer outcome_unknown",
}
"""Codes of docs/refusals.md by the status that they have; of all others it is 503 if it may pass, else 409."""
STATUS: Final[dict[str, int]] = {code: status for status, codes in _BY_STATUS.items() for code in codes.split()}
_HEADERS: Final = {
    401: {"www-authenticate": "Bearer"},
    429: {"retry-after": "1"},
    503: {"retry-after": "1"},
}

ShapeT = TypeVar("ShapeT", bound=msgspec.Struct)


class HttpRefusal(Refusal, frozen=True):
    """Body of every refusal."""

    is_unknown: bool = False
    """True: whether it was done is not known."""


class HttpRefused(Exception):
    """A request is refused, with a status of HTTP."""

    def __init__(self, status: int, refusal: Refusal, *, is_unknown: bool = False) -> None:
        super().__init__(refusal.cause)
        self.status = status
        self.refusal = refusal
        self.is_unknown = is_unknown

    def response(self, headers: Mapping[str, str] = {}) -> Response:
        """The answer to the request, with further headers."""
        told = {**headers, **_HEADERS.get(self.status, {})}
        body = HttpRefusal(self.refusal.code, self.refusal.cause, self.refusal.remedy, self.is_unknown)
        return Response(msgspec.json.encode(body), self.status, told, "application/json")


def refusal_of(error: ClientError | ValueError) -> HttpRefused:
    """The refusal that an error of a method means; a ValueError is one of its arguments."""
    if isinstance(error, OutcomeUnknown):
        return HttpRefused(504, Refusal(RefusalCode.OUTCOME_UNKNOWN, error.cause, error.remedy), is_unknown=True)
    if isinstance(error, NodeRefused):
        usual = 503 if kind_of_code(error.code).may_pass else 409
        return HttpRefused(STATUS.get(error.code, usual), error.refusal)
    cause, remedy = (error.cause, error.remedy) if isinstance(error, ClientError) else (str(error)[:500], "")
    if isinstance(error, ValueError):
        return HttpRefused(422, Refusal(RefusalCode.MALFORMED, cause, remedy))
    return HttpRefused(429 if isinstance(error, ClientBusy) else 504, Refusal(RefusalCode.NO_ANSWER, cause, remedy))


def malformed(error: Exception) -> HttpRefused:
    """The refusal of what can't be read (400), or is not what was asked for (422)."""
    status = 422 if isinstance(error, msgspec.ValidationError) else 400
    return HttpRefused(status, Refusal(RefusalCode.MALFORMED, str(error)[:500]))


async def asked_of(request: Request, shape: type[ShapeT], bytes_max: int) -> ShapeT:
    """The body of a request. Raises HttpRefused: it is too large, does not come, or is no such thing."""
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > bytes_max:
                raise HttpRefused(413, Refusal(RefusalCode.MALFORMED, f"more than {bytes_max} bytes"))
        return msgspec.json.decode(body or b"{}", type=shape)
    except ClientDisconnect as error:
        raise HttpRefused(408, Refusal(RefusalCode.MALFORMED, "the body did not come")) from error
    except (ValueError, RecursionError) as error:  # `DecodeError` and `ValidationError` are values that are wrong.
        raise malformed(error) from error
