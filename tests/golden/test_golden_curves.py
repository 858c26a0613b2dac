"""A refactor must reproduce the first losses of ten recipes.

The tolerance of 1e-4 is for the rounding of other processors and library versions: twelve steps of float32 amplify a
difference in the last place (6e-8) by far less than that, and a change of meaning shows in the second digit.
"""

from __future__ import annotations

import json

import pytest
from make_curves import CURVES, RECIPES, STEPS

GOLDEN = json.loads(CURVES.read_text(encoding="utf-8"))


def test_the_file_has_the_recipes():
    assert list(GOLDEN) == list(RECIPES)
    assert len(RECIPES) == 10


@pytest.mark.parametrize("name", RECIPES)
def test_the_first_losses_are_the_same(name):
    losses = RECIPES[name]()
    assert len(losses) == STEPS
    assert losses == pytest.approx(GOLDEN[name], rel=1e-4)
