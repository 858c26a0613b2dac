"""The strategy of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuro_divergent.core.errors import TrainingError
from neuro_divergent.distributed.check import backend_of
from neuro_divergent.distributed.exact import Exact
from neuro_divergent.distributed.fast import Fast
from neuro_divergent.distributed.group import Group, join
from neuro_divergent.distributed.launched import launched
from neuro_divergent.distributed.local import Local
from neuro_divergent.distributed.ranks import Ranks
from neuro_divergent.training.step.eager import Eager

if TYPE_CHECKING:
    from typing import Any

    from neuro_divergent.distributed.settings import Distributed
    from neuro_divergent.training.state.state import TrainState
    from neuro_divergent.training.state.task import Task
    from neuro_divergent.training.step.strategy import Step, Strategy


class NotStarted(Eager):
    """Stands for the other processes in the one that starts them: it loads their result, and takes no step."""

    def step(self, task: Task, state: TrainState, batch: Any) -> Step:  # noqa: ARG002
        """Refuse to train alone."""
        raise TrainingError(
            "this training needs several processes, and nobody has started them. Call fit of a model, or run the "
            "script with torchrun --nproc-per-node=2 script.py"
        )


def build(settings: Distributed) -> Strategy:
    """The strategy of this process: joined to the others if a launcher started it."""
    place = launched()
    if place is None and settings.wanted > 1:
        return NotStarted()
    group = Group() if place is None else join(backend_of(settings), settings.timeout)
    if settings.exact:
        settings._check_power(group.world)
    return _kind(settings)(settings, group)


def _kind(settings: Distributed) -> type[Ranks]:
    if settings.exact:
        return Exact
    return Local if settings.synchronization == "local" else Fast
