"""Batches from a torch DataLoader, or from anything else that can be iterated again and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from neuro_divergent.core import seeding
from neuro_divergent.core.errors import ConfigError, DataError, TrainingError
from neuro_divergent.losses import Loss
from neuro_divergent.training.arrays import Rows, as_rows
from neuro_divergent.training.config.training_config import TrainingConfig

TARGETS = ("y", "target", "labels")
"""The keys under which a batch that is one dict holds its target."""


class LoaderSource:
    """The batches of a loader in the loader's own order; each epoch iterates it anew.

    Torch's global generator is seeded by (seed, epoch) before an epoch, so that a loader that shuffles with it gives
    the same order in every run and after a resume. A loader with a generator of its own keeps its own order.

    A training that is resumed inside an epoch passes over the batches that are done. That needs torch's own DataLoader
    without a generator of its own, and a dataset that does not draw from the global generator: then the order is
    that of the first time.
    """

    def __init__(
        self,
        loader: Any,
        loss: Loss,
        device: torch.device,
        dtype: torch.dtype,
        *,
        seed: int = 0,
        steps_per_epoch: int | None = None,
    ) -> None:
        self.loader, self._seed = loader, seed
        self._placed = (loss, device, dtype)
        self.steps_per_epoch = _steps(loader, steps_per_epoch)
        self._batches: Iterator[Any] = iter(())
        self._next = (-1, 0)

    def batch(self, epoch: int, step: int) -> Rows:
        """The next batch; batches come one after the other only."""
        if step == 0:
            self._begin(epoch)
        elif (epoch, step) != self._next:
            return self._pass_to(epoch, step)
        self._next = (epoch, step + 1)
        return as_rows(as_pair(self._item(step)), *self._placed)

    def _begin(self, epoch: int) -> None:
        torch.default_generator.manual_seed(seeding.key(self._seed, "loader", epoch) >> 1)
        self._batches = iter(self.loader)

    def _item(self, step: int) -> Any:
        try:
            return next(self._batches)
        except StopIteration:
            raise DataError(
                f"a DataLoader must give as many batches as its length says, {self.steps_per_epoch}, but gave {step}"
            ) from None

    def _pass_to(self, epoch: int, step: int) -> Rows:
        """A batch inside an epoch, after those before it were drawn again."""
        reason = _unrepeatable(self.loader)
        item = None
        if not reason:
            self._begin(epoch)
            self._item(0)  # the sampler draws its order here
            known = torch.get_rng_state()
            for number in range(1, step + 1):
                item = self._item(number)
            if not torch.equal(known, torch.get_rng_state()):
                reason = "its dataset draws from torch's global generator"
        if reason:
            raise TrainingError(
                f"a training cannot go on at batch {step + 1} of epoch {epoch + 1} of this loader: {reason}. Resume "
                "from a checkpoint at the end of an epoch (every_n_epochs=1), or train on arrays, which resume at any "
                "step"
            )
        self._next = (epoch, step + 1)
        return as_rows(as_pair(item), *self._placed)


def _unrepeatable(loader: Any) -> str:
    """Why the batches of an epoch cannot be drawn again in their order; empty if they can."""
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
        return "only a torch DataLoader over a dataset with a length repeats its order"
    parts = (loader, loader.sampler, getattr(loader.batch_sampler, "sampler", None))
    if any(getattr(part, "generator", None) is not None for part in parts):
        return "its generator has moved on since the beginning of the epoch. Shuffle without a generator of its own"
    samplers = (RandomSampler, SequentialSampler, BatchSampler, SubsetRandomSampler, WeightedRandomSampler)
    if any(part is not None and type(part) not in samplers for part in (loader.sampler, loader.batch_sampler)):
        return "its sampler is not one of torch's"
    return ""


def is_loader(data: Any) -> bool:
    """Whether data is something to iterate batches from, and no arrays."""
    arrays = isinstance(data, tuple | list | str | Mapping | torch.Tensor) or hasattr(data, "__array__")
    return hasattr(data, "__iter__") and not arrays and not hasattr(data, "to_numpy")


def check_loader(config: TrainingConfig) -> None:
    """Refuse what a loader decides by itself."""
    decided = {
        "batch_size": config.batch_size != "auto",
        "validation_split": config.validation_split not in (None, "auto"),
        "accumulate_gradients": config.accumulate_gradients != 1,
        "drop_last": config.drop_last,
        "num_workers": config.num_workers != 0,
    }
    found = [name for name, set_here in decided.items() if set_here]
    if found:
        raise ConfigError(
            f"a DataLoader decides by itself how rows become batches, but got {', '.join(found)}. Set it at the "
            "DataLoader, give validation=another_loader, or train on arrays"
        )


def as_pair(item: Any) -> Any:
    """(x, y) or (x, y, weight) of what a loader gave: a dict has its target under y, target or labels."""
    if not isinstance(item, Mapping):
        return item
    name = next((name for name in TARGETS if name in item), None)
    if name is None:
        raise DataError(
            f"a batch that is a dict holds its target as {', '.join(TARGETS)}, but has the keys "
            f"{', '.join(map(str, item))}"
        )
    return {key: value for key, value in item.items() if key != name}, item[name]


def _steps(loader: Any, cap: int | None) -> int:
    try:
        count = len(loader)
    except TypeError:
        if cap is None:
            raise ConfigError(
                f"an epoch needs an end, but {type(loader).__name__} has no length. Set steps_per_epoch"
            ) from None
        return cap
    if count == 0:
        raise DataError("a DataLoader must give at least one batch, but its length is 0")
    return count if cap is None else min(count, cap)
