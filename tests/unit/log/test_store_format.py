"""A store of another format is refused by name, and left as it is; nothing of another format is taken for damage."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from albireo.log.errors import WrongStore
from albireo.log.inspection import inspect
from albireo.log.log import Log
from albireo.model.feature import STORE_FORMAT
from tests.parts.log import IDENTITY, SMALL
from tests.parts.other_format import OTHER, make_other, make_strange


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log that was closed cleanly."""
    made, _ = Log.open(tmp_path / "log", IDENTITY, SMALL)
    made.close()
    return tmp_path / "log"


def content(log: Path) -> dict[str, bytes]:
    """Every file but the lock."""
    return {str(one): one.read_bytes() for one in log.rglob("*") if one.is_file() and one.name != "lock"}


@pytest.mark.parametrize("names", [("store.a", "store.b"), ("store.a",), ("store.b",)])
def test_another_format_is_named_with_the_one_that_is_read_and_the_remedy(log: Path, names: tuple[str, ...]) -> None:
    """One copy is enough: it may be the newer one, and going on with the other would break a promise."""
    make_other(log, names)
    before = content(log)
    said = (
        f"{log}: the store has format {OTHER}, this software reads format {STORE_FORMAT}; "
        "start the software that wrote it, or move it away to begin anew"
    )
    for look in (lambda: Log.open(log, IDENTITY, SMALL), lambda: inspect(log)):
        with pytest.raises(WrongStore, match=f"^{re.escape(said)}$"):
            look()
    assert content(log) == before


@pytest.mark.parametrize("look", [lambda log: Log.open(log, IDENTITY, SMALL), inspect])
def test_a_header_that_is_whole_and_not_understood_is_refused(log: Path, look: Callable[[Path], object]) -> None:
    make_strange(log)
    before = content(log)
    with pytest.raises(WrongStore, match=r"header is whole but not understood: .*; start the software that wrote it"):
        look(log)
    assert content(log) == before
