"""Logins: who may speak as whom, by what is on record of persons (docs/access.md).

    password --scrypt, in a thread--> login on record --> token: NAME.SESSION.SIGNATURE, the same at both members
    token of a program (client/credentials.py) -------------------^

A token is signed with the key on record, so a takeover logs nobody out. Its login is looked up when a page begins and
every few seconds after that, so one that is ended ends its pages.
"""

import asyncio
import contextlib
import hmac
import secrets
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from albireo.client import AsyncClient, ClientError
from albireo.client.credentials import password_fits, password_words, speaks_as, token_name, token_of
from albireo.codec.questions.kind import Nothing
from albireo.codec.questions.people import ACCESS_LIST, AccessRow
from albireo.face.web.refusals import HttpRefused
from albireo.face.web.words import PagePerson
from albireo.model.access import AccessRole
from albireo.model.instant import SECOND, Instant, WallTime
from albireo.model.person import Person
from albireo.model.principal import PERSON_PREFIX, is_person_name
from albireo.model.refusal import Refusal, RefusalCode

ADMIN: Final = "admin"
FAILURES_MAX: Final = 5
"""Wrong passwords of one name from one address within LOCK_NS, after which none is taken for a while."""
FAILURES_OF_ADDRESS_MAX: Final = 30
LOCK_NS: Final = 60 * SECOND
WAITING_MAX: Final = 8
"""Logins that wait for their turn to be hashed; one more is refused at once."""
HASHING: Final = 2
ADDRESSES_MAX: Final = 10_000
AGAIN_S: Final = 1.0
SECRET_BYTES: Final = 12
ACCESS_NS: Final = SECOND
"""Time for which roles are shown as they were: what may be done is judged by the node."""


JOURNAL_NS: Final = 60 * SECOND
JOURNAL_MAX: Final = 200
"""Time, and most entries, in which the end of a login is looked for."""


class PageLogin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of POST /login."""

    name: str
    password: str
    new_password: str = ""
    """Needed with a password that is for one login."""


class LoginGiven(msgspec.Struct, frozen=True):
    """Answer to it."""

    token: str
    person: PagePerson


class LoginFailures:
    """Wrong passwords of the last minute, by name and address; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._of: defaultdict[tuple[str, str], deque[Instant]] = defaultdict(deque)

    def wait_s(self, name: str, address: str, now: Instant) -> float:
        """Time for which nothing of that name is taken from there; 0: it is."""
        waits = [
            self._left(("", address), FAILURES_OF_ADDRESS_MAX, now),
            self._left((name, address), FAILURES_MAX, now),
        ]
        return max(waits) / SECOND

    def add(self, name: str, address: str, now: Instant) -> None:
        for key in (("", address), (name, address)):
            failures = self._of.pop(key, deque(maxlen=FAILURES_OF_ADDRESS_MAX))
            failures.append(now)
            self._of[key] = failures  # Last, so that the first is the one that was quiet for longest.
        while len(self._of) > ADDRESSES_MAX:
            del self._of[next(iter(self._of))]

    def _left(self, key: tuple[str, str], most: int, now: Instant) -> int:
        failures = self._of.get(key, deque())
        recent = [at for at in failures if now < at + LOCK_NS]
        return recent[-most] + LOCK_NS - now if len(recent) >= most else 0


class Logins:
    """Logins at one face, for its loop."""

    def __init__(
        self, pinned: AsyncClient, client: AsyncClient, now: Callable[[], Instant], wall: Callable[[], WallTime]
    ) -> None:
        """
        Args:
            pinned: client of the member beside the face, which knows persons as the other one does.
            client: client of the member that acts.
        """
        self._pinned = pinned
        self._client = client
        self._now = now
        self._wall = wall
        self._failures = LoginFailures()
        self._hashing = asyncio.Semaphore(HASHING)
        self._waiting = 0
        self._key = b""
        self._access: list[AccessRow] = []
        self._look_at = Instant(0)

    async def log_in(self, asked: PageLogin, address: str) -> LoginGiven:
        """Check a password, and put the login on record.

        Raises:
            HttpRefused: it is wrong, for one login only, or too many were.
            ClientError: nobody acts who could say.
        """
        wait_s = self._failures.wait_s(asked.name, address, self._now())
        if wait_s or self._waiting >= WAITING_MAX:
            cause = "too many wrong passwords came from there" if wait_s else "too many log in at once"
            raise HttpRefused(429, Refusal(RefusalCode.BUSY, cause, f"try again in {wait_s or 1:.0f} s"))
        self._waiting += 1
        try:
            person = await self._proven(asked, address)
        finally:
            self._waiting -= 1
        if person.is_one_time:
            await self._change(asked)
        session = await self._client.begin_login(person.name, address)
        token = f"{person.name}.{session.session_id}"
        return LoginGiven(
            f"{token}.{await self._signed(token)}", await self._page_person(person.name, session.session_id)
        )

    async def person(self, token: str) -> PagePerson | None:
        """Who has this token, of a login or of a program; None: nobody has. Raises ClientError."""
        if not token.isascii():
            return None
        if "." not in token:
            return await self._program(token)
        name, session_id = await self._login_of(token)
        row = await self._pinned.login(session_id) if name else None
        is_good = row is not None and row.principal == PERSON_PREFIX + name
        return await self._page_person(name, session_id) if is_good else None

    async def why_over(self, token: str) -> str:
        """Who ended the login of a token, and why, as the journal has it; empty: it is no login's, or nobody did.

        Raises ClientError.
        """
        name, session_id = await self._login_of(token) if token.isascii() else ("", 0)
        if not name:
            return ""
        since = self._wall() - JOURNAL_NS
        rows = await self._client.events(
            since, self._wall() + SECOND, kind="audit", newest_first=True, limit=JOURNAL_MAX
        )
        for row in rows.to_pylist():
            by = row["principal"] or row["user"]
            is_ended = row["action"] == "session_ended" and row["subject"].startswith(f"session {session_id} of ")
            is_barred = row["action"] == "person_changed" and row["subject"] == name and "disabled" in row["detail"]
            if is_ended or is_barred:
                why = f": {row['detail']}" if is_ended and row["detail"] else ""
                return f"{by} {'has ended this login' if is_ended else f'has disabled {name}'}{why}"
        return ""

    async def _login_of(self, token: str) -> tuple[str, int]:
        """Name and session of a token that is signed here; no name: it is none."""
        text, _, signature = token.rpartition(".")
        name, _, session_id = text.rpartition(".")
        known = await self._signed(text)
        is_ours = hmac.compare_digest(signature.encode(), known.encode()) and session_id.isdecimal()
        return (name, int(session_id)) if is_ours else ("", 0)

    async def log_out(self, token: str) -> None:
        """End the login of a token. Raises ClientError."""
        person = await self.person(token)
        if person is not None and person.session_id:
            await self._client.end_session(person.session_id, "logged out")

    async def make_first_admin(self, file: Path, url: str) -> bool:
        """Have an admin on record if nobody is; its password for one login stands in the file while it is good.

        Returns:
            Whether it is, be it of an earlier life of the face.
        """
        while True:
            try:
                if not await self._client.people():
                    password = await asyncio.to_thread(_kept_secret, file) or secrets.token_urlsafe(SECRET_BYTES)
                    await asyncio.to_thread(_keep_secret, file, f"{url}\n{ADMIN}\n{password}\n")
                    await self._client.first_admin(await asyncio.to_thread(password_words, password))
                known = await self._client.credentials(ADMIN)
                break
            except ClientError:  # Its answer may have been lost, so it is looked first.
                await asyncio.sleep(AGAIN_S)
        secret = await asyncio.to_thread(_kept_secret, file)
        words = known.password if known is not None and known.is_one_time else ""
        is_good = bool(secret and words) and await asyncio.to_thread(password_fits, secret, words)
        if not is_good:
            await asyncio.to_thread(_drop_secret, file)
        return is_good

    async def _proven(self, asked: PageLogin, address: str) -> Person:
        person = await self._client.credentials(asked.name) if is_person_name(asked.name) else None
        words = person.password if person is not None and person.is_enabled else ""
        async with self._hashing:
            fits = await asyncio.to_thread(password_fits, asked.password, words)
        if person is None or not words or not fits:
            self._failures.add(asked.name, address, self._now())
            refusal = Refusal(
                RefusalCode.ACCESS, "name or password is wrong", "an admin gives new ones: albireo people"
            )
            raise HttpRefused(401, refusal)
        return person

    async def _change(self, asked: PageLogin) -> None:
        """Take the password that the person chose."""
        if not asked.new_password or asked.new_password == asked.password:
            cause = "this password is for one login"
            raise HttpRefused(409, Refusal(RefusalCode.NOT_POSSIBLE, cause, "choose one of your own"))
        try:
            words = await asyncio.to_thread(password_words, asked.new_password)
        except ValueError as error:
            raise HttpRefused(422, Refusal(RefusalCode.BAD_VALUE, str(error), "choose another one")) from error
        await self._client.change_person(asked.name, password=words)

    async def _program(self, token: str) -> PagePerson | None:
        """Who a program speaks for that shows a token."""
        name = token_name(token)
        person = await self._pinned.credentials(name) if is_person_name(name) else None
        found = token_of(person, token, self._wall())
        if person is None or found is None:
            return None
        shown = await self._page_person(person.name, 0)
        return PagePerson(name=speaks_as(person, found), roles=shown.roles)

    async def _page_person(self, name: str, session_id: int) -> PagePerson:
        if self._now() >= self._look_at:
            self._access = await self._pinned.ask_kind(ACCESS_LIST, Nothing())
            self._look_at = Instant(self._now() + ACCESS_NS)
        grants = [one for row in self._access if row.principal == PERSON_PREFIX + name for one in row.grants]
        roles = {one.node: one.role for one in grants} or {"": AccessRole.VIEW.word}
        return PagePerson(name=name, roles=roles, session_id=session_id)

    async def _signed(self, text: str) -> str:
        self._key = self._key or await self._client.cookie_key()
        return hmac.new(self._key, text.encode(), "sha256").hexdigest()


def _drop_secret(file: Path) -> None:
    with contextlib.suppress(OSError):  # A password that is good no more may stay where nothing can be changed.
        file.unlink()


def _kept_secret(file: Path) -> str:
    """The password in the file; empty: there is none, or half of one."""
    try:
        found = file.read_text().splitlines()[2:]
    except (OSError, ValueError):
        return ""
    return found[0] if found and len(found[0]) == SECRET_BYTES * 4 // 3 else ""


def _keep_secret(file: Path, text: str) -> None:
    """Write what the user of the node alone may read."""
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.touch(mode=0o600)
    file.chmod(0o600)
    file.write_text(text)
