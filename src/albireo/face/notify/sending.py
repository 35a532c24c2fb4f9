"""Sends a notice once: by mail, webhook or script. Each way is bounded in time and in what it takes in.

All of it is asyncio's streams, so that a peer which hangs, streams for ever or trickles is given up by a cancellation
at TIME_S, wherever it stands. Up to the moment after which it may have left, what goes wrong is `later` or `refused`;
from then on it is `unknown`, unless the other end says what it did.
"""

import asyncio
import base64
import contextlib
import os
import signal
import ssl
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from albireo.face.notify.notice import TWICE, Notice, SendOutcome, Try, clean
from albireo.face.notify.rules import NotifyRules, SmtpSettings, priority_of
from albireo.model.instant import SECOND

TIME_S: Final = 20.0
"""Longest time of one send, from looking up a name to the last answer."""
KILLED_S: Final = 1.0
"""Time that a killed script has to be gone."""
LINE_BYTES_MAX: Final = 4_096
REPLY_LINES_MAX: Final = 100
TEMPORARY: Final = 75
"""Exit code of a script that is to be run again: EX_TEMPFAIL of sysexits.h."""
_LATER_STATUS: Final = frozenset({408, 425, 429, 503})

Told = tuple[SendOutcome, str]


class _Said(Exception):  # It is an answer.
    """The other end said no."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code


class _Course:
    """How far a send has come."""

    may_have_left = False


async def send(notice: Notice, to: Try, rules: NotifyRules, node: str, *, may_be_second: bool) -> Told:
    """Send it to one address; the outcome, and why it is not `sent`."""
    course = _Course()
    ways = {"mail": _mail, "webhook": _webhook, "script": _script}
    try:
        async with asyncio.timeout(TIME_S):
            return await ways[to.kind](notice, to, rules, node, may_be_second, course)
    except TimeoutError:
        why = f"no end within {TIME_S:g} s"
    except _Said as said:
        return (SendOutcome.LATER if said.code < 500 else SendOutcome.REFUSED), clean(str(said))
    except (OSError, EOFError, ValueError, LookupError) as error:  # A line too long, a name that can't be looked up.
        why = clean(f"{type(error).__name__}: {error}")
    return (SendOutcome.UNKNOWN if course.may_have_left else SendOutcome.LATER), why


def mail_of(notice: Notice, to: Try, sender: str, node: str, *, may_be_second: bool) -> bytes:
    """The mail as it is sent, without the doubling of dots."""
    mail = EmailMessage(policy=SMTP)
    mail["From"], mail["To"] = sender, to.address
    subject = notice.subject.replace("=?", "= ?")  # It would be decoded (RFC 2047), with the line breaks in it.
    mail["Subject"] = f"{subject}{' (may come twice)' if may_be_second else ''}"
    mail["Date"] = format_datetime(datetime.fromtimestamp(notice.made_ns // SECOND, UTC))
    mail["Message-ID"] = notice.message_id(to.address, node)
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(f"{TWICE}\n\n{notice.body}" if may_be_second else notice.body)
    return mail.as_bytes()


def words_of(notice: Notice, to: Try, node: str, *, may_be_second: bool) -> bytes:
    """The same for programs, as JSON."""
    told = {
        "message_id": notice.message_id(to.address, node),
        "may_be_second": may_be_second,
        "node": node,
        "rule": notice.rule,
        "priority": priority_of(notice.severity),
        "severity": notice.severity,
        "to": to.name,
        "subject": notice.subject,
        "body": notice.body,
        "cases": [{"node": one, "case_id": number, "activation": which} for one, number, which in notice.cases],
    }
    return msgspec.json.encode(told)


def _trusting(rules: NotifyRules) -> ssl.SSLContext:
    file = rules.file.ca
    return ssl.create_default_context(cafile=str(rules.directory / file) if file else None)


@contextlib.asynccontextmanager
async def _line(host: str, port: int, context: ssl.SSLContext | None) -> AsyncIterator["_Talk"]:
    reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=LINE_BYTES_MAX)
    line = _Talk(reader, writer)
    try:
        yield line
    finally:
        line.writer.transport.abort()  # Nothing is to be waited for any more.


class _Talk:
    """A connection to a mail server or a webhook."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, *parts: bytes) -> None:
        self.writer.writelines(parts)
        await self.writer.drain()

    async def read(self) -> str:
        line = await self.reader.readline()
        if not line.endswith(b"\n"):
            raise EOFError("the other end closed the connection")
        return line.decode(errors="replace").rstrip("\r\n")

    async def reply(self, wanted: int) -> None:
        """The answer of a mail server, which has to begin with this digit. Raises _Said."""
        for _ in range(REPLY_LINES_MAX):
            line = await self.read()
            if not line[:3].isdecimal():
                raise ValueError(f"{line[:60]!r} is no answer of a mail server")
            if line[3:4] != "-":
                if line[:1] != str(wanted):
                    raise _Said(int(line[:3]), line[4:])
                return
        raise ValueError(f"its answer has more than {REPLY_LINES_MAX} lines")

    async def order(self, text: str, wanted: int) -> None:
        await self.say(text.encode() + b"\r\n")
        await self.reply(wanted)

    async def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Go on in TLS, with a reader of its own: what came in plain text before is not taken for an answer."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(LINE_BYTES_MAX)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport = await loop.start_tls(self.writer.transport, protocol, context, server_hostname=host)
        if transport is None:
            raise EOFError("the other end closed the connection")
        protocol.connection_made(transport)
        self.reader, self.writer = reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def _mail(notice: Notice, to: Try, rules: NotifyRules, node: str, second: bool, course: _Course) -> Told:
    smtp = rules.file.smtp
    if smtp is None:
        return SendOutcome.REFUSED, "the rules have no [smtp]"
    text = mail_of(notice, to, smtp.sender, node, may_be_second=second)
    doubled = b"\r\n".join(b"." + one if one.startswith(b".") else one for one in text.split(b"\r\n"))
    context = None if smtp.tls == "none" else await asyncio.to_thread(_trusting, rules)
    async with _line(smtp.host, smtp.port, context if smtp.tls == "tls" else None) as line:
        await line.reply(2)
        await line.order("EHLO albireo", 2)
        if smtp.tls == "starttls" and context is not None:
            await line.order("STARTTLS", 2)
            await line.secure(context, smtp.host)
            await line.order("EHLO albireo", 2)
        if smtp.user:
            await line.order(f"AUTH PLAIN {await asyncio.to_thread(_credentials, smtp, rules.directory)}", 2)
        await line.order(f"MAIL FROM:<{smtp.sender}>", 2)
        await line.order(f"RCPT TO:<{to.address}>", 2)
        await line.order("DATA", 3)
        course.may_have_left = True
        await line.say(doubled.removesuffix(b"\r\n"), b"\r\n.\r\n")
        await line.reply(2)
    return SendOutcome.SENT, ""


def _credentials(smtp: SmtpSettings, directory: Path) -> str:
    password = (directory / smtp.password_file).read_text().split("\n", 1)[0].strip()
    return base64.b64encode(f"\0{smtp.user}\0{password}".encode()).decode()


async def _webhook(notice: Notice, to: Try, rules: NotifyRules, node: str, second: bool, course: _Course) -> Told:
    """POST, and look at the first line of the answer: nothing else is read, and no redirection followed."""
    parts = urlsplit(to.address)
    is_secure = parts.scheme == "https"
    host, port = parts.hostname or "", parts.port or (443 if is_secure else 80)
    body = words_of(notice, to, node, may_be_second=second)
    context = await asyncio.to_thread(_trusting, rules) if is_secure else None
    path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        f"Idempotency-Key: {notice.message_id(to.address, node)}\r\nContent-Length: {len(body)}\r\n"
        "User-Agent: albireo\r\nConnection: close\r\n\r\n"
    )
    async with _line(host, port, context) as line:
        course.may_have_left = True
        await line.say(head.encode(), body)
        words = (await line.read()).split(" ", 2)
    status = words[1] if len(words) > 1 else ""
    if not (words[0].startswith("HTTP/") and status.isdecimal() and len(status) == 3):
        raise ValueError("it does not answer in HTTP")
    if status[0] == "2":
        return SendOutcome.SENT, ""
    why = clean(f"it answers {' '.join(words[1:])}")
    if status[0] in "15" and status != "503":  # Not its last word, or what is behind it may have taken it.
        return SendOutcome.UNKNOWN, why
    return (SendOutcome.LATER if int(status) in _LATER_STATUS else SendOutcome.REFUSED), why


async def _script(notice: Notice, to: Try, rules: NotifyRules, node: str, second: bool, course: _Course) -> Told:
    """Run it with the notice as its input. Its output goes nowhere; with its time over, its whole group is killed."""
    program: Sequence[str] = rules.file.scripts.get(to.address, ())
    if not program:
        return SendOutcome.REFUSED, "the rules have no such script"
    try:
        process = await asyncio.create_subprocess_exec(
            *program,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=rules.directory,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return SendOutcome.REFUSED, clean(f"{program[0]}: {error}")
    course.may_have_left = True
    try:
        await process.communicate(words_of(notice, to, node, may_be_second=second))
    finally:
        with contextlib.suppress(ProcessLookupError):  # Also what it left behind.
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILLED_S):
                await process.wait()
    code = process.returncode
    if code == 0:
        return SendOutcome.SENT, ""
    return (SendOutcome.LATER if code == TEMPORARY else SendOutcome.REFUSED), f"it ended with exit code {code}"
