"""Questions about persons: who they are, by what they log in, and their logins. For faces and `albireo people`."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from albireo.codec.questions.kind import Answerer, Asked, Nothing, QuestionKind, ShapeT
from albireo.model.access import AccessRole
from albireo.model.bounded import Count, Name, Signed, Text
from albireo.model.person import Digest, Fingerprint, Label, PasswordWords, Person, PersonName, PersonToken
from albireo.model.tree.session import SessionRow

LOGIN_S: Final = 12 * 3600
"""Time for which a login holds, unless a face says otherwise: a shift."""
LOGIN_S_MAX: Final = 30 * 24 * 3600


class PersonAsked(Asked, frozen=True, kw_only=True):
    """Arguments of a question about one person."""

    name: PersonName


class NewTokenAsked(msgspec.Struct, frozen=True, kw_only=True):
    """A token that a person is to have."""

    digest: Digest
    role: Name
    until_ns: Signed
    label: Label = ""


class PersonSet(PersonAsked, frozen=True, kw_only=True):
    """Arguments of `person_set`; None: it stays as it is."""

    is_new: bool = False
    """Nobody of this name is on record yet."""
    password: PasswordWords | None = None
    is_one_time: bool = False
    """A password that is given is one for the next login only."""
    certificate: Fingerprint | None = None
    is_enabled: bool | None = None
    token: NewTokenAsked | None = None
    end_token: Count = 0
    """Number of a token that is taken back."""
    user: Text = ""


class FirstAdmin(Asked, frozen=True, kw_only=True):
    """Arguments of `person_first`."""

    password: PasswordWords


class CredentialsAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `credentials`: one of the two."""

    name: Name = ""
    certificate: Fingerprint = ""


class LoginBegin(PersonAsked, frozen=True, kw_only=True):
    """Arguments of `login_begin`."""

    address: Name
    """Address of the browser, without a port."""
    for_s: Annotated[int, Meta(ge=1, le=LOGIN_S_MAX)] = LOGIN_S


class LoginShown(Asked, frozen=True, kw_only=True):
    """Arguments of `login`."""

    session_id: Count


class PersonRow(msgspec.Struct, frozen=True, kw_only=True):
    """A person, without what lets in."""

    name: str
    role: str
    """Role at the node that is asked; of one who is not enabled `none`."""
    is_enabled: bool
    has_password: bool
    is_one_time: bool
    certificate: str
    tokens: tuple[PersonToken, ...]
    """Without their digests."""
    since_ns: int


class FirstAdminTold(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `person_first`."""

    is_made: bool
    name: str = ""


class CookieKeyTold(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `cookie_key`."""

    key: bytes


def _changing(
    name: str, shape: type[ShapeT], answer: Any, meaning: str, told: str, *, is_for_persons: bool = True
) -> QuestionKind[ShapeT, Any]:
    return QuestionKind(
        name=name,
        shape=shape,
        answer=answer,
        answerer=Answerer.ACTING,
        role=AccessRole.ADMIN,
        meaning=meaning,
        told=told,
        is_for_persons=is_for_persons,
    )


def _reading(name: str, shape: type[ShapeT], answer: Any, meaning: str, told: str) -> QuestionKind[ShapeT, Any]:
    return QuestionKind(
        name=name,
        shape=shape,
        answer=answer,
        answerer=Answerer.CORE,
        role=AccessRole.ADMIN,
        meaning=meaning,
        told=told,
        is_reading=True,
        is_for_persons=name == "people",
    )


PEOPLE: Final[QuestionKind[Nothing, list[PersonRow]]] = _reading(
    "people", Nothing, list[PersonRow], "the persons on record", "all persons: no password, token or key among it"
)
CREDENTIALS: Final[QuestionKind[CredentialsAsked, Person | None]] = _reading(
    "credentials",
    CredentialsAsked,
    Person | None,
    "by what a person logs in, for a face that checks it",
    "the person of this name, or certificate, with hash and digests; null: there is none",
)
PERSON_SET: Final[QuestionKind[PersonSet, PersonRow]] = _changing(
    "person_set",
    PersonSet,
    PersonRow,
    "put a person on record, or change what it logs in by, its tokens, and whether it may",
    "the person as in `people`, once committed",
)
PERSON_FIRST: Final[QuestionKind[FirstAdmin, FirstAdminTold]] = _changing(
    "person_first",
    FirstAdmin,
    FirstAdminTold,
    "by a face: put the admin on record if nobody is",
    "whether it was made, and its name; committed",
    is_for_persons=False,
)
COOKIE_KEY: Final[QuestionKind[Nothing, CookieKeyTold]] = _changing(
    "cookie_key",
    Nothing,
    CookieKeyTold,
    "by a face beside a member: the key that signs cookies",
    "`key`, the same one at both members and over restarts; made when it is asked for first",
    is_for_persons=False,
)
LOGIN_BEGIN: Final[QuestionKind[LoginBegin, SessionRow]] = _changing(
    "login_begin",
    LoginBegin,
    SessionRow,
    "by a face: somebody has logged in as a person",
    "the session, once committed; `session_end` ends it",
    is_for_persons=False,
)
LOGIN: Final[QuestionKind[LoginShown, SessionRow | None]] = _reading(
    "login", LoginShown, SessionRow | None, "by a face: whether a login goes on", "its session; null: it is over"
)

KINDS: Final = (PEOPLE, CREDENTIALS, PERSON_SET, PERSON_FIRST, COOKIE_KEY, LOGIN_BEGIN, LOGIN)
