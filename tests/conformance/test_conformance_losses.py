"""Every registered loss against every check of the shipped suite."""

from __future__ import annotations

import pytest

from neuro_divergent.conformance import LOSS_CHECKS, check_loss
from neuro_divergent.core import registry
from neuro_divergent.losses import Loss

MEMBERS = {
    kind: cls for kind, cls in registry.members("loss").items() if cls.__module__.startswith("neuro_divergent.losses")
}


@pytest.mark.parametrize("kind", MEMBERS)
@pytest.mark.parametrize("check", LOSS_CHECKS)
def test_loss(kind: str, check: str) -> None:
    cls = MEMBERS[kind]
    assert issubclass(cls, Loss)
    check_loss(cls, check)
