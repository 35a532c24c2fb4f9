"""Methods of the page about people: who is on record, by what they log in, and who has which role.

Whether a person may is judged by the node; what it costs to hash a password is asked for by nobody else.
"""

import asyncio
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from albireo.client import AsyncClient
from albireo.client.credentials import PASSWORD_CHARS, password_words
from albireo.codec.questions.kind import Nothing
from albireo.codec.questions.people import ACCESS_GRANT, ACCESS_LIST, ACCESS_REVOKE, GrantAsked, RevokeAsked
from albireo.face.web.method import Arguments, Method, NoArguments
from albireo.model.bounded import Name, Text
from albireo.model.person import PersonName


class PersonArguments(Arguments, frozen=True):
    name: PersonName


class PasswordArguments(PersonArguments, frozen=True):
    password: Annotated[str, Meta(min_length=PASSWORD_CHARS.start, max_length=PASSWORD_CHARS.stop - 1)]
    """For one login: whoever logs in with it chooses another one."""


class EnableArguments(PersonArguments, frozen=True):
    is_enabled: bool


class GrantArguments(Arguments, frozen=True):
    principal: Text
    """Name of a key, or `person:NAME`."""
    role: Name
    node: Text = ""
    """Topmost node; empty: every node."""


class RevokeArguments(Arguments, frozen=True):
    principal: Text
    node: Text = ""


async def _words(client: AsyncClient, password: str) -> str:
    await client.people()  # Refused to all but admins, before anything is hashed for them.
    return await asyncio.to_thread(password_words, password)


async def _add(client: AsyncClient, asked: PasswordArguments) -> object:
    return await client.add_person(asked.name, await _words(client, asked.password), is_one_time=True)


async def _set_password(client: AsyncClient, asked: PasswordArguments) -> object:
    words = await _words(client, asked.password)
    return await client.change_person(asked.name, password=words, is_one_time=True)


async def granted(client: AsyncClient, asked: GrantArguments) -> object:
    """Give a role, as the person for whom the client speaks."""
    return await client.ask_kind(ACCESS_GRANT, GrantAsked(**msgspec.structs.asdict(asked), user=client.user))


async def _revoke(client: AsyncClient, asked: RevokeArguments) -> object:
    return await client.ask_kind(ACCESS_REVOKE, RevokeAsked(**msgspec.structs.asdict(asked), user=client.user))


PEOPLE_METHODS: Final[tuple[Method[Any], ...]] = (
    Method(
        name="people",
        arguments=NoArguments,
        run=lambda client, _: client.people(),
        meaning="persons on record, without what lets them in",
        is_reading=True,
    ),
    Method(
        name="access",
        arguments=NoArguments,
        run=lambda client, _: client.ask_kind(ACCESS_LIST, Nothing()),
        meaning="who has which role",
        is_reading=True,
    ),
    Method(
        name="add_person",
        arguments=PasswordArguments,
        run=_add,
        meaning="put a person on record, with a password for one login",
    ),
    Method(
        name="set_password",
        arguments=PasswordArguments,
        run=_set_password,
        meaning="give a person another password, for one login",
    ),
    Method(
        name="enable_person",
        arguments=EnableArguments,
        run=lambda client, asked: client.change_person(asked.name, is_enabled=asked.is_enabled),
        meaning="let a person log in, or not; its logins end then",
    ),
    Method(name="grant", arguments=GrantArguments, run=granted, meaning="give a role"),
    Method(name="revoke", arguments=RevokeArguments, run=_revoke, meaning="take a role"),
)
