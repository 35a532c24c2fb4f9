"""Reports of the pipeline (docs/pipeline.md) at a page: which there are, and each by a number that is good for a while.

A page asks over its line, where it is known who looks; the frame that shows a report has no token to say, so the answer
has a random number for it. No path is taken from anybody, no link is followed, and no script runs in a report.
"""

import asyncio
import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from albireo.client import AsyncClient
from albireo.face.web.method import method, named
from albireo.model.instant import MS, SECOND, Instant

REPORT: Final = "report.html"
BELOW: Final = "below"
SHOWN_MAX: Final = 200
"""Most reports that are listed."""
BYTES_MAX: Final = 32 << 20
NUMBER_NS: Final = 60 * SECOND
NUMBERS_MAX: Final = 10_000
Parts = tuple[str, ...]


class ReportShown(msgspec.Struct, frozen=True):
    """A report, as a page is told of it."""

    node: str
    made_ns: int
    path: str
    """Where the face gives it, for a minute."""


class Reports:
    """The reports in the directory of a pipeline."""

    def __init__(self, directory: Path, node: str, urls: Sequence[str], now: Callable[[], Instant]) -> None:
        """`urls`: where pages are that may show one."""
        self._directory = directory
        self._node = node
        self._now = now
        self._numbers: dict[str, tuple[Parts, Instant]] = {}
        self._headers = {
            "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
            f"frame-ancestors 'self' {' '.join(urls)}",
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cache-control": "no-store",
        }
        self.routes = [Route("/report/{number}", self._given)]
        self.methods = named(method(is_reading=True, is_for_lookers=True, is_for_pages=True)(self.reports))

    async def reports(self, _: AsyncClient) -> list[ReportShown]:
        """Reports of the pipeline, the latest first."""
        found = await asyncio.to_thread(_found, self._directory)
        until = Instant(self._now() + NUMBER_NS)
        shown = []
        for made_ns, parts in found:
            number = secrets.token_urlsafe(16)
            self._numbers[number] = parts, until
            node = parts[1].rpartition("-")[0].replace("~", "/") if len(parts) > 1 else self._node
            shown.append(ReportShown(node, made_ns, f"/report/{number}"))
        while len(self._numbers) > NUMBERS_MAX:
            del self._numbers[next(iter(self._numbers))]
        return shown

    async def _given(self, request: Request) -> Response:
        parts, until = self._numbers.get(request.path_params["number"], ((), Instant(0)))
        body = await asyncio.to_thread(_read, self._directory, parts) if self._now() < until else None
        if body is None:
            return PlainTextResponse("there is no such report any more; open the view anew\n", 404)
        return Response(body, 200, self._headers, "text/html; charset=utf-8")


def _found(directory: Path) -> list[tuple[int, Parts]]:
    """Times and places of the reports, the latest first."""
    names: list[str] = []
    with contextlib.suppress(OSError), os.scandir(directory / BELOW) as entries:
        names = sorted(one.name for one in entries if one.is_dir(follow_symlinks=False))[: SHOWN_MAX - 1]
    places = [(REPORT,), *((BELOW, one, REPORT) for one in names)]
    found = []
    for parts in places:
        with contextlib.suppress(OSError), _opened(directory, parts) as descriptor:
            found.append((os.fstat(descriptor).st_mtime_ns // MS * MS, parts))
    return sorted(found, reverse=True)


def _read(directory: Path, parts: Parts) -> bytes | None:
    """The report; None: it is none, or too large."""
    with contextlib.suppress(OSError), _opened(directory, parts) as descriptor:
        size = os.fstat(descriptor).st_size
        with os.fdopen(os.dup(descriptor), "rb") as file:
            return file.read(BYTES_MAX) if size <= BYTES_MAX else None
    return None


@contextlib.contextmanager
def _opened(directory: Path, parts: Parts) -> Iterator[int]:
    """A regular file below the directory, with no link on the way. Raises OSError: it is none."""
    with contextlib.ExitStack() as stack:
        at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, at)
        for one in parts:
            at = os.open(one, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
            stack.callback(os.close, at)
        if not stat.S_ISREG(os.fstat(at).st_mode):
            raise OSError("no file")
        yield at
