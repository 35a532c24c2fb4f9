"""All output of commands. A command gives what it has to say as an `Output`, and here it is printed.

    @click.command("forces")
    @place_option
    @printed
    def forces(place: Place) -> Output:
        with node_client(place) as client:
            found = client.forces()
        return Output({"forces": found}, TextTable(COLUMNS, map(cells, found), empty="nothing is forced"))

Data, which is whatever `--json` has too, goes to standard output, talk to standard error. No text in either steers the
terminal (`plain`). With `--json` exactly one JSON object is written, on one line, the last of standard output; a
command that is asked to watch writes one at each look. A failure writes one too: `{"error", "remedy", "exit"}`.
"""

import contextlib
import functools
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, TypeVar

import click
import msgspec

from albireo.cli import JSON_ASKED
from albireo.cli.safe_text import plain
from albireo.runtime.actor.exits import STOP_SIGNALS

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ExitCode(IntEnum):
    """Exit codes of every command; 69 and 78 as in sysexits.h."""

    GOOD = 0
    FAILED = 1
    USAGE = 2
    SOME = 3
    """Some of several things were done, and some were not."""
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
        self.details = details or {}
        self._is_json = is_json or json_asked()

    def show(self, file: Any = None) -> None:
        for line in f"albireo: {self.message}".split("\n"):
            say(line)
        if self.remedy:
            say(f"What to do: {self.remedy}")
        if self._is_json:
            answer = {"error": self.message, "remedy": self.remedy, "exit": self.exit_code}
            _emit(answer | self.details)


class TextTable(msgspec.Struct, frozen=True):
    """Rows for people."""

    columns: Sequence[str]
    """Their heads; none: the rows stand alone."""
    rows: Iterable[Sequence[object]]
    title: str = ""
    empty: str = ""
    """Line that stands for a table without rows; empty: its columns are shown all the same."""


Shown = str | TextTable


class Output(msgspec.Struct, frozen=True):
    """Everything that a command has to say when its work is done."""

    value: object
    """The JSON object."""
    text: Shown | Iterable[Shown] = ()
    """How it reads: lines and tables. A generator makes them only if they are shown."""
    hints: Iterable[str] = ()
    """Lines beside the data for whoever reads the text, such as the next step."""
    exit_code: int = ExitCode.GOOD
    failure: Failure | None = None
    """Why the value is only a part. It ends the command after the text; in JSON it takes the place of the value, which
    is among its details."""


def tell(output: Output) -> None:
    """Print it.

    Raises:
        SystemExit, Failure: as it says.
    """
    sys.stdout.flush()  # What the command wrote itself: a full disk is told now, not at the end of the process.
    if not json_asked():
        for one in (output.text,) if isinstance(output.text, str | TextTable) else output.text:
            if isinstance(one, str):
                show(one)
            else:
                show_table(one)
        for line in output.hints:
            say(line)
    elif output.failure is None:
        _emit(output.value)
    if output.failure is not None:
        raise output.failure
    if output.exit_code:
        raise SystemExit(int(output.exit_code))


def printed(function: Callable[..., Output | None]) -> Callable[..., None]:
    """Give a command `--json`, and print what it returns; None: it has printed everything itself."""

    @functools.wraps(function)
    def telling(*arguments: Any, **options: Any) -> None:
        output = function(*arguments, **options)
        if output is not None:
            tell(output)

    return _json_option(telling)


Looks = Generator[Output, None, None]
"""How things are, at each look."""


def watched(every_s: float) -> Callable[[Callable[..., Looks]], Callable[..., None]]:
    """Give a command `--json` and `--watch`, and print what it yields: once, or every so many seconds until Ctrl-C."""

    def decorated(function: Callable[..., Looks]) -> Callable[..., None]:
        @functools.wraps(function)
        def telling(*arguments: Any, watch: bool, **options: Any) -> None:
            looks = function(*arguments, **options)
            with until_interrupted(watch), contextlib.closing(looks):
                for output in looks:
                    if watch and not json_asked():
                        click.clear()
                    tell(output)
                    if not watch:
                        return
                    time.sleep(every_s)

        return click.option("--watch", is_flag=True, help="Show again and again until Ctrl-C.")(_json_option(telling))

    return decorated


def _json_option(function: _Function) -> _Function:
    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        ctx.meta[JSON_ASKED] = value

    return click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=remember,
        is_eager=True,
        help="One JSON object as the last line.",
    )(function)


def json_asked() -> bool:
    """Whether `--json` was given to the present command."""
    context = click.get_current_context(silent=True)
    return bool(context and context.meta.get(JSON_ASKED))


def ask_for_json() -> None:
    """Have the present command do as if `--json` was given."""
    click.get_current_context().meta[JSON_ASKED] = True


def _emit(value: object) -> None:
    """Write the one JSON line; NaN and infinities become null."""
    sys.stdout.flush()
    click.echo(msgspec.json.encode(value))


def show(text: str) -> None:
    """A line of the data."""
    click.echo(plain(text))


def say(text: str) -> None:
    """A line for the human beside the data."""
    click.echo(plain(text), err=True)


def show_table(table: TextTable) -> None:
    """A table on standard output; tab-separated where no human sits in front of it."""
    head, *rows = [[plain(str(cell)) for cell in row] for row in (table.columns, *table.rows)]
    if not rows and table.empty:
        show(table.empty)
        return
    if not sys.stdout.isatty():
        for row in (head, *rows) if head else rows:
            click.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=table.title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    drawn.show_header = bool(head)
    for column in head or [""] * max(map(len, rows), default=0):
        drawn.add_column(column, overflow="fold")  # A narrow terminal breaks names and ids, and leaves nothing out.
    for row in rows:
        drawn.add_row(*map(Text, row))
    Console().print(drawn)


@contextlib.contextmanager
def until_interrupted(is_endless: bool) -> Iterator[None]:
    """Take Ctrl-C, SIGTERM and SIGHUP for the end of an endless command, not for a failure."""
    takes_signals = is_endless and threading.current_thread() is threading.main_thread()
    heard = [one for one in STOP_SIGNALS if takes_signals and signal.getsignal(one) is not signal.SIG_IGN]  # nohup
    before = [(one, signal.signal(one, signal.default_int_handler)) for one in heard]
    try:
        yield
    except KeyboardInterrupt:
        if not is_endless:
            raise
    finally:
        for number, handler in before:
            signal.signal(number, handler)


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
