"""Settings of the page, and TLS with a certificate of its own or a given one."""

import asyncio
import hashlib
import http.client
import ssl
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from albireo.face.kinds import FacePlace, load_kind
from albireo.face.web.actor import WebActor
from albireo.face.web.certificate import fingerprint_of, own_certificate
from albireo.face.web.settings import WebSettings
from albireo.model.status import FaceAddress
from albireo.runtime import ConfigurationRefused, running
from albireo.runtime.link.lines import LineTo
from tests.parts.port import free_port
from tests.parts.waiting import PATIENCE_S

PLACE = FacePlace(name="page", node="root", doors=(LineTo(""),))


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"bind": "http://0.0.0.0:80"}, "http is for loopback"),
        ({"bind": "http://10.0.0.5:80"}, "http is for loopback"),
        ({"bind": "https://127.0.0.1"}, "is no http"),
        ({"bind": "tcp://127.0.0.1:80"}, "is no http"),
        ({"bind": "https://127.0.0.1:80/page"}, "is no http"),
        ({"bind": "https://127.0.0.1:99999"}, "out of range"),
        ({"urls": ["scada"]}, "is no http"),
        ({"certificate": "a.pem"}, "go together"),
        ({"zone": "Europe/Vienna"}, "zone"),
        ({"port": 7}, "port"),
    ],
)
def test_settings_that_can_not_be_are_refused_by_name(settings: dict[str, Any], word: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=word):
        msgspec.convert(settings, WebSettings)


def test_the_kind_is_known_by_name() -> None:
    kind = load_kind("web")
    assert not isinstance(kind, str) and kind.settings is WebSettings


def answer_of(port: int) -> tuple[int, bytes]:
    """Status, and the certificate that was shown."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    line = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=PATIENCE_S)
    line.request("GET", "/livez")
    status = line.getresponse().status
    assert isinstance(line.sock, ssl.SSLSocket)
    shown = line.sock.getpeercert(binary_form=True)
    line.close()
    assert shown is not None
    return status, shown


@pytest.mark.parametrize("is_given", [False, True])
def test_a_page_over_tls_shows_its_certificate(tmp_path: Path, is_given: bool) -> None:
    port = free_port()
    given = own_certificate(tmp_path / "given", "plant", ["scada.plant"]) if is_given else None
    files = {} if given is None else {"certificate": str(given), "certificate_key": str(given)}
    settings = msgspec.convert({"bind": f"https://127.0.0.1:{port}", **files}, WebSettings)

    async def story() -> None:
        (tmp_path / "log").mkdir()
        async with running(WebActor(settings, PLACE), tmp_path) as actor:
            status, shown = await asyncio.to_thread(answer_of, port)
            assert status == 200
            file = given or tmp_path / "web" / "page.pem"
            assert fingerprint_of(file).replace(":", "").lower() == hashlib.sha256(shown).hexdigest()
            assert actor.address == FaceAddress(f"https://127.0.0.1:{port}", fingerprint_of(file))
            assert stat.S_IMODE(file.stat().st_mode) == 0o600

    asyncio.run(story())


def test_a_certificate_is_kept_and_one_that_is_broken_is_made_anew(tmp_path: Path) -> None:
    file = own_certificate(tmp_path / "web", "page", ["127.0.0.1", "::1", "scada.plant"])
    first = fingerprint_of(file)
    assert fingerprint_of(own_certificate(tmp_path / "web", "page", ["127.0.0.1"])) == first
    file.write_bytes(file.read_bytes()[:300])
    assert fingerprint_of(own_certificate(tmp_path / "web", "page", ["127.0.0.1"])) != first


def test_a_certificate_that_is_not_there_is_refused_with_its_face(tmp_path: Path) -> None:
    bind = f"https://127.0.0.1:{free_port()}"
    settings = WebSettings(bind=bind, certificate="/nothing.pem", certificate_key="/nothing.pem")

    async def story() -> None:
        (tmp_path / "log").mkdir()
        async with running(WebActor(settings, PLACE), tmp_path):
            pass

    with pytest.raises((ConfigurationRefused, ExceptionGroup)) as refused:
        asyncio.run(story())
    assert "face page: its certificate" in repr(refused.value)
