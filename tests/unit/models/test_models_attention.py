"""Attention models: shapes, gradients, independence, and what each one promises."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.models.autoformer import AutoCorrelation, Autoformer
from neuro_divergent.models.fedformer import FEDformer, Fourier, FrequencyWeights, chosen_frequencies
from neuro_divergent.models.informer import Informer, SparseAttention
from neuro_divergent.models.itransformer import iTransformer
from neuro_divergent.models.patchtst import PatchTST
from neuro_divergent.models.tft import TFT
from neuro_divergent.models.timellm import TimeLLM
from neuro_divergent.models.timexer import TimeXer
from neuro_divergent.models.vanilla_transformer import VanillaTransformer
from neuro_divergent.nn.attention import Attention, causal_bias
from neuro_divergent.nn.decomposition import Decomposition
from neuro_divergent.nn.gating import VariableSelection
from neuro_divergent.nn.tokens import sinusoids

SMALL = {"hidden_size": 8, "heads": 2, "ff_size": 8}
MODELS: list[type[Model]] = [
    PatchTST,
    iTransformer,
    TFT,
    VanillaTransformer,
    Informer,
    Autoformer,
    FEDformer,
    TimeXer,
]
SIZES = [(1, 1, 1, 1, 1), (3, 1, 4, 2, 2), (2, 7, 1, 3, 3), (4, 40, 12, 2, 1), (2, 13, 30, 1, 5)]


def describe(cls: type[Model], h: int, input_size: int) -> Model:
    """A small model of the class."""
    fields = {name: value for name, value in SMALL.items() if name in cls.model_fields}
    return cls(h=h, input_size=input_size, **fields)


def case(cls: type[Model], size: tuple[int, int, int, int, int], *, columns: bool) -> tuple[InputSpec, Batch]:
    """Sizes (B, L, H, C, Q) and a random batch of them, with every kind of column that the model takes or none."""
    B, L, H, C, Q = size
    can = cls.capabilities
    channels = (C,) if can.multivariate else ()
    F, X, S = (2 * can.future, 3 * can.historical, 2 * can.static) if columns else (0, 0, 0)
    K = (3, 5) if columns and can.categorical else ()
    series = C if can.multivariate else 1
    spec = InputSpec(horizon=H, lookback=L, series=series, future=F, historical=X, static=S, categories=K, outputs=Q)
    torch.manual_seed(B + 10 * L + 100 * H)
    batch = Batch(
        y=torch.randn(B, L, series),
        future=torch.randn(B, L + H, *channels, F) if F else None,
        historical=torch.randn(B, L, *channels, X) if X else None,
        static=torch.randn(B, *channels, S) if S else None,
        categorical=torch.stack([torch.randint(0, k, (B, L + H, *channels)) for k in K], dim=-1) if K else None,
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
def test_description_survives_its_json(cls: type[Model]) -> None:
    model = describe(cls, 6, 24)
    assert cls.from_json(model.to_json()) == model


# Trainable parameters at h=24, input_size=96 (7 series where multivariate), all else at the defaults, counted on
# neuralforecast 3's models of the same names by summing `numel` over their parameters.
PEER_COUNTS = {
    PatchTST: 438_040,
    iTransformer: 6_367_768,
    VanillaTransformer: 292_449,
    Informer: 341_985,
    Autoformer: 290_561,
    TimeXer: 8_556_568,
}


def count(model: Model, **sizes: int) -> int:
    """Parameters at the standard size, without spending memory on them."""
    series = 7 if model.capabilities.multivariate else 1
    with torch.device("meta"):
        network = model.build(InputSpec(horizon=24, lookback=96, series=series, **sizes))
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize("cls", PEER_COUNTS, ids=lambda cls: cls.__name__)
def test_as_many_parameters_as_the_peer(cls: type[Model]) -> None:
    assert count(cls(h=24, input_size=96)) == PEER_COUNTS[cls]


@pytest.mark.parametrize(
    ("cls", "expected"),
    [(iTransformer, 6_429_720), (VanillaTransformer, 292_961), (Informer, 342_497), (Autoformer, 291_073)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_as_many_parameters_as_the_peer_with_two_columns_known_ahead(cls: type[Model], expected: int) -> None:
    assert count(cls(h=24, input_size=96), future=2) == expected


def test_tft_has_the_peer_s_parameters_but_one_matrix_that_nothing_reaches() -> None:
    # neuralforecast's TFT with 2 future, 1 historical and 2 static columns: 1 586 601, of which 128 x 128 are the
    # weights of a context for the choice among static columns, which has no context.
    assert count(TFT(h=24, input_size=96, hidden_size=128), future=2, historical=1, static=2) == 1_586_601 - 128 * 128


def test_fedformer_differs_from_the_peer_by_what_its_docstring_says() -> None:
    unused_keys_and_values = 3 * 2 * (128 * 128 + 128)
    cross_weights = 8 * 16 * 16 * 36
    imaginary_parts = 8 * 16 * 16 * (48 + 36)  # a complex number counts once there and twice here
    expected = 536_321 - unused_keys_and_values - cross_weights + imaginary_parts
    assert count(FEDformer(h=24, input_size=96)) == expected


@pytest.mark.parametrize("cls", [PatchTST, iTransformer, TFT, VanillaTransformer, Informer, FEDformer, TimeXer])
def test_a_width_that_heads_cannot_share_is_refused(cls: type[Model]) -> None:
    with pytest.raises(ConfigError, match="hidden_size must be a multiple of heads, but got hidden_size=10"):
        cls(h=4, input_size=8, hidden_size=10, heads=4)


@pytest.mark.parametrize("cls", [Autoformer, FEDformer])
def test_an_even_moving_average_is_refused(cls: type[Model]) -> None:
    with pytest.raises(ConfigError, match="moving_average must be odd, but got moving_average=24"):
        cls(h=4, input_size=8, moving_average=24)


# Attention itself


def test_attention_agrees_with_torch_s_own_module() -> None:
    torch.manual_seed(1)
    ours = Attention(8, 2)
    reference = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    with torch.no_grad():
        reference.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
        reference.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
        reference.out_proj.weight.copy_(ours.output.weight)
        reference.out_proj.bias.copy_(ours.output.bias)
    queries, memory = torch.randn(3, 4, 8), torch.randn(3, 6, 8)
    torch.testing.assert_close(ours(queries, memory), reference(queries, memory, memory)[0])


def test_causal_attention_does_not_look_ahead() -> None:
    torch.manual_seed(1)
    attention = Attention(8, 2, causal=True).eval()
    x = torch.randn(1, 6, 8)
    changed = x.clone()
    changed[:, 4:] += 1.0
    torch.testing.assert_close(attention(changed)[:, :4], attention(x)[:, :4])
    assert not torch.allclose(attention(changed)[:, 4:], attention(x)[:, 4:])


def test_causal_bias_by_hand() -> None:
    no = -math.inf
    assert causal_bias(3).tolist() == [[0.0, no, no], [0.0, 0.0, no], [0.0, 0.0, 0.0]]


def test_sinusoids_by_hand() -> None:
    table = sinusoids(3, 4)
    expected = [math.sin(2), math.cos(2), math.sin(2 / 100), math.cos(2 / 100)]  # frequencies 1 and 10000^(-2/4)
    torch.testing.assert_close(table[2], torch.tensor(expected))
    assert sinusoids(3, 5).shape == (3, 5)


# PatchTST


def test_patches_cover_the_window_s_end() -> None:
    network = PatchTST(h=1, input_size=10, patch_len=4, stride=3, hidden_size=16).build(
        InputSpec(horizon=1, lookback=10)
    )
    patches = network.patches(torch.arange(10.0).unsqueeze(0))
    # 10 steps and 3 repetitions of the last: starts at 0, 3, 6, 9
    assert patches.tolist() == [[[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9], [9, 9, 9, 9]]]


@pytest.mark.parametrize(("length", "patch", "stride"), [(10, 4, 4), (11, 4, 3), (5, 16, 8), (1, 1, 1), (96, 16, 8)])
def test_the_last_value_is_always_in_a_patch(length: int, patch: int, stride: int) -> None:
    network = PatchTST(h=1, input_size=length, patch_len=patch, stride=stride, hidden_size=16).build(
        InputSpec(horizon=1, lookback=length)
    )
    patches = network.patches(torch.arange(float(length)).unsqueeze(0))
    assert set(patches.flatten().tolist()) == set(range(length))
    assert patches.shape[1] == network.position.shape[0]


def test_a_stride_that_skips_steps_is_refused() -> None:
    with pytest.raises(ConfigError, match="stride must be at most patch_len"):
        PatchTST(h=1, input_size=32, patch_len=4, stride=5)


@pytest.mark.parametrize("fields", [{"residual_attention": False}, {"norm": "layer"}])
def test_patchtst_s_options_build_other_networks(fields: dict[str, object]) -> None:
    spec, batch = case(PatchTST, (3, 32, 4, 1, 1), columns=False)
    torch.manual_seed(0)
    plain = PatchTST(h=4, input_size=32, **SMALL).build(spec).eval()(batch)
    torch.manual_seed(0)
    other = PatchTST(h=4, input_size=32, **SMALL, **fields).build(spec).eval()(batch)
    assert other.isfinite().all()
    assert not torch.allclose(plain, other)


def test_one_layer_of_residual_attention_is_plain_attention() -> None:
    spec, batch = case(PatchTST, (3, 32, 4, 1, 1), columns=False)
    forecasts = []
    for residual in (False, True):
        torch.manual_seed(0)
        model = PatchTST(h=4, input_size=32, layers=1, residual_attention=residual, **SMALL)
        forecasts.append(model.build(spec).eval()(batch))
    torch.testing.assert_close(forecasts[0], forecasts[1])


# iTransformer and TimeXer


@pytest.mark.parametrize("cls", [iTransformer, TimeXer])
def test_series_inform_each_other(cls: type[Model]) -> None:
    spec, batch = case(cls, (2, 24, 6, 3, 1), columns=False)
    network = describe(cls, 6, 24).build(spec).eval()
    changed = batch.y.clone()
    changed[..., 0] += 1.0
    before, after = network(batch), network(batch._replace(y=changed))
    assert not torch.allclose(before[:, :, 2], after[:, :, 2])


def test_exchanging_two_series_exchanges_their_forecasts() -> None:
    spec, batch = case(iTransformer, (2, 24, 6, 3, 1), columns=True)
    network = describe(iTransformer, 6, 24).build(spec).eval()
    order = [2, 0, 1]
    assert batch.future is not None
    exchanged = network(batch._replace(y=batch.y[..., order], future=batch.future[:, :, order]))
    torch.testing.assert_close(exchanged, network(batch)[:, :, order], atol=1e-5, rtol=1e-4)


def test_itransformer_uses_the_known_future() -> None:
    spec, batch = case(iTransformer, (2, 24, 6, 3, 1), columns=True)
    network = describe(iTransformer, 6, 24).build(spec).eval()
    assert batch.future is not None
    changed = batch.future.clone()
    changed[:, -1] += 5.0
    assert not torch.allclose(network(batch), network(batch._replace(future=changed)))


def test_timexer_pads_the_start_of_a_window_that_is_not_whole_patches() -> None:
    network = TimeXer(h=2, input_size=5, patch_len=4, hidden_size=4, heads=1).build(
        InputSpec(horizon=2, lookback=5, series=1)
    )
    torch.nn.init.eye_(network.embed_patch.weight)
    y = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]).view(1, 5, 1)
    tokens = network.eval().tokens(y) - torch.cat([network.position, network.global_token[0]])
    torch.testing.assert_close(tokens[0], torch.tensor([[1.0, 1, 1, 1], [2, 3, 4, 5], [0, 0, 0, 0]]))


# TFT


def test_tft_explains_itself_with_weights_that_sum_to_one() -> None:
    spec, batch = case(TFT, (3, 20, 5, 1, 1), columns=True)
    network = describe(TFT, 5, 20).build(spec).eval()
    shown = network.explain(batch)
    shapes = {name: tuple(tensor.shape) for name, tensor in shown.items()}
    assert shapes == {
        "static_importance": (3, 2),
        "past_importance": (3, 20, 6),
        "ahead_importance": (3, 5, 2),
        "attention": (3, 5, 25),
    }
    for tensor in shown.values():
        assert (tensor >= 0).all()
        torch.testing.assert_close(tensor.sum(dim=-1), torch.ones(tensor.shape[:-1]))


def test_tft_s_attention_sees_the_past_and_only_earlier_steps_of_the_horizon() -> None:
    spec, batch = case(TFT, (2, 6, 4, 1, 1), columns=True)
    attention = describe(TFT, 4, 6).build(spec).eval().explain(batch)["attention"]
    ahead = attention[:, :, 6:]
    assert (attention[:, :, :6] > 0).all()
    assert torch.equal(ahead.triu(1), torch.zeros_like(ahead))


def test_tft_s_fused_attention_is_the_one_it_explains() -> None:
    spec, _ = case(TFT, (2, 6, 4, 1, 1), columns=False)
    attention = describe(TFT, 4, 6).build(spec).eval().attention
    x = torch.randn(2, 10, 8)
    by_hand = attention.output(attention.weights(x) @ attention.value(x))
    torch.testing.assert_close(attention(x), by_hand)


def test_tft_without_columns_has_no_static_importance_and_trivial_choice_ahead() -> None:
    spec, batch = case(TFT, (2, 6, 4, 1, 1), columns=False)
    shown = describe(TFT, 4, 6).build(spec).eval().explain(batch)
    assert "static_importance" not in shown
    assert torch.equal(shown["ahead_importance"], torch.ones(2, 4, 1))


def test_variable_selection_is_the_weighted_mean() -> None:
    torch.manual_seed(0)
    selection = VariableSelection(3, 4, context=4).eval()
    vectors, context = torch.randn(2, 5, 3, 4), torch.randn(2, 1, 4)
    mean, weights = selection(vectors, context)
    parts = [selection.transform[n](vectors[:, :, n]) * weights[:, :, n : n + 1] for n in range(3)]
    torch.testing.assert_close(mean, parts[0] + parts[1] + parts[2])


# Informer


def test_informer_s_lazy_queries_take_the_mean_and_all_queries_active_is_full_attention() -> None:
    model = Informer(h=1, input_size=8, hidden_size=8, heads=2, factor=1)
    torch.manual_seed(0)
    sparse = SparseAttention(model, 20, 20).eval()
    query, key, value = (torch.randn(1, 2, 20, 4) for _ in range(3))
    full = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    mixed = sparse.mix(query, key, value)
    is_full = torch.isclose(mixed, full, atol=1e-6).all(-1)
    is_mean = torch.isclose(mixed, value.mean(dim=2, keepdim=True), atol=1e-6).all(-1)
    assert (is_full.sum(-1) == math.ceil(math.log(20))).all()  # factor 1 times ⌈ln 20⌉ = 3 active queries
    assert torch.logical_xor(is_full, is_mean).all()
    everything = SparseAttention(model.replace(factor=20), 20, 20).eval()
    torch.testing.assert_close(everything.mix(query, key, value), full)


def test_informer_s_causal_attention_does_not_look_ahead_for_active_and_lazy_queries() -> None:
    model = Informer(h=1, input_size=8, hidden_size=8, heads=2, factor=20)
    torch.manual_seed(0)
    attention = SparseAttention(model, 6, 6, causal=True).eval()
    query, key, value = (torch.randn(1, 2, 6, 4) for _ in range(3))
    full = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    torch.testing.assert_close(attention.mix(query, key, value), full)
    means = attention._means(query, value)
    torch.testing.assert_close(means[:, :, 2], value[:, :, :3].mean(dim=2))


def test_informer_s_sample_is_the_same_for_every_seed() -> None:
    samples = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        samples.append(SparseAttention(Informer(h=1, input_size=8), 30, 40).sample)
    assert torch.equal(samples[0], samples[1])
    assert samples[0].shape == (30, 12)  # 3 · ⌈ln 40⌉ keys for each query


# Autoformer and FEDformer


def test_decomposition_sums_back_and_averages_by_hand() -> None:
    y = torch.tensor([1.0, 2.0, 6.0, 3.0]).view(1, 4, 1)
    seasonal, trend = Decomposition(4, 3)(y)
    # ends padded with 1 and 3: (1+1+2)/3, (1+2+6)/3, (2+6+3)/3, (6+3+3)/3
    torch.testing.assert_close(trend.flatten(), torch.tensor([4 / 3, 3.0, 11 / 3, 4.0]))
    torch.testing.assert_close(seasonal + trend, y)


def test_correlation_is_the_fourier_form_of_the_paper() -> None:
    torch.manual_seed(0)
    attention = AutoCorrelation(5, 12, 1).double()
    query, key = torch.randn(2, 12, 5, dtype=torch.float64), torch.randn(2, 12, 5, dtype=torch.float64)
    product = torch.fft.rfft(query, dim=1) * torch.fft.rfft(key, dim=1).conj()  # Wiener and Khinchin
    expected = torch.fft.irfft(product, n=12, dim=1).mean(dim=-1)
    torch.testing.assert_close(attention.correlation(query, key), expected)


def test_mixing_rolls_the_series_by_the_best_lag() -> None:
    attention = AutoCorrelation(1, 6, 1)
    attention.lags = 1
    correlation = torch.tensor([[0.0, 0.0, 9.0, 0.0, 0.0, 0.0]])
    values = torch.arange(6.0).view(1, 6, 1)
    rolled = attention.mixing(correlation) @ values
    torch.testing.assert_close(rolled, values.roll(-2, dims=1))


def test_a_periodic_series_correlates_most_at_its_period() -> None:
    wave = torch.sin(2 * math.pi * torch.arange(96) / 24).view(1, 96, 1)
    correlation = AutoCorrelation(1, 96, 1).correlation(wave, wave)[0]
    assert {0, 24, 48, 72} == set(correlation.topk(4).indices.tolist())


def test_fourier_on_all_frequencies_is_torch_s_transform_and_returns() -> None:
    x = torch.randn(3, 9, 2, dtype=torch.float64)
    fourier = Fourier(9, torch.arange(5)).double()
    real, imaginary = fourier(x)
    expected = torch.fft.rfft(x, dim=1)
    torch.testing.assert_close(torch.complex(real, imaginary), expected, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(fourier.back(real, imaginary), x, atol=1e-6, rtol=1e-6)


def test_frequency_weights_are_complex_matrices() -> None:
    torch.manual_seed(0)
    model = FEDformer(h=2, input_size=8, hidden_size=6, heads=2, frequencies=4)
    weights = FrequencyWeights(model, 8).double()
    torch.nn.init.normal_(weights.weight)
    x = torch.randn(3, 8, 6, dtype=torch.float64)
    spectrum = torch.fft.rfft(x.view(3, 8, 2, 3), dim=1)[:, :4]  # heads of width 3; frequencies 0 … 3 of 0 … 4
    mixed = torch.einsum("bmne,nmef->bmnf", spectrum, torch.complex(weights.weight[0], weights.weight[1]))
    padded = torch.cat([mixed, torch.zeros_like(mixed[:, :1])], dim=1)
    expected = torch.fft.irfft(padded, n=8, dim=1).flatten(2)
    torch.testing.assert_close(weights(x), expected, atol=1e-6, rtol=1e-6)


def test_chosen_frequencies_are_the_same_for_every_seed() -> None:
    torch.manual_seed(1)
    kept = chosen_frequencies(100, 10, "random")
    torch.manual_seed(2)
    assert torch.equal(chosen_frequencies(100, 10, "random"), kept)
    assert len(set(kept.tolist())) == 10
    assert kept.tolist() != list(range(10))
    assert chosen_frequencies(100, 3, "low").tolist() == [0, 1, 2]
    assert chosen_frequencies(1, 64, "random").tolist() == [0]


def test_the_decomposing_decoder_starts_from_season_then_zeros_and_trend_then_mean() -> None:
    network = Autoformer(h=2, input_size=4, moving_average=3, hidden_size=4).build(InputSpec(horizon=2, lookback=4))
    seasonal, trend = network._start(torch.tensor([1.0, 2.0, 6.0, 3.0]).view(1, 4, 1))
    torch.testing.assert_close(trend.flatten(), torch.tensor([11 / 3, 4.0, 3.0, 3.0]))
    torch.testing.assert_close(seasonal.flatten(), torch.tensor([6 - 11 / 3, -1.0, 0.0, 0.0]))


# TimeLLM


def test_timellm_says_what_is_missing() -> None:
    spec = InputSpec(horizon=2, lookback=8)
    with pytest.raises(ConfigError, match="llm must be a directory with a language model, but got llm='nowhere'"):
        TimeLLM(h=2, input_size=8, llm="nowhere").build(spec)
    with pytest.raises(ConfigError, match="stride must be at most patch_len"):
        TimeLLM(h=2, input_size=8, llm="nowhere", patch_len=2, stride=3)
    for address in ("https://host/llm", "s3://bucket/llm", r"\\host\llm", "//host/llm"):
        with pytest.raises(ConfigError, match="llm must be a directory on this machine, not an address"):
            TimeLLM(h=2, input_size=8, llm=address)


def leaks(network: torch.nn.Module, batch: Batch) -> Tensor:
    """The forecast with all fields that a forecast must not see filled with noise."""
    noise = torch.randn(batch.y.shape[0], 6, batch.y.shape[2])
    return network(batch._replace(target=noise, target_mask=noise > 0, weight=noise.abs()))


@pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)
def test_targets_are_never_looked_at(cls: type[Model]) -> None:
    spec, batch = case(cls, (2, 24, 6, 2, 1), columns=True)
    network = describe(cls, 6, 24).build(spec).eval()
    assert torch.equal(leaks(network, batch), network(batch))
