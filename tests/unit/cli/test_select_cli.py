"""`albireo write` on an item that has to be selected first: it selects, shows, asks, and writes or gives it back."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from albireo.cli import cli
from albireo.client import Client, NotSelected, connect
from albireo.codec.record import Audited
from albireo.model.command import Outcome
from albireo.model.item import Control
from tests.parts.access_cli import with_node
from tests.parts.tree_orders import SET_POINT, Device
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = pytest.mark.slow
PROGRAM = [sys.executable, "-c", "from albireo.cli import main; main()"]
SIGN = msgspec.structs.replace(SET_POINT, name="sign", control=Control.SELECT, unit="km/h", description="Speed limit")


@contextlib.contextmanager
def device(data: Path) -> Iterator[Device]:
    """An adapter with the item, once that is known."""
    one = Device(data, SIGN)
    one.start()
    try:
        with connect(data, timeout_s=PATIENCE_S) as client:
            awaited(lambda: client.items("sign"))
        yield one
    finally:
        one.end()


def played(data: Path, story: Callable[[Device], None]) -> list[str]:
    """Actions in the audit journal after a story beside a node with the device."""

    def beside() -> None:
        with device(data) as one:
            story(one)

    entries: list[Audited] = with_node(data, beside)
    return [one.action for one in entries]


def run(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["write", "sign", *arguments, "--user", "ann", "--data", str(data)])


def is_free(client: Client) -> bool:
    """Nobody has selected it: somebody else can."""
    client.deselect(client.select("sign"))
    return True


@contextlib.contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> Iterator[None]:
    """A terminal at which somebody has typed an answer."""
    ours, theirs = os.openpty()
    os.write(ours, answer)
    with os.fdopen(theirs) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield
    monkeypatch.undo()
    os.close(ours)


def at_terminal(data: Path, *arguments: str) -> int:
    """Exit code of a command that runs in this very process."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["write", "sign", *arguments, "--user", "ann", "--data", str(data)])
    code = ended.value.code
    assert isinstance(code, int)
    return code


def test_without_a_terminal_it_writes_only_if_told_so_beforehand_and_tells_both_steps(tmp_path: Path) -> None:
    def story(one: Device) -> None:
        refused = run(tmp_path, "80", "--json")
        assert refused.exit_code == 2
        told = json.loads(refused.stdout.splitlines()[-1])
        assert "selected before it is written" in told["error"]
        assert "--yes" in told["remedy"]
        done = run(tmp_path, "80", "--yes", "--reason", "fog", "--json")
        assert done.exit_code == 0, done.output
        told = json.loads(done.stdout.splitlines()[-1])
        assert (told["outcome"], told["read_back"]) == ("verified", 80.0)
        selection = told["selection"]
        assert (selection["item"], selection["user"], selection["reason"]) == ("root:sign", "ann", "fog")
        assert (selection["for_ms"], selection["left_ms"]) == (30_000, 30_000)
        assert [order.value for order in one.orders] == [80.0]
        shown = CliRunner().invoke(cli, ["command", "show", told["command_id"], "--data", str(tmp_path)]).stdout
        stages = [line[:10].strip() for line in shown.splitlines()]
        assert all(line[9:11].endswith(" ") for line in shown.splitlines()[4:9]), shown
        assert stages[4:9] == ["selected", "requested", "authorised", "executing", "verified"]

    assert played(tmp_path, story) == ["selected", "write", "write_ended"]


def test_it_shows_what_is_there_and_what_will_be_and_writes_on_a_yes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def story(one: Device) -> None:
        with terminal(monkeypatch, b"y\n"):
            assert at_terminal(tmp_path, "80", "--json") == 0
        out, err = capsys.readouterr()
        assert "root:sign  (Speed limit)" in err
        assert "now   -  BadWaitingForInitialData" in err
        assert "then  80 km/h" in err
        assert "Write it? It is yours for 30 s" in err
        assert json.loads(out)["selection"]["item"] == "root:sign"
        assert [order.value for order in one.orders] == [80.0]

    assert played(tmp_path, story) == ["selected", "write", "write_ended"]


@pytest.mark.parametrize(
    ("answer", "words", "more"),
    [
        (b"n\n", "nothing was written", []),
        (b"\x04", "Aborted", []),
        (b"n\n", "nothing was written", ["--json"]),
        (b"\x04", "broken off", ["--json"]),
    ],
)
def test_a_no_and_an_end_of_input_give_it_back(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: bytes,
    words: str,
    more: list[str],
) -> None:
    def story(one: Device) -> None:
        with terminal(monkeypatch, answer):
            assert at_terminal(tmp_path, "80", *more) == 1
        out, err = capsys.readouterr()
        assert words in err
        if more:
            assert json.loads(out) == {"error": words, "remedy": json.loads(out)["remedy"], "exit": 1}
        with connect(tmp_path) as client:
            assert is_free(client)
        assert one.orders == []

    assert played(tmp_path, story)[:2] == ["selected", "selection_cancelled"]


def press_ctrl_c(process: subprocess.Popen[bytes]) -> None:
    """Press it until it is heard: one that comes just before the command reads waits for a key, as at any prompt. A
    second one while the first is being heard would break off what follows from it."""
    ends = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < ends:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=PATIENCE_S / 4)
    process.kill()


def test_ctrl_c_at_the_question_gives_it_back(tmp_path: Path) -> None:
    def story(one: Device) -> None:
        ours, theirs = os.openpty()
        arguments = [*PROGRAM, "write", "sign", "80", "--data", str(tmp_path)]
        with subprocess.Popen(arguments, stdin=theirs, stderr=subprocess.PIPE) as process:
            os.close(theirs)
            assert process.stderr is not None
            told = b""
            while b"Write it?" not in told:
                piece = os.read(process.stderr.fileno(), 4096)
                assert piece, told
                told += piece
            press_ctrl_c(process)
        os.close(ours)
        assert process.returncode == 1
        with connect(tmp_path) as client:
            assert is_free(client)
        assert one.orders == []

    assert played(tmp_path, story)[:2] == ["selected", "selection_cancelled"]


def test_a_second_selector_and_an_order_out_of_range_are_refused_and_leave_nothing_behind(tmp_path: Path) -> None:
    def story(one: Device) -> None:
        with connect(tmp_path, name="bob") as client:
            selection = client.select("sign", "maintenance")
            refused = run(tmp_path, "80", "--yes")
            assert refused.exit_code == 1
            assert "has selected sign" in refused.output
            assert "(maintenance)" in refused.output
            client.deselect(selection)
            with pytest.raises(NotSelected, match="is over"):
                client.deselect(selection)
            outside = run(tmp_path, "101", "--yes")
            assert outside.exit_code == 1
            assert "101 is above the maximum 100" in outside.output
            assert is_free(client)
            with pytest.raises(NotSelected, match="has to be selected"):
                client.write("sign", 80.0)
            with pytest.raises(NotSelected, match="is over"):
                client.write("sign", 80.0, selection=selection)
            receipt = client.write("sign", 80.0, selection=client.select("sign"))
            assert receipt.outcome is Outcome.VERIFIED
        assert [order.value for order in one.orders] == [80.0]

    played(tmp_path, story)
