"""What the strategies of several processes have in common: one main process, shared batches, one decision for all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from neuro_divergent.core import seeding
from neuro_divergent.core.batch import rows
from neuro_divergent.core.errors import DistributedError
from neuro_divergent.distributed.group import Group
from neuro_divergent.distributed.settings import Distributed
from neuro_divergent.distributed.sources import Given, Part, Shards
from neuro_divergent.distributed.validation import validate
from neuro_divergent.distributed.zero import DividedOptimizer
from neuro_divergent.optim import forget_gradients, to_train
from neuro_divergent.training.config.facts import Refused
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.state.batch_norm_stats import RunningStatistics
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Source, Task
from neuro_divergent.training.step.eager import Eager
from neuro_divergent.training.step.strategy import Step


class Ranks(Eager):
    """Steps that several processes take together. Subclasses say how gradients are computed and added."""

    never_empty = False
    """Whether a process without rows of a step needs one that counts nothing."""

    def __init__(self, settings: Distributed, group: Group) -> None:
        super().__init__()
        self.settings, self.group = settings, group
        self._part: Part | None = None
        self.main = group.main
        self.threads = settings.threads if settings.exact else None
        """Other numbers of threads add in another order. None: what the launcher or the machine says."""
        self._told: bool | None = None
        """Whether any process wanted to stop when the gradients of the last step were added; None if asked already."""
        self._trained: list[Tensor] = []
        self.divided: DividedOptimizer | None = None
        """The part of the optimizer that this process keeps; None if each process has the whole."""
        self._collected: dict[str, Tensor] = {}

    def refuses(self, config: TrainingConfig, module: nn.Module) -> str | None:
        """Fields that one process only can use, half-precision weights, batch norms."""
        for name, facts in config.facts().items():
            field = type(config).model_fields[name]
            if isinstance(facts.distributed, Refused) and getattr(config, name) not in (field.default, None):
                return f"{name}={getattr(config, name)!r}: {facts.distributed.why}"
        if config.precision.endswith("-true") or config.precision == "accumulate64":
            return (
                f"gradients are added in the precision of the weights, so precision={config.precision!r} is not for it"
            )
        if config.precision == "fp16" and self.settings.strategy == "zero":
            return (
                "strategy='zero' divides the gradients that the loss scale of precision='fp16' must see. Use "
                "precision='bf16', or strategy='ddp'"
            )
        norms = [name for name, part in module.named_modules() if isinstance(part, _BatchNorm)]
        if norms and self.settings.batch_norm == "refuse" and (self.group.world > 1 or self.settings.exact):
            return (
                f"the batch norm {norms[0]} would use the mean of the rows of one process, not of the batch. Set "
                'batch_norm="per_process" in Distributed to train so, or use a model without batch norms'
            )
        return None

    def prepare(
        self, module: nn.Module, build_optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """The module with the weights of the main process, and its optimizer."""
        self._trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        for tensor in (*module.parameters(), *module.buffers()):
            self.group.broadcast(tensor.detach(), 0)
        optimizer = build_optimizer(module)
        # The norm of the gradients is that of all parameters, whatever the optimizer of this process keeps.
        self._parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if self.settings.strategy == "zero" and self.group.world > 1:
            self.divided = DividedOptimizer(optimizer, self._trained, self.group)
        return module, optimizer

    def source(self, source: Source, config: TrainingConfig) -> Source:
        """The rows of each batch that this process computes."""
        total = self.shards(config)
        own = total // self.group.world
        shards = Shards(self.group.rank * own, own, total)
        self._part = Part(source, shards, effective_batch(config), never_empty=self.never_empty)
        return self._part

    def given(self, state: TrainState) -> Given:
        """What this process got of the batch of the step; asked once per step."""
        assert self._part is not None
        return self._part.given(state.epoch, state.position)

    def shards(self, config: TrainingConfig) -> int:  # noqa: ARG002
        """Into how many parts each batch is cut: one per process."""
        return self.group.world

    def begin(self, state: TrainState, identity: Callable[[], Mapping[str, Any]]) -> None:
        """Compare with the other processes what is trained, and from which step."""
        if self.group.world == 1:
            return
        plain = state.config.replace(callbacks=(), checkpoints=None, progress=False, device="auto").to_dict()
        weights = torch.stack([tensor.double().sum() for tensor in state.module.parameters()])
        facts = {"data": dict(identity()), "step": state.step, "weights": [value.hex() for value in weights.tolist()]}
        other = self.group.all_equal({**{f"training.{name}": value for name, value in plain.items()}, **facts})
        if other:
            raise DistributedError(
                f"all processes must train the same, but they differ in {', '.join(other[:6])}. Give every process the "
                "same script, data and configuration"
            )

    def step(self, task: Task, state: TrainState, batch: Any) -> Step:
        """Take one step with the gradients of all processes."""
        optimizer = state.optimizer
        forget_gradients(optimizer)
        if self._running is None:
            self._running = RunningStatistics(state.module)
        self._running.remember()
        loss = self.gradients(task, state, batch)
        state.precision.unscale(optimizer)
        if state.on_gradients is not None:
            state.loss, state.working = loss, (task, batch)
            state.on_gradients(state)
        norm = self.condition_gradients(state)
        # Loss and gradients are the same in all processes, and so is this.
        taken = math.isfinite(loss) and math.isfinite(norm)
        if not taken:
            self._running.restore()
        state.precision.step(optimizer, taken)
        if taken and self.divided is not None:
            self.divided.share_weights()
        return Step(loss, norm, taken)

    def saves(self, state: TrainState, due: bool) -> bool:
        """Collect what the main process is about to save, if it is."""
        if self.divided is None:
            return due
        if self.group.any(due):
            to_train(state.optimizer)
            self._collected = self.divided.collect()
        return due

    def optimizer_tensors(self, state: TrainState) -> dict[str, Tensor]:
        """The whole state of the optimizer."""
        return self._collected if self.divided is not None else super().optimizer_tensors(state)

    def load_optimizer(self, state: TrainState, tensors: Mapping[str, Tensor]) -> None:
        """Restore the part of the state that this process keeps."""
        if self.divided is not None:
            self.divided.load(tensors)
        else:
            super().load_optimizer(state, tensors)

    def agree(self, flag: bool) -> bool:
        """Whether any process sets the flag. After a step it is what the processes said with their gradients."""
        told, self._told = self._told, None
        return self.group.any(flag) if told is None else told

    def seed(self, state: TrainState, part: int) -> None:
        """Seed the draws of a network from the step and the part of the batch."""
        drawn = seeding.key(state.config.seed, "network", state.step, part) >> 1
        torch.default_generator.manual_seed(drawn)
        if state.precision.device.type == "cuda":
            torch.cuda.manual_seed(drawn)

    def validate(self, task: Task, state: TrainState, source: Source) -> dict[str, float] | None:
        """Loss and metrics: each process scores some batches, and the sums are added in the order of the batches."""
        return validate(self.group, task, state, source)


def effective_batch(config: TrainingConfig) -> int:
    """Windows or rows per optimizer step."""
    assert config.batch_size != "auto"
    return int(config.batch_size) * config.accumulate_gradients


def parts_of(task: Task, batch: Any, size: int) -> list[Any]:
    """The batch in parts of `size` rows; the last one may be smaller."""
    count = rows(batch)
    return [] if count == 0 else task.split(batch, -(-count // size)) if count > size else [batch]
