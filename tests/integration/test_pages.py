"""Every Python block of README and docs runs, in order, one namespace a page; every shell line of ours too."""

import os
import subprocess
import sys

import pytest

from pages import PAGES, blocks, name_of

PROMPT = "$ neuro-divergent"
TYPED = """
import shlex, sys
from neuro_divergent.cli.main import main
for line in sys.stdin.read().splitlines():
    sys.argv = ["neuro-divergent", *shlex.split(line, comments=True)[1:]]
    if code := main():
        sys.exit(f"exit code {code}: {line}")
"""


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name_of)
def test_python_blocks_run(page, tmp_path):
    """In a process of its own, as a reader would: the blocks of a page follow each other."""
    script = tmp_path / "page.py"
    script.write_text("\n\n".join(blocks(page, "python")), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")], ids=name_of)
def test_shell_lines_run(page, tmp_path):
    """Lines of ```console blocks that call neuro-divergent, in order, in one folder and one process."""
    lines = [line[2:] for body in blocks(page, "console") for line in body.splitlines() if line.startswith(PROMPT)]
    done = subprocess.run(
        [sys.executable, "-c", TYPED],
        input="\n".join(lines),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
