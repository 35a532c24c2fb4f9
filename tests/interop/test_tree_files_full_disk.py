"""Files of messages where a disk is full: both ends hear why, nothing half is shown, and it goes on with new room."""

import errno
import random
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.client import Client, FileNotReceived, FileNotSent, NodeRefused, connect
from albireo.client.message.files import OWN, PART_BYTES, PART_S, new_transfer
from albireo.model.refusal import RefusalCode
from tests.parts.disk import ext4_image, filled, mounted, needs_ext4, needs_root
from tests.parts.tree import tree_of
from tests.parts.tree_files import NODES, receive_files, run
from tests.parts.tree_messages import joined
from tests.parts.tree_orders import PUMP, ROOT
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = [pytest.mark.slow, needs_root, needs_ext4]
DISK_BYTES = 2 << 20
DATA = random.Random(1).randbytes(7 * PART_BYTES + 17)
FULL = "No space left on device"


@contextmanager
def small_disk(at: Path, *options: str, size_bytes: int = DISK_BYTES) -> Iterator[Path]:
    image = at.with_suffix(".image")
    ext4_image(image, size_bytes, "-m", "0", "-O", "^has_journal", *options)
    with mounted("-o", "loop", str(image), at=at):
        (at / "lost+found").rmdir()
        yield at


def receive_on(client: Client, directory: Path, ends: Event, refused: list[FileNotReceived]) -> list[Path]:
    """Receive files, as a program does that goes on after a refusal."""
    found = []
    while not ends.is_set():
        try:
            found += receive_files(client, directory, ends)
        except FileNotReceived as error:
            refused.append(error)
    return found


Send = Callable[..., str]
"""Sends a file; `executed`, or why it was not received."""


def play(home: Path, story: Callable[[Path, Send, list[FileNotReceived]], None], *options: str) -> list[Path]:
    """Play a story beside a receiver whose directory is a small disk; where files came."""
    nodes = tree_of(home, *NODES)
    received: list[Path] = []

    def story_of() -> None:
        joined(nodes)
        ends, refused = Event(), list[FileNotReceived]()
        with (
            small_disk(home / "in", *options) as disk,
            ThreadPoolExecutor() as pool,
            connect(nodes[PUMP].endpoint) as below,
            connect(nodes[ROOT].endpoint) as top,
        ):

            def send(data: bytes = DATA, name: str = "recipe.bin", **more: Any) -> str:
                began = time.monotonic()
                try:
                    return top.send_file("pump", data, name=name, inbox="files", expires_s=PATIENCE_S, **more).outcome
                except FileNotSent as error:
                    return error.cause
                finally:
                    assert time.monotonic() - began < PART_S / 4, "nobody waits for what is taken by nobody"

            receiving = pool.submit(receive_on, below, disk, ends, refused)
            try:
                story(disk, send, refused)
                assert not receiving.done(), "the receiver lives"
            finally:
                ends.set()
                received.extend(receiving.result())
            for path in received:
                assert path.read_bytes() in (DATA, DATA[:PART_BYTES])

    run(nodes, story_of)
    return received


def test_a_file_larger_than_the_room_is_refused_before_its_parts_take_the_rest(tmp_path: Path) -> None:
    def story(disk: Path, send: Send, refused: list[FileNotReceived]) -> None:
        filled(disk / "ballast")
        with (disk / "ballast").open("r+b") as file:
            file.truncate((disk / "ballast").stat().st_size - 3 * PART_BYTES)
        transfer = new_transfer()
        told = send(transfer=transfer)
        assert FULL in told and str(disk) in told and f"{len(DATA)} bytes" in told
        assert str(refused[0].cause) in told and "make room" in refused[0].remedy
        assert list((disk / OWN).glob("*.part")) == [], "the room is left to others"
        assert send(DATA[:PART_BYTES], "small.bin") == "executed"
        (disk / "ballast").unlink()
        assert send(transfer=transfer) == "executed"

    assert play(tmp_path, story) == [tmp_path / "in" / "small.bin", tmp_path / "in" / "recipe.bin"]


def test_a_disk_that_fills_up_in_the_middle_ends_the_transfer_and_it_goes_on_with_new_room(tmp_path: Path) -> None:
    def story(disk: Path, send: Send, refused: list[FileNotReceived]) -> None:
        transfer, counts = new_transfer(), list[int]()

        def full(done: int, of: int) -> None:
            filled(disk / "ballast")

        for _ in range(3):
            told = send(transfer=transfer, progress=full)
            assert FULL in told and str(disk) in told
            assert not (disk / "recipe.bin").exists()
        (disk / "ballast").unlink()
        assert send(transfer=transfer, progress=lambda done, of: counts.append(done)) == "executed"
        assert counts[0] > PART_BYTES, "what came before is not sent again"
        assert {one.suffix for one in (disk / OWN).iterdir()} == {".had", ""}

    assert play(tmp_path, story) == [tmp_path / "in" / "recipe.bin"]


def test_a_disk_without_inodes_shows_nothing_until_all_is_noted(tmp_path: Path) -> None:
    def story(disk: Path, send: Send, refused: list[FileNotReceived]) -> None:
        ballast = list[Path]()
        with pytest.raises(OSError) as caught:
            while True:
                ballast.append(disk / f"ballast{len(ballast)}")
                ballast[-1].touch()
        assert caught.value.errno == errno.ENOSPC
        ballast.pop()
        transfer = new_transfer()
        while ballast and (told := send(transfer=transfer)) != "executed":
            assert FULL in told and str(disk) in told
            assert {one.name for one in disk.iterdir()} - {OWN} == {one.name for one in ballast}
            ballast.pop().unlink()
        assert told == "executed" and len(refused) > 3

    assert play(tmp_path, story, "-N", "16") == [tmp_path / "in" / "recipe.bin"]


def test_a_message_that_a_disk_does_not_take_leaves_nothing_under_its_name_and_is_given_back(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, *NODES)

    def story_of() -> None:
        joined(nodes)
        with small_disk(tmp_path / "in") as disk, connect(nodes[ROOT].endpoint) as top:
            filled(disk / "ballast")
            with (disk / "ballast").open("r+b") as file:
                file.truncate((disk / "ballast").stat().st_size - PART_BYTES)
            sent = top.send("pump", bytes(3 * PART_BYTES), expires_s=PATIENCE_S, wait=False)
            place = ("--data", str(nodes[PUMP].data), "--json")
            receive = ["message", "receive", "--out", str(disk), "--wait", str(PATIENCE_S), *place]
            refused = CliRunner().invoke(cli, receive)
            assert refused.exit_code == 1 and FULL in refused.stdout and str(disk) in refused.stdout
            assert [one.name for one in disk.iterdir()] == ["ballast"]
            (disk / "ballast").unlink()
            assert CliRunner().invoke(cli, receive).exit_code == 0
            (path,) = disk.iterdir()
            assert path.read_bytes() == bytes(3 * PART_BYTES)
            proof = top.message(sent, timeout_s=PATIENCE_S)
            assert proof is not None and proof.outcome == "executed"

    run(nodes, story_of)


def is_full(client: Client, to: str) -> bool:
    """A node records nothing now."""
    try:
        client.send(to, bytes(PART_BYTES), inbox="nobody", wait=False)
    except NodeRefused as error:
        assert "disk full" in error.cause
        return error.code == RefusalCode.NOT_RECORDING
    return False


def send(client: Client, transfer: str) -> str:
    """A file with more parts than the room of a log holds that its disk lets grow no more."""
    data = bytes(30 * PART_BYTES)
    sent = client.send_file("pump", data, name="a", inbox="files", expires_s=PATIENCE_S, transfer=transfer)
    return sent.outcome


def test_a_transfer_goes_on_once_the_node_of_its_receiver_has_room_again(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, *NODES)
    ends, ballast = Event(), nodes[PUMP].data / "ballast"

    def story_of() -> None:
        joined(nodes)
        filled(ballast)
        with ThreadPoolExecutor() as pool, connect(nodes[PUMP].endpoint) as below, connect(nodes[ROOT].endpoint) as top:
            receiving = pool.submit(receive_files, below, tmp_path / "in", ends)
            try:
                sending = pool.submit(send, top, new_transfer())
                awaited(lambda: is_full(below, "root"))
                ballast.unlink()
                assert sending.result() == "executed"
            finally:
                ends.set()
            assert receiving.result() == [tmp_path / "in" / "a"]

    with small_disk(nodes[PUMP].data, size_bytes=16 << 20):
        run(nodes, story_of)


def test_a_node_that_has_no_room_says_so_to_the_sender_at_once(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, *NODES)
    ends, ballast, transfer = Event(), nodes[ROOT].data / "ballast", new_transfer()

    def story_of() -> None:
        joined(nodes)
        filled(ballast)
        with ThreadPoolExecutor() as pool, connect(nodes[PUMP].endpoint) as below, connect(nodes[ROOT].endpoint) as top:
            awaited(lambda: is_full(top, "pump"))
            with pytest.raises(NodeRefused, match=rf"disk full: .*{re.escape(str(nodes[ROOT].data))}.* needs \d+"):
                send(top, transfer)
            ballast.unlink()
            awaited(lambda: not is_full(top, "pump"))
            receiving = pool.submit(receive_files, below, tmp_path / "in", ends)
            try:
                assert send(top, transfer) == "executed"
            finally:
                ends.set()
            assert receiving.result() == [tmp_path / "in" / "a"]

    with small_disk(nodes[ROOT].data, size_bytes=16 << 20):
        run(nodes, story_of)
