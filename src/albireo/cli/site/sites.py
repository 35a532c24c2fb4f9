"""`albireo site`: nodes saved under a name, for the commands that work from any machine."""

from pathlib import Path
from typing import Any

import click
import msgspec

from albireo.cli.output import emit, json_option, show, show_table
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
@json_option
def add(
    name: str, at: str | None, keys: Path | None, topology_file: Path | None, node_id: str | None, as_json: bool
) -> None:
    """Save a node as NAME, by its endpoints or its place in a topology. The first one saved is the default.

    A name that is saved already gets the new place. What a topology says is kept as it is now.
    """
    site = saved_of(far_node(at, topology_file, node_id, keys))
    known = load_sites()
    sites = SavedSites(sites={**known.sites, name: site}, default=known.default if known.sites else name)
    save_sites(sites)
    _show(sites, as_json)


@command.command("list")
@json_option
def list_sites(as_json: bool) -> None:
    """List what is saved."""
    _show(load_sites(), as_json)


@command.command("use")
@click.argument("name", required=False)
@click.option("--none", "is_none", is_flag=True, help="No site: the node in ./var is meant again.")
@json_option
def use(name: str | None, is_none: bool, as_json: bool) -> None:
    """Mean NAME wherever no node is named."""
    if (name is None) is not is_none:
        raise click.UsageError("give the NAME of a site, or --none")
    sites = load_sites()
    if name is not None:
        sites.site(name)
    sites = msgspec.structs.replace(sites, default=name or "")
    save_sites(sites)
    _show(sites, as_json)


@command.command("remove")
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Forget NAME. If it was the default there is none any more."""
    sites = load_sites()
    sites.site(name)
    left = {one: site for one, site in sites.sites.items() if one != name}
    sites = SavedSites(sites=left, default="" if sites.default == name else sites.default)
    save_sites(sites)
    _show(sites, as_json)


def _show(sites: SavedSites, as_json: bool) -> None:
    if as_json:
        emit(sites)
        return
    if not sites.sites:
        show("no site is saved")
        return
    show_table(
        ("site", "default", "at", "keys"),
        [(name, "yes" if name == sites.default else "", one.at, one.keys) for name, one in sites.sites.items()],
    )
