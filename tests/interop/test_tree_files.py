"""Files go from node to node in parts, over real links, and arrive once, whole and checked."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import msgspec
import pytest

from albireo.client import FileNotSent, InboxMessage, NodeRefused, connect
from albireo.client.message.files import OWN, PART_BYTES, HalfFile, OutgoingFile, new_transfer
from tests.parts.tree import tree_of
from tests.parts.tree_files import NODES, receive_files, run
from tests.parts.tree_messages import joined
from tests.parts.tree_orders import PUMP, ROOT
from tests.parts.waiting import PATIENCE_S


def outgoing(data: bytes, name: str = "recipe.bin", transfer: str = "") -> OutgoingFile:
    return OutgoingFile(
        node="pump", name=name, data=data, inbox="files", reason="", expires_s=PATIENCE_S,
        transfer=transfer or new_transfer(),
    )  # fmt: skip


@pytest.mark.slow
def test_a_file_of_some_parts_arrives_whole_and_once(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, *NODES)
    data, seen = random.Random(1).randbytes(3 * PART_BYTES + 17), list[tuple[int, int]]()
    transfer = new_transfer()

    def story_of() -> None:
        joined(nodes)
        ends = Event()
        with ThreadPoolExecutor() as pool, connect(nodes[PUMP].endpoint) as below, connect(nodes[ROOT].endpoint) as top:
            receiving = pool.submit(receive_files, below, tmp_path / "in", ends)
            try:
                for _ in range(2):  # The same transfer again is known, and nothing is sent.
                    proof = top.send_file(
                        "pump", data, name="recipe.bin", inbox="files", expires_s=PATIENCE_S, transfer=transfer,
                        progress=lambda done, of: seen.append((done, of)),
                    )  # fmt: skip
                    assert proof.outcome == "executed"
            finally:
                ends.set()
            assert receiving.result() == [tmp_path / "in" / "recipe.bin"]
        assert (tmp_path / "in" / "recipe.bin").read_bytes() == data
        assert seen[-1] == (len(data), len(data)) and len(seen) == 4
        assert {one.suffix for one in (tmp_path / "in" / OWN).iterdir()} == {".had", ""}

    run(nodes, story_of)


@pytest.mark.slow
def test_a_message_is_left_with_its_node_and_its_reply_is_asked_for_later(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, *NODES)

    def story_of() -> None:
        joined(nodes)
        with connect(nodes[ROOT].endpoint) as top, connect(nodes[PUMP].endpoint) as below:
            command_id = top.send("pump", b"how are you?", inbox="talk", expires_s=PATIENCE_S, wait=False)
            assert top.message(command_id) is None
            for one in below.inbox("talk"):
                assert isinstance(one, InboxMessage) and one.inbox == "talk"
                below.take(one, b"fine")
                break
            proof = top.message(command_id, timeout_s=PATIENCE_S)
            assert proof is not None and (proof.outcome, proof.reply) == ("executed", b"fine")

    run(nodes, story_of)


@pytest.mark.slow
def test_what_a_receiver_had_that_is_gone_is_given_to_another_one_within_seconds(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, *NODES)

    def story_of() -> None:
        joined(nodes)
        with connect(nodes[ROOT].endpoint) as top:
            top.send("pump", b"once", expires_s=PATIENCE_S, wait=False)
            with connect(nodes[PUMP].endpoint) as first:
                assert next(first.inbox()).lease == 1
            with connect(nodes[PUMP].endpoint) as second:
                again = next(second.inbox(timeout_s=10.0))  # A lease lasts 30 s.
                assert (again.body, again.lease) == (b"once", 2)
                second.take(again)

    run(nodes, story_of)


@pytest.mark.slow
def test_what_a_receiver_gives_back_is_another_ones_at_once(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, *NODES)

    def story_of() -> None:
        joined(nodes)
        pump = nodes[PUMP].endpoint
        with connect(nodes[ROOT].endpoint) as top, connect(pump) as first, connect(pump) as second:
            command_id = top.send("pump", b"sing", expires_s=PATIENCE_S, wait=False)
            given = next(first.inbox())
            first.give_back(given)
            again = next(second.inbox(timeout_s=10.0))  # A lease lasts 30 s.
            assert (again.body, again.lease) == (b"sing", 2)
            with pytest.raises(NodeRefused, match="lease is over"):
                first.take(given)
            second.take(again)
            with pytest.raises(NodeRefused, match="is over"):
                second.give_back(again)
            proof = top.message(command_id, timeout_s=PATIENCE_S)
            assert proof is not None and proof.outcome == "executed"

    run(nodes, story_of)


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a\x00b", "x" * 201, "a\nb"])
def test_a_name_that_is_no_plain_file_name_is_not_sent(name: str) -> None:
    with pytest.raises(FileNotSent, match="can't be sent"):
        outgoing(b"1", name).notice()


def test_parts_that_are_none_of_the_file_are_passed_over_and_a_wrong_sum_begins_anew(tmp_path: Path) -> None:
    data = bytes(PART_BYTES) + b"end"
    notice = outgoing(data).notice()
    (tmp_path / OWN).mkdir()
    half = HalfFile(tmp_path, notice)
    assert half.missing == [0, 1]

    def part(index: int, of: bytes, transfer: str = notice.transfer) -> bytes:
        return msgspec.msgpack.encode({"transfer": transfer, "index": index, "data": of})

    for wrong in (b"\xc1", part(2, b"end"), part(1, b"longer"), part(1, b"end", "0" * 32)):
        half.put(wrong)
    assert half.missing == [0, 1]
    half.put(part(1, b"END"))
    again = HalfFile(tmp_path, notice)
    assert again.missing == [0], "another receiver of the directory goes on"
    again.put(part(0, bytes(PART_BYTES)))
    assert again.finish() is None and HalfFile(tmp_path, notice).missing == [0, 1]
    right = HalfFile(tmp_path, notice)
    right.put(part(0, bytes(PART_BYTES)))
    right.put(part(1, b"end"))
    (tmp_path / "recipe.bin").write_bytes(b"was here")
    assert right.finish() == tmp_path / "recipe.2.bin"
    assert (tmp_path / "recipe.bin").read_bytes() == b"was here"
    assert HalfFile(tmp_path, notice).is_had
