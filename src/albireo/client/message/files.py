"""Files: some MB from node to node, in parts that are messages, whole and checked at the other end.

    sender                                                     receiver, one of those of the inbox
     "file": name, size, sha256 of the whole --announced-->    which parts are missing in its directory
     <-- reply: these are missing --
     "file_part", each of them, to the inbox of this file -->  written to its disk, then taken
     <-- reply to the part that completes it: none is missing  whole, its sum as announced, in its place
     "file" again, until somebody has replied that

Every step may be done again. A receiver that goes away leaves the parts that it has on its disk; another one replies
what it lacks itself. The transfer's id makes a file arrive once in a directory: it notes those that it has had.

For users: docs/messages.md, Files. Decision: ADR-0214.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Annotated, Final

import msgspec
from msgspec import Meta

from albireo.client.conversation import Conversation
from albireo.client.errors import ClientError, FileNotReceived, FileNotSent, NodeRefused
from albireo.client.message import messages
from albireo.client.message.messages import TAKE_S, OutgoingMessage
from albireo.client.orders import GRACE_S
from albireo.codec.questions.messages import InboxMessage
from albireo.log.files import ASIDE, NO_LINK, NOT_OURS, OsFileSystem
from albireo.model.bounded import Count
from albireo.model.refusal import RefusalCode
from albireo.model.tree.proof import MessageProof

FILE_BYTES_MAX: Final = 64 * 1024 * 1024
PART_BYTES: Final = 128 * 1024
"""A link of 5 kB/s brings one while its receiver waits for it."""
NAME_BYTES_MAX: Final = 200
"""Longest name: a file system takes 255 bytes, and a number may be added to it."""
PARTS_MAX: Final = -(-FILE_BYTES_MAX // PART_BYTES)
FILE: Final = "file"
"""Kind of the message that announces a file."""
PART: Final = "file_part"
"""Kind of a message with a part of one."""
AHEAD: Final = 4
"""Parts that are on their way at once."""
PART_S: Final = 120.0
"""Time in which a part is taken, or the file is announced again."""
SILENCE_S: Final = 30.0
"""Time for which a receiver waits for the next part before it looks for other messages."""
BUSY_S: Final = 1.0
"""Pause of a sender whose file another receiver of the same directory has in hand, and of one whose node is full."""
HALVES_MAX: Final = 16
"""Most files of which a directory holds a part."""
HAD_MAX: Final = 1_000
"""Most ids of files that a directory notes as had; the oldest are forgotten."""
DISK: Final = OsFileSystem()

OWN: Final = ".albireo"
"""Folder in the receiver's directory for what is not whole yet."""

Progress = Callable[[int, int], None]
"""Is called with the number of bytes that were taken so far, and of all."""


def write_durably(path: Path, data: bytes) -> None:
    """Write a file that is there whole, after a power cut too, or not at all."""
    beside = path.with_name(f".{path.name}{ASIDE}")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            DISK.sync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    _sync_names(path.parent)


def _sync_names(directory: Path) -> None:
    """Make names durable, as far as a file system of this kind ever does: FUSE and network shares may not."""
    try:
        DISK.sync_directory(directory)
    except OSError as error:
        if error.errno not in NOT_OURS:
            raise


class FileNotice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `file`."""

    transfer: Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
    name: Annotated[str, Meta(min_length=1, pattern=r"\A[^./\\\x00-\x1f\x7f-\x9f][^/\\\x00-\x1f\x7f-\x9f]*\Z")]
    size: Annotated[int, Meta(ge=0, le=FILE_BYTES_MAX)]
    sha256: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]

    def __post_init__(self) -> None:
        if len(self.name.encode()) > NAME_BYTES_MAX:  # Told before the parts are sent, not when the file is whole.
            raise ValueError(f"a name of more than {NAME_BYTES_MAX} bytes")

    @property
    def parts(self) -> int:
        return -(-self.size // PART_BYTES)

    @property
    def inbox(self) -> str:
        """Inbox of its parts."""
        return f"file-{self.transfer}"


class FilePart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `file_part`."""

    transfer: str
    index: Count
    data: bytes


class FileReply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reply to `file`."""

    missing: tuple[int, ...] = ()
    """Numbers of the parts that are to be sent; none: it is whole, and its sum is as announced."""
    is_busy: bool = False
    """True: another receiver has it in hand; ask again."""
    refusal: str = ""


class OutgoingFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file to be sent."""

    node: str
    name: str
    data: bytes
    inbox: str
    reason: str
    expires_s: float
    transfer: str

    def notice(self) -> FileNotice:
        """Raises FileNotSent: it can't be sent."""
        if len(self.data) > FILE_BYTES_MAX:
            raise FileNotSent(
                f"{self.name} has more than {FILE_BYTES_MAX} bytes", f"send at most {FILE_BYTES_MAX} in one file"
            )
        sha256 = hashlib.sha256(self.data).hexdigest()
        told = {"transfer": self.transfer, "name": self.name, "size": len(self.data), "sha256": sha256}
        try:
            return msgspec.convert(told, FileNotice)
        except msgspec.ValidationError as error:
            remedy = "name it without a folder, a dot in front, or control characters; an id has 32 digits 0-9a-f"
            raise FileNotSent(f"{self.name!r} can't be sent: {error}", remedy) from error


def read_up_to_one_more(file: IO[bytes]) -> bytes:
    """Content of a file; of one that is too large one byte too many, so that it is refused without being read whole."""
    return file.read(FILE_BYTES_MAX + 1)


def new_transfer() -> str:
    """Id of a transfer."""
    return uuid.uuid4().hex


# The sender.


def send_file(file: OutgoingFile, user: str, progress: Progress | None) -> Conversation[MessageProof]:
    """Send a file; the proof is that of the message to which somebody replied that it is whole."""
    notice, ends = file.notice(), time.monotonic() + file.expires_s
    body = msgspec.msgpack.encode(notice)
    while True:
        proof = yield from messages.send(_to(file, file.inbox, FILE, body, ends - time.monotonic()), user)
        if proof.outcome != "executed":
            return proof
        reply = _reply_of(proof)
        if not reply.missing and not reply.is_busy:
            return proof
        if reply.is_busy:
            time.sleep(min(BUSY_S, max(0.0, ends - time.monotonic())))
        whole = yield from _send_parts(file, notice, reply.missing, user, ends, progress)
        if whole is not None:
            return whole


def _to(file: OutgoingFile, inbox: str, kind: str, body: bytes, left_s: float) -> OutgoingMessage:
    return OutgoingMessage(
        node=file.node, body=body, kind=kind, reason=file.reason, expires_s=max(0.001, left_s), inbox=inbox
    )


def _reply_of(proof: MessageProof) -> FileReply:
    """Raises FileNotSent: the receiver refuses it."""
    try:
        reply = msgspec.msgpack.decode(proof.reply or b"", type=FileReply)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        remedy = "let `albireo message receive --out DIR`, or a program with `receive_file`, read that inbox"
        raise FileNotSent(f"{proof.name} was taken by a program that knows no files", remedy) from error
    if reply.refusal:
        raise FileNotSent(f"{proof.name}: {reply.refusal}", "look at the receiver's directory")
    return reply


def _send_parts(
    file: OutgoingFile,
    notice: FileNotice,
    missing: tuple[int, ...],
    user: str,
    ends: float,
    progress: Progress | None,
) -> Conversation[MessageProof | None]:
    """Send parts, a few at a time, until one is not taken in time; the proof of the one that made the file whole."""
    wanted = sorted({one for one in missing if 0 <= one < notice.parts})
    has = notice.parts - len(wanted)
    under_way: list[str] = []
    left = iter(wanted)
    while time.monotonic() < ends:
        while len(under_way) < AHEAD and (index := next(left, None)) is not None:
            data = file.data[index * PART_BYTES : (index + 1) * PART_BYTES]
            body = msgspec.msgpack.encode(FilePart(transfer=notice.transfer, index=index, data=data))
            part = _to(file, notice.inbox, PART, body, min(PART_S, ends - time.monotonic()))
            under_way.append((yield from messages.send_off(part, user)))
        if not under_way:
            break
        proof = yield from messages.proof(under_way.pop(0), PART_S + GRACE_S)
        if proof is None or proof.outcome != "executed":
            break
        has += 1
        if progress is not None:
            progress(min(has * PART_BYTES, notice.size), notice.size)
        try:
            if proof.reply is not None and _reply_of(proof) == FileReply():
                return proof
        except FileNotSent:  # What is left there would be taken in the place of the same parts of the next try.
            for one in under_way:
                with contextlib.suppress(ClientError):  # It has its end by now, or nobody says so in time.
                    yield from messages.take_back(one, user)
            raise
    return None


# The receiver.


def receive_file(message: InboxMessage, directory: Path) -> Conversation[Path | None]:
    """Answer an announcement, and receive the parts that are missing; the path, once the file is whole there."""
    try:
        notice = msgspec.msgpack.decode(message.body, type=FileNotice)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        yield from _taken(message, FileReply(refusal=f"no announcement: {error}"[:1_000]))
        return None
    latest = message
    try:
        with _inbound(directory, notice) as half:
            if isinstance(half, FileReply):
                yield from _taken(message, half)
                return None
            half.check_room()
            place = half.finish()
            yield from _taken(message, FileReply(missing=tuple(half.missing)))
            while half.missing and (part := (yield from messages.receive(notice.inbox, SILENCE_S))) is not None:
                latest = part
                half.put(part.body)
                is_last = not half.missing
                place = half.finish()
                yield from _taken(part, None if half.missing else FileReply())
                if is_last:
                    break
            return place
    except OSError as error:  # Of the receiver's disk; the sender hears of it, and sends no more for nothing.
        failed = FileNotReceived(notice.name, directory, notice.size, error)
        yield from _taken(latest, FileReply(refusal=failed.cause[:1_000]))
        raise failed from error


def _taken(message: InboxMessage, reply: FileReply | None) -> Conversation[None]:
    """Say that a message is taken; again for a while, if the node can't record it: its disk may get room."""
    ends = time.monotonic() + TAKE_S
    while True:
        try:
            return (yield from messages.take(message, None if reply is None else msgspec.msgpack.encode(reply)))
        except NodeRefused as error:
            if error.code != RefusalCode.NOT_RECORDING or time.monotonic() >= ends:
                raise
        time.sleep(BUSY_S)


@contextlib.contextmanager
def _inbound(directory: Path, notice: FileNotice) -> "Iterator[HalfFile | FileReply]":
    """Open that which a directory has of a file, for this process alone; or the reply why not."""
    own = directory / OWN
    own.mkdir(parents=True, exist_ok=True)
    halves = [one for one in own.glob("*.part") if one.stem != notice.transfer]
    if len(halves) >= HALVES_MAX:
        yield FileReply(refusal=f"{len(halves)} files are half here; delete what is old in {own}")
        return
    with (own / "lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield FileReply(is_busy=True)
            return
        half = HalfFile(directory, notice)
        if half.is_other:
            yield FileReply(refusal=f"another file came with the id {notice.transfer}; send this one without it")
        else:
            yield half


class HalfFile:
    """A file of which some parts are in a directory: `<id>.part` as large as the whole, `<id>.have` their numbers."""

    def __init__(self, directory: Path, notice: FileNotice) -> None:
        self._directory = directory
        self._notice = notice
        own = directory / OWN
        self._part, self._have, self._had = (own / f"{notice.transfer}{end}" for end in (".part", ".have", ".had"))
        had, _, self._claimed = (self._had.read_text() if self._had.exists() else "").partition("\n")
        self.is_had = had == notice.sha256 and not (self._claimed and self._part.exists())
        """True: it was received before."""
        self.is_other = bool(had) and had != notice.sha256
        """True: a file with another sum was received under its id."""
        if not self._part.exists():
            self._have.unlink(missing_ok=True)
        has = set() if self.is_had else self._numbers()
        self.missing = [] if self.is_had else [one for one in range(notice.parts) if one not in has]
        """Numbers of the parts that are not here yet."""

    def _numbers(self) -> set[int]:
        """Numbers that are on the disk; a line that was cut by a crash counts for nothing."""
        try:
            lines = self._have.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return set()
        return {int(one) for one in lines if one.isdigit() and len(one) <= 9}

    def check_room(self) -> None:
        """Leave the room of a disk to others, if it is too little for this file.

        Raises:
            OSError: the parts that are missing need more room than there is.
        """
        needed, disk = sum(map(self._size, self.missing)), os.statvfs(self._directory)
        free = disk.f_bavail * disk.f_frsize
        if needed > free and disk.f_blocks:  # A file system without a size, as some of FUSE, is asked by writing.
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {needed} bytes are missing, {free} are free")

    def _size(self, index: int) -> int:
        """Bytes of a part."""
        return min(PART_BYTES, self._notice.size - index * PART_BYTES)

    def put(self, body: bytes) -> None:
        """Write a part to the disk; what is none of this file is passed over."""
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            part = msgspec.msgpack.decode(body, type=FilePart)
            is_ours = part.transfer == self._notice.transfer and part.index in self.missing
            if is_ours and len(part.data) == self._size(part.index):
                with self._part.open("r+b" if self._part.exists() else "w+b") as file:
                    file.seek(part.index * PART_BYTES)
                    file.write(part.data)
                    file.flush()
                    DISK.sync(file.fileno())
                with self._have.open("ab") as file:
                    file.write(b"%d\n" % part.index)
                    file.flush()
                    DISK.sync(file.fileno())
                self.missing.remove(part.index)

    def finish(self) -> Path | None:
        """Put the file in its place, under a name that is free; None: parts are missing, or it was received before.

        One whose sum is wrong is begun anew: all of its parts are missing.
        """
        if self.missing or self.is_had:
            return None
        if not self._notice.parts:
            self._part.touch()
        with self._part.open("rb") as file:
            is_right = hashlib.file_digest(file, "sha256").hexdigest() == self._notice.sha256
        if not is_right:
            self._part.unlink()
            self._have.unlink(missing_ok=True)
            self.missing = list(range(self._notice.parts))
            return None
        note = self._had.with_suffix(".note")
        write_durably(note, self._notice.sha256.encode())  # What has no room is seen before others see the file.
        place = self._placed() or self._place()
        note.replace(self._had)
        self._part.unlink(missing_ok=True)
        self._have.unlink(missing_ok=True)
        self._forget_old()
        for folder in (self._directory, self._had.parent):
            _sync_names(folder)
        return place

    def _placed(self) -> Path | None:
        """Place of the file, if it is there already: its receiver ended right after it was put there."""
        claimed = self._directory / self._claimed
        if self._claimed and claimed.is_file() and not claimed.stat().st_size:
            self._part.replace(claimed)
            return claimed
        part = self._part.stat()
        if part.st_nlink == 1:
            return None
        files = (one for one in self._directory.iterdir() if one.is_file())
        return next((one for one in files if os.path.samestat(part, one.stat())), None)

    def _place(self) -> Path:
        name, number = Path(self._notice.name), 1
        place = self._directory / name
        while True:
            try:
                self._put_at(place)
            except FileExistsError:
                number += 1
                place = self._directory / f"{name.stem}.{number}{name.suffix}"
            else:
                return place

    def _put_at(self, place: Path) -> None:
        """Give the file a name that is free, whole; without hard links the name is claimed by an empty file before.

        Raises:
            FileExistsError: the name is taken.
        """
        try:
            os.link(self._part, place)
        except OSError as error:
            if error.errno not in NO_LINK:
                raise
            place.touch(exist_ok=False)
            try:
                write_durably(self._had, f"{self._notice.sha256}\n{place.name}".encode())
                self._part.replace(place)
            except OSError:
                place.unlink()
                self._had.unlink(missing_ok=True)
                raise

    def _forget_old(self) -> None:
        had = sorted(self._had.parent.glob("*.had"), key=lambda one: one.stat().st_mtime_ns)
        for one in had[: max(0, len(had) - HAD_MAX)]:
            one.unlink()
