"""`albireo keys invite` and `keys join`: the first trust of a site in two commands for each machine.

Spec: docs/keys.md; ADR-0157.
"""

import re
import sys
from pathlib import Path
from typing import Any

import click

from albireo.cli.output import ExitCode, Failure, Output, printed, say
from albireo.cli.site.key_place import check_role_said, loaded, place_options, place_said, told
from albireo.model.access import ROLE_WORDS
from albireo.model.topology import NODE_ID_PATTERN
from albireo.runtime import Keys
from albireo.runtime.link.invites import LONE, Invite, check_invite, fingerprint, read_invites
from albireo.runtime.link.key_files import OWN_FILE


@click.command("invite")
@click.argument("name")
@click.option("--role", type=click.Choice(ROLE_WORDS), default=None, help="Role that a program or person asks for.")
@click.option("--node", default="", help="With --role: only at this node and below, such as root/north.")
@place_options
@printed
def invite(name: str, role: str | None, node: str, directory: Path | None, data: Path | None) -> Output:
    """Write the line by which NAME introduces itself, and make its keys if there are none.

    Gather the lines of all machines of the site in one file, and on each of them: albireo keys join FILE. A node, or
    witness, is introduced by its --data, a program or person by --keys: without --role it may view.
    """
    where = place_said(directory, data)
    check_role_said(role, node)
    asked = role or (LONE if data is not None and re.fullmatch(NODE_ID_PATTERN[1:-1], name) else "")
    with told():
        check_invite(Invite(name, "", asked, node))
        keys = Keys.load(where) if (where / OWN_FILE).exists() else Keys.new(where, name)
    if keys.name != name:
        raise Failure(f"{where} has the keys of {keys.name}", "give that name, or another place")
    one = Invite(keys.name, keys.public, asked, node)
    say("One line for the file of the site; it holds no secret:")
    value = {"name": one.name, "public": one.public, "role": one.role, "node": one.node, "line": one.line}
    return Output(value, one.line)


@click.command("join")
@click.argument("files", nargs=-1, required=True, type=click.File("r"))
@click.option("--fingerprint", "expected", default="", help="The fingerprint that another machine shows: do not ask.")
@place_options
@printed
def join(files: tuple[Any, ...], expected: str, directory: Path | None, data: Path | None) -> Output:
    """Trust everybody of FILES whom this machine speaks with, once a person has compared the fingerprint.

    FILES hold the lines that `albireo keys invite` wrote on each machine. All machines that were given the same lines
    show the same fingerprint; read it aloud. Who changed a line on its way changed the fingerprint.
    """
    keys = loaded(directory, data)
    with told():
        invites = read_invites("\n".join(file.read() for file in files))
    others = _others(keys, invites)
    shown = fingerprint(invites)
    for one in invites:
        asks = f" asks for {one.role} at {one.node or 'every node'}" if one.role else ""
        asks = " is a node that stands alone" if one.role == LONE else asks
        say(f"  {one.name}{asks}{'   (to be trusted here)' if one in others else ''}")
    say(f"Fingerprint: {shown}")
    _compare(shown, expected)
    new = [one for one in others if not keys.keys_of(one.name)]  # The others may have been given another role since.
    with told():
        for one in new:
            keys.trust(one.name, one.public, one.grant)
    names = {"trusted": [one.name for one in others], "new": [one.name for one in new]}
    text = f"{keys.name} trusts {', '.join(names['trusted'])}; new: {', '.join(names['new']) or 'none'}"
    return Output({"name": keys.name, "fingerprint": shown, **names}, text)


def _others(keys: Keys, invites: list[Invite]) -> list[Invite]:
    """Those whom this machine has to trust.

    Raises:
        Failure: its own line is missing or changed, it speaks with nobody, or a name has another key here.
    """
    own = next((one for one in invites if one.name == keys.name), None)
    if own is None:
        names = ", ".join(one.name for one in invites)
        raise Failure(f"no line of {keys.name} among those of {names}", "add the line of `albireo keys invite` here")
    if own.public != keys.public:
        raise Failure(
            f"the line of {keys.name} has another key than it has",
            "somebody changed it, or it is of older keys: gather the lines anew",
            ExitCode.BAD_CONFIGURATION,
        )
    others = [one for one in invites if own.trusts(one)]
    if not others:
        raise Failure(
            f"{keys.name} speaks with nobody of {', '.join(one.name for one in invites if one is not own)}",
            "add the lines of its neighbours; a node writes its line with --data, not with --keys",
        )
    known = [one.name for one in others if keys.keys_of(one.name) and one.public not in keys.keys_of(one.name)]
    if known:
        raise Failure(
            f"{', '.join(known)} is trusted with another key already",
            "find out why; a changed key is `albireo keys rotate`, a lost one `albireo keys revoke` first",
            ExitCode.BAD_CONFIGURATION,
        )
    return others


def _compare(shown: str, expected: str) -> None:
    """Have a person compare, or the digits that he gave.

    Raises:
        Failure: they differ, or nobody has looked.
    """
    if expected:
        if expected.replace(" ", "").lower() != shown.replace(" ", ""):
            raise Failure(
                f"the fingerprint is {shown}, not {expected}",
                "the machines have different lines: compare them line by line, trust nobody before",
                ExitCode.BAD_CONFIGURATION,
            )
        return
    question = "Do you know every name and role in the list, and do all machines show this fingerprint?"
    if not sys.stdin.isatty():
        remedy = "compare it with that of another machine, and give that: --fingerprint"
        raise Failure("nobody has compared the fingerprint", remedy, ExitCode.USAGE)
    if not click.confirm(question, default=False, err=True):
        raise Failure("nothing was trusted", "compare again, and say yes when they are equal", ExitCode.USAGE)
