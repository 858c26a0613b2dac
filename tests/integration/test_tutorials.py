"""Scripts after neuralforecast's tutorials: they run on it as they are, and here with only the prefix changed.

With neuralforecast in an environment of its own: `for f in tests/integration/tutorials/*.py; do python $f; done`
"""

import re
import runpy
from pathlib import Path

import pytest

TUTORIALS = sorted((Path(__file__).resolve().parent / "tutorials").glob("*.py"))


@pytest.mark.parametrize("script", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs_with_the_prefix_changed(script, tmp_path):
    text = script.read_text()
    changed = re.sub(r"^from neuralforecast", "from neuro_divergent.compat.neuralforecast", text, flags=re.MULTILINE)
    assert changed != text
    (tmp_path / script.name).write_text(changed)
    runpy.run_path(str(tmp_path / script.name))
