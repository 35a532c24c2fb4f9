"""A node, a witness or a gate as a process: run it, find its keys, ask one that runs."""

import errno
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from albireo.cli.output import ExitCode, Failure
from albireo.runtime.errors import DataLocked, DirectoryUnsafe, EndpointRefused, KeysRefused
from albireo.runtime.link.curve import check
from albireo.runtime.link.keys import Keys

MISPLACED: Final = frozenset({errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.ENOENT})
"""Errors of a directory that was named wrongly, or belongs to somebody else: trying again does not help. A disk that
takes no writes is none of them: it may be mounted anew."""


def run_until_stopped(directory: Path, run: Callable[[], int]) -> int:
    """Call `run` until it ends, and give its exit code.

    Raises:
        Failure: the directory is taken, or can't be used. All else that `run` raises goes on.
    """
    try:
        return run()
    except (DataLocked, DirectoryUnsafe) as error:
        raise Failure(str(error), "stop the other one, or give --data", ExitCode.BAD_CONFIGURATION) from error
    except OSError as error:
        raise unusable(directory, error) from error


def unusable(directory: Path, error: OSError) -> Failure:
    """Failure of a data directory that can't be made or written."""
    return Failure(
        f"{directory} can't be used: {error.strerror}",
        "name a directory that you may write, on a disk that takes writes, with --data",
        ExitCode.BAD_CONFIGURATION if error.errno in MISPLACED else ExitCode.FAILED,
    )


def own_keys(name: str, directory: Path, keys: Path | None, endpoints: Iterable[str]) -> Path | None:
    """Directory of the keys of the process `name`: the one given, else `<data>/keys` if it is there.

    Raises:
        Failure: they can't be used, or there are none and an endpoint needs them.
    """
    found = keys if keys is not None or not (directory / "keys").is_dir() else directory / "keys"
    try:
        loaded = None if found is None else Keys.load(found)
    except KeysRefused as error:
        raise Failure(f"{found}: {error.reason}", error.remedy, ExitCode.BAD_CONFIGURATION) from error
    for endpoint in endpoints:
        try:
            check(endpoint, loaded)
        except EndpointRefused as error:
            remedy = f"make keys: albireo keys new {shlex.quote(name)} --data {directory}   (docs/keys.md)"
            raise Failure(f"{name} has no keys, and {error}", remedy, ExitCode.BAD_CONFIGURATION) from error
    return found


def status_of(kind: str, directory: Path) -> dict[str, Any]:
    """Status of the process that runs on `directory`; Failure if none does."""
    from albireo.client import ClientError, connect  # The process that runs for months has no use for it.

    try:
        with connect(directory, is_pinned=True) as client:
            answer = client.ask("status", of=kind)
    except ClientError as error:
        remedy = f"start it (`albireo {kind} --name ...`), or name its directory with --data"
        raise Failure(f"no {kind} answers in {directory}: {error}", remedy, ExitCode.UNREACHABLE) from error
    assert isinstance(answer, dict)
    return answer
