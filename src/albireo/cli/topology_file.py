"""The topology file as commands read it, with everything that is wrong in it."""

from pathlib import Path
from typing import Final

import msgspec

from albireo.cli.output import ExitCode, Failure, say
from albireo.codec.topology.mistakes import Mistake
from albireo.codec.topology.topology import LoadedTopology, load_topology
from albireo.face.kinds import settings_of_kinds
from albireo.field.offered import KnownKinds
from albireo.runtime.text_reader import TextReader

SHOWN_MAX: Final = 50
"""Mistakes on the screen; `--json` gives them all."""


def load_again(path: Path) -> LoadedTopology | list[Mistake]:
    """The topology in `path`, or all mistakes in it."""
    loaded = load_topology(path.name, TextReader(path.parent), KnownKinds(), settings_of_kinds())
    if isinstance(loaded, LoadedTopology):
        return msgspec.structs.replace(loaded, directory=str(path.parent.absolute()))
    return loaded


def read_topology(path: Path) -> LoadedTopology:
    """The topology in `path`; warnings are told on standard error.

    Raises:
        Failure: it has mistakes (exit code 78); all of them stand in the message.
    """
    loaded = load_again(path)
    if isinstance(loaded, LoadedTopology):
        for warning in loaded.warnings:
            say(str(warning))
        return loaded
    raise refusal(path, loaded)


def refusal(path: Path, mistakes: list[Mistake]) -> Failure:
    """The failure that names every mistake."""
    lines = [f"  {mistake}" for mistake in mistakes[:SHOWN_MAX]]
    if len(mistakes) > SHOWN_MAX:
        lines.append(f"  ... and {len(mistakes) - SHOWN_MAX} more (--json gives all)")
    errors = sum(not one.is_warning for one in mistakes)
    head = f"{path}: {errors} mistake{'s' * (errors != 1)}"
    return Failure(
        "\n".join([head, *lines]),
        f"change the lines named, then: albireo topology check {path}",
        ExitCode.BAD_CONFIGURATION,
        {"error": head, "file": str(path), "valid": False, "mistakes": msgspec.to_builtins(mistakes)},
    )
