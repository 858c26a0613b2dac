"""Completion as a shell does it: the printed script is sourced in a real bash, zsh or fish, and TAB is pressed."""

import os
import pty
import re
import select
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


def prepared(folder, shell):
    """A folder with the command and the script that `neuro-divergent completion SHELL` prints."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    command = folder / "neuro-divergent"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m neuro_divergent "$@"\n')
    command.chmod(0o755)
    # As the help page says it: source <(neuro-divergent completion bash)
    (folder / "script").write_bytes(subprocess.check_output([command, "completion", shell]))
    return folder


@pytest.fixture(scope="module")
def bash(tmp_path_factory):
    return prepared(tmp_path_factory.mktemp("bash"), "bash")


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


LINES = [
    ("tra", "train"),
    ("train air.csv --model patcht", "train air.csv --model patchtst"),
    ("cv air.csv --models nhits,dlin", "cv air.csv --models nhits,dlinear"),
    ("train air.csv --loss MQ", "train air.csv --loss MQLoss"),
    ("train air.csv --max-ep", "train air.csv --max-epochs"),
    ("completion zs", "completion zsh"),
]


@pytest.fixture(scope="module")
def fish(tmp_path_factory):
    return prepared(tmp_path_factory.mktemp("fish"), "fish")


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_fish_completes_names(fish, line, expected):
    script = f"set PATH {fish} $PATH; source script; complete -C'neuro-divergent {line}'"
    found = subprocess.check_output(["fish", "--no-config", "-c", script], cwd=fish, text=True)
    assert [row.split("\t")[0] for row in found.splitlines()] == [expected.split(" ")[-1]]


@pytest.fixture(scope="module", params=["source script", "fpath=(fpath $fpath); autoload -Uz compinit; compinit -D"])
def zsh(request, tmp_path_factory):
    """A zsh at a terminal, with the script sourced or in $fpath. Ctrl-T prints the line that is being edited."""
    folder = prepared(tmp_path_factory.mktemp("zsh"), "zsh")
    (folder / "fpath").mkdir()
    shutil.copy(folder / "script", folder / "fpath" / "_neuro-divergent")
    (folder / "rc").write_text(
        f"PATH={shlex.quote(str(folder))}:$PATH\nPS1=\n{request.param}\n"
        "show() { print -r -- \"<<$BUFFER>>\"; zle kill-buffer }\nzle -N show\nbindkey '^T' show\nprint '<<ready>>'\n"
    )
    shell = Terminal(["zsh", "-f", "-i"], folder)
    shell.type("source ./rc\n")
    assert shell.read_until(r"<<(.*)>>") == "ready"
    yield shell
    shell.close()


class Terminal:
    """A program at a pseudo-terminal."""

    def __init__(self, command, folder):
        self.main, side = pty.openpty()
        environment = os.environ | {"TERM": "dumb", "HOME": str(folder)}
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=side, stdout=side, stderr=side, start_new_session=True
        )
        os.close(side)

    def type(self, text):
        os.write(self.main, text.encode())

    def read_until(self, pattern, seconds=60.0):
        """The first match in what the program prints."""
        found = ""
        while not (match := re.search(pattern, found)):
            ready, _, _ = select.select([self.main], [], [], seconds)
            assert ready, f"nothing more after {found!r}"
            found += os.read(self.main, 4096).decode(errors="replace")
        return match[1]

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.main)


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_zsh_completes_names(zsh, line, expected):
    zsh.type(f"neuro-divergent {line}\t\x14")
    assert zsh.read_until(r"<<(.*)>>").split() == ["neuro-divergent", *expected.split()]


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
