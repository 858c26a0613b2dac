"""Mean and standard deviation of numeric columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_divergent.data.store.store import SeriesStore


def column_statistics(store: SeriesStore, rows: np.ndarray) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Mean and standard deviation of each numeric column over the training rows (the first `rows` of each series)."""
    means: dict[str, Tensor] = {}
    scales: dict[str, Tensor] = {}
    for name in ("future", "historical", "static"):
        block = getattr(store, name)
        if block is None:
            continue
        kept: np.ndarray | None = None
        if name == "static":
            block = block if bool((rows > 0).all()) else block[rows > 0]
        else:
            kept = _observed(store, name, rows)
            block = _first(block, store, rows)
        where: dict[str, Any] = {} if kept is None else {"where": kept}
        mean, deviation = block.mean(axis=0, dtype=np.float64, **where), block.std(axis=0, dtype=np.float64, **where)
        means[name] = torch.from_numpy(mean.astype(np.float32))
        scales[name] = torch.from_numpy(np.where(deviation > 1e-12, deviation, 1.0).astype(np.float32))
    return means, scales


def _first(block: np.ndarray, store: SeriesStore, rows: np.ndarray) -> np.ndarray:
    return np.concatenate([block[first : first + count] for first, count in zip(store.offsets[:-1], rows, strict=True)])


def _observed(store: SeriesStore, name: str, rows: np.ndarray) -> np.ndarray | None:
    """Which cells of the training rows were not imputed; None for all. Imputed ones may depend on later rows."""
    codes = getattr(store, f"{name}_fills")
    if codes is None:
        return None
    kept = np.ones((int(rows.sum()), getattr(store, name).shape[1]), dtype=bool)
    kept[:, : codes.shape[1]] = _first(codes, store, rows) == 0
    return kept | ~kept.any(axis=0)  # a column without an observed cell keeps its imputed ones
