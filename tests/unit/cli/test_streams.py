"""Commands on machines of other locales, and with a full disk behind standard output."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = [sys.executable, "-c", "from albireo.cli import main; main()"]
TOPOLOGY = """cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"
[[node]]
id = "root"
"""
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""The C locale as Python takes it literally: ASCII for streams and files."""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A topology in a file whose name few alphabets have."""
    (tmp_path / "Lüfter Ω.toml").write_text(TOPOLOGY, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("encoding", ["ascii", "iso8859-9"])
def test_what_a_terminal_can_not_show_is_escaped_and_ends_nothing(site: Path, encoding: str) -> None:
    """A terminal that speaks Latin-1 has no Ω, as a unit of an item may have it; the command was a traceback."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONIOENCODING": encoding}
    command = [*PROGRAM, "topology", "check", "Lüfter Ω.toml"]
    ran = subprocess.run(command, cwd=site, env=environment, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr
    shown = {"ascii": "Lüfter Ω.toml".encode(), "iso8859-9": b"L\xfcfter \\u03a9.toml"}[encoding]
    assert ran.stdout.startswith(shown + b": good. ")


@pytest.mark.parametrize("locale", [{"LC_ALL": "tr_TR.UTF-8"}, C_LOCALE], ids=["tr_TR", "C"])
def test_numbers_and_words_are_the_same_in_every_locale(site: Path, locale: dict[str, str]) -> None:
    """A decimal comma, and the dotless i of a lower-case I, are no matter of the machine's language."""
    (site / "p1.csv").write_text("name,kind,address,hi,writable\nFAN_I,HOLDING,3,70.5,TRUE\n")
    adapter = '[[node.adapter]]\nname = "p1"\nkind = "modbus"\nurl = "tcp://127.0.0.1:502"\nitems = "p1.csv"\n'
    (site / "t.toml").write_text(TOPOLOGY + adapter)
    command = [*PROGRAM, "topology", "check", "t.toml", "--json"]
    ran = subprocess.run(command, cwd=site, env={**os.environ, **locale}, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert (told["valid"], told["nodes"], told["mistakes"]) == (True, {"root": 1}, [])


def test_a_full_disk_behind_standard_output_is_told_in_one_line(site: Path) -> None:
    """A write that was verified and could not be told so was a traceback."""
    with Path("/dev/full").open("wb") as full:
        command = [*PROGRAM, "topology", "check", "Lüfter Ω.toml"]
        ran = subprocess.run(command, cwd=site, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 1
    (line,) = [line for line in ran.stderr.splitlines() if "warning" not in line]
    assert "not all of the output" in line and "No space left" in line and "may be done" in line


def test_files_are_utf_8_in_every_locale(tmp_path: Path) -> None:
    """A topology that the survey of a Latin-1 machine wrote would be refused by its own check."""
    code = (
        "import pathlib\n"
        "from albireo.cli.site.survey import write_files\n"
        "from albireo.codec.topology.text import FirstAdapter\n"
        "adapter = FirstAdapter(name='p1', kind='modbus', keys={}, items='p1.csv')\n"
        "write_files(pathlib.Path('.'), [(adapter, 'name,unit\\nt,\\u03a9\\n')], overwrites=False)\n"
    )
    environment = {**os.environ, **C_LOCALE}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert (tmp_path / "p1.csv").read_bytes() == "name,unit\nt,Ω\n".encode()
