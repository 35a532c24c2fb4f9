"""Faces of both members of a pair of real processes, as machines see them: one leads, and after its death the other.

Each has its certificate, which `albireo status` tells with where the page is."""

import contextlib
import hashlib
import ssl
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from tests.parts.port import free_ports
from tests.parts.process_pair import MEMBERS, VOTERS, Pair
from tests.parts.waiting import awaited

pytestmark = [pytest.mark.drill, pytest.mark.slow]


UNKNOWN = ssl.create_default_context()
UNKNOWN.check_hostname, UNKNOWN.verify_mode = False, ssl.CERT_NONE
"""Context of whoever takes any certificate."""


def got(port: int, path: str) -> tuple[int, str]:
    """Status and text."""
    with urllib.request.urlopen(f"https://127.0.0.1:{port}{path}", timeout=5, context=UNKNOWN) as answer:
        return answer.status, answer.read().decode()


def status_of(port: int, path: str) -> int:
    try:
        return got(port, path)[0]
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def fingerprint(port: int) -> str:
    """SHA-256 of the certificate that is shown there, as a browser writes it."""
    shown = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", port)))
    return hashlib.sha256(shown).digest().hex(":").upper()


def addresses_told(pair: Pair, member: str) -> dict[str, str]:
    """Fingerprints by address, of the faces of both members."""
    status = pair.run("status", member=member)[1]
    told = [one["address"] for one in (*status["faces"], *status["other_faces"])]
    return {one["url"]: one["fingerprint"] for one in told}


def test_exactly_one_face_leads_and_after_its_death_the_other(tmp_path: Path) -> None:
    ports = dict(zip(MEMBERS, free_ports(2), strict=True))
    faces = "".join(
        f'[[node.face]]\nname = "page_{name}"\nkind = "web"\nmember = "{name}"\nbind = "https://127.0.0.1:{port}"\n'
        for name, port in ports.items()
    )
    pair = Pair(tmp_path, has_keys=True, adapters=faces)
    with contextlib.ExitStack() as ended:
        ended.callback(pair.end)
        pair.start(*VOTERS, *MEMBERS)
        awaited(lambda: pair.run("pair", "init", member="primary")[0], lambda code: code == 0)
        awaited(lambda: [status_of(one, "/readyz") for one in ports.values()], lambda told: told == [200, 200])
        leads = awaited(
            lambda: {status_of(port, "/leader"): member for member, port in ports.items()},
            lambda told: told.keys() == {200, 503},
        )
        active, passive = leads[200], leads[503]
        _, text = got(ports[passive], "/metrics")
        shown = {f"https://127.0.0.1:{port}": fingerprint(port) for port in ports.values()}
        place = f'node="root",place="root[{passive}]"'
        assert f"albireo_up{{{place}}} 1" in text and f"albireo_leads{{{place}}} 0" in text
        assert "albireo_actor_restarts_total{" in text and 'actor="core"' in text
        for member in MEMBERS:  # A member asks its boot once a second.
            awaited(partial(addresses_told, pair, member), lambda told: told == shown)
        pair.lose(active)
        awaited(lambda: status_of(ports[passive], "/leader"), lambda told: told == 200)
        assert status_of(ports[active], "/leader") == 0
