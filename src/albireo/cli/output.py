"""All output of commands: one JSON line, tables, progress, and errors with a remedy.

Data, which is whatever `--json` has too, goes to standard output, talk to standard error. No text in either steers the
terminal (`plain`). With `--json` exactly one JSON object is written, on one line, the last of standard output; a
failure writes one too: `{"error": ..., "remedy": ..., "exit": ...}`.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any, TypeVar

import click
import msgspec

from albireo.cli import JSON_ASKED
from albireo.cli.safe_text import plain

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ExitCode(IntEnum):
    """Exit codes of every command; 69 and 78 as in sysexits.h."""

    GOOD = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 69
    BAD_CONFIGURATION = 78


class Failure(click.ClickException):
    """A command could not do what was asked; says why and what to do next."""

    def __init__(
        self,
        message: str,
        remedy: str = "",
        exit_code: ExitCode = ExitCode.FAILED,
        details: dict[str, Any] | None = None,
        *,
        is_json: bool = False,
    ) -> None:
        """`is_json`: `--json` was given, also if the command line could not be read."""
        super().__init__(message)
        self.remedy = remedy
        self.exit_code = int(exit_code)  # type: ignore[misc]  # Click has one per class; here the cause decides.
        self._details = details or {}
        self._is_json = is_json or json_asked()

    def show(self, file: Any = None) -> None:
        for line in f"albireo: {self.message}".split("\n"):
            say(line)
        if self.remedy:
            say(f"What to do: {self.remedy}")
        if self._is_json:
            answer = {"error": self.message, "remedy": self.remedy, "exit": self.exit_code}
            emit(answer | self._details)


def json_option(function: _Function) -> _Function:
    """Give a command the flag `--json`, handed in as `as_json`."""

    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
        ctx.meta[JSON_ASKED] = value
        return value

    return click.option(
        "--json", "as_json", is_flag=True, callback=remember, is_eager=True, help="One JSON object as the last line."
    )(function)


def json_asked() -> bool:
    """Whether `--json` was given to the present command."""
    context = click.get_current_context(silent=True)
    return bool(context and context.meta.get(JSON_ASKED))


def emit(answer: object) -> None:
    """Write the one JSON line; NaN and infinities become null."""
    sys.stdout.flush()
    click.echo(msgspec.json.encode(answer))


def show(text: str) -> None:
    """A line of the data."""
    click.echo(plain(text))


def say(text: str) -> None:
    """A line for the human beside the data."""
    click.echo(plain(text), err=True)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    """A table on standard output; tab-separated where no human sits in front of it."""
    if not sys.stdout.isatty():
        for row in [columns, *rows]:
            click.echo("\t".join(plain(str(cell)) for cell in row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")  # A narrow terminal breaks names and ids, and leaves nothing out.
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(plain(str(cell))) for cell in row))
    Console().print(table)


@contextlib.contextmanager
def until_interrupted(is_endless: bool) -> Iterator[None]:
    """Take Ctrl-C for the end of a command that runs until then (`is_endless`), not for a failure."""
    try:
        yield
    except KeyboardInterrupt:
        if not is_endless:
            raise


@contextlib.contextmanager
def progress(description: str, total: float | None) -> Iterator[Callable[[float, str], None]]:
    """A progress bar on standard error while long work runs.

    Yields:
        Call it with how much was done since the last call, and with what is being done now (may be empty). Off a
        terminal it writes nothing but the first line.
    """
    if not sys.stderr.isatty():
        say(description)
        yield lambda _advance, _text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)

        def advance(amount: float, text: str) -> None:
            bar.update(task, advance=amount, description=f"{description} {plain(text)}".rstrip())

        yield advance
