"""A witness as a real process: killed in the middle, with rotten copies, on a disk that refuses, and beside a holder
that is killed or merely stopped.

Goal: what an answer told is still there afterwards; where nothing is known for certain there is no answer.
"""

import contextlib
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from albireo.codec.message import Answer, Ask
from albireo.codec.pair_message import Accept, Install, Prepare, Question, Read, Record, Voted
from albireo.log.store.mirrored_file import NAMES
from albireo.model.instant import MS, SECOND
from albireo.runtime import SyncLink
from albireo.runtime.errors import PeerUnreachable
from tests.parts.port import free_ports

pytestmark = [pytest.mark.drill, pytest.mark.slow]

WAIT_S = 45.0
"""Longest wait for a condition; shorter than the long lease, which must not be what ends it."""
CLUSTER = "11111111-2222-3333-4444-555555555555"
VOTER = "witness:w1"
LEASE_NS = 300 * MS
"""Where its end is waited for."""
LONG_NS = 65 * SECOND
"""Where it must not end meanwhile."""
LOOK_S = 0.2
PROGRAM = [sys.executable, "-c", "from albireo.cli import main; main()", "witness", "--name", "w1"]
HEAD: dict[str, Any] = {"cluster": f"{CLUSTER}/root", "generation": 1, "round": 1}

TOPOLOGY = """
cluster = "{cluster}"

[[witness]]
name = "w1"
endpoint = "tcp://127.0.0.1:{0}"

[[node]]
id = "root"
voters = ["witness:w1"]

[node.primary]
client = "tcp://127.0.0.1:{1}"
peer = ["tcp://127.0.0.1:{2}"]

[node.backup]
client = "tcp://127.0.0.1:{3}"
peer = ["tcp://127.0.0.1:{4}"]
"""


def record(epoch: int, run: int, lease_ns: int = LEASE_NS) -> Record:
    return Record(
        cluster=f"{CLUSTER}/root",
        voters=(VOTER,),
        generation=1,
        epoch=epoch,
        version=1,
        holder=epoch % 2,
        run=run,
        members=(epoch % 2,),
        lease_ns=lease_ns,
    )


def install(lease_ns: int = LEASE_NS) -> Install:
    return Install(**HEAD, member=0, run=20, record=record(2, 0, lease_ns), promised=2)


INSTALL = install()
READ = Read(**HEAD, member=0, run=20)


def prepare(epoch: int, run: int = 20) -> Prepare:
    return Prepare(**HEAD, member=epoch % 2, run=run, epoch=epoch)


def accept(what: Record) -> Accept:
    return Accept(**HEAD, member=what.holder, run=what.run, record=what)


class Site:
    """One witness with its disk, started as often as it takes."""

    def __init__(self, directory: Path) -> None:
        self.ports = free_ports(5)
        self.data = directory / "data"
        self.directory = directory
        self.topology = directory / "plant.toml"
        self.topology.write_text(TOPOLOGY.format(*self.ports, cluster=CLUSTER))
        self.processes: list[subprocess.Popen[bytes]] = []
        self._listeners: dict[subprocess.Popen[bytes], threading.Thread] = {}
        self._said: list[str] = []

    def start(self) -> subprocess.Popen[bytes]:
        command = [*PROGRAM, "--topology", str(self.topology), "--data", str(self.data), "--json"]
        # A pipe, because some of these processes may write no file any more.
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        listener = threading.Thread(target=self._listen, args=(process,), daemon=True)
        listener.start()
        self._listeners[process] = listener
        return self._keep(process)

    def start_holder(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.drill.pair.peer_main", f"tcp://127.0.0.1:{self.ports[2]}", "holder"]
        root = Path(__file__).parents[3]
        holder = subprocess.Popen([*command[:-1], str(self.directory / "holder")], cwd=root, stdout=subprocess.PIPE)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"listening\n"
        holder.stdout.close()
        return self._keep(holder)

    def _keep(self, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        self.processes.append(process)
        return process

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout:
            self._said += (line.decode() for line in process.stdout)

    def said(self) -> str:
        """What the witnesses have written; all of it if they have ended."""
        for process, listener in self._listeners.items():
            if process.poll() is not None:
                listener.join(WAIT_S)
        return "".join(self._said)

    @contextlib.contextmanager
    def link(self) -> Iterator["Asker"]:
        """To the running witness; waits until it listens."""
        ends = time.monotonic() + WAIT_S
        while True:
            try:
                link = SyncLink.tcp(f"tcp://127.0.0.1:{self.ports[0]}", None, peer=VOTER)
                break
            except PeerUnreachable:
                assert time.monotonic() < ends, self.said()
        with link:
            yield Asker(link)

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()


class Asker:
    """A member, as far as a witness sees one."""

    def __init__(self, link: SyncLink) -> None:
        self._link = link

    def ask_until_gone(self, question: Question, witness: "subprocess.Popen[bytes]") -> Voted | None:
        """None if the witness is gone, before the question or before its answer."""
        received, has_ended = None, not self._link.send(question)
        while received is None and not has_ended:
            has_ended = witness.poll() is not None  # Before the last look: what it had said by then is there.
            received = self._link.receive(LOOK_S)
        if received is None:
            return None
        assert isinstance(received[0], Voted)
        return received[0]

    def voted(self, question: Question) -> Voted:
        assert self._link.send(question)
        received = self._link.receive(WAIT_S)
        assert received is not None
        assert isinstance(received[0], Voted)
        return received[0]

    def granted(self, question: Question) -> Voted:
        """Ask again until the start-up wait or a lease is over."""
        ends = time.monotonic() + WAIT_S
        while not (answer := self.voted(question)).is_granted:
            assert answer.reason in ("starting", "leased"), answer
            assert time.monotonic() < ends
            time.sleep(0.005)  # The voter's clock is not ours: nothing else tells.
        return answer

    def status(self) -> dict[str, Any]:
        assert self._link.send(Ask(request_id=1, what="status"))
        received = self._link.receive(WAIT_S)
        assert received is not None
        assert isinstance(received[0], Answer)
        assert isinstance(received[0].result, dict)
        return dict(received[0].result["pairs"][0])

    def until(self, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        ends = time.monotonic() + WAIT_S
        while not condition(status := self.status()):
            assert time.monotonic() < ends, status
        return status


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def ended(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGKILL) -> int:
    process.send_signal(number)
    return process.wait(WAIT_S)


def test_killed_after_a_promise_it_still_has_it_and_waits_out_the_lease(site: Site) -> None:
    witness = site.start()
    with site.link() as asker:
        assert asker.voted(READ).reason == "empty"
        assert asker.voted(install(LONG_NS)).is_granted
        assert asker.voted(prepare(4, run=0)).promised == 4, "the recorded run need not wait"
    ended(witness)
    again = site.start()
    with site.link() as asker:
        assert (asker.voted(READ).promised, asker.voted(READ).record) == (4, record(2, 0, LONG_NS))
        assert asker.voted(prepare(6)).reason == "starting"
        assert asker.voted(accept(record(4, 0))).is_granted
    ended(again)
    last = site.start()
    with site.link() as asker:
        assert asker.granted(prepare(6)).promised == 6
        assert asker.voted(prepare(4, run=0)).reason == "promised"
        assert asker.voted(prepare(4, run=31)).reason == "promised"
    assert ended(last, signal.SIGTERM) == 0
    assert site.said().splitlines()[-1] == '{"witness":"w1","exit":0}'


@pytest.mark.parametrize("number", range(4))
def test_killed_among_many_promises_it_has_every_one_that_it_told_of(site: Site, number: int) -> None:
    witness = site.start()
    told = [0]
    with site.link() as asker:
        asker.voted(INSTALL)
        asker.granted(prepare(4))
        killer = threading.Timer(0.03 * (number + 1), witness.kill)
        for epoch in range(6, 1 << 20, 2):
            answer = asker.ask_until_gone(prepare(epoch), witness)
            if answer is None:
                break
            told.append(answer.promised)
            if len(told) == 3:
                killer.start()
        killer.join()
    witness.wait(WAIT_S)
    site.start()
    with site.link() as asker:
        assert max(told) <= asker.voted(READ).promised <= max(told) + 2
    assert len(told) > 2


@pytest.mark.parametrize("damaged", [NAMES[:1], NAMES[1:], NAMES], ids=["a", "b", "both"])
def test_one_rotten_copy_is_repaired_and_two_make_an_empty_voter(site: Site, damaged: tuple[str, ...]) -> None:
    witness = site.start()
    with site.link() as asker:
        asker.voted(INSTALL)
        asker.granted(prepare(5, run=30))
    ended(witness)
    for name in damaged:
        path = site.data / "voters" / "root" / name
        path.write_bytes(path.read_bytes()[:200] + bytes(100) + path.read_bytes()[300:])
    site.start()
    with site.link() as asker:
        answer, store = asker.voted(READ), asker.status()["store"]
        if damaged == NAMES:
            assert (answer.is_granted, answer.reason, store["is_damaged"]) == (False, "empty", True)
            assert asker.voted(prepare(6)).reason == "empty"
            assert asker.voted(INSTALL).is_granted
        else:
            assert (answer.promised, store["repaired_copies"]) == (5, list(damaged))


def _ends_without_a_lie(site: Site, witness: subprocess.Popen[bytes]) -> None:
    """The next promise can't be kept: no answer, exit code 1, and one line that says why."""
    with site.link() as asker:
        assert asker.ask_until_gone(prepare(6), witness) is None
    assert witness.wait(WAIT_S) == 1
    assert "this witness votes no more" in site.said()
    assert [line for line in site.said().splitlines() if line.startswith("albireo: ")]


def test_a_disk_that_takes_nothing_more_is_the_end_without_an_answer(site: Site) -> None:
    witness = site.start()
    with site.link() as asker:
        asker.voted(INSTALL)
        asker.granted(prepare(4))
    resource.prlimit(witness.pid, resource.RLIMIT_FSIZE, (0, 0))
    _ends_without_a_lie(site, witness)
    site.start()
    with site.link() as asker:
        assert asker.voted(READ).promised >= 4


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for little."""
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=1k,mode=0700", "tmpfs", str(path)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(directory: Path) -> None:
    with (directory / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


@pytest.mark.usefixtures("small_disk")
def test_a_full_disk_keeps_taking_promises_and_takes_no_first_record(site: Site) -> None:
    witness = site.start()
    with site.link() as asker:
        asker.voted(READ)
        fill(site.data)
        assert asker.ask_until_gone(INSTALL, witness) is None
    assert witness.wait(WAIT_S) == 1
    assert "No space left on device" in site.said()
    (site.data / "filler").unlink()
    site.start()
    with site.link() as asker:
        asker.voted(INSTALL)
        fill(site.data)
        assert asker.granted(prepare(4)).promised == 4


def test_on_a_disk_that_takes_no_writes_it_does_not_even_start(site: Site, small_disk: Path) -> None:
    witness = site.start()
    with site.link() as asker:
        asker.voted(INSTALL)
    assert ended(witness, signal.SIGTERM) == 0
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    refused = site.start()
    assert refused.wait(WAIT_S) == 1
    assert "can't be used: Read-only file system" in site.said()


def test_two_witnesses_do_not_share_a_disk(site: Site) -> None:
    site.start()
    with site.link() as asker:
        asker.voted(READ)
        second = site.start()
        assert second.wait(WAIT_S) == 78
        assert "is in use by process" in site.said()
        assert asker.voted(READ).reason == "empty"


def _leased(asker: Asker) -> None:
    """Run 20 of the primary holds for longer than a test waits, and its process listens."""
    asker.voted(INSTALL)
    asker.granted(prepare(4))
    assert asker.voted(accept(record(4, 20, lease_ns=LONG_NS))).is_granted
    asker.until(lambda status: status["members"][0]["connected"] == 1)


def test_a_killed_holder_gives_way_at_once(site: Site) -> None:
    holder = site.start_holder()
    site.start()
    with site.link() as asker:
        _leased(asker)
        assert asker.voted(prepare(5, run=30)).reason == "leased"
        ended(holder)
        assert asker.granted(prepare(5, run=30)).promised == 5


def test_a_stopped_holder_keeps_its_lease(site: Site) -> None:
    """Its connections stay open, because its kernel lives; a second of it is far more than a dead one would get."""
    holder = site.start_holder()
    site.start()
    with site.link() as asker:
        _leased(asker)
        holder.send_signal(signal.SIGSTOP)
        ends = time.monotonic() + 1.0
        while time.monotonic() < ends:
            assert asker.voted(prepare(5, run=30)).reason == "leased"
        holder.send_signal(signal.SIGCONT)
        status = asker.status()
        assert (status["members"][0]["connected"], status["is_holder_gone"]) == (1, False)
        ended(holder)
        assert asker.granted(prepare(5, run=30)).promised == 5
