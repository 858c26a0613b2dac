"""Every registered optimizer against every check of the shipped suite."""

from __future__ import annotations

import pytest

from neuro_divergent.conformance import OPTIMIZER_CHECKS, check_optimizer
from neuro_divergent.core import registry
from neuro_divergent.optim import Optimizer

MEMBERS = {
    kind: cls
    for kind, cls in registry.members("optimizer").items()
    if cls.__module__.startswith("neuro_divergent.optim")
}


@pytest.mark.parametrize("kind", MEMBERS)
@pytest.mark.parametrize("check", OPTIMIZER_CHECKS)
def test_optimizer(kind: str, check: str) -> None:
    cls = MEMBERS[kind]
    assert issubclass(cls, Optimizer)
    check_optimizer(cls, check)
