"""Sites that a person saved under a name, and which of them is meant without a word: `albireo site`.

They are in `$XDG_CONFIG_HOME/albireo/sites.json` (`~/.config` without it), readable by their owner alone.
"""

import os
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.cli.output import ExitCode, Failure, say

SITES_MAX: Final = 1_000
_ELSEWHERE: Final = "name a directory that you may write: export XDG_CONFIG_HOME=DIR"
_Text = Annotated[str, Meta(min_length=1, max_length=4_096)]


class SavedSite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a node is, and as whom it is spoken with."""

    at: _Text
    """Endpoints, as `--at` takes them."""
    keys: str = ""
    """Directory of keys; empty: without."""


class SavedSites(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that is saved."""

    sites: Annotated[dict[_Text, SavedSite], Meta(max_length=SITES_MAX)] = {}
    default: str = ""
    """Site that is meant if nothing else is named; empty: none."""

    def site(self, name: str) -> SavedSite:
        """The site of this name.

        Raises:
            Failure: there is none.
        """
        if name not in self.sites:
            known = ", ".join(sorted(self.sites)) or "none is saved"
            remedy = "albireo site list shows them; albireo site add NAME --at ENDPOINT saves one"
            raise Failure(f"no site is called {name} (known: {known})", remedy, ExitCode.USAGE)
        return self.sites[name]


def sites_file() -> Path:
    """Where they are saved.

    Raises:
        Failure: this user has no home, and no other place is named.
    """
    home = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        return (Path(home) if Path(home).is_absolute() else Path.home() / ".config") / "albireo" / "sites.json"
    except RuntimeError as error:
        raise Failure(f"user {os.getuid()} has no home to save sites in", _ELSEWHERE) from error


def load_sites() -> SavedSites:
    """Read the sites; none without a home, without a file, or in a home of somebody else.

    Raises:
        Failure: the file can't be read.
    """
    try:
        file = sites_file()
    except Failure:
        return SavedSites()
    try:
        found = msgspec.json.decode(file.read_bytes(), type=SavedSites)
    except (FileNotFoundError, NotADirectoryError):
        return SavedSites()
    except PermissionError:
        say(f"no saved site is known: {file} can't be read")
        return SavedSites()
    except (OSError, ValueError) as error:
        raise Failure(
            f"{file}: {error}", "mend it, or remove it and save the sites anew", ExitCode.BAD_CONFIGURATION
        ) from error
    if found.default:
        found.site(found.default)
    return found


def save_sites(sites: SavedSites) -> None:
    """Put these in place of what is saved; whoever reads sees all of it or nothing.

    Raises:
        Failure: it can't be written.
    """
    file = sites_file()
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh.touch(mode=0o600)
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(sites)) + b"\n")
        fresh.replace(file)
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}", _ELSEWHERE) from error
