"""Faces of both members of a pair of real processes, as machines see them: one leads, and after its death the other."""

import contextlib
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.parts.port import free_ports
from tests.parts.process_pair import MEMBERS, VOTERS, Pair
from tests.parts.waiting import awaited

pytestmark = [pytest.mark.drill, pytest.mark.slow]


def status_of(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def test_exactly_one_face_leads_and_after_its_death_the_other(tmp_path: Path) -> None:
    ports = dict(zip(MEMBERS, free_ports(2), strict=True))
    faces = "".join(
        f'[[node.face]]\nname = "page_{name}"\nkind = "web"\nmember = "{name}"\nbind = "http://127.0.0.1:{port}"\n'
        for name, port in ports.items()
    )
    pair = Pair(tmp_path, has_keys=True, adapters=faces)
    with contextlib.ExitStack() as ended:
        ended.callback(pair.end)
        pair.start(*VOTERS, *MEMBERS)
        awaited(lambda: pair.run("pair", "init", member="primary")[0], lambda code: code == 0)
        active = pair.acting()
        passive = next(one for one in MEMBERS if one != active)
        awaited(
            lambda: [status_of(ports[one], path) for one in (active, passive) for path in ("/readyz", "/leader")],
            lambda told: told == [200, 200, 200, 503],
        )
        with urllib.request.urlopen(f"http://127.0.0.1:{ports[passive]}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        place = f'node="root",place="root[{passive}]"'
        assert f"albireo_up{{{place}}} 1" in text and f"albireo_leads{{{place}}} 0" in text
        assert "albireo_actor_restarts_total{" in text and 'actor="core"' in text
        pair.lose(active)
        awaited(lambda: status_of(ports[passive], "/leader"), lambda told: told == 200)
        assert status_of(ports[active], "/leader") == 0
