"""Methods about people: who is on record, by what they log in, and who has which role.

Whether a person may is judged by the node; what it costs to hash a password is asked for by nobody else.
"""

import asyncio
from typing import Annotated, Final

from msgspec import Meta

from albireo.client import AsyncClient
from albireo.client.credentials import PASSWORD_CHARS, password_words
from albireo.codec.questions.kind import Nothing
from albireo.codec.questions.people import ACCESS_GRANT, ACCESS_LIST, ACCESS_REVOKE, GrantAsked, RevokeAsked
from albireo.face.web.method import method
from albireo.model.bounded import Name, Text
from albireo.model.person import PersonName

Password = Annotated[str, Meta(min_length=PASSWORD_CHARS.start, max_length=PASSWORD_CHARS.stop - 1)]


@method(is_reading=True)
async def people(client: AsyncClient) -> object:
    """Persons on record, without what lets them in."""
    return await client.people()


@method(is_reading=True)
async def access(client: AsyncClient) -> object:
    """Who has which role."""
    return await client.ask_kind(ACCESS_LIST, Nothing())


@method()
async def add_person(client: AsyncClient, *, name: PersonName, password: Password) -> object:
    """Put a person on record, with a password for one login."""
    return await client.add_person(name, await _words(client, password), is_one_time=True)


@method()
async def set_password(client: AsyncClient, *, name: PersonName, password: Password) -> object:
    """Give a person another password, for one login."""
    return await client.change_person(name, password=await _words(client, password), is_one_time=True)


async def _words(client: AsyncClient, password: str) -> str:
    await client.people()  # Refused to all but admins, before anything is hashed for them.
    return await asyncio.to_thread(password_words, password)


@method()
async def enable_person(client: AsyncClient, *, name: PersonName, is_enabled: bool) -> object:
    """Let a person log in, or not; its logins end then."""
    return await client.change_person(name, is_enabled=is_enabled)


@method()
async def grant(client: AsyncClient, *, principal: Text, role: Name, node: Text = "") -> object:
    """Give a role to a key, by its name, or to `person:NAME`, at a node and all below it; without one at every node."""
    return await client.ask_kind(ACCESS_GRANT, GrantAsked(principal=principal, role=role, node=node, user=client.user))


@method()
async def revoke(client: AsyncClient, *, principal: Text, node: Text = "") -> object:
    """Take a role."""
    return await client.ask_kind(ACCESS_REVOKE, RevokeAsked(principal=principal, node=node, user=client.user))


PEOPLE_METHODS: Final = (people, access, add_person, set_password, enable_person, grant, revoke)
