"""The MLP family: shapes, sizes and the formulas of the papers, checked by hand or by scipy."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from scipy.special import eval_chebyt, eval_jacobi, eval_legendre
from torch import Tensor

import neuro_divergent as nd
from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.models.deepnpts import DeepNPTS
from neuro_divergent.models.dlinear import DLinear, moving_average_matrix
from neuro_divergent.models.kan import KAN
from neuro_divergent.models.mlp import MLP
from neuro_divergent.models.nbeats import NBEATS
from neuro_divergent.models.nbeatsx import NBEATSx
from neuro_divergent.models.nhits import NHITS
from neuro_divergent.models.nlinear import NLinear
from neuro_divergent.models.rlinear import RLinear
from neuro_divergent.models.rmok import RMoK
from neuro_divergent.models.tide import TiDE
from neuro_divergent.models.tsmixer import TSMixer
from neuro_divergent.models.xlinear import XLinear
from neuro_divergent.nn.basis import seasonality_basis, trend_basis
from neuro_divergent.nn.kan import jacobi, spline_bases, uniform_knots, wavelet
from neuro_divergent.nn.last_value import last_observed

FILES = {
    "MLP": "mlp",
    "MLPMultivariate": "mlp_multivariate",
    "NBEATS": "nbeats",
    "NBEATSx": "nbeatsx",
    "NHITS": "nhits",
    "TiDE": "tide",
    "TSMixer": "tsmixer",
    "TSMixerx": "tsmixerx",
    "DLinear": "dlinear",
    "NLinear": "nlinear",
    "RLinear": "rlinear",
    "XLinear": "xlinear",
    "KAN": "kan",
    "RMoK": "rmok",
    "DeepNPTS": "deepnpts",
}

SIZES = [(1, 1, 1, 1), (2, 1, 5, 3), (3, 7, 1, 2), (4, 12, 5, 1)]


def model_class(name: str) -> type[Model]:
    found: type[Model] = getattr(importlib.import_module(f"neuro_divergent.models.{FILES[name]}"), name)
    return found


def spec_for(cls: type[Model], L: int, H: int, Q: int, *, columns: bool) -> InputSpec:
    can = cls.capabilities
    spec = InputSpec(horizon=H, lookback=L, series=3 if can.multivariate else 1, outputs=Q)
    if not columns:
        return spec
    return replace(
        spec,
        future=2 * can.future,
        historical=3 * can.historical,
        static=2 * can.static,
        categories=(4, 3) if can.categorical else (),
    )


def batch_for(spec: InputSpec, B: int, *, multivariate: bool = False, mask: bool = False) -> Batch:
    L, T = spec.lookback, spec.lookback + spec.horizon
    C = spec.series if multivariate else 1
    channels = (C,) if multivariate else ()
    generator = torch.Generator().manual_seed(7)

    def draw(count: int, *shape: int) -> Tensor | None:
        return torch.randn(*shape, count, generator=generator) if count else None

    codes = [torch.randint(0, count, (B, T, *channels), generator=generator) for count in spec.categories]
    observed = torch.rand(B, L, C, generator=generator) > 0.3
    y = torch.randn(B, L, C, generator=generator)
    return Batch(
        y=torch.where(observed, y, 0.0) if mask else y,
        mask=observed if mask else None,
        future=draw(spec.future, B, T, *channels),
        historical=draw(spec.historical, B, L, *channels),
        static=draw(spec.static, B, *channels),
        categorical=torch.stack(codes, dim=-1) if codes else None,
    )


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("columns", [False, True])
def test_shapes_gradients_and_precision(name: str, columns: bool) -> None:
    cls = model_class(name)
    for B, L, H, Q in SIZES:
        spec = spec_for(cls, L, H, Q, columns=columns)
        torch.manual_seed(0)
        network = cls(h=H, input_size=L).build(spec)
        for mask in (False, True):
            batch = batch_for(spec, B, multivariate=cls.capabilities.multivariate, mask=mask)
            network.zero_grad()
            output = network.train()(batch)
            assert output.shape == (B, H, batch.y.shape[2], Q)
            output.square().sum().backward()
            for parameter_name, parameter in network.named_parameters():
                assert parameter.grad is not None, parameter_name
                assert parameter.grad.isfinite().all(), parameter_name
            expected = network.eval()(batch)
            precise = network.double()(batch.to(torch.device("cpu"), torch.float64))
            torch.testing.assert_close(precise.float(), expected, atol=1e-4, rtol=1e-4)
            network.float()


# Counted once with neuralforecast 3.x at h=24, input_size=96, n_series=7, its defaults and MAE (trainable weights).
PEER_COUNTS = {
    "MLP": 1_173_528,
    "MLPMultivariate": 1_910_952,
    "NBEATS": 2_624_730,
    "NBEATSx": 2_624_730,
    "NHITS": 2_633_034,
    "TiDE": 1_421_884,
    "TSMixer": 28_276,
    "TSMixerx": 56_245,
    "DLinear": 4_656,
    "NLinear": 2_328,
    "XLinear": 151_310,
    "KAN": 614_400,
    "RMoK": 35_058,
    "DeepNPTS": 80_320,
}
# What ours leaves out: the scaler's affine map (two weights for each of 7 series, held outside the network), the
# layer norm over TiDE's single output, and a weight matrix of RMoK (24 by 96) that no formula of the peer uses.
LEFT_OUT = {"TSMixer": 14, "TSMixerx": 14, "TiDE": 2, "RMoK": 14 + 24 * 96}
# Ours are narrower by default; at the peer's widths they are the same. (Its blocks have four hidden layers.)
PEER_WIDTHS: dict[str, dict[str, object]] = {
    "MLP": {"hidden_size": 1024},
    "NHITS": {"hidden_sizes": (512, 512, 512, 512)},
}


@pytest.mark.parametrize("name", PEER_COUNTS)
def test_the_size_is_the_peers(name: str) -> None:
    cls = model_class(name)
    model = cls(h=24, input_size=96, **PEER_WIDTHS.get(name, {}))
    network = model.build(InputSpec(horizon=24, lookback=96, series=7))
    assert sum(weight.numel() for weight in network.parameters()) == PEER_COUNTS[name] - LEFT_OUT.get(name, 0)


def test_trend_is_a_polynomial_of_the_share_of_the_horizon() -> None:
    # By hand: t = 0, 1/4, 2/4, 3/4 and its square.
    expected = torch.tensor([[1.0, 1.0, 1.0, 1.0], [0.0, 0.25, 0.5, 0.75], [0.0, 0.0625, 0.25, 0.5625]])
    torch.testing.assert_close(trend_basis(4, 2), expected)


@pytest.mark.parametrize(("kind", "formula"), [("legendre", eval_legendre), ("chebyshev", eval_chebyt)])
def test_orthogonal_trends_agree_with_scipy(kind: str, formula) -> None:
    t = torch.linspace(-1, 1, 9, dtype=torch.float64).numpy()
    for degree in (0, 1, 4):
        expected = torch.stack([torch.as_tensor(formula(n, t)) for n in range(degree + 1)]).float()
        torch.testing.assert_close(trend_basis(9, degree, kind), expected)  # type: ignore[arg-type]


def test_seasonality_is_the_papers_fourier_basis() -> None:
    # Oreshkin et al., equation 3, with H = 8: cosines then sines of 2πit, i = 0 ... H/2 - 1, t = 0, 1/8, ...
    basis = seasonality_basis(torch.arange(8), 8, harmonics=1)
    t = torch.arange(8) / 8
    expected = [torch.cos(2 * torch.pi * i * t) for i in range(4)] + [torch.sin(2 * torch.pi * i * t) for i in range(4)]
    torch.testing.assert_close(basis, torch.stack(expected), atol=1e-6, rtol=0)


def test_seasonality_continues_from_the_window_into_the_horizon() -> None:
    both = seasonality_basis(torch.arange(-6, 4), 4, harmonics=2)
    assert torch.equal(both[:, :6], seasonality_basis(torch.arange(-6, 0), 4, harmonics=2))
    assert torch.equal(both[:, 6:], seasonality_basis(torch.arange(4), 4, harmonics=2))


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        NBEATS(h=6, input_size=10, stacks=("trend", "generic", "generic"), blocks=(2, 1, 1)),
        NBEATSx(h=6, input_size=10, stacks=("exogenous", "seasonality"), blocks=(1, 2), share_weights=True),
        NHITS(h=6, input_size=10, blocks=(2, 1, 1)),
    ],
)
def test_the_explanation_adds_up_to_the_forecast(model: Model, anchored: bool) -> None:
    spec = replace(spec_for(type(model), 10, 6, 2, columns=True), anchored=anchored)
    network = model.build(spec).eval()
    batch = batch_for(spec, 3, mask=True)
    parts = network.explain(batch)
    assert ("level" in parts) is not anchored
    torch.testing.assert_close(sum(parts.values()), network(batch))


def test_the_explanation_names_the_stacks_in_order() -> None:
    model = NBEATS(h=2, input_size=4, stacks=("trend", "generic", "generic"))
    network = model.build(InputSpec(horizon=2, lookback=4))
    assert list(network.explain(Batch(torch.randn(2, 4, 1)))) == ["level", "trend", "generic", "generic_2"]


def test_a_trend_stack_forecasts_a_polynomial() -> None:
    network = NBEATS(h=8, input_size=5, stacks=("trend",), blocks=(3,), degree=2).build(
        InputSpec(horizon=8, lookback=5)
    )
    forecast = network(Batch(torch.randn(4, 5, 1))).squeeze()
    # The third difference of a polynomial of degree two is zero.
    torch.testing.assert_close(forecast.diff(n=3, dim=1), torch.zeros(4, 5), atol=1e-5, rtol=0)


def test_each_block_sees_what_the_ones_before_left() -> None:
    model = NBEATS(h=2, input_size=3, stacks=("generic",), blocks=(2,), hidden_sizes=(8,))
    stacks = model.build(InputSpec(horizon=2, lookback=3)).stacks
    last = stacks.blocks[0].perceptron[-1]
    torch.nn.init.zeros_(last.weight)
    last.bias.data = torch.tensor([1.0, 2.0, 3.0, 40.0, 50.0])  # the backcast of three steps, then the forecast of two
    y, mask = torch.tensor([[4.0, 4.0, 0.0]]), torch.tensor([[True, True, False]])
    first, second = stacks(y)
    assert first.flatten().tolist() == [40.0, 50.0]
    torch.testing.assert_close(second, stacks.blocks[1](torch.tensor([[3.0, 2.0, -3.0]]))[1])
    masked = stacks(y, mask)[1]
    torch.testing.assert_close(masked, stacks.blocks[1](torch.tensor([[3.0, 2.0, 0.0]]))[1])


def test_shared_weights_are_one_block_per_stack() -> None:
    model = NBEATS(h=4, input_size=6, stacks=("trend", "seasonality"), blocks=(3, 3))
    spec = InputSpec(horizon=4, lookback=6)
    apart, shared = (m.build(spec) for m in (model, model.replace(share_weights=True)))
    assert len(apart.stacks.blocks) == 6
    assert len(shared.stacks.blocks) == 2


def test_an_exogenous_stack_forecasts_a_mixture_of_its_columns() -> None:
    model = NBEATSx(h=5, input_size=6, stacks=("exogenous",), blocks=(1,))
    spec = InputSpec(horizon=5, lookback=6, future=1, anchored=True)
    column = torch.randn(3, 11, 1)
    forecast = model.build(spec)(Batch(torch.randn(3, 6, 1), future=column)).squeeze()
    ratio = forecast / column[:, 6:, 0]
    torch.testing.assert_close(ratio, ratio[:, :1].expand(-1, 5), atol=1e-5, rtol=1e-4)


def test_an_exogenous_stack_needs_columns() -> None:
    model = NBEATSx(h=5, input_size=6, stacks=("exogenous",), blocks=(1,))
    with pytest.raises(ConfigError, match="exogenous stack needs columns"):
        model.build(InputSpec(horizon=5, lookback=6, historical=2))


@pytest.mark.parametrize("cls", [NBEATS, NBEATSx])
def test_stacks_and_blocks_must_fit(cls: type[Model]) -> None:
    with pytest.raises(ConfigError, match=r"one entry per stack.*blocks=\[1\]"):
        cls(h=2, input_size=4, blocks=(1,))


def test_last_observed_by_hand() -> None:
    y = torch.tensor([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]).unsqueeze(0)
    mask = torch.tensor([[True, False], [True, False], [False, False]]).unsqueeze(0)
    assert last_observed(y).tolist() == [[[3.0, 7.0]]]
    assert last_observed(y, mask).tolist() == [[[2.0, 0.0]]]


def test_nlinear_repeats_a_constant_series() -> None:
    network = NLinear(h=3, input_size=5).build(InputSpec(horizon=3, lookback=5))
    torch.nn.init.zeros_(network.linear.bias)
    y = torch.full((2, 5, 1), 4.0)
    assert network(Batch(y)).flatten().tolist() == [4.0] * 6
    y[:, -1] = 0.0
    mask = torch.ones(2, 5, 1, dtype=torch.bool)
    mask[:, -1] = False
    assert network(Batch(y, mask=mask)).flatten().tolist() == [4.0] * 6


def test_an_anchored_nlinear_does_not_add_the_level_again() -> None:
    network = NLinear(h=3, input_size=5).build(InputSpec(horizon=3, lookback=5, anchored=True))
    torch.nn.init.zeros_(network.linear.bias)
    assert network(Batch(torch.full((2, 5, 1), 4.0))).abs().max() == 0.0


def test_rlinear_is_reversible_normalisation_and_a_linear_map() -> None:
    model = RLinear(h=3, input_size=5)
    network = model.build(InputSpec(horizon=3, lookback=5))
    assert model.scaler == "revin"
    assert sum(weight.numel() for weight in network.parameters()) == 3 * 5 + 3
    y = torch.randn(2, 5, 1)
    torch.testing.assert_close(network(Batch(y)).squeeze(), network.linear(y.squeeze(-1)))


def test_the_moving_average_by_hand() -> None:
    # Window 3, ends repeated: (1+1+2)/3, (1+2+6)/3, (2+6+3)/3, (6+3+3)/3.
    smooth = torch.tensor([1.0, 2.0, 6.0, 3.0]) @ moving_average_matrix(4, 3)
    torch.testing.assert_close(smooth, torch.tensor([4 / 3, 3.0, 11 / 3, 4.0]))


def test_dlinear_maps_trend_and_remainder_apart() -> None:
    network = DLinear(h=2, input_size=4, moving_average=3).build(InputSpec(horizon=2, lookback=4))
    torch.nn.init.zeros_(network.remainder.weight)
    y = torch.tensor([[1.0, 2.0, 6.0, 3.0]])
    trend = torch.tensor([[4 / 3, 3.0, 11 / 3, 4.0]])
    expected = network.trend(trend) + network.remainder.bias
    torch.testing.assert_close(network(Batch(y.unsqueeze(-1))).squeeze(), expected.squeeze())


def test_splines_sum_to_one_within_the_grid_and_vanish_far_outside() -> None:
    knots = uniform_knots(5, 3, -1.0, 1.0)
    inside = spline_bases(torch.linspace(-1, 0.999, 101), knots, 3)
    assert inside.shape == (101, 8)
    torch.testing.assert_close(inside.sum(dim=-1), torch.ones(101))
    assert (inside >= 0).all()
    assert spline_bases(torch.tensor([-9.0, 9.0]), knots, 3).abs().max() == 0.0


def test_a_cubic_spline_in_its_middle_by_hand() -> None:
    # The uniform cubic B-spline is 1/6, 4/6, 1/6 at its inner knots.
    knots = uniform_knots(4, 3, 0.0, 4.0)
    torch.testing.assert_close(spline_bases(torch.tensor(2.0), knots, 3)[2:5], torch.tensor([1 / 6, 4 / 6, 1 / 6]))


def test_kan_refuses_a_range_that_does_not_ascend() -> None:
    with pytest.raises(ConfigError, match="grid_range must be"):
        KAN(h=1, input_size=1, grid_range=(1.0, -1.0))


def test_jacobi_polynomials_agree_with_scipy() -> None:
    x = torch.linspace(-1, 1, 11, dtype=torch.float64)
    for a, b in ((1.0, 1.0), (0.5, 2.0)):
        expected = torch.stack([torch.as_tensor(eval_jacobi(n, a, b, x.numpy())) for n in range(7)], dim=-1)
        torch.testing.assert_close(jacobi(x, 6, a, b), expected)


def test_wavelets_by_hand() -> None:
    zero, one = torch.tensor(0.0), torch.tensor(1.0)
    assert wavelet(zero, "mexican_hat").item() == pytest.approx(-0.8673, abs=1e-4)  # -2 / (√3 π^¼)
    assert wavelet(one, "mexican_hat").item() == 0.0
    assert wavelet(one, "dog").item() == pytest.approx(-0.60653, abs=1e-5)  # -exp(-½)
    assert wavelet(zero, "morlet").item() == 1.0


@pytest.mark.parametrize("name", ["mexican_hat", "morlet", "dog"])
def test_rmok_stays_finite_on_huge_values(name: str) -> None:
    model = RMoK(h=2, input_size=3, wavelet=name, taylor_order=1)
    network = model.build(InputSpec(horizon=2, lookback=3, series=2)).eval()
    assert network(Batch(torch.full((2, 3, 2), 1e30))).isfinite().all()


def test_rmok_treats_the_series_alike() -> None:
    network = RMoK(h=2, input_size=3).build(InputSpec(horizon=2, lookback=3, series=4)).eval()
    y = torch.randn(2, 3, 4)
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(network(Batch(y[..., order])), network(Batch(y))[:, :, order])


def test_tide_is_more_than_its_shortcut() -> None:
    network = TiDE(h=4, input_size=6).build(InputSpec(horizon=4, lookback=6)).eval()
    y = torch.randn(8, 6, 1)
    dense = network(Batch(y)).flatten(1) - network.skip(y.squeeze(-1))
    assert dense.std(dim=0).min() > 1e-4


@pytest.mark.parametrize("cls", [TSMixer, XLinear])
def test_series_see_each_other(cls: type[Model]) -> None:
    network = cls(h=2, input_size=4).build(InputSpec(horizon=2, lookback=4, series=3)).eval()
    y = torch.randn(2, 4, 3)
    other = y.clone()
    other[..., 0] += 1.0
    assert not torch.allclose(network(Batch(y))[:, :, 1:], network(Batch(other))[:, :, 1:], atol=1e-6)


def test_deepnpts_stays_within_the_observed_range() -> None:
    network = DeepNPTS(h=6, input_size=9).build(InputSpec(horizon=6, lookback=9, outputs=3)).eval()
    y = torch.randn(5, 9, 1) * 3 + 40
    mask = torch.rand(5, 9, 1) > 0.4
    mask[:, 0] = True
    forecast = network(Batch(torch.where(mask, y, 0.0), mask=mask))
    low = torch.where(mask, y, torch.inf).amin(dim=1)[..., None, None]
    high = torch.where(mask, y, -torch.inf).amax(dim=1)[..., None, None]
    assert ((forecast >= low - 1e-4) & (forecast <= high + 1e-4)).all()


def test_deepnpts_weights_are_probabilities_of_what_was_observed() -> None:
    network = DeepNPTS(h=2, input_size=4).build(InputSpec(horizon=2, lookback=4)).eval()
    mask = torch.tensor([[True, False, True, True], [False] * 4]).unsqueeze(-1)
    weights = network.weights(Batch(torch.randn(2, 4, 1) * mask, mask=mask))
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(2, 2, 1))
    assert weights[0, 1].abs().max() == 0.0


def test_deepnpts_gives_intervals_narrower_than_any_average_of_the_window() -> None:
    """A wave without noise: averages of a window scaled to mean 0, deviation 1 end at softplus(-sqrt 2) = 0.218."""
    y = np.tile([0.0, 1.0, 0.0, -1.0], 60)
    frame = pl.DataFrame({"unique_id": "a", "ds": np.arange(len(y)), "y": y})
    model = nd.DeepNPTS(h=4, input_size=8, hidden_size=32, dropout=0.0, anchor=None)
    loss = nd.DistributionLoss(distribution="Normal")
    config = nd.TrainingConfig(
        max_steps=400, loss=loss, optimizer=nd.AdamW(learning_rate=1e-2), validation_split=None, early_stopping=None,
        progress=False,
    )  # fmt: skip
    found = model.fit(frame, config, freq=1).predict(level=[80])
    widths = (found["DeepNPTS-hi-80"] - found["DeepNPTS-lo-80"]).to_numpy()
    narrowest = 2 * 1.2816 * 0.218 * y.std()  # 1.2816: the 90 % point of a standard Normal
    assert widths.max() < 0.8 * narrowest


@pytest.mark.parametrize("cls", [MLP, NBEATS, TSMixer, DeepNPTS])
def test_a_batch_of_one_trains_and_the_batch_does_not_matter_afterwards(cls: type[Model]) -> None:
    network = cls(h=2, input_size=4).build(InputSpec(horizon=2, lookback=4))
    y = torch.randn(6, 4, 1)
    network.train()(Batch(y[:1])).sum().backward()
    together = network.eval()(Batch(y))
    torch.testing.assert_close(network(Batch(y[2:3])), together[2:3])
