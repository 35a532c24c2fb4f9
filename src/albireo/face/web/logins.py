"""Logins: who may speak as whom. One fixed admin until people are on record."""

import hashlib
import hmac
import secrets
from typing import Final

from albireo.face.web.words import Person

ADMIN: Final = "admin"


class Logins:
    """The fixed admin, with a password of this start."""

    def __init__(self) -> None:
        self.password = secrets.token_urlsafe(12)
        self._key = hashlib.sha256(self.password.encode()).digest()

    def token(self, name: str, password: str) -> str:
        """A token; empty: name or password is wrong."""
        is_right = name == ADMIN and hmac.compare_digest(password.encode(), self.password.encode())
        return f"{ADMIN}.{self._signed(ADMIN)}" if is_right else ""

    def person(self, token: str) -> Person | None:
        name, _, signature = token.partition(".")
        is_good = name == ADMIN and hmac.compare_digest(signature.encode(), self._signed(name).encode())
        return Person(name=name, roles={"": "admin"}) if is_good else None

    def _signed(self, name: str) -> str:
        return hmac.new(self._key, name.encode(), "sha256").hexdigest()
