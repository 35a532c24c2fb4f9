"""`albireo completion SHELL`: the script that completes commands and options."""

import click
from click.shell_completion import get_completion_class

from albireo.cli.output import say

WHERE = {
    "bash": "albireo completion bash > ~/.local/share/bash-completion/completions/albireo",
    "zsh": "albireo completion zsh > ~/.zfunc/_albireo   # with fpath+=~/.zfunc before compinit",
    "fish": "albireo completion fish > ~/.config/fish/completions/albireo.fish",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(WHERE)))
def command(shell: str) -> None:
    """Print the completion script of SHELL to standard output."""
    from albireo.cli import cli

    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(cli, {}, "albireo", "_ALBIREO_COMPLETE").source())
    say(f"To keep it: {WHERE[shell]}")
