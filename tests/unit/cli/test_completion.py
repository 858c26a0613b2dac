"""Completion as a shell does it: the printed script is sourced in a real bash, and TAB is pressed."""

import shlex
import shutil
import subprocess
import sys

import pytest

from neuro_divergent.cli.main import main
from neuro_divergent.core.kinds import KINDS
from neuro_divergent.metrics.by_name import POINT, PROBABILISTIC

PRESS = """
source script
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_neuro_divergent
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def bash(tmp_path_factory):
    """A folder with the command and the script that `neuro-divergent completion bash` prints."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    folder = tmp_path_factory.mktemp("bash")
    command = folder / "neuro-divergent"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m neuro_divergent "$@"\n')
    command.chmod(0o755)
    # As the help page says it: source <(neuro-divergent completion bash)
    (folder / "script").write_bytes(subprocess.check_output([command, "completion", "bash"]))
    return folder


def tab(folder, line):
    """What bash proposes after a line; its last word is the one that is completed."""
    words = " ".join(map(shlex.quote, line.split(" ")))
    script = f"PATH={shlex.quote(str(folder))}:$PATH\n" + PRESS.format(words=words)
    done = subprocess.run(["bash", "--norc", "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    return shlex.split(done.stdout)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("train air.csv --model patcht", {"patchtst"}),
        ("train air.csv --model ", set(KINDS["model"])),
        ("cv air.csv --models nhits,dlin", {"nhits,dlinear"}),
        ("evaluate run air.csv --metrics ", {*POINT, *PROBABILISTIC}),
        ("cv air.csv --metrics mae,sm", {"mae,smape"}),
        ("train air.csv --loss MQ", {"MQLoss"}),
        ("train air.csv --device c", {"cpu", "cuda"}),
        ("train air.csv --set training.optimizer", {f"training.optimizer={name}" for name in KINDS["optimizer"]}),
    ],
)
def test_bash_completes_names(bash, line, expected):
    assert set(tab(bash, f"neuro-divergent {line}")) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_every_shell_asks_the_program_for_names(shell, capsys):
    assert main(["completion", shell]) == 0
    assert "__complete" in capsys.readouterr().out


def test_a_press_of_tab_imports_no_torch():
    script = (
        "import sys; from neuro_divergent.cli.main import main; main(['__complete', 'train', '--model', 'NHI']); "
        "assert 'torch' not in sys.modules and 'polars' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, "NHITS" in done.stdout) == (0, True)
