"""Errors that can stop the pipeline, each with what to do about it.

PipelineError
├── JavaMissing          no Java that can run Spark
├── SparkFailed          Spark did not start, or a job of it failed for a reason of its own
├── OutputBusy           another run is at work on the same output directory
├── OutputUnusable       the output directory or a table in it can't be written or read
│   ├── SchemaDiffers    a table has other columns than this version writes
│   └── TableChanged     somebody else has written a table while the run was at work
└── SourceError          a file of the history is not what its manifest says
    ├── SourceMissing    no manifest, or a file of it is not there
    └── SourceDamaged    a file can't be read, or is of another shape
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

INSTALL: Final = "`make spark` in the checkout of Albireo installs it"
"""The one way to Spark, and to the Java that comes with it (ADR-0003)."""


FOREIGN_TEXT_MAX: Final = 300
"""Characters of a foreign error's text that go into ours."""


def foreign_text(error: Exception) -> str:
    """Cause that an error of Spark tells: its first line, or that of Java, which stands behind the name of a call."""
    first, _, rest = str(error).strip().partition("\n")
    said = rest.partition("\n")[0].lstrip(": ") if first.startswith("An error occurred while calling") else ""
    return (said or first or "no reason given")[:FOREIGN_TEXT_MAX]


class PipelineError(Exception):
    """Carries what a user needs: what is wrong, and the remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}" if remedy else problem)
        self.problem = problem
        self.remedy = remedy


class JavaMissing(PipelineError):
    """No Java was found that can run Spark."""

    def __init__(self, tried: Sequence[str]) -> None:
        super().__init__(
            "no Java that can run Spark (" + "; ".join(tried) + ")",
            f"set JAVA_HOME to a Java of version 17 or later, or take the one that comes with Spark: {INSTALL}",
        )
        self.tried = tuple(tried)


class SparkFailed(PipelineError):
    """Spark did not start, or a job failed for a reason that is not the history's."""


class OutputBusy(PipelineError):
    """Another run holds the output directory."""


class OutputUnusable(PipelineError):
    """The output directory or a table in it can't be written or read."""


class SchemaDiffers(OutputUnusable):
    """The table has other columns, and the run would replace only a part of it."""

    def __init__(self, table: Path) -> None:
        super().__init__(
            f"the table {table} has other columns than this version of Albireo writes",
            "move it away; the next run builds it anew from the whole history",
        )
        self.table = table


class TableChanged(OutputUnusable):
    """A version came that the run has not read."""

    def __init__(self, table: Path, version: int) -> None:
        super().__init__(
            f"the table {table} was written by somebody else since this run read its version {version}",
            "run the pipeline again; it begins from what is there then",
        )
        self.table = table
        self.version = version


class SourceError(PipelineError):
    """A file of the history is not what the manifest says; `path` names it."""

    def __init__(self, path: Path, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}", remedy)
        self.path = path


class SourceMissing(SourceError):
    """The manifest or a file that it lists is not there."""


class SourceDamaged(SourceError):
    """A file can't be read, or is of another shape than its kind."""
