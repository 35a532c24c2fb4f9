"""Findings of `albireo doctor` and `albireo pipeline doctor`: answers to one question each, with the remedy."""

import importlib.metadata
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec

from albireo.cli.output import ExitCode, Output, Shown, TextTable
from albireo.pipeline.errors import JavaMissing
from albireo.pipeline.java import find_java

Status = Literal["good", "warning", "failed", "unknown"]
Versions = Mapping[str, tuple[str, str]]
"""Tested versions of libraries: from the first on, up to before the second."""

NODE_LIBRARIES: Final[Versions] = {
    "click": ("8.1", "9"),
    "crc32c": ("2.7", "3"),
    "msgspec": ("0.19", "1"),
    "numpy": ("2.0", "3"),
    "psutil": ("6.0", "8"),
    "pyarrow": ("18", "27"),
    "pymodbus": ("3.16.1", "3.17"),
    "pyzmq": ("26", "28"),
    "rich": ("13.9", "16"),
}
SPARK_LIBRARIES: Final[Versions] = {
    "pyspark": ("4.3.0", "4.3.1"),
    "deltalake": ("1.6", "2"),
    "pandas": ("2.2", "3"),
    "matplotlib": ("3.9", "4"),
    "jinja2": ("3.1", "4"),
}
NODE_INSTALL: Final = "`make install` in the checkout of Albireo installs it"

_SIGNS: Final = {"good": "good", "warning": "WARNING", "failed": "FAILED", "unknown": "unknown"}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to one question."""

    name: str
    status: Status
    value: str
    remedy: str = ""
    """Empty where nothing is to be done."""


def told(findings: Sequence[Finding]) -> Output:
    """The findings as a command says them; exit code 1 where something failed."""
    worst = next((status for status in ("failed", "warning") if any(one.status == status for one in findings)), "good")
    text: list[Shown] = [
        TextTable(("state", "what", "found"), ((_SIGNS[one.status], one.name, one.value) for one in findings)),
        *(f"{one.name}: {one.remedy}" for one in findings if one.remedy),
    ]
    code = ExitCode.FAILED if worst == "failed" else ExitCode.GOOD
    return Output({"worst": worst, "checks": findings}, text, exit_code=code)


def libraries(tested: Versions, install: str, unfit: Status) -> Iterator[Finding]:
    """Whether each library is there, in a version that is tested.

    Args:
        install: the remedy.
        unfit: what one that lacks or is too old makes of it; one that is newer than any tested is a warning.
    """
    for name, (first, before) in tested.items():
        found = version_of(name)
        if not found:
            yield Finding(name=name, status=unfit, value="missing", remedy=install)
            continue
        is_old, is_new = _numbers(found) < _numbers(first), _numbers(found) >= _numbers(before)
        said = f"{found}, tested from {first} on, before {before}" if is_old or is_new else found
        status: Status = unfit if is_old else "warning" if is_new else "good"
        yield Finding(name=name, status=status, value=said, remedy=install if is_old or is_new else "")


def version_of(name: str) -> str:
    """Version of an installed library; empty: it is not there."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def java(unfit: Status) -> Finding:
    """Java for Spark."""
    try:
        found = find_java(os.environ)
    except JavaMissing as error:
        return Finding(name="java", status=unfit, value="none works", remedy=str(error))
    return Finding(name="java", status="good", value=f"{found.version} at {found.executable} ({found.origin})")


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers with which a version begins, so that 3.6.9 is before 3.16."""
    return tuple(int(one) for one in re.findall(r"\d+", re.split(r"[^\d.]", version)[0]))
