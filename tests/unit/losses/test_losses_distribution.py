"""Distributions against scipy.stats, torch.distributions and numerical integration."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_examples import PROBABILISTIC, data_for, name_of
from scipy import integrate, special, stats

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.losses import (
    CRPS,
    GMM,
    NBMM,
    PMM,
    DistributionLoss,
    HuberMQLoss,
    Loss,
    MQLoss,
    NegativeBinomialMixture,
    NormalMixture,
    PoissonMixture,
    Weighted,
)
from neuro_divergent.losses.counts import NegativeBinomial
from neuro_divergent.losses.numeric import betainc
from neuro_divergent.losses.spline import SplineQuantile
from neuro_divergent.losses.stable import inverse_softplus, log_softplus

LEVELS = torch.tensor([0.01, 0.1, 0.5, 0.9, 0.99], dtype=torch.float64)


def double(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def raw_of(positive: float) -> float:
    return inverse_softplus(double(positive)).item()


def nll(loss: Loss, raw: torch.Tensor, target: torch.Tensor) -> list[float]:
    return loss.values(raw.expand(len(target), -1), target).tolist()


# name, raw parameters, the same distribution in scipy
REFERENCES = [
    ("Normal", [1.5, raw_of(0.7)], stats.norm(1.5, 0.7)),
    ("StudentT", [raw_of(1.5), -2.0, raw_of(0.3)], stats.t(3.5, -2.0, 0.3)),
    ("StudentT", [raw_of(200.0), 5.0, raw_of(10.0)], stats.t(202.0, 5.0, 10.0)),
    ("Poisson", [raw_of(0.2)], stats.poisson(0.2)),
    ("Poisson", [raw_of(350.0)], stats.poisson(350.0)),
    ("NegativeBinomial", [raw_of(12.0), raw_of(0.4999)], stats.nbinom(2.0, 1 / 7)),
    ("NegativeBinomial", [raw_of(2000.0), raw_of(0.0099)], stats.nbinom(100.0, 1 / 21)),
]


@pytest.mark.parametrize(
    ("name", "raw", "reference"), REFERENCES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_likelihood_mean_and_quantiles_agree_with_scipy(
    name: str, raw: list[float], reference: stats.rv_continuous
) -> None:
    loss = DistributionLoss(distribution=name)
    parameters = double(*raw)
    target = torch.from_numpy(reference.rvs(20, random_state=1).astype(float))
    log = reference.logpmf if loss.units == "original" else reference.logpdf
    assert nll(loss, parameters, target) == pytest.approx(list(-log(target.numpy())), rel=1e-9)
    assert loss.point(parameters).item() == pytest.approx(reference.mean())
    assert loss.quantiles(parameters, LEVELS).tolist() == pytest.approx(list(reference.ppf(LEVELS.numpy())), rel=1e-9)


@pytest.mark.parametrize(
    ("name", "raw", "reference"), REFERENCES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_draws_agree_with_scipy(name: str, raw: list[float], reference: stats.rv_continuous) -> None:
    draws = DistributionLoss(distribution=name).sample(double(*raw), 20_000, torch.Generator().manual_seed(0)).numpy()
    for level in (0.1, 0.5, 0.9):
        bound = reference.ppf(level)
        assert (draws <= bound).mean() == pytest.approx(reference.cdf(bound), abs=0.015)


@pytest.mark.parametrize("name", ["Normal", "StudentT"])
def test_draws_of_one_row_do_not_depend_on_the_parameters_of_another(name: str) -> None:
    """A batch shares one stream of random numbers: every element takes as many of them whatever its parameters are."""
    loss = DistributionLoss(distribution=name)
    raw = torch.randn(2, 5, loss.outputs, generator=torch.Generator().manual_seed(0))
    other = torch.stack([40 * raw[0], raw[1]])
    draws = [loss.sample(some, 50, torch.Generator().manual_seed(1))[:, 1] for some in (raw, other)]
    torch.testing.assert_close(draws[0], draws[1], rtol=0, atol=0)


def test_bernoulli_agrees_with_scipy() -> None:
    loss, raw = DistributionLoss(distribution="Bernoulli"), double(math.log(0.7 / 0.3))
    assert nll(loss, raw, double(0, 1)) == pytest.approx(list(-stats.bernoulli(0.7).logpmf([0, 1])))
    assert loss.point(raw).item() == pytest.approx(0.7)
    assert loss.quantiles(raw, double(0.1, 0.29, 0.31, 0.9)).tolist() == [0, 0, 1, 1]
    assert loss.sample(raw, 20_000, torch.Generator().manual_seed(0)).mean().item() == pytest.approx(0.7, abs=0.01)


def test_tweedie_likelihood_differences_and_moments() -> None:
    loss = DistributionLoss(distribution="Tweedie", rho=1.5)
    # By hand, from the unit deviance (Jørgensen 1997): what depends on the mean m is y·m^-0.5 / 0.5 + m^0.5 / 0.5.
    half = nll(loss, double(raw_of(4.0)), double(3.0))[0] - nll(loss, double(raw_of(1.0)), double(3.0))[0]
    assert half == pytest.approx((3 / 2 / 0.5 + 2 / 0.5) - (3 / 1 / 0.5 + 1 / 0.5))
    # The likelihood is highest where the mean is the target.
    means = np.linspace(1, 6, 501)
    best = means[int(np.argmin([nll(loss, double(raw_of(m)), double(3.0))[0] for m in means]))]
    assert best == pytest.approx(3.0, abs=0.011)
    draws = loss.sample(double(raw_of(4.0)), 50_000, torch.Generator().manual_seed(0))
    assert draws.mean().item() == pytest.approx(4.0, abs=0.06)
    assert draws.var().item() == pytest.approx(4.0**1.5, rel=0.04)
    assert (draws == 0).double().mean().item() == pytest.approx(math.exp(-(4.0**0.5) / 0.5), abs=0.005)


def test_mixtures_agree_with_torch_distributions_and_with_their_cdf() -> None:
    weights, means, deviations = double(0.2, 0.5, 0.3), double(-3, 0, 4), double(0.5, 1, 2)
    raw = torch.cat([weights.log(), means, inverse_softplus(deviations)])
    reference = torch.distributions.MixtureSameFamily(
        torch.distributions.Categorical(weights), torch.distributions.Normal(means, deviations)
    )
    loss, target = NormalMixture(components=3), double(-3.3, 0.1, 9)
    assert nll(loss, raw, target) == pytest.approx((-reference.log_prob(target)).tolist())
    assert loss.point(raw).item() == pytest.approx(0.6)
    torch.testing.assert_close(reference.cdf(loss.quantiles(raw, LEVELS)), LEVELS)
    draws = loss.sample(raw, 20_000, torch.Generator().manual_seed(0))
    assert draws.mean().item() == pytest.approx(0.6, abs=0.1)
    assert (draws < -1.5).double().mean().item() == pytest.approx(reference.cdf(double(-1.5)).item(), abs=0.015)


@pytest.mark.parametrize("kind", ["poisson", "negative binomial"])
def test_count_mixtures_agree_with_scipy(kind: str) -> None:
    weights = np.array([0.3, 0.7])
    if kind == "poisson":
        loss: Loss = PoissonMixture(components=2)
        raw = double(*np.log(weights), raw_of(2.0), raw_of(40.0))
        parts = [stats.poisson(2.0), stats.poisson(40.0)]
    else:
        loss = NegativeBinomialMixture(components=2)
        raw = double(*np.log(weights), raw_of(2.0), raw_of(40.0), raw_of(0.2499), raw_of(0.4999))
        parts = [stats.nbinom(4.0, 1 / 1.5), stats.nbinom(2.0, 1 / 21)]
    target = np.array([0.0, 3.0, 55.0])
    expected = -np.log(sum(w * part.pmf(target) for w, part in zip(weights, parts, strict=True)))
    assert nll(loss, raw, torch.from_numpy(target)) == pytest.approx(list(expected))
    grid = np.arange(0, 600)
    cdf = sum(w * part.cdf(grid) for w, part in zip(weights, parts, strict=True))
    exact = [int(np.searchsorted(cdf, level)) for level in LEVELS.numpy()]
    assert loss.quantiles(raw, LEVELS).tolist() == exact


def test_aliases_are_the_same_classes() -> None:
    assert GMM is NormalMixture
    assert PMM is PoissonMixture
    assert NBMM is NegativeBinomialMixture


def test_crps_of_a_normal_agrees_with_numerical_integration() -> None:
    def by_integral(mean: float, deviation: float, y: float) -> float:
        cdf = stats.norm(mean, deviation).cdf
        low = integrate.quad(lambda x: cdf(x) ** 2, -np.inf, y)[0]
        return low + integrate.quad(lambda x: (1 - cdf(x)) ** 2, y, np.inf)[0]

    for mean, deviation, y in ((0.0, 1.0, 0.3), (2.0, 0.5, -1.0), (-1.0, 3.0, 4.0)):
        found = CRPS().values(double(mean, raw_of(deviation))[None], double(y)).item()
        assert found == pytest.approx(by_integral(mean, deviation, y), rel=1e-6)


KNOTS = (0.05, 0.1, 0.5, 0.9, 0.95)


def spline(seed: int) -> tuple[DistributionLoss, SplineQuantile, torch.Tensor]:
    loss = DistributionLoss(distribution="ISQF", quantiles=KNOTS, num_pieces=3)
    family = loss.distribution_family
    assert isinstance(family, SplineQuantile)
    return loss, family, torch.randn(loss.outputs, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("y", [-8.0, -0.5, 0.7, 2.0, 9.0])
def test_spline_crps_agrees_with_numerical_integration(seed: int, y: float) -> None:
    loss, family, raw = spline(seed)

    def pinball(level: float) -> float:
        forecast = loss.quantiles(raw, double(level)).item()
        return max(level * (y - forecast), (level - 1) * (y - forecast))

    level = family.cdf(raw, torch.tensor(y, dtype=torch.float64)).item()
    corners = sorted({0.0, 1.0, level, *family._curve(raw).x.tolist()})
    total = sum(integrate.quad(pinball, a, b, limit=60, epsabs=1e-7)[0] for a, b in pairwise(corners) if b > a)
    assert loss.values(raw[None], double(y)).item() == pytest.approx(2 * total, abs=2e-5)


@pytest.mark.parametrize("seed", range(3))
def test_spline_cdf_inverts_the_quantile_function_and_density_is_its_derivative(seed: int) -> None:
    loss, family, raw = spline(seed)
    levels = torch.linspace(0.0011, 0.998, 334, dtype=torch.float64)  # meets no joint, where the slope jumps
    values = loss.quantiles(raw, levels)
    rows = raw.expand(334, -1)
    torch.testing.assert_close(family.cdf(rows, values), levels, atol=1e-10, rtol=0)
    assert (values.diff() > 0).all()
    slope = (family.cdf(rows, values + 1e-7) - family.cdf(rows, values - 1e-7)) / 2e-7
    torch.testing.assert_close(family.log_prob(rows, values).exp(), slope, rtol=1e-4, atol=1e-4)
    draws = loss.sample(raw, 40_000, torch.Generator().manual_seed(0))
    assert loss.point(raw).item() == pytest.approx(draws.mean().item(), abs=0.05)


LOCATION, SCALE = 12.0, 2.5


@pytest.mark.parametrize("loss", [loss for loss in PROBABILISTIC if loss.units == "scaled"], ids=name_of)
def test_unscaled_outputs_describe_the_same_forecast_in_original_units(loss: Loss) -> None:
    output, target, _ = data_for(loss)
    moved = loss.unscale(output, double(LOCATION), double(SCALE))
    torch.testing.assert_close(loss.point(moved), loss.point(output) * SCALE + LOCATION)
    levels = torch.tensor(loss.levels, dtype=torch.float64)
    torch.testing.assert_close(loss.quantiles(moved, levels), loss.quantiles(output, levels) * SCALE + LOCATION)
    draws = [loss.sample(raw, 4, torch.Generator().manual_seed(0)) for raw in (output, moved)]
    torch.testing.assert_close(draws[1], draws[0] * SCALE + LOCATION)
    if isinstance(loss, HuberMQLoss):
        return  # its delta is a length in scaled units
    scaled, original = loss.values(output, target), loss.values(moved, target * SCALE + LOCATION)
    density = not isinstance(loss, MQLoss | CRPS) and getattr(loss, "distribution", "") != "ISQF"
    torch.testing.assert_close(original, scaled + math.log(SCALE) if density else scaled * SCALE)


@pytest.mark.parametrize("loss", [loss for loss in PROBABILISTIC if loss.units == "original"], ids=name_of)
@pytest.mark.parametrize("location", [0.3, 12.0, 4000.0])
def test_an_output_of_zero_means_the_windows_location_for_counts(loss: Loss, location: float) -> None:
    location = min(location, 0.9) if "Bernoulli" in loss.to_json() else location
    where = torch.tensor([[[[location]], [[0.0]]]], dtype=torch.float64)
    moved = loss.unscale(torch.zeros(1, 2, 1, loss.outputs, dtype=torch.float64), where, double(2.5))
    assert loss.point(moved)[0, 0].item() == pytest.approx(location)
    assert 0 < loss.point(moved)[0, 1].item() < 2.5  # an empty window starts small, and not at nothing


def test_unscaling_keeps_gradients_finite_at_extreme_outputs() -> None:
    for loss in PROBABILISTIC:
        raw = torch.tensor([-200.0, -40.0, 0.0, 40.0, 200.0]).repeat(loss.outputs, 1).T.contiguous().requires_grad_()
        moved = loss.unscale(raw, torch.tensor(3.0), torch.tensor(0.01))
        loss.values(moved, torch.ones(5)).sum().backward()
        assert raw.grad is not None
        assert torch.isfinite(raw.grad).all(), loss


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.1, 20), st.lists(st.floats(0.05, 0.95), min_size=2, max_size=6))
def test_quantiles_never_cross(seed: int, size: float, levels: list[float]) -> None:
    asked = torch.tensor(sorted(levels), dtype=torch.float32)
    for loss in PROBABILISTIC:
        if loss.levels[0] > 0.05 or getattr(loss, "distribution", "") == "Tweedie":
            continue
        raw = torch.randn(2, loss.outputs, generator=torch.Generator().manual_seed(seed)) * size
        found = loss.quantiles(raw, asked)
        assert torch.isfinite(found).all(), loss
        assert (found.diff(dim=-1) >= 0).all(), loss


def test_sampled_quantiles_are_repeatable_and_close() -> None:
    loss = DistributionLoss(distribution="Tweedie", num_samples=4000)
    raw = double(raw_of(5.0)).expand(3, 1)
    found = loss.quantiles(raw, LEVELS)
    torch.testing.assert_close(found, loss.quantiles(raw, LEVELS), rtol=0, atol=0)
    draws = loss.sample(raw[0], 100_000, torch.Generator().manual_seed(5))
    torch.testing.assert_close(found[0, 1:4], torch.quantile(draws, LEVELS[1:4]), rtol=0.1, atol=0.1)


def test_fields_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="rho belongs to the Tweedie"):
        DistributionLoss(distribution="Normal", rho=1.2)
    with pytest.raises(ConfigError, match="num_pieces belongs to ISQF"):
        DistributionLoss(num_pieces=3)
    with pytest.raises(ConfigError, match="at least 2 quantiles"):
        DistributionLoss(distribution="ISQF", quantiles=[0.5])
    with pytest.raises(ConfigError, match="distribution must be"):
        DistributionLoss(distribution="Cauchy")


def test_special_functions_agree_with_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b, x = rng.uniform(0.1, 300, 500), rng.uniform(0.1, 3000, 500), rng.uniform(0, 1, 500)
    found = betainc(*(torch.from_numpy(part) for part in (a, b, x))).numpy()
    np.testing.assert_allclose(found, special.betainc(a, b, x), rtol=1e-9, atol=1e-13)
    raw = np.array([-700.0, -50.0, -37.0, -1.0, 0.0, 3.0, 800.0])
    exact = np.where(raw < -30, raw, np.log(np.logaddexp(0, raw)))
    np.testing.assert_allclose(log_softplus(torch.from_numpy(raw)).numpy(), exact, rtol=1e-12)


@pytest.mark.parametrize("dispersion", [1e-4, 0.01, 1.0, 30.0])
@pytest.mark.parametrize("mean", [0.5, 1e3, 1e5, 1e9])
def test_quantiles_of_counts_of_any_size_agree_with_scipy_after_a_few_looks(mean: float, dispersion: float) -> None:
    """Every number exactly as scipy.stats.nbinom.ppf has it, from few values of the cdf, which take the time."""

    class Counted(NegativeBinomial):
        looks = 0

        def cdf(self, raw: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            self.looks += 1
            return super().cdf(raw, value)

    means = mean * np.linspace(0.5, 1.0, 14)
    raw = torch.stack(
        [inverse_softplus(torch.from_numpy(means)), torch.full((14,), raw_of(dispersion), dtype=torch.float64)], -1
    )
    family = Counted()
    found = family.quantile(raw, LEVELS)
    size = 1 / (dispersion + 1e-4)
    expected = stats.nbinom.ppf(LEVELS.numpy(), size, size / (size + means[:, None]))
    assert found.numpy() == pytest.approx(expected, abs=0, rel=1e-9)
    assert family.looks <= 24


def test_poisson_and_student_quantiles_agree_with_scipy_at_any_size() -> None:
    rates = double(0.3, 1e4, 1e9)
    found = DistributionLoss(distribution="Poisson").quantiles(inverse_softplus(rates)[:, None], LEVELS)
    assert found.numpy() == pytest.approx(stats.poisson.ppf(LEVELS, rates[:, None]), rel=1e-12)
    raw = torch.stack(
        [double(5.0, 1e4, 1e9), torch.zeros(3).double(), torch.full((3,), raw_of(1.0), dtype=torch.float64)], dim=-1
    )
    found = DistributionLoss(distribution="StudentT").quantiles(raw, LEVELS)
    freedom = 2 + torch.nn.functional.softplus(raw[:, :1])
    assert found.numpy() == pytest.approx(stats.t.ppf(LEVELS, freedom), rel=1e-9)


@pytest.mark.parametrize(
    ("loss", "support"),
    [
        (DistributionLoss(distribution="Normal"), (-math.inf, math.inf)),
        (DistributionLoss(distribution="ISQF"), (-math.inf, math.inf)),
        (DistributionLoss(distribution="Poisson"), (0, math.inf)),
        (DistributionLoss(distribution="NegativeBinomial"), (0, math.inf)),
        (DistributionLoss(distribution="Tweedie"), (0, math.inf)),
        (DistributionLoss(distribution="Bernoulli"), (0, 1)),
        (PMM(), (0, math.inf)),
        (NBMM(), (0, math.inf)),
        (GMM(), (-math.inf, math.inf)),
        (Weighted(loss=PMM(), by="horizon", decay=0.9), (0, math.inf)),
    ],
    ids=str,
)
def test_each_distribution_says_which_values_it_takes(loss: Loss, support: tuple[float, float]) -> None:
    assert loss.support == support
