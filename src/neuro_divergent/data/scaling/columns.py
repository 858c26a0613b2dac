"""Mean and spread of numeric columns."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from neuro_divergent.data.store.store import SeriesStore


def column_statistics(store: SeriesStore, rows: np.ndarray) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Mean and spread of each numeric column over the training rows (the first `rows` of each series)."""
    means: dict[str, Tensor] = {}
    scales: dict[str, Tensor] = {}
    for name in ("future", "historical", "static"):
        block = getattr(store, name)
        if block is None:
            continue
        if name != "static":
            block = np.concatenate(
                [block[first : first + count] for first, count in zip(store.offsets[:-1], rows, strict=True)]
            )
        mean, deviation = block.mean(axis=0, dtype=np.float64), block.std(axis=0, dtype=np.float64)
        means[name] = torch.from_numpy(mean.astype(np.float32))
        scales[name] = torch.from_numpy(np.where(deviation > 1e-12, deviation, 1.0).astype(np.float32))
    return means, scales
