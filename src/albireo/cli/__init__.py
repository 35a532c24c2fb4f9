"""The `albireo` command: one module per group, imported only when its command is run.

`cli/<module>.py` holds an object `command`; its line in `COMMANDS` names it and gives the one-line help, so that
`albireo --help` imports nothing but click.
"""

import codecs
import contextlib
import errno
import importlib
import io
import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if sys.argv[0].endswith("/albireo") and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # The command itself is loaded: Ctrl-C ends it without a traceback.

import click
from click.shell_completion import CompletionItem

import albireo

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

__all__ = ["COMMANDS", "cli", "main"]

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "demo": ("albireo.cli.demo.demo", "Two simulated tunnels, a tree of nodes on them, the report at the end."),
    "node": ("albireo.cli.node.node", "Run a node."),
    "witness": ("albireo.cli.pair.witness", "Vote for pairs: a small process with a disk, on a third machine."),
    "gate": ("albireo.cli.pair.gate", "Guard a PLC's outputs: the only path to it, on a gateway machine."),
    "pair": ("albireo.cli.pair.pair", "Begin a pair: `albireo pair init`."),
    "switchover": ("albireo.cli.pair.pair:switchover", "Let the other member lead, in order."),
    "maintenance": ("albireo.cli.pair.pair:maintenance", "Keep a member from leading, for work on its machine."),
    "promote": ("albireo.cli.pair.pair:promote", "Let a member lead by force; the other machine is off."),
    "voter": ("albireo.cli.pair.pair:voter", "Let a voter that lost its store vote again."),
    "stop": ("albireo.cli.node.stop", "Stop a node, or both members of a pair with equal logs."),
    "stores": ("albireo.cli.node.stores", "Which of two data directories is newer, and why."),
    "quarantine": ("albireo.cli.node.stores:quarantine", "What was cut from a log and is kept."),
    "status": ("albireo.cli.node.status", "What a node is doing: role, log position, rates, adapters."),
    "tree": ("albireo.cli.below.tree", "Nodes below: heard, complete to when, what is to come, what is missing."),
    "watch": ("albireo.cli.view.watch", "Live view of items and cases, here and below."),
    "items": ("albireo.cli.node.items", "Items with their current value and quality."),
    "forget": ("albireo.cli.node.forget", "Forget producers or items that are no more."),
    "write": ("albireo.cli.node.write", "Set one item, with read-back."),
    "command": ("albireo.cli.node.command", "What became of each command."),
    "selections": ("albireo.cli.site.selections", "Items that are selected for an order: list, end."),
    "message": ("albireo.cli.message.message", "Messages and files to programs at other nodes."),
    "force": ("albireo.cli.force.force", "Put a value to an item for a time, or end that."),
    "topic": ("albireo.cli.topic.topic", "Topics, and who has still to read what of them."),
    "hexabus": ("albireo.cli.hexabus.hexabus", "State machines of a Hexabus house, and a look at its network."),
    "forces": ("albireo.cli.force.force:forces", "Items that are forced: by whom, why, how long."),
    "history": ("albireo.cli.node.history", "Stored values of an item: raw, or per interval."),
    "events": ("albireo.cli.node.events", "Journal of cases and audit entries."),
    "audit": ("albireo.cli.node.audit", "Prove the audit records: export them, check an export."),
    "cases": ("albireo.cli.node.cases", "Alarm cases: list, acknowledge, shelve."),
    "notify": ("albireo.cli.site.notify", "Rules by which people are told of alarms: check, test."),
    "picture": ("albireo.cli.site.picture", "Pictures that the page shows: check."),
    "keys": ("albireo.cli.site.keys", "Keys of the TCP links: make, list, trust, rotate, revoke."),
    "people": ("albireo.cli.site.people", "Who may log in at a face: add, passwd, token, disable, enable, list."),
    "access": ("albireo.cli.site.access", "Who may do what: list, grant, revoke."),
    "sessions": ("albireo.cli.site.sessions", "Who is present: list, end."),
    "site": ("albireo.cli.site.sites", "Save nodes under a name, to reach them from here."),
    "topology": ("albireo.cli.site.topology", "Write or check a topology file."),
    "chp": ("albireo.cli.chp", "Serve a node's items to programs that speak CHP (ZeroMQ RFC 12)."),
    "pipeline": ("albireo.cli.pipeline", "Turn the history into tables and a report with Spark."),
    "simulate": ("albireo.cli.proof.simulate", "Play the pair in seeded worlds full of faults."),
    "drill": ("albireo.cli.proof.drill", "Rehearse a fault on a throw-away pair of real processes."),
    "doctor": ("albireo.cli.site.doctor", "Check this machine: ports, disk, clock, Java, versions."),
    "completion": ("albireo.cli.completion", "Print the completion script of a shell."),
}
"""Name of the command: module that holds it (as `command`, or by the name behind a colon), help in one line."""


_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Reasons for which the disk behind `> FILE` or `--output FILE` takes no more."""
_REFUSING: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)
"""Reasons for which a place can't be used by whoever runs this."""
JSON_ASKED: Final = "albireo.json"
"""Key in `Context.meta`: whether `--json` was given."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for, and not for its help."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        is_json = "--json" in args
        with _usage_told(is_json=is_json):
            for one in args:
                if one != one.encode(errors="replace").decode():  # The bytes of a terminal that speaks Latin-1.
                    raise click.UsageError(f"{one!a} is not UTF-8: nobody could read it in a record or an answer")
            context = super().make_context(info_name, args, parent, **extra)
        context.meta[JSON_ASKED] = is_json
        return context

    def invoke(self, ctx: click.Context) -> Any:
        with _usage_told(is_json=ctx.meta[JSON_ASKED]):
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        loaded = getattr(importlib.import_module(module), name or "command")
        assert isinstance(loaded, click.Command)
        _at_interrupt(signal.SIG_DFL, signal.default_int_handler)  # From here on there may be something to tell.
        return loaded

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [CompletionItem(name, help=line) for name, (_, line) in COMMANDS.items() if name.startswith(incomplete)]
        return names or super().shell_complete(ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@contextlib.contextmanager
def _usage_told(*, is_json: bool) -> Iterator[None]:
    """Say what a file or directory refuses. With --json a wrong usage, and Ctrl-C, is one JSON object too."""
    try:
        yield
    except (KeyboardInterrupt, click.Abort) as error:
        if not is_json:
            raise
        from albireo.cli.output import Failure

        raise Failure(
            "broken off", "what was ordered before may be done: albireo command list", is_json=True
        ) from error
    except click.UsageError as error:
        if not is_json:
            raise
        from albireo.cli.output import ExitCode, Failure

        asked = error.ctx.command_path if error.ctx is not None else "albireo"
        raise Failure(error.format_message(), f"{asked} --help", ExitCode.USAGE, is_json=True) from error
    except OSError as error:
        if error.errno not in _REFUSING or error.filename is None:
            raise
        from albireo.cli.output import Failure

        remedy = "name another place, or act as a user who may use this one"
        raise Failure(f"{error.filename}: {error.strerror}", remedy, is_json=is_json) from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(albireo.__version__, prog_name="albireo")
def cli() -> None:
    """Monitoring and control that never loses an acknowledged fact.

    With --json, the last line of standard output is one JSON object; all else goes to standard error. Exit codes:
    0 good, 1 failed, 2 wrong usage, 3 some of several done, 69 node unreachable, 78 bad configuration.
    130 (SIGINT): Ctrl-C before anything was done, or a second one.
    """


def _open_closed_streams() -> None:
    """Let standard streams that are closed lead nowhere, here and in every process that is started from here.

    Otherwise the next file or socket takes the number, and gets what is meant for the stream.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)  # The lowest number is free.
            assert opened == number, f"descriptor {number} is closed, and {opened} was opened"
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


def _show_everything() -> None:
    """Let no character be a failure: the C locale gets UTF-8, any other one what it lacks as an escape (`\\u03a9`)."""
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, io.TextIOWrapper)
        is_ascii = codecs.lookup(stream.encoding).name == "ascii"
        stream.reconfigure(encoding="utf-8" if is_ascii else None, errors="backslashreplace")


def _at_interrupt(before: object, now: Any) -> None:
    """Have Ctrl-C do `now` if it does `before`; an ignored Ctrl-C, as of a command behind `&`, stays ignored."""
    if signal.getsignal(signal.SIGINT) is before:
        signal.signal(signal.SIGINT, now)


def _end_interrupted(*_: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.raise_signal(signal.SIGINT)


def _look_at_dropped(dropped: "UnraisableHookArgs") -> None:
    """End at a Ctrl-C in a finalizer, or in a callback of an import: Python prints that one and drops it."""
    is_interrupt = dropped.exc_type is KeyboardInterrupt
    (_end_interrupted if is_interrupt else sys.__unraisablehook__)(dropped)


def main() -> None:
    """Entry point of the console script; ends the process."""
    _at_interrupt(signal.default_int_handler, signal.SIG_DFL)  # While modules are loaded it ends us in silence.
    sys.unraisablehook = _look_at_dropped
    _open_closed_streams()
    _show_everything()
    if sys.flags.optimize:
        click.echo("albireo: runs without python -O only: its assertions guard the data", err=True)
        sys.exit(78)
    try:
        cli.main(prog_name="albireo")
    except KeyboardInterrupt:  # It came again, while it was told what the first one broke off.
        _end_interrupted()
    except OSError as error:
        if error.errno not in _NO_ROOM:  # Where the reader of a pipe has gone (`| head`), click has ended in silence.
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # The end must not fail at it too.
        text = f"albireo: not all of the output is written ({error.strerror}); what was ordered may be done"
        click.echo(text, err=True)
        sys.exit(1)
    finally:
        _at_interrupt(signal.default_int_handler, signal.SIG_DFL)  # There is nothing left to tell, nor to wait for.
