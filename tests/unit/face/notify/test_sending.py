"""Sending once, to a real mail server, webhook and script: each answer, and what hangs, floods, refuses or dies."""

import asyncio
import json
import ssl
import sys
from datetime import UTC
from functools import partial
from pathlib import Path

import msgspec
import pytest

from albireo.face.notify import sending
from albireo.face.notify.notice import TWICE, Notice, SendOutcome, Try, clean, notice_of
from albireo.face.notify.rules import NotifyFile, NotifyRules, RuleSettings, SmtpSettings
from albireo.face.notify.sending import Told, mail_of, send
from albireo.face.web.certificate import own_certificate
from tests.parts.notify import WALL_NS, case_of, mail_server, serving, web_hook
from tests.parts.waiting import awaited

NOTICE = notice_of("night", [case_of(1, message="a\r\nBcc: all@plant.example\x1b[2J <b>\u202ex</b>")], WALL_NS)
DOTTED = msgspec.structs.replace(NOTICE, body=".\r\n..\nüber alles\n.", subject="[critical] über")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A second is enough for what never ends; where all is well, the usual time is there."""
    if "never" in request.node.name:
        monkeypatch.setattr(sending, "TIME_S", 1.0)


def to(kind: str, address: str) -> Try:
    return Try("Anna", kind, address, SendOutcome.LEAVING, 1, WALL_NS)


def rules_with(
    home: Path = Path(), ca: str = "", scripts: dict[str, tuple[str, ...]] | None = None, **smtp: object
) -> NotifyRules:
    settings = SmtpSettings(sender="scada@plant.example", **{"host": "127.0.0.1", "tls": "none", **smtp})  # type: ignore[arg-type]
    rule = RuleSettings(name="night", roster="roster.csv")
    return NotifyRules(NotifyFile(rule=(rule,), smtp=settings, ca=ca, scripts=scripts or {}), home, {}, UTC)


async def mailed(notice: Notice = NOTICE, *, second: bool = False, port: int = 25, **more: object) -> Told:
    rules = rules_with(port=port, **more)  # type: ignore[arg-type]
    return await send(notice, to("mail", "anna@plant.example"), rules, "root/north", may_be_second=second)


def test_a_mail_is_taken_as_it_was_written() -> None:
    async def run() -> None:
        async with mail_server() as server:
            assert await mailed(DOTTED, port=server.port) == (SendOutcome.SENT, "")
            (mail,) = server.mails
            assert (mail["Subject"], mail["To"]) == ("[critical] über", "anna@plant.example")
            assert mail["Auto-Submitted"] == "auto-generated"
            assert mail.get_content().splitlines() == [".", "..", "über alles", "."]

    asyncio.run(run())


def test_the_second_one_has_the_same_id_and_says_that_it_may_come_twice() -> None:
    async def run() -> None:
        async with mail_server() as server:
            for second in (False, True):
                assert await mailed(second=second, port=server.port) == (SendOutcome.SENT, "")
            first, again = server.mails
            assert first["Message-ID"] == again["Message-ID"]
            assert again["Subject"].endswith("(may come twice)") and TWICE in again.get_content()
            assert "twice" not in first["Subject"] + first.get_content()

    asyncio.run(run())


def test_texts_from_outside_add_no_header_and_steer_nothing() -> None:
    assert "\r" not in NOTICE.body and "\x1b" not in NOTICE.body and "\u202e" not in NOTICE.body

    async def run() -> None:
        async with mail_server() as server:
            await mailed(port=server.port)
            (mail,) = server.mails
            assert mail["Bcc"] is None and mail.get_content_type() == "text/plain"

    asyncio.run(run())


@pytest.mark.parametrize(
    "name", ["=?utf-8?q?=0D=0ABcc:_x@y.example?=", "=?utf-8?b?DQpCY2M6IHhAeS5leGFtcGxl?=", "a\r\nBcc: x"]
)
def test_words_that_would_be_decoded_add_no_header(name: str) -> None:
    notice = notice_of("night", [case_of(1, item=name)], WALL_NS)
    text = mail_of(notice, to("mail", "anna@plant.example"), "scada@plant.example", "root", may_be_second=False)
    names = [line.partition(b":")[0] for line in text.partition(b"\r\n\r\n")[0].split(b"\r\n") if line[:1] != b" "]
    assert b"Bcc" not in names and len(names) == 9, text


def test_marks_that_turn_or_hide_text_are_taken_away() -> None:
    hidden = "".join(map(chr, (0x61C, 0x200B, 0x202E, 0x2060, 0x2069, 0xFEFF, 0xE0041)))
    assert clean(f"a{hidden}b").split() == ["a", "b"]


@pytest.mark.parametrize(
    ("answers", "outcome", "why"),
    [
        ({"hello": "421 busy"}, SendOutcome.LATER, "421 busy"),
        ({"hello": "554 go away"}, SendOutcome.REFUSED, "554 go away"),
        ({"hello": "SSH-2.0"}, SendOutcome.LATER, "is no answer of a mail server"),
        ({"MAIL": "451 later"}, SendOutcome.LATER, "451 later"),
        ({"RCPT": "450 greylisted"}, SendOutcome.LATER, "450"),
        ({"RCPT": "550 nobody here"}, SendOutcome.REFUSED, "550 nobody here"),
        ({"DATA": "354-\r\n354 go"}, SendOutcome.SENT, ""),
        ({"DATA": "DROP"}, SendOutcome.LATER, "closed the connection"),
        ({".": "452 no room"}, SendOutcome.LATER, "452"),
        ({".": "554 spam"}, SendOutcome.REFUSED, "554 spam"),
        ({".": "DROP"}, SendOutcome.UNKNOWN, "closed the connection"),
        ({"EHLO": "FLOOD"}, SendOutcome.LATER, "more than 100 lines"),
        ({"EHLO": "250 " + "x" * 10_000}, SendOutcome.LATER, "chunk"),
    ],
)
def test_each_answer_of_a_mail_server(answers: dict[str, str], outcome: SendOutcome, why: str) -> None:
    async def run() -> None:
        async with mail_server(answers) as server:
            told = await mailed(port=server.port)
            assert told[0] is outcome and why in told[1], told

    asyncio.run(run())


@pytest.mark.parametrize(
    ("order", "outcome"), [("hello", SendOutcome.LATER), ("RCPT", SendOutcome.LATER), (".", SendOutcome.UNKNOWN)]
)
def test_a_mail_server_that_never_answers_is_given_up(order: str, outcome: SendOutcome) -> None:
    async def run() -> None:
        async with mail_server({order: "HANG"}) as server:
            assert await mailed(port=server.port) == (outcome, "no end within 1 s")

    asyncio.run(run())


def test_a_mail_server_that_is_not_there_is_tried_later() -> None:
    async def run() -> None:
        async with mail_server() as server:
            port = server.port
        assert (await mailed(port=port))[0] is SendOutcome.LATER
        assert (await mailed(port=port, host="no.such.host.invalid"))[0] is SendOutcome.LATER

    asyncio.run(run())


@pytest.mark.parametrize("is_known", [True, False])
def test_tls_is_begun_before_the_password_is_said_and_certificates_are_checked(tmp_path: Path, is_known: bool) -> None:
    async def run() -> None:
        file = own_certificate(tmp_path, "mail", ["localhost"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        heard: list[str] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                writer.write(b"220 here\r\n")
                while line := (await reader.readline()).decode():
                    heard.append(line.strip())
                    if line.startswith("STARTTLS"):
                        writer.write(b"220 go\r\n250 injected\r\n")
                        await writer.drain()
                        await writer.start_tls(context)
                        continue
                    writer.write(b"354 go\r\n" if line.startswith("DATA") else b"250 good\r\n")
                    if line.startswith("DATA"):
                        await reader.readuntil(b"\r\n.\r\n")
                        writer.write(b"250 taken\r\n")
            except (OSError, asyncio.IncompleteReadError):
                pass

        (tmp_path / "password").write_text("secret\n")
        async with serving(serve) as port:
            told = await mailed(
                port=port,
                home=tmp_path,
                ca=file.name if is_known else "",
                host="localhost",
                tls="starttls",
                user="scada",
                password_file="password",
            )
        if is_known:
            assert told == (SendOutcome.SENT, "")
            assert [one.split()[0] for one in heard] == ["EHLO", "STARTTLS", "EHLO", "AUTH", "MAIL", "RCPT", "DATA"]
        else:
            assert told[0] is SendOutcome.LATER and "CERTIFICATE_VERIFY_FAILED" in told[1].upper(), told
            assert not any("AUTH" in one for one in heard)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("HTTP/1.1 200 OK\r\n\r\n", SendOutcome.SENT),
        ("HTTP/1.1 204 No Content\r\n\r\n", SendOutcome.SENT),
        ("HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n", SendOutcome.REFUSED),
        ("HTTP/1.1 404 Not Found\r\n\r\n", SendOutcome.REFUSED),
        ("HTTP/1.1 429 Too Many Requests\r\n\r\n", SendOutcome.LATER),
        ("HTTP/1.1 503 Busy\r\n\r\n", SendOutcome.LATER),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", SendOutcome.UNKNOWN),
        ("HTTP/1.1 504 Gateway Timeout\r\n\r\n", SendOutcome.UNKNOWN),
        ("SSH-2.0\r\n", SendOutcome.UNKNOWN),
        ("", SendOutcome.UNKNOWN),
        ("FLOOD", SendOutcome.UNKNOWN),
    ],
)
def test_each_answer_of_a_webhook(answer: str, outcome: SendOutcome) -> None:
    async def run() -> None:
        async with web_hook(answer) as hook:
            told = await send(NOTICE, to("webhook", hook.url), rules_with(), "root", may_be_second=True)
            assert told[0] is outcome, told
            (body,) = hook.bodies
            assert body["may_be_second"] is True and body["cases"] == [{"node": "root", "case_id": 1, "activation": 1}]
            assert hook.heads[0].startswith("POST /alarm?of=plant HTTP/1.1\r\nHost: 127.0.0.1:")
            assert f"Idempotency-Key: {body['message_id']}" in hook.heads[0]

    asyncio.run(run())


def scripted(home: Path, text: str) -> NotifyRules:
    file = home / "script.py"
    file.write_text(text)
    return rules_with(home, scripts={"page": (sys.executable, str(file))})


@pytest.mark.parametrize(
    ("end", "outcome"),
    [("0", SendOutcome.SENT), ("75", SendOutcome.LATER), ("1", SendOutcome.REFUSED), ("'x'", SendOutcome.REFUSED)],
)
def test_a_script_gets_the_notice_and_its_exit_code_tells(tmp_path: Path, end: str, outcome: SendOutcome) -> None:
    text = f"import sys\nopen('got.json', 'w').write(sys.stdin.read())\nsys.exit({end})"
    rules = scripted(tmp_path, text)
    told = asyncio.run(send(NOTICE, to("script", "page"), rules, "root", may_be_second=False))
    assert told[0] is outcome, told
    assert json.loads((tmp_path / "got.json").read_text())["priority"] == "critical"


def is_gone(state: Path) -> bool:
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX"


def test_a_script_that_floods_its_output_and_never_ends_is_killed_with_all_it_began(tmp_path: Path) -> None:
    text = (
        "import os, sys, pathlib\nchild = os.fork()\n"
        "if child: pathlib.Path('pids').write_text(f'{os.getpid()} {child}')\n"
        "while True: sys.stdout.write('x' * 10000)\n"
    )
    rules = scripted(tmp_path, text)
    told = asyncio.run(send(NOTICE, to("script", "page"), rules, "root", may_be_second=False))
    assert told == (SendOutcome.UNKNOWN, "no end within 1 s")
    for pid in (tmp_path / "pids").read_text().split():
        awaited(partial(is_gone, Path(f"/proc/{pid}/stat")))


@pytest.mark.parametrize("program", [("no-such-program",), ("/",), ()])
def test_a_script_that_can_not_be_run_is_refused(tmp_path: Path, program: tuple[str, ...]) -> None:
    rules = rules_with(tmp_path, scripts={"page": program} if program else {})
    told = asyncio.run(send(NOTICE, to("script", "page"), rules, "root", may_be_second=False))
    assert told[0] is SendOutcome.REFUSED and told[1]
