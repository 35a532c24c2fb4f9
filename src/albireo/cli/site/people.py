"""`albireo people`: who may log in at a face, and by what.

Spec: docs/access.md, People.
"""

import sys
import time
from typing import Any, Final

import click
import msgspec

from albireo.cli.output import Output, TextTable, printed
from albireo.cli.target import Place, node_client, place_option, user_option
from albireo.client.credentials import new_token, password_words
from albireo.codec.questions.persons import PersonRow
from albireo.model.access import ROLE_WORDS
from albireo.model.instant import SECOND

DAY_S: Final = 86_400
DAYS_MAX: Final = 3_650


@click.group("people")
def command() -> None:
    """Persons who log in at a face of the node, such as its page: they need no key.

    What a person may do is given like the role of a key: albireo access grant person:NAME ROLE. Without, it may view.
    """


@command.command("list")
@place_option
@printed
def list_people(place: Place) -> Output:
    """List the persons on record: role, credentials, enabled or not. No secret is shown: none is known."""
    with node_client(place) as client:
        rows = client.people()
    cells = ((one.name, one.role, _how(one), "" if one.is_enabled else "disabled") for one in rows)
    return Output({"people": _plain(rows)}, TextTable(("name", "role here", "logs in by", ""), cells))


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


def _how(one: PersonRow) -> str:
    password = ("one-time password" if one.is_one_time else "password") if one.has_password else ""
    tokens = (f"token {each.token_id} ({each.role}{', ' if each.label else ''}{each.label})" for each in one.tokens)
    return ", ".join(filter(None, (password, "certificate" if one.certificate else "", *tokens))) or "nothing"


def _typed() -> str:
    """The words of a password that is typed, unseen and twice, or is the first line of the input."""
    is_typed = sys.stdin.isatty()
    typed = click.prompt("Password", hide_input=True, confirmation_prompt=True) if is_typed else sys.stdin.readline()
    try:
        return password_words(str(typed).rstrip("\r\n"))
    except ValueError as error:
        raise click.UsageError(f"{error}: type another one, or give it as the first line of the input") from error


one_time_option = click.option("--one-time", is_flag=True, help="It is to be changed by whoever logs in with it.")


@command.command("add")
@click.argument("name")
@one_time_option
@click.option("--no-password", is_flag=True, help="The person logs in by certificate or token only.")
@click.option("--certificate", default="", metavar="SHA256", help="Fingerprint of its certificate, 64 hex digits.")
@user_option
@place_option
@printed
def add(name: str, one_time: bool, no_password: bool, certificate: str, user: str, place: Place) -> Output:
    """Put NAME on record. The password is typed unseen, or is the first line of the input."""
    words = "" if no_password else _typed()
    digits = certificate.replace(":", "").lower()
    with node_client(place, user) as client:
        row = client.add_person(name, words, is_one_time=one_time and not no_password, certificate=digits)
    hints = [] if row.role != "view" else [f"May view; to give more: albireo access grant person:{name} operate"]
    return Output(_plain(row), f"{name}: {_how(row)}", hints)


@command.command("passwd")
@click.argument("name")
@one_time_option
@user_option
@place_option
@printed
def passwd(name: str, one_time: bool, user: str, place: Place) -> Output:
    """Give NAME another password. Logins go on: end them with `albireo sessions end`."""
    words = _typed()
    with node_client(place, user) as client:
        row = client.change_person(name, password=words, is_one_time=one_time)
    return Output(_plain(row), f"{name}: {_how(row)}")


@command.command("token")
@click.argument("name")
@click.option("--role", type=click.Choice(ROLE_WORDS), default="view", show_default=True, help="Most that it may do.")
@click.option("--days", type=click.IntRange(1, DAYS_MAX), default=90, show_default=True, help="Time until it is over.")
@click.option("--label", default="", help="Words to know it again by.")
@click.option("--end", type=int, default=None, metavar="NUMBER", help="Take this token back instead.")
@user_option
@place_option
@printed
def token(name: str, role: str, days: int, label: str, end: int | None, user: str, place: Place) -> Output:
    """Give NAME a token, for a program that asks in its name. It is shown once, here."""
    if end is not None:
        with node_client(place, user) as client:
            row = client.end_token(name, end)
        return Output(_plain(row), f"{name}: {_how(row)}")
    made, until_ns = new_token(name), time.time_ns() + days * DAY_S * SECOND
    with node_client(place, user) as client:
        row = client.add_token(name, made.digest, role, until_ns, label)
    return Output({**_plain(row), "token": made.text}, made.text, ["Keep it: it is on record as a digest only."])


@command.command("disable")
@click.argument("name")
@user_option
@place_option
@printed
def disable(name: str, user: str, place: Place) -> Output:
    """Let NAME do nothing any more; its logins end within a second. What it did stays on record."""
    return _enabled(name, user, place, is_enabled=False)


@command.command("enable")
@click.argument("name")
@user_option
@place_option
@printed
def enable(name: str, user: str, place: Place) -> Output:
    """Let NAME log in again, with the role and the credentials that it had."""
    return _enabled(name, user, place, is_enabled=True)


def _enabled(name: str, user: str, place: Place, *, is_enabled: bool) -> Output:
    with node_client(place, user) as client:
        row = client.change_person(name, is_enabled=is_enabled)
    return Output(_plain(row), f"{name}: {'enabled' if row.is_enabled else 'disabled'}")
