"""A witness or a gate, each a process beside the nodes: run it, or ask one that runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from albireo.cli.output import ExitCode, Failure, emit
from albireo.runtime.errors import DataLocked, DirectoryUnsafe


def run_until_stopped(kind: str, name: str, directory: Path, run: Callable[[], int], *, as_json: bool) -> int:
    """Call `run` until it ends, and give its exit code.

    Raises:
        Failure: the directory is taken, or can't be used. All else that `run` raises goes on.
    """
    try:
        code = run()
    except (DataLocked, DirectoryUnsafe) as error:
        raise Failure(str(error), "stop the other one, or give --data", ExitCode.BAD_CONFIGURATION) from error
    except OSError as error:
        raise Failure(
            f"{directory} can't be used: {error}", "it must be a directory on a disk that takes writes"
        ) from error
    if as_json:
        emit({kind: name, "exit": code})
    return code


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
