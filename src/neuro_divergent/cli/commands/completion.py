"""`neuro-divergent completion`: print the script with which a shell completes commands and flags."""

from __future__ import annotations

from typing import Literal

from neuro_divergent.cli.io.terminal import say


def completion(shell: Literal["bash", "zsh", "fish", "powershell"] = "bash", /) -> None:
    """Print the completion script of a shell. To use it now: source <(neuro-divergent completion bash)

    Parameters
    ----------
    shell
        The shell to complete for.
    """
    from neuro_divergent.cli.main import app

    say(app.generate_completion(prog_name="neuro-divergent", shell=shell).rstrip("\n"))
