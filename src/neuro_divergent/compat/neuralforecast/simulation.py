"""Sample paths from quantile forecasts, as functions of tensors.

Letters: S series, H steps, N paths, Q quantiles. `NeuralForecast.simulate` uses forecasting/predict/ instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.predict.sample_paths import shuffled_as

DEFAULT_QUANTILE_GRID = [number / 100 for number in range(1, 100)]
VALID_SIMULATION_METHODS = {"gaussian_copula", "schaake_shuffle"}


def check_method(method: str) -> None:
    """Refuse a method that does not exist."""
    if method not in VALID_SIMULATION_METHODS:
        known = ", ".join(sorted(VALID_SIMULATION_METHODS))
        raise ConfigError(f"Unknown simulation method {method!r}: it must be one of {known}")


def estimate_ar1_rho(y: Tensor) -> Tensor:
    """The autocorrelation of the changes of a series, from -0.99 to 0.99; 0 if it cannot be measured."""
    changes = y[~torch.isnan(y)].diff()
    if len(changes) < 2:
        return torch.tensor(0.0, dtype=torch.float64)
    pair = torch.stack([changes[:-1], changes[1:]])
    centred = pair - pair.mean(dim=1, keepdim=True)
    size = centred.square().sum(dim=1).prod().sqrt()
    if size < 1e-15:
        return torch.tensor(0.0, dtype=torch.float64)
    return (centred.prod(dim=0).sum() / size).clamp(-0.99, 0.99)


def interp_2d(x: Tensor, xp: Tensor, fp: Tensor) -> Tensor:
    """[rows, n] linear interpolation of each row of x in the points (xp, row of fp)."""
    right = torch.searchsorted(xp, x.contiguous()).clamp(1, len(xp) - 1)
    width = xp[right] - xp[right - 1]
    share = torch.where(width > 0, (x - xp[right - 1]) / torch.where(width > 0, width, 1.0), 0.0)
    low, high = fp.gather(1, right - 1), fp.gather(1, right)
    return low + share * (high - low)


def gaussian_copula_sample(
    quantile_positions: Tensor, quantile_values: Tensor, y_hist: Sequence[Tensor], n_paths: int, seed: int | None = None
) -> Tensor:
    """[S, N, H] paths whose steps are correlated like a first-order process with the history's autocorrelation."""
    series, steps, _ = quantile_values.shape
    kind = quantile_values.dtype
    rho = torch.stack([estimate_ar1_rho(y).to(kind) for y in y_hist]).abs().view(-1, 1, 1)
    lags = torch.arange(steps, dtype=kind)
    matrix = rho ** (lags[:, None] - lags).abs() + 1e-8 * torch.eye(steps, dtype=kind)
    normal = torch.randn(series, steps, n_paths, dtype=kind, generator=_generator(seed))
    uniform = torch.special.ndtr(torch.linalg.cholesky(matrix) @ normal)
    return _values_at(quantile_positions, quantile_values, uniform)


def schaake_shuffle_sample(
    quantile_positions: Tensor, quantile_values: Tensor, y_hist: Sequence[Tensor], n_paths: int, seed: int | None = None
) -> Tensor:
    """[S, N, H] draws of each step, ordered like windows of the history."""
    generator = _generator(seed)
    series, steps, _ = quantile_values.shape
    uniform = torch.rand(series, steps, n_paths, dtype=quantile_values.dtype, generator=generator)
    low, high = quantile_positions[0], quantile_positions[-1]
    draws = _values_at(quantile_positions, quantile_values, low + (high - low) * uniform)
    numbers = np.random.default_rng(int(torch.randint(2**31, (1,), generator=generator)))
    past = [y[~torch.isnan(y)].double().numpy() for y in y_hist]
    shortest = min(len(known) for known in past)
    if shortest < steps:
        raise ConfigError(
            f"a history is shorter than horizon {steps}: it must have a window of it, but has {shortest} rows"
        )
    paths = [shuffled_as(own.double().numpy(), known, numbers) for own, known in zip(draws, past, strict=True)]
    return torch.from_numpy(np.stack(paths)).to(quantile_values.dtype)


def _values_at(positions: Tensor, values: Tensor, uniform: Tensor) -> Tensor:
    """[S, N, H] the values of uniform draws [S, H, N]; none exceeds the outermost quantiles."""
    series, steps, number = values.shape
    inside = uniform.clamp(float(positions[0]), float(positions[-1])).reshape(series * steps, -1)
    found = interp_2d(inside, positions, values.reshape(series * steps, number))
    return found.view(series, steps, -1).permute(0, 2, 1).contiguous()


def _generator(seed: int | None) -> torch.Generator:
    generator = torch.Generator()
    if seed is not None:
        generator.manual_seed(seed)
    else:
        generator.seed()
    return generator


def extract_y_hist(dataset: Any) -> list[Tensor]:
    """The target of every series of a TimeSeriesDataset."""
    target = dataset.temporal[:, dataset.y_idx]
    return [target[dataset.indptr[i] : dataset.indptr[i + 1]] for i in range(dataset.n_groups)]


def sample_from_quantiles(
    quantile_positions: Any,
    quantile_values: Any,
    dataset: Any,
    n_paths: int,
    seed: int | None = None,
    method: str = "gaussian_copula",
) -> Any:
    """[S, N, H] paths as an array, from quantiles [S, H, Q] and the history of a dataset."""
    samplers: dict[str, Callable[..., Tensor]] = {
        "gaussian_copula": gaussian_copula_sample,
        "schaake_shuffle": schaake_shuffle_sample,
    }
    check_method(method)
    positions = torch.as_tensor(np.asarray(quantile_positions), dtype=torch.float64)
    values = torch.as_tensor(np.asarray(quantile_values), dtype=torch.float64)
    return samplers[method](positions, values, extract_y_hist(dataset), n_paths, seed).numpy()
