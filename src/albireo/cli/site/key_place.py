"""Which keys a command means, and their refusals as failures."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from albireo.cli.output import ExitCode, Failure
from albireo.cli.place import DIRECTORY, VAR, runs
from albireo.runtime import Keys, KeysRefused
from albireo.runtime.link.key_files import OWN_FILE

_Function = TypeVar("_Function", bound=Callable[..., Any])


def place_options(function: _Function) -> _Function:
    """Give a command `--keys` and `--data`."""
    of_data = click.option("--data", type=DIRECTORY, help="Data directory of a node or witness; keys are in DATA/keys.")
    told = "Directory of the keys. Without both: the only one in ./var, or of the only process that runs."
    return click.option("--keys", "directory", type=DIRECTORY, help=told)(of_data(function))


def place_said(directory: Path | None, data: Path | None) -> Path:
    """Directory of keys that are to be made; Failure if none was named."""
    if directory is None and data is None:
        raise Failure("it is not said where", "name a place with --data DIR or --keys DIR", ExitCode.USAGE)
    return directory or (data or Path()) / "keys"


def check_role_said(role: str | None, node: str) -> None:
    """Raises Failure: it is said where a role counts, and not which."""
    if node and not role:
        raise Failure("--node says where, and no --role says what", "give both, or neither", ExitCode.USAGE)


def loaded(directory: Path | None, data: Path | None) -> Keys:
    """The keys that are meant.

    Raises:
        Failure: none, several, or such as must not be used.
    """
    with told():
        return Keys.load(find(directory, data))


def find(directory: Path | None, data: Path | None) -> Path:
    """Directory of the keys that are meant."""
    if directory is not None and data is not None:
        raise Failure("--keys and --data name two places", "give one of them", ExitCode.USAGE)
    if directory is not None or data is not None:
        return directory or (data or Path()) / "keys"
    found = sorted(one.parent for one in VAR.rglob(OWN_FILE)) if VAR.is_dir() else []
    running = [one for one in found if runs(one.parent)]
    if len(found) == 1 or len(running) == 1:
        return (running or found)[0]
    listed = f"several keys are here: {', '.join(map(str, found))}" if found else "there are no keys in ./var"
    raise Failure(listed, "name the place with --data DIR or --keys DIR", ExitCode.USAGE)


@contextmanager
def told() -> Iterator[None]:
    """A refusal of the keys becomes a failure with its remedy."""
    try:
        yield
    except KeysRefused as error:
        where = f"{error.path}: " if error.path is not None else ""
        raise Failure(where + error.reason, error.remedy, ExitCode.BAD_CONFIGURATION) from error
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}", "see that you may write there") from error
