"""Convolutional and spectral models: shapes, gradients, independence, and what each one promises."""

from __future__ import annotations

import math

import pytest
import torch

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.models.bitcn import BiTCN
from neuro_divergent.models.softs import SOFTS, CoreExchange
from neuro_divergent.models.stemgnn import SeriesGraph, StemGNN, chebyshev, laplacian
from neuro_divergent.models.tcn import TCN
from neuro_divergent.models.timemixer import TimeMixer
from neuro_divergent.models.timesnet import Inception, PeriodBlock, TimesNet
from neuro_divergent.nn.convolution import OneSidedConvolution

SMALL = {"hidden_size": 8, "ff_size": 8, "core_size": 6, "conv_size": 5, "kernels": 2, "widening": 2}
MODELS: list[type[Model]] = [TCN, BiTCN, TimesNet, TimeMixer, SOFTS, StemGNN]
SIZES = [(1, 1, 1, 1, 1), (3, 1, 4, 2, 2), (2, 7, 1, 3, 3), (4, 40, 12, 2, 1), (2, 13, 30, 1, 5)]


def describe(cls: type[Model], h: int, input_size: int) -> Model:
    """A small model of the class."""
    fields = {name: value for name, value in SMALL.items() if name in cls.model_fields}
    return cls(h=h, input_size=input_size, **fields)


def case(cls: type[Model], size: tuple[int, int, int, int, int], *, columns: bool) -> tuple[InputSpec, Batch]:
    """Sizes (B, L, H, C, Q) and a random batch of them, with every kind of column that the model takes or none."""
    B, L, H, C, Q = size
    can = cls.capabilities
    F, X, S = (2 * can.future, 3 * can.historical, 2 * can.static) if columns else (0, 0, 0)
    K = (3, 5) if columns and can.categorical else ()
    series = C if can.multivariate else 1
    spec = InputSpec(horizon=H, lookback=L, series=series, future=F, historical=X, static=S, categories=K, outputs=Q)
    torch.manual_seed(B + 10 * L + 100 * H)
    batch = Batch(
        y=torch.randn(B, L, series),
        future=torch.randn(B, L + H, F) if F else None,
        historical=torch.randn(B, L, X) if X else None,
        static=torch.randn(B, S) if S else None,
        categorical=torch.stack([torch.randint(0, k, (B, L + H)) for k in K], dim=-1) if K else None,
    )
    return spec, batch


def first(batch: Batch) -> Batch:
    """Only the first window."""
    return Batch(*(None if tensor is None else tensor[:1] for tensor in batch))  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [False, True], ids=["bare", "columns"])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)
def test_shape_and_a_finite_gradient_for_every_parameter(
    cls: type[Model], size: tuple[int, int, int, int, int], columns: bool
) -> None:
    spec, batch = case(cls, size, columns=columns)
    network = describe(cls, spec.horizon, spec.lookback).build(spec)
    output = network(batch)
    assert output.shape == (size[0], spec.horizon, spec.series, spec.outputs)
    output.square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("columns", [False, True], ids=["bare", "columns"])
@pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)
def test_a_forecast_does_not_depend_on_the_rest_of_the_batch_nor_on_chance(cls: type[Model], columns: bool) -> None:
    spec, batch = case(cls, (4, 40, 12, 3, 2), columns=columns)
    network = describe(cls, 12, 40).build(spec).eval()
    whole = network(batch)
    torch.manual_seed(99)
    assert torch.equal(network(batch), whole)
    torch.testing.assert_close(network(first(batch)), whole[:1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)
def test_double_precision_agrees(cls: type[Model]) -> None:
    spec, batch = case(cls, (3, 40, 12, 3, 2), columns=True)
    network = describe(cls, 12, 40).build(spec).eval()
    single = network(batch)
    double = network.double()(batch.to(torch.device("cpu"), torch.float64))
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("value", [0.0, 1e-8, 1e6])
@pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)
def test_constant_windows_stay_finite(cls: type[Model], value: float) -> None:
    spec, batch = case(cls, (2, 24, 6, 2, 1), columns=False)
    network = describe(cls, 6, 24).build(spec)
    output = network(batch._replace(y=torch.full_like(batch.y, value), mask=torch.zeros_like(batch.y).bool()))
    output.sum().backward()
    assert output.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters() if parameter.grad is not None)


@pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)
def test_targets_are_never_looked_at(cls: type[Model]) -> None:
    spec, batch = case(cls, (2, 24, 6, 2, 1), columns=True)
    network = describe(cls, 6, 24).build(spec).eval()
    noise = torch.randn(2, 6, batch.y.shape[2])
    seen = network(batch._replace(target=noise, target_mask=noise > 0, weight=noise.abs()))
    assert torch.equal(seen, network(batch))


@pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)
def test_description_survives_its_json(cls: type[Model]) -> None:
    model = describe(cls, 6, 24)
    assert cls.from_json(model.to_json()) == model


def count(model: Model, **sizes: int) -> int:
    """Parameters at the standard size, without spending memory on them."""
    series = 7 if model.capabilities.multivariate else 1
    with torch.device("meta"):
        network = model.build(InputSpec(horizon=24, lookback=96, series=series, **sizes))
    return sum(parameter.numel() for parameter in network.parameters())


# Trainable parameters at h=24, input_size=96 (7 series where multivariate), all else at the defaults, counted on
# neuralforecast 3's models of the same names by summing `numel` over their parameters.
@pytest.mark.parametrize(
    ("cls", "future", "expected"),
    [
        (TCN, 0, 150_937),
        (TCN, 2, 151_705),
        (BiTCN, 0, 9_513),
        (BiTCN, 2, 17_129),
        (TimesNet, 0, 4_699_385),
        (TimesNet, 2, 4_699_513),
        (SOFTS, 0, 6_891_032),
    ],
)
def test_as_many_parameters_as_the_peer(cls: type[Model], future: int, expected: int) -> None:
    assert count(cls(h=24, input_size=96), future=future) == expected


def test_stemgnn_has_the_peer_s_parameters_but_the_last_block_s_unused_shortcut() -> None:
    assert count(StemGNN(h=24, input_size=96)) == 67_402_691 - (96 * 96 + 96)


def test_timemixer_has_the_peer_s_parameters_but_scaling_and_unused_norms() -> None:
    scaling = 2 * 2 * 7  # the window scaler's work here
    unused_norms = 4 * 2 * 32
    assert count(TimeMixer(h=24, input_size=96)) == 120_851 - scaling - unused_norms


# One-sided convolutions


def test_one_sided_convolution_by_hand() -> None:
    x = torch.tensor([1.0, 2.0, 3.0, 4.0]).view(1, 1, 4)
    for sees, expected in (("past", [10.0, 20.0, 31.0, 42.0]), ("future", [31.0, 42.0, 3.0, 4.0])):
        convolution = OneSidedConvolution(1, 1, 2, dilation=2, sees=sees)
        with torch.no_grad():
            convolution.weight.copy_(torch.tensor([[[1.0, 10.0]]]))
            convolution.bias.zero_()
        # past: x[t-2] + 10 x[t]; future: x[t] + 10 x[t+2]; zeros beyond the ends
        assert convolution(x).flatten().tolist() == expected


def test_tcn_s_encoder_is_causal_and_reaches_as_far_as_its_dilations() -> None:
    network = TCN(h=1, input_size=40, hidden_size=4).build(InputSpec(horizon=1, lookback=40))
    x = torch.randn(1, 1, 40, requires_grad=True)
    network.encoder[:9:2](x)[0, :, 35].sum().backward()  # convolutions only, so that no unit is switched off
    assert x.grad is not None
    # kernel 2 with dilations 1, 2, 4, 8, 16 sees 1 + 31 steps
    assert x.grad.flatten().nonzero().flatten().tolist() == list(range(4, 36))


@pytest.mark.parametrize("length", [1, 2, 3, 17, 96])
def test_bitcn_s_last_step_sees_the_whole_window(length: int) -> None:
    network = BiTCN(h=1, input_size=length).build(InputSpec(horizon=1, lookback=length)).eval()
    y = torch.randn(1, length, 1, requires_grad=True)
    network.backward_stack(y)[0, :, -1].sum().backward()
    assert y.grad is not None
    assert (y.grad != 0).all()


def test_bitcn_s_forward_stack_looks_only_ahead() -> None:
    network = BiTCN(h=4, input_size=6).build(InputSpec(horizon=4, lookback=6, future=2)).eval()
    known = torch.randn(1, 10, 2, requires_grad=True)
    network.forward_stack(known)[0, :, 3].sum().backward()
    assert known.grad is not None
    assert torch.equal(known.grad[:, :3], torch.zeros(1, 3, 2))
    assert (known.grad[:, 3:] != 0).any(dim=-1).all()


@pytest.mark.parametrize("cls", [TCN, BiTCN, TimesNet])
def test_known_columns_of_the_horizon_change_the_forecast(cls: type[Model]) -> None:
    spec, batch = case(cls, (2, 12, 4, 1, 1), columns=True)
    network = describe(cls, 4, 12).build(spec).eval()
    assert batch.future is not None
    changed = batch.future.clone()
    changed[:, -1] += 5.0
    assert not torch.allclose(network(batch), network(batch._replace(future=changed)))


# TimesNet


def test_a_sine_s_period_is_found() -> None:
    block = PeriodBlock(TimesNet(h=24, input_size=96, hidden_size=1, periods=1, kernels=1), 120)
    wave = torch.sin(2 * math.pi * torch.arange(120) / 24).view(1, 120, 1)
    strengths = block.strengths(wave)
    assert block.candidates[int(strengths.argmax())] == 24
    torch.testing.assert_close(strengths.sum(), torch.tensor(1.0))


def test_each_window_has_its_own_periods() -> None:
    block = PeriodBlock(TimesNet(h=24, input_size=96, hidden_size=1, periods=1, kernels=1), 120)
    steps = torch.arange(120)
    waves = torch.stack([torch.sin(2 * math.pi * steps / period) for period in (24, 12, 8)]).unsqueeze(-1)
    found = [block.candidates[int(place)] for place in block.strengths(waves).argmax(dim=1)]
    assert found == [24, 12, 8]


def test_folding_and_unfolding_alone_changes_nothing() -> None:
    block = PeriodBlock(TimesNet(h=3, input_size=10, hidden_size=2, conv_size=2, periods=3, kernels=1), 13)
    identity = (torch.eye(2).view(2, 2, 1, 1), torch.zeros(2))
    x = torch.rand(4, 13, 2) + 20.0  # where GELU is the identity
    for period in block.candidates:
        torch.testing.assert_close(block._convolve(x, period, identity, identity), x)


def test_a_fold_puts_the_same_phase_of_neighbouring_cycles_side_by_side() -> None:
    block = PeriodBlock(TimesNet(h=2, input_size=4, hidden_size=1, conv_size=1, periods=1, kernels=1), 6)
    above = torch.zeros(1, 1, 3, 3)
    above[0, 0, 0, 1] = 1.0  # takes the value one cycle before
    identity = (torch.ones(1, 1, 1, 1), torch.zeros(1))
    x = torch.arange(20.0, 26.0).view(1, 6, 1)
    folded = block._convolve(x, 3, (above, torch.zeros(1)), identity)
    assert folded.flatten().tolist() == [0.0, 0.0, 0.0, 20.0, 21.0, 22.0]


def test_inception_is_the_mean_of_its_convolutions() -> None:
    torch.manual_seed(0)
    inception = Inception(2, 3, 3)
    torch.nn.init.normal_(inception.biases)
    x = torch.randn(2, 2, 5, 7)
    each = [
        torch.nn.functional.conv2d(x, weight, bias, padding="same")
        for weight, bias in zip(inception.weights, inception.biases, strict=True)
    ]
    torch.testing.assert_close(inception(x), (each[0] + each[1] + each[2]) / 3, atol=1e-5, rtol=1e-5)


def test_timesnet_recorded_for_all_windows_is_the_same_network() -> None:
    spec, batch = case(TimesNet, (3, 20, 5, 1, 1), columns=False)
    network = describe(TimesNet, 5, 20).build(spec).eval()
    recorded = torch.export.export(network, (batch,)).module()
    other = Batch(y=torch.randn(3, 20, 1))
    torch.testing.assert_close(recorded(other), network(other), atol=1e-5, rtol=1e-4)


# TimeMixer


def test_resolutions_are_averages() -> None:
    network = TimeMixer(h=2, input_size=5, coarser=3, hidden_size=4).build(InputSpec(horizon=2, lookback=5, series=1))
    levels = network.resolutions(torch.tensor([1.0, 3.0, 5.0, 7.0, 9.0]).view(1, 5, 1))
    assert [level.flatten().tolist() for level in levels] == [[1, 3, 5, 7, 9], [2, 6], [4]]


def test_without_channel_mixing_series_do_not_meet() -> None:
    spec, batch = case(TimeMixer, (2, 24, 6, 3, 2), columns=False)
    changed = batch.y.clone()
    changed[:, 5, 0] += 10.0
    for mixing in (False, True):
        model = TimeMixer(h=6, input_size=24, hidden_size=8, channel_mixing=mixing)
        network = model.build(spec).eval()
        before, after = network(batch), network(batch._replace(y=changed))
        assert before.shape == (2, 6, 3, 2)
        assert torch.allclose(before[:, :, 1:], after[:, :, 1:]) is not mixing


def test_an_even_moving_average_is_refused() -> None:
    with pytest.raises(ConfigError, match="moving_average must be odd, but got moving_average=4"):
        TimeMixer(h=6, input_size=24, moving_average=4)


# SOFTS


def test_the_core_is_a_softmax_weighted_mean_when_forecasting() -> None:
    x = torch.tensor([[[0.0], [math.log(3.0)]]])  # chances 1/4 and 3/4
    core = CoreExchange(1, 1).eval().pool(x)
    torch.testing.assert_close(core, torch.tensor([[[0.75 * math.log(3.0)]]]))


def test_the_core_is_one_of_the_series_when_training() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 3, 5)
    core = CoreExchange(5, 5).train().pool(x)
    assert core.shape == (4, 1, 5)
    assert (core == x).any(dim=1).all()


def test_exchanging_two_series_exchanges_their_forecasts() -> None:
    spec, batch = case(SOFTS, (2, 24, 6, 3, 1), columns=False)
    network = describe(SOFTS, 6, 24).build(spec).eval()
    order = [2, 0, 1]
    exchanged = network(batch._replace(y=batch.y[..., order]))
    torch.testing.assert_close(exchanged, network(batch)[:, :, order], atol=1e-5, rtol=1e-4)


# StemGNN


def test_rows_of_the_graph_sum_to_one() -> None:
    edges = SeriesGraph(10, 4, 0.5, 0.2).eval()(torch.randn(3, 4, 10))
    torch.testing.assert_close(edges.sum(dim=-1), torch.ones(3, 4))


def test_laplacian_by_hand() -> None:
    edges = torch.tensor([[[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]])
    # symmetric: 1 between the first two, the third alone: degrees 1, 1, 0
    expected = torch.tensor([[[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]])
    torch.testing.assert_close(laplacian(edges), expected)


def test_chebyshev_polynomials_of_a_cosine_are_cosines() -> None:
    angle = 0.7
    terms = chebyshev(torch.full((1, 1, 1), math.cos(angle), dtype=torch.float64)).flatten()
    expected = torch.tensor([math.cos(k * angle) for k in range(4)], dtype=torch.float64)  # T_k(cos a) = cos(k a)
    torch.testing.assert_close(terms, expected)
