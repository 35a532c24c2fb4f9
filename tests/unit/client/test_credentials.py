"""Passwords and tokens: what goes on record fits what was given, and nothing else."""

from typing import Final

import pytest

from albireo.client.credentials import new_token, password_fits, password_words, speaks_as, token_name, token_of
from albireo.model.person import Person, PersonToken

LOW: Final = 4
"""Cost of hashes in a test."""


def test_a_password_fits_its_own_words_and_no_other() -> None:
    words = password_words("correct horse", LOW)
    assert password_fits("correct horse", words)
    assert password_words("correct horse", LOW) != words, "each has a salt of its own"
    for other in ("correct horse ", "", "x" * 5_000, "\ud800" * 9):
        assert not password_fits(other, words)


@pytest.mark.parametrize(
    "words", ["", "scrypt$99$aaaa$aaaa", "scrypt$4$a$a", "scrypt$0$aaaa$aaaa", "scrypt$4$====$===="]
)
def test_words_that_fit_nothing_let_nobody_in(words: str) -> None:
    assert not password_fits("", words) and not password_fits("anything", words)


@pytest.mark.parametrize("password", ["", "short", "x" * 1_025])
def test_a_password_that_is_too_short_or_long_is_none(password: str) -> None:
    with pytest.raises(ValueError, match="characters"):
        password_words(password)


def person(*, is_enabled: bool = True, until_ns: int = 10) -> tuple[Person, str]:
    made = new_token("anna")
    token = PersonToken(token_id=7, digest=made.digest, role="view", since_ns=0, until_ns=until_ns)
    return Person(name="anna", since_ns=0, tokens=(token,), is_enabled=is_enabled), made.text


def test_a_token_says_whose_it_is_and_fits_until_it_is_over() -> None:
    anna, text = person()
    assert token_name(text) == "anna"
    found = token_of(anna, text, 9)
    assert found is not None and speaks_as(anna, found) == "anna#7"
    assert token_of(anna, text, 10) is None, "it is over"
    assert token_of(anna, new_token("anna").text, 9) is None
    assert token_of(None, text, 9) is None
    disabled, text = person(is_enabled=False)
    assert token_of(disabled, text, 9) is None


@pytest.mark.parametrize("text", ["", "a", "====", "<b>", "é", "\ud800", "YW5uYQ", "x" * 100_000])
def test_what_is_no_token_names_nobody_and_fits_nothing(text: str) -> None:
    assert token_name(text) == ""
    assert token_of(person()[0], text, 9) is None
