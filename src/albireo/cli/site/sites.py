"""`albireo site`: nodes saved under a name, for the commands that work from any machine."""

from pathlib import Path
from typing import Any

import click
import msgspec

from albireo.cli.output import Output, TextTable, printed
from albireo.cli.saved_sites import SavedSites, load_sites, save_sites
from albireo.cli.target import FAR_OPTIONS, far_node, saved_of


def _far_options(function: Any) -> Any:
    for option in reversed(FAR_OPTIONS):
        function = option(function)
    return function


@click.group("site")
def command() -> None:
    """Save nodes under a name, so that everyday commands reach them from here without further words."""


@command.command("add")
@click.argument("name")
@_far_options
@printed
def add(name: str, at: str | None, keys: Path | None, topology_file: Path | None, node_id: str | None) -> Output:
    """Save a node as NAME, by its endpoints or its place in a topology. The first one saved is the default.

    A name that is saved already gets the new place. What a topology says is kept as it is now.
    """
    site = saved_of(far_node(at, topology_file, node_id, keys))
    known = load_sites()
    return _saved(SavedSites(sites={**known.sites, name: site}, default=known.default if known.sites else name))


@command.command("list")
@printed
def list_sites() -> Output:
    """List what is saved."""
    return _told(load_sites())


@command.command("use")
@click.argument("name", required=False)
@click.option("--none", "is_none", is_flag=True, help="No site: the node in ./var is meant again.")
@printed
def use(name: str | None, is_none: bool) -> Output:
    """Mean NAME wherever no node is named."""
    if (name is None) is not is_none:
        raise click.UsageError("give the NAME of a site, or --none")
    sites = load_sites()
    if name is not None:
        sites.site(name)
    return _saved(msgspec.structs.replace(sites, default=name or ""))


@command.command("remove")
@click.argument("name")
@printed
def remove(name: str) -> Output:
    """Forget NAME. If it was the default there is none any more."""
    sites = load_sites()
    sites.site(name)
    left = {one: site for one, site in sites.sites.items() if one != name}
    return _saved(SavedSites(sites=left, default="" if sites.default == name else sites.default))


def _saved(sites: SavedSites) -> Output:
    save_sites(sites)
    return _told(sites)


def _told(sites: SavedSites) -> Output:
    rows = ((name, "yes" if name == sites.default else "", one.at, one.keys) for name, one in sites.sites.items())
    return Output(sites, TextTable(("site", "default", "at", "keys"), rows, empty="no site is saved"))
