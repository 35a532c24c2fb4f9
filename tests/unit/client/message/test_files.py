"""Files as their receiver takes them from a sender that is broken, hostile, or has another file by now."""

import errno
import os
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from albireo.client.conversation import Conversation
from albireo.client.errors import FileNotReceived, FileNotSent
from albireo.client.message import files
from albireo.client.message.files import (
    FILE,
    OWN,
    FileNotice,
    FilePart,
    FileReply,
    HalfFile,
    OutgoingFile,
    new_transfer,
    receive_file,
)
from albireo.client.questions import NodeReply
from albireo.codec.questions.messages import InboxMessage
from albireo.model.tree.message import Life, MessageName

_Wanted = TypeVar("_Wanted")


def notice_of(data: bytes, name: str = "recipe.bin", transfer: str = "") -> FileNotice:
    file = OutgoingFile(
        node="pump", name=name, data=data, inbox="files", reason="", expires_s=1.0, transfer=transfer or new_transfer()
    )
    return file.notice()


def announced(body: bytes) -> InboxMessage:
    name = MessageName("root", "root/pump", Life(1, 1), 1, "files")
    return InboxMessage(name=name, lease=1, kind=FILE, body=body, user="", principal="", reason="")


def held(conversation: Conversation[_Wanted]) -> tuple[list[FileReply], _Wanted]:
    """Replies to the announcement, and what came of it; no part comes."""
    replies = []
    try:
        request = next(conversation)
        while True:
            if request.what == "take":
                replies.append(msgspec.msgpack.decode(request.arguments["reply"], type=FileReply))
            request = conversation.send(NodeReply(True if request.what == "take" else None))
    except StopIteration as ended:
        return replies, ended.value


def test_an_announcement_with_a_text_that_is_none_is_answered_with_a_refusal(tmp_path: Path) -> None:
    body = msgspec.msgpack.encode(notice_of(b"1", "xxxx")).replace(b"xxxx", b"\xff" * 4)
    (reply,), path = held(receive_file(announced(body), tmp_path))
    assert reply.refusal.startswith("no announcement") and path is None


def test_a_part_with_a_text_that_is_none_is_passed_over(tmp_path: Path) -> None:
    notice = notice_of(b"1")
    (tmp_path / OWN).mkdir()
    half = HalfFile(tmp_path, notice)
    part = msgspec.msgpack.encode(FilePart(transfer=notice.transfer, index=0, data=b"1"))
    half.put(part.replace(notice.transfer.encode(), b"\xff" * 32))
    assert half.missing == [0]


@pytest.mark.parametrize("name", ["\u00e4" * 101, "a\udcffb", "a\x9b2Jb"])
def test_a_name_that_no_directory_takes_or_that_a_terminal_obeys_is_not_sent(name: str) -> None:
    with pytest.raises(FileNotSent, match="can't be sent"):
        notice_of(b"1", name)


def test_a_longer_name_than_a_directory_takes_is_refused_before_any_part_comes(tmp_path: Path) -> None:
    short = notice_of(b"", "x" * 4)
    told = msgspec.to_builtins(short) | {"name": "\u00e4" * 200}
    (reply,), path = held(receive_file(announced(msgspec.msgpack.encode(told)), tmp_path))
    assert "bytes" in reply.refusal and path is None


@pytest.mark.parametrize(
    "name",
    ["../up", "..", ".", "/etc/passwd", "a/../../up", "..\\up", ".profile", "", "a\nb", "a\0b", "a\x1b[2Jb", "a\x85b"],
)
def test_a_hostile_name_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    """The sender's own check is none for a receiver: what is announced may come from any program."""
    place = tmp_path / "inbox"
    place.mkdir()
    told = msgspec.to_builtins(notice_of(b"")) | {"name": name}
    (reply,), path = held(receive_file(announced(msgspec.msgpack.encode(told)), place))
    assert reply.refusal.startswith("no announcement") and path is None
    assert [one.name for one in tmp_path.rglob("*") if one.is_file()] == []


@pytest.mark.parametrize("name", ["a=b", "x%00y.bin", "*[a]?.csv", "-rf", "~", "$(id)", "a b\u00a0c", "CON", "ä" * 100])
def test_a_name_that_only_looks_evil_is_a_name(tmp_path: Path, name: str) -> None:
    (reply,), path = held(receive_file(announced(msgspec.msgpack.encode(notice_of(b"", name))), tmp_path))
    assert (reply, path) == (FileReply(), tmp_path / name)
    assert path is not None and path.is_file()


def test_a_name_that_is_taken_by_a_folder_or_a_link_to_nowhere_gets_a_number(tmp_path: Path) -> None:
    (tmp_path / "recipe.bin").mkdir()
    (tmp_path / "recipe.2.bin").symlink_to(tmp_path.parent / "elsewhere")
    (_,), path = held(receive_file(announced(msgspec.msgpack.encode(notice_of(b""))), tmp_path))
    assert path == tmp_path / "recipe.3.bin"
    assert not (tmp_path.parent / "elsewhere").exists()


def test_another_file_under_an_id_that_was_had_is_refused_and_never_called_whole(tmp_path: Path) -> None:
    first = notice_of(b"")
    (reply,), path = held(receive_file(announced(msgspec.msgpack.encode(first)), tmp_path))
    assert (reply, path) == (FileReply(), tmp_path / "recipe.bin")
    (reply,), path = held(receive_file(announced(msgspec.msgpack.encode(first)), tmp_path))
    assert (reply, path) == (FileReply(), None), "the same file again is known"
    other = notice_of(b"other", transfer=first.transfer)
    (reply,), path = held(receive_file(announced(msgspec.msgpack.encode(other)), tmp_path))
    assert "another file came" in reply.refusal and path is None


def test_a_file_arrives_once_though_its_receiver_dies_between_the_link_and_the_note(tmp_path: Path) -> None:
    (tmp_path / OWN).mkdir()
    notice = notice_of(b"1")
    half = HalfFile(tmp_path, notice)
    half.put(msgspec.msgpack.encode(FilePart(transfer=notice.transfer, index=0, data=b"1")))
    (tmp_path / "recipe.bin").hardlink_to(tmp_path / OWN / f"{notice.transfer}.part")  # finish() got so far.
    HalfFile(tmp_path, notice).finish()
    assert not (tmp_path / "recipe.2.bin").exists()


@pytest.mark.parametrize(("data", "missing"), [(b"1", ()), (b"2", (0,))])
def test_a_file_whose_receiver_died_with_its_last_part_is_whole_only_with_the_right_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, missing: tuple[int, ...]
) -> None:
    monkeypatch.setattr(files, "SILENCE_S", 0.0)  # Nothing more comes.
    notice = notice_of(b"1")
    (tmp_path / OWN).mkdir()
    HalfFile(tmp_path, notice).put(msgspec.msgpack.encode(FilePart(transfer=notice.transfer, index=0, data=data)))
    (reply,), path = held(receive_file(announced(msgspec.msgpack.encode(notice)), tmp_path))
    assert reply == FileReply(missing=missing)
    assert path == (None if missing else tmp_path / "recipe.bin")


ENDS_OF_A_LINK = [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS]
"""FAT; network shares; FUSE."""


@pytest.fixture
def no_links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that has no hard links."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(os, "link", refused)


def whole(directory: Path, notice: FileNotice, data: bytes) -> HalfFile:
    """A file of which every part is there."""
    (directory / OWN).mkdir(exist_ok=True)
    half = HalfFile(directory, notice)
    half.put(msgspec.msgpack.encode(FilePart(transfer=notice.transfer, index=0, data=data)))
    return half


@pytest.mark.parametrize("no_links", ENDS_OF_A_LINK, indirect=True)
def test_a_file_arrives_where_there_are_no_hard_links_and_takes_nobody_s_place(tmp_path: Path, no_links: None) -> None:
    (tmp_path / "recipe.bin").write_bytes(b"mine")
    notice = notice_of(b"1")
    assert whole(tmp_path, notice, b"1").finish() == tmp_path / "recipe.2.bin"
    assert {one.name: one.read_bytes() for one in tmp_path.glob("recipe*")} == {
        "recipe.bin": b"mine",
        "recipe.2.bin": b"1",
    }
    assert HalfFile(tmp_path, notice).is_had
    assert [one.suffix for one in (tmp_path / OWN).iterdir()] == [".had"]


@pytest.mark.parametrize("no_links", [errno.EPERM], indirect=True)
@pytest.mark.parametrize("dies_at", ["before the move", "after it"])
def test_a_file_arrives_once_where_its_receiver_dies_while_it_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_links: None, dies_at: str
) -> None:
    class Died(BaseException):
        """The process ends here."""

    move = Path.replace

    def dying(path: Path, target: Path) -> None:
        if dies_at == "after it":
            move(path, target)
        raise Died

    notice = notice_of(b"1")
    with monkeypatch.context() as patched, pytest.raises(Died):
        patched.setattr(Path, "replace", dying)
        whole(tmp_path, notice, b"1").finish()
    (reply,), _ = held(receive_file(announced(msgspec.msgpack.encode(notice)), tmp_path))
    assert reply == FileReply()
    assert {one.name: one.read_bytes() for one in tmp_path.glob("recipe*")} == {"recipe.bin": b"1"}


def test_a_directory_that_is_never_synced_takes_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", refused)
    assert whole(tmp_path, notice_of(b"1"), b"1").finish() == tmp_path / "recipe.bin"


def told_why(conversation: Conversation[_Wanted]) -> tuple[FileReply, FileNotReceived]:
    """What the sender hears, and what the receiver does, where the disk takes nothing."""
    request = next(conversation)
    assert request.what == "take"
    reply = msgspec.msgpack.decode(request.arguments["reply"], type=FileReply)
    with pytest.raises(FileNotReceived) as caught:
        conversation.send(NodeReply(True))
    return reply, caught.value


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EXDEV, errno.ENAMETOOLONG])
def test_both_ends_hear_why_a_file_can_not_be_put_into_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    notice = notice_of(b"1")
    whole(tmp_path, notice, b"1")
    with monkeypatch.context() as patched:
        patched.setattr(os, "link", refused)
        reply, error = told_why(receive_file(announced(msgspec.msgpack.encode(notice)), tmp_path))
    assert os.strerror(number) in reply.refusal and os.strerror(number) in error.cause
    assert "recipe.bin (1 bytes)" in error.cause and "make room" in error.remedy
    (reply,), path = held(receive_file(announced(msgspec.msgpack.encode(notice)), tmp_path))
    assert (reply, path) == (FileReply(), tmp_path / "recipe.bin"), "what was there is enough, once it can be placed"


def test_both_ends_hear_that_the_receiver_named_no_directory(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    reply, error = told_why(receive_file(announced(msgspec.msgpack.encode(notice_of(b"1"))), tmp_path / "taken"))
    assert reply.refusal == error.cause and str(tmp_path / "taken") in error.cause
