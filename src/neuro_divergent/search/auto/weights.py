"""Weights of an ensemble by greedy selection (Caruana et al. 2004, 2006), guarded against choosing by chance.

Letters: M members, N windows, H steps, K columns of a forecast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neuro_divergent.forecasting.several.ensemble import greedy_weights

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Score = Callable[[Floats, Ints], float]
"""The score of forecasts [N, H, K] on some of the windows, by their numbers: smaller is better."""

ROUNDS = 25
"""How many times a member is added."""
BAGS, BAG_ROUNDS = 12, 8
"""How many ensembles of half of the members, each on half of the windows, are averaged; and the rounds of each."""
TRUSTED = 3
"""With windows of so many moments the weights chosen on all of them and those of the bags count alike. Many series at
one moment are not many moments: what was best there may not be best later."""
LEAST_WEIGHT = 0.04
"""A member with less weight is left out: it would cost a training and a forecast, and change little."""


@dataclass(frozen=True)
class Chosen:
    """Weights, and what the guard found."""

    weights: Floats
    """[M] they add up to 1."""
    ensemble: float | None = None
    """The score of ensembles on windows that did not choose their weights; None if it was not measured."""
    single: float | None = None
    """The same of the best single member."""

    @property
    def guarded(self) -> bool:
        """Whether one member was taken because an ensemble was not better on other windows than its own."""
        return self.ensemble is not None and self.single is not None and self.ensemble >= self.single


def chosen_weights(
    forecasts: Floats, score: Score, groups: Ints, moments: int, *, seed: int = 1, rounds: int = ROUNDS
) -> Chosen:
    """The weights of the members.

    Weights of one half of the windows are scored on the other half, and beside them the member that was best on the
    first half. If the ensemble is better there, or there are too few windows to tell, the weights are chosen on all
    windows; else the best member gets all the weight.

    Args:
        forecasts: [M, N, H, K] of each member; without NaN where a value is scored.
        score: of forecasts on some windows.
        groups: [N] the group of each window; windows of one group lie in one half.
        moments: of how many moments in time the windows are.
        seed: of the bags.
        rounds: how many times a member is added.
    """
    every = np.arange(forecasts.shape[1])
    if len(forecasts) == 1:
        return Chosen(np.ones(1))
    names = np.unique(groups)
    trust = moments / (moments + TRUSTED)
    whole = _pruned(_weights(forecasts, score, every, groups, trust, seed, rounds))
    if len(names) < 4:
        return Chosen(whole)
    halves = [every[np.isin(groups, names[part::2])] for part in (0, 1)]
    together, alone = np.zeros(2), np.zeros(2)
    for place, (own, other) in enumerate((halves, halves[::-1])):
        weights = _weights(forecasts, score, own, groups, trust, seed, rounds)
        together[place] = score(np.tensordot(weights, forecasts[:, other], axes=1), other)
        alone[place] = score(forecasts[_best(forecasts, score, own)][other], other)
    ensemble, single = float(together.mean()), float(alone.mean())
    if ensemble < single:
        return Chosen(whole, ensemble, single)
    weights = np.zeros(len(forecasts))
    weights[_best(forecasts, score, every)] = 1.0
    return Chosen(weights, ensemble, single)


def _weights(forecasts: Floats, score: Score, some: Ints, groups: Ints, trust: float, seed: int, rounds: int) -> Floats:
    """[M] greedy weights on some windows, and the mean weights of bags: the fewer moments, the more the bags count.

    A few windows cannot tell which of many members is best: the best one of many is the luckiest one. A bag has only
    half of the members, so that the mean of the bags is broad.
    """
    chosen = greedy(forecasts, score, some, rounds)
    return np.asarray(trust * chosen + (1 - trust) * _bagged(forecasts, score, some, groups, seed))


def _bagged(forecasts: Floats, score: Score, some: Ints, groups: Ints, seed: int) -> Floats:
    """[M] mean of the weights of greedy selections, each from half of the members on half of the windows."""
    draw, names = np.random.default_rng(seed), np.unique(groups[some])
    total = np.zeros(len(forecasts))
    for _ in range(BAGS):
        members = np.sort(draw.permutation(len(forecasts))[: -(-len(forecasts) // 2)])
        own = draw.permutation(names)[: max(1, -(-len(names) // 2))]
        windows = some[np.isin(groups[some], own)]
        total[members] += greedy(forecasts[members], score, windows, BAG_ROUNDS) / BAGS
    return total


def greedy(forecasts: Floats, score: Score, some: Ints, rounds: int = ROUNDS) -> Floats:
    """[M] weights by greedy selection on some windows."""
    counts = greedy_weights(forecasts[:, some], lambda mean: score(mean, some), rounds)
    return np.asarray(counts / counts.sum())


def _best(forecasts: Floats, score: Score, some: Ints) -> int:
    return int(np.argmin([score(one[some], some) for one in forecasts]))


def _pruned(weights: Floats) -> Floats:
    kept = np.where(weights < min(LEAST_WEIGHT, weights.max()), 0.0, weights)
    return np.asarray(kept / kept.sum())
