"""The settings of a strategy: a way to take optimizer steps that another package implements."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from neuro_divergent.core.config import Description

if TYPE_CHECKING:
    from neuro_divergent.training.step.strategy import Strategy


class StrategySettings(Description):
    """Settings of a way to take steps that another package implements (several processes, private gradients).

    A subclass is plain data, like every description: it can be written to a file and read back. `build` makes the live
    strategy. Import there what the strategy needs.
    """

    family: ClassVar[str] = "strategy"

    @abstractmethod
    def build(self) -> Strategy:
        """Return the live strategy of one run.

        It is called once per run, in the process that trains. The strategy computes gradients and reduces them over the
        effective batch; its methods are those of the protocol `neuro_divergent.training.step.strategy.Strategy`.
        """
