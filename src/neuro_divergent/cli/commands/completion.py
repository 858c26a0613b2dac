"""`neuro-divergent completion`: print the script with which a shell completes commands and flags."""

from __future__ import annotations

from typing import Literal

from neuro_divergent.cli.io.terminal import say

# The generated zsh script only defines a function, which works as a file in $fpath. `source` needs the registration.
ZSH = """
if [[ "$funcstack[1]" == _*neuro-divergent ]]; then
  _cyclopts_neuro-divergent "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
  compdef _cyclopts_neuro-divergent neuro-divergent
fi"""


def completion(shell: Literal["bash", "zsh", "fish", "powershell"] = "bash", /) -> None:
    """Print the completion script of a shell.

    To use it now in bash or zsh: source <(neuro-divergent completion bash). In fish: neuro-divergent completion fish |
    source. Write the same line into ~/.bashrc, ~/.zshrc or ~/.config/fish/config.fish to have it always.

    Parameters
    ----------
    shell
        The shell to complete for.
    """
    from neuro_divergent.cli.main import app

    script = app.generate_completion(prog_name="neuro-divergent", shell=shell).rstrip("\n")
    say(script + ZSH if shell == "zsh" else script)
