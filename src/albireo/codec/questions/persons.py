"""Questions about persons: who they are, by what they log in, and their logins. For faces and `albireo people`."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from albireo.codec.questions.kind import Answerer, Asked, Nothing, QuestionKind, ShapeT
from albireo.model.access import AccessRole
from albireo.model.bounded import Count, Name, Signed, Text
from albireo.model.person import Digest, Fingerprint, Label, PasswordWords, Person, PersonName
from albireo.model.tree.session import SessionRow

LOGIN_S: Final = 12 * 3600
"""Time for which a login holds, unless a face says otherwise: a shift."""
LOGIN_S_MAX: Final = 30 * 24 * 3600


class PersonAsked(Asked, frozen=True, kw_only=True):
    """Arguments of a question about one person."""

    name: PersonName


class PersonAdd(PersonAsked, frozen=True, kw_only=True):
    """Arguments of `person_add`."""

    password: PasswordWords = ""
    is_one_time: bool = False
    certificate: Fingerprint = ""
    user: Text = ""


class PersonChange(PersonAsked, frozen=True, kw_only=True):
    """Arguments of `person_change`; None: as it is. A password goes with `is_one_time`."""

    password: PasswordWords | None = None
    is_one_time: bool = False
    certificate: Fingerprint | None = None
    is_enabled: bool | None = None
    user: Text = ""


class TokenAdd(PersonAsked, frozen=True, kw_only=True):
    """Arguments of `token_add`."""

    digest: Digest
    role: Name
    until_ns: Signed
    label: Label = ""
    user: Text = ""


class TokenEnd(PersonAsked, frozen=True, kw_only=True):
    """Arguments of `token_end`."""

    token_id: Count
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


class LoginAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `login`."""

    session_id: Count


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without what lets in."""

    token_id: int
    label: str
    role: str
    since_ns: int
    until_ns: int


class PersonRow(msgspec.Struct, frozen=True, kw_only=True):
    """A person, without what lets in."""

    name: str
    role: str
    """Role at the node that is asked; of one who is not enabled `none`."""
    is_enabled: bool
    has_password: bool
    is_one_time: bool
    certificate: str
    tokens: tuple[TokenRow, ...]
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


_ROW: Final = "the person, once committed"
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
PERSON_ADD: Final[QuestionKind[PersonAdd, PersonRow]] = _changing(
    "person_add", PersonAdd, PersonRow, "put a person on record", _ROW
)
PERSON_CHANGE: Final[QuestionKind[PersonChange, PersonRow]] = _changing(
    "person_change",
    PersonChange,
    PersonRow,
    "give a person another password or certificate, enable or disable it",
    _ROW,
)
PERSON_FIRST: Final[QuestionKind[FirstAdmin, FirstAdminTold]] = _changing(
    "person_first",
    FirstAdmin,
    FirstAdminTold,
    "by a face: put the admin on record if nobody is",
    "whether it was made, and its name; committed",
    is_for_persons=False,
)
TOKEN_ADD: Final[QuestionKind[TokenAdd, PersonRow]] = _changing(
    "token_add", TokenAdd, PersonRow, "give a person a token", _ROW
)
TOKEN_END: Final[QuestionKind[TokenEnd, PersonRow]] = _changing(
    "token_end", TokenEnd, PersonRow, "take a token back", _ROW
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
LOGIN: Final[QuestionKind[LoginAsked, SessionRow | None]] = _reading(
    "login", LoginAsked, SessionRow | None, "by a face: whether a login goes on", "its session; null: it is over"
)

KINDS: Final = (
    PEOPLE,
    CREDENTIALS,
    PERSON_ADD,
    PERSON_CHANGE,
    PERSON_FIRST,
    TOKEN_ADD,
    TOKEN_END,
    COOKIE_KEY,
    LOGIN_BEGIN,
    LOGIN,
)
