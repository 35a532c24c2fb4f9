"""`albireo demo`: a simulated tunnel, one node on it, the live view, and the report at the end.

    plant and PLCs start -> site is written -> node starts -> view -> node stops -> plant stops -> account -> pipeline

Whatever ends it - q, `--for`, Ctrl-C, a signal - goes this way from `view` on; only SIGTERM and a second Ctrl-C leave
the pipeline out.
"""

import contextlib
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import click
import msgspec

from albireo.cli.demo.account import DemoAccount, account_of
from albireo.cli.demo.processes import LOG, DemoPair, run_pipeline
from albireo.cli.demo.spark import wait_for_spark
from albireo.cli.output import ExitCode, Failure, emit, json_option, say, show
from albireo.cli.place import MEMBERS, data_option
from albireo.cli.process import unusable
from albireo.cli.view.state import LiveState
from albireo.cli.view.view import LiveView
from albireo.cli.view.watch import SITE, site_of
from albireo.codec.errors import DecodeError
from albireo.model import quality
from albireo.model.instant import SECOND
from albireo.plant.tunnel import Scenario, Tunnel, TunnelError, start_tunnel
from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.plant.tunnel.processes import begin
from albireo.runtime.actor.clock import wall_ns
from albireo.runtime.actor.directory import DataLock
from albireo.runtime.errors import RuntimeFault

DATA: Final = Path("var/demo")
LOCK_NAME: Final = "lock"
MARK: Final = "demo"
"""File in a data directory that a demo made, and so may empty."""
INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as shells have it."""
NOTHING: Final = DemoAccount(
    seconds=0.0,
    samples_acquired=0,
    samples_committed=0,
    samples_dropped=0,
    cases_raised=0,
    log={"epoch": 0, "sequence": 0, "bytes": 0},
    history={"files": 0, "rows": 0, "gaps": 0},
)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the command."""

    data: Path
    is_fresh: bool
    """Begin with an empty directory; else go on with what is there."""
    seconds: float | None
    """Seconds from the first poll to the last; None: the demo goes on until the operator leaves."""
    seed: int
    has_pipeline: bool
    has_view: bool


class Interrupted(Exception):
    """Ctrl-C or a signal: stop in order, and leave out what comes after."""


@click.group("demo", invoke_without_command=True)
@click.option(
    "--for", "seconds", type=click.FloatRange(min=0.5), default=None, help="End so long after the first poll."
)
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same tunnel.")
@click.option("--no-pipeline", is_flag=True, help="Leave out Spark.")
@data_option
@json_option
@click.pass_context
def command(
    context: click.Context, seconds: float | None, seed: int, no_pipeline: bool, data: Path | None, as_json: bool
) -> None:
    """A simulated road tunnel, one node on it, a live view, and a report of what was recorded.

    Without --data it starts afresh in var/demo; with it, it goes on with what is there. In the view, ? shows the keys.
    """
    if context.invoked_subcommand is not None:
        context.obj = data
        return
    options = Options(
        data=(data or DATA).absolute(),
        is_fresh=data is None,
        seconds=seconds,
        seed=seed,
        has_pipeline=not no_pipeline,
        has_view=not as_json,
    )
    answer, complaints, is_interrupted = run(options)
    if as_json:
        emit(answer)
    if complaints:
        say("did not hold: " + "; ".join(complaints))
    if is_interrupted or complaints:
        raise SystemExit(INTERRUPTED if is_interrupted else int(ExitCode.FAILED))


@command.command()
@click.argument("name", type=click.Choice([one.value for one in Scenario]))
@click.option("--at", "place", type=int, default=None, help="Section (1..8) or fan (1..10); a usual one without it.")
@click.option("--plc", default="p1", show_default=True, help="Which PLC goes off.")
@data_option
@json_option
@click.pass_obj
def scenario(outer: Path | None, name: str, place: int | None, plc: str, data: Path | None, as_json: bool) -> None:
    """Begin a scenario in a demo that runs in another terminal; `clear` ends all of them."""
    site = site_of(data or outer or DATA)
    try:
        begin(site, Scenario(name), None if place is None else place - 1, plc)
    except TunnelError as error:
        raise Failure(str(error), "see `albireo demo scenario --help`", ExitCode.UNREACHABLE) from error
    if as_json:
        emit({"scenario": name, "at": place, "plc": plc})
    else:
        show(f"scenario {name} has begun")


def run(options: Options) -> tuple[dict[str, Any], list[str], bool]:
    """The whole demo.

    Returns:
        The answer with the keys of `--json`, everything that did not hold, and whether a signal ended it.
    Raises:
        Failure: it could not begin.
    """
    since_ns = wall_ns()
    with prepared(options), Signals() as signals:
        recorded = _record(options, signals)
        status, complaints = recorded.status, recorded.complaints
        account = _account(recorded, since_ns)
        pipeline: dict[str, Any] = {"tables": {}, "seconds": 0.0, "report": None}
        if options.has_pipeline and not signals.are_urgent and account.samples_committed:
            pipeline = _analysed(recorded.data, signals, pipeline, complaints)
    commit = status.get("acquire_to_commit_ms") or {"p50": None, "p99": None}
    _tell(options, recorded.data, account, commit, pipeline)
    answer = {**msgspec.to_builtins(account), "acquire_to_commit_ms": commit, "pipeline": pipeline}
    return answer, complaints, signals.have_come


@contextlib.contextmanager
def prepared(options: Options) -> Iterator[None]:
    """Makes the data directory, or empties that of an earlier demo; within, it is ours alone.

    Raises:
        Failure: another demo runs there, or it holds what no demo has made.
    """
    data = options.data
    try:
        is_new = not data.exists() or not any(data.iterdir())
        lock = DataLock.acquire(data)
    except OSError as error:
        raise unusable(data, error) from error
    except RuntimeFault as error:
        remedy = "leave the other demo (q), or give this one --data DIR"
        raise Failure(str(error), remedy, ExitCode.BAD_CONFIGURATION) from error
    try:
        if options.is_fresh and not is_new:
            if not (data / MARK).exists():
                raise Failure(f"{data} was not made by a demo and is left alone", "give another place with --data DIR")
            _empty(data)
        (data / MARK).write_text("Made by `albireo demo`, which empties it at its next start.\n")
        yield
    finally:
        lock.release()


def _empty(data: Path) -> None:
    for entry in data.iterdir():
        if entry.name == LOCK_NAME:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


class Signals:
    """Ctrl-C and SIGTERM: raise `Interrupted` once while `raising`, else are only remembered."""

    def __init__(self) -> None:
        self.have_come = False
        self.are_urgent = False
        """SIGTERM, or a second Ctrl-C: whoever waits does not wait for a report."""
        self._is_raising = False

    def __enter__(self) -> "Signals":
        self._before = {number: signal.signal(number, self._come) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _come(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.are_urgent = self.have_come or number == signal.SIGTERM
        self.have_come = True
        if self._is_raising:
            self._is_raising = False
            raise Interrupted

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """Within, a signal ends what is under way; the rest goes on after it."""
        self._is_raising = True
        try:
            yield
        except Interrupted:
            pass
        finally:
            self._is_raising = False


class Recorded(msgspec.Struct, kw_only=True):
    """Result of plant, pair and view."""

    data: Path
    """Directory of the member that acted last."""
    epoch: int = 0
    """Epoch at the begin; a different one at the end says that there was a takeover."""
    status: dict[str, Any] = {}
    """Last status of that member."""
    complaints: list[str] = []

    @property
    def had_takeover(self) -> bool:
        return bool(self.status) and self.status["log"]["epoch"] != self.epoch


def _record(options: Options, signals: Signals) -> Recorded:
    """Run plant, pair and view until they are over."""
    site = options.data / SITE
    tunnel = Tunnel(site)
    node: DemoPair | None = None
    recorded = Recorded(data=options.data / MEMBERS[0])
    try:
        with signals.raising():
            say(f"starting the tunnel and its pair of nodes; everything is kept in {options.data}")
            tunnel = start_tunnel(site, seed=options.seed, guarded=PLCS)
            node = DemoPair(site, tunnel.ports, options.data)
            recorded.epoch = node.wait_until_connected(set(tunnel.ports))
            view = LiveView(node.acting, tunnel.begin)
            view.run(Until(node, options.seconds, frozenset(tunnel.ports)), is_plain=not options.has_view)
    except TunnelError as error:
        raise Failure(str(error), "`albireo doctor` says what this machine lacks") from error
    finally:
        if node is not None:
            recorded.status = node.status()
            recorded.data = node.acting()
            say(
                "stopping the pair"
                + ("; the report follows" if options.has_pipeline and not signals.are_urgent else "")
            )
            code = node.stop()
            if code != 0 and not recorded.had_takeover:
                recorded.complaints.append(f"a process of the pair ended with {code}, see {options.data}/*/{LOG}")
        tunnel.stop()
    return recorded


class Until:
    """Whether the demo is over: the node is gone, or the PLCs were polled for long enough."""

    GRACE_NS: Final = 2 * SECOND
    """Grace time: with every PLC off no poll tells that time is up, so the clock does, this much later."""

    def __init__(self, node: DemoPair, seconds: float | None, plcs: frozenset[str]) -> None:
        self._node = node
        self._length_ns = None if seconds is None else round(seconds * SECOND)
        self._plcs = plcs
        self._first_ns: int | None = None

    def __call__(self, live: LiveState) -> bool:
        self._node.restart_ended()
        if not self._node.is_running:
            return True
        if self._length_ns is None:
            return False
        polled = [
            current.source_ns
            for item_id, current in live.values.items()
            if quality.is_good(current.quality)
            and (known := live.items.get(item_id)) is not None
            and known.item.adapter in self._plcs
        ]
        if self._first_ns is None:
            self._first_ns = min(polled, default=None)
        if self._first_ns is None:
            return False
        is_polled_long = max(polled, default=0) - self._first_ns >= self._length_ns
        return is_polled_long or wall_ns() - self._first_ns >= self._length_ns + self.GRACE_NS


def _account(recorded: Recorded, since_ns: int) -> DemoAccount:
    try:
        account = account_of(recorded.data, since_ns, frozenset(PLCS))
    except (OSError, DecodeError) as error:
        recorded.complaints.append(f"the history cannot be read: {error}")
        return NOTHING
    recorded.complaints += account.complaints(had_takeover=recorded.had_takeover)
    return account


def _analysed(data: Path, signals: Signals, nothing: dict[str, Any], complaints: list[str]) -> dict[str, Any]:
    """The pipeline's answer, or `nothing` and a complaint."""
    try:
        with signals.raising():
            wait_for_spark()
            say("running the pipeline; Ctrl-C leaves it out")
            return run_pipeline(data)
    except Failure as failure:
        complaints.append(f"{failure.message} ({failure.remedy})")
    return nothing


def _tell(
    options: Options, acted: Path, account: DemoAccount, commit: dict[str, Any], pipeline: dict[str, Any]
) -> None:
    """The account for the human."""
    p50, p99 = (f"{commit[one]:.1f}" if commit[one] is not None else "-" for one in ("p50", "p99"))
    tell = show if options.has_view else say
    tell(
        f"{account.seconds:.1f} s: {account.samples_acquired} samples acquired, {account.samples_committed} committed,"
        f" {account.cases_raised} cases raised; committed within {p50} ms (median), {p99} ms (99 %)"
    )
    if pipeline["report"]:
        tell(f"Report: {pipeline['report']}")
    elif options.has_pipeline:
        say(f"No report yet; make one: albireo pipeline run --data {acted}")
