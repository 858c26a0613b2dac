"""Every registered schedule against every check of the shipped suite."""

from __future__ import annotations

import pytest

from neuro_divergent.conformance import SCHEDULE_CHECKS, check_schedule
from neuro_divergent.core import registry
from neuro_divergent.optim import Schedule

MEMBERS = {
    kind: cls
    for kind, cls in registry.members("schedule").items()
    if cls.__module__.startswith("neuro_divergent.optim")
}


@pytest.mark.parametrize("kind", MEMBERS)
@pytest.mark.parametrize("check", SCHEDULE_CHECKS)
def test_schedule(kind: str, check: str) -> None:
    cls = MEMBERS[kind]
    assert issubclass(cls, Schedule)
    check_schedule(cls, check)
