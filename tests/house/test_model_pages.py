"""docs/models/ is what the descriptions say."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_model_pages_are_up_to_date():
    """In a fresh process: other tests register models of their own."""
    code = (
        "import sys; sys.path.insert(0, 'tools'); import model_pages as m; "
        "found = {p.name: p.read_text(encoding='utf-8') for p in m.PAGES.glob('*.md')}; wanted = m.pages(); "
        "stale = sorted(n for n in found.keys() | wanted.keys() if found.get(n) != wanted.get(n)); "
        "sys.exit(f'run python tools/model_pages.py: {stale}' if stale else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
