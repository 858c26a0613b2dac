"""The recurrent family: shapes, recursion, teacher forcing, dilation and memory, checked step by step."""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.losses import MAE, DistributionLoss, MQLoss
from neuro_divergent.models.deepar import DeepAR
from neuro_divergent.models.dilated_rnn import DilatedRNN
from neuro_divergent.models.gru import GRU
from neuro_divergent.models.lstm import LSTM
from neuro_divergent.models.rnn import RNN
from neuro_divergent.models.xlstm import xLSTM
from neuro_divergent.nn.dilated import DilatedLayer
from neuro_divergent.nn.matrix_memory import MatrixMemoryBlock, matrix_memory
from neuro_divergent.nn.recurrent import DirectRecurrent, RecursiveRecurrent

CASES = {
    "RNN": RNN(h=1, input_size=1, hidden_size=8),
    "RNN relu": RNN(h=1, input_size=1, hidden_size=8, activation="relu"),
    "GRU": GRU(h=1, input_size=1, hidden_size=8),
    "LSTM": LSTM(h=1, input_size=1, hidden_size=8),
    "RNN recursive": RNN(h=1, input_size=1, hidden_size=8, recursive=True),
    "GRU recursive": GRU(h=1, input_size=1, hidden_size=8, recursive=True),
    "LSTM recursive": LSTM(h=1, input_size=1, hidden_size=8, layers=1, dropout=0.2, recursive=True),
    "DeepAR": DeepAR(h=1, input_size=1, hidden_size=8, decoder_sizes=(6,)),
    "DilatedRNN": DilatedRNN(h=1, input_size=1, hidden_size=8),
    "DilatedRNN gru": DilatedRNN(h=1, input_size=1, hidden_size=8, cell="gru", dilations=((3,),)),
    "xLSTM": xLSTM(h=1, input_size=1, hidden_size=8),
}

SIZES = [(1, 1, 1, 1), (2, 1, 5, 3), (3, 7, 1, 2), (4, 12, 5, 1)]


def spec_for(model: Model, L: int, H: int, Q: int, *, columns: bool) -> InputSpec:
    spec = InputSpec(horizon=H, lookback=L, outputs=Q)
    historical = 3 * model.capabilities.historical
    return replace(spec, future=2, historical=historical, static=2, categories=(4, 3)) if columns else spec


def batch_for(spec: InputSpec, B: int) -> Batch:
    L, T = spec.lookback, spec.lookback + spec.horizon
    generator = torch.Generator().manual_seed(7)

    def draw(count: int, *shape: int) -> Tensor | None:
        return torch.randn(*shape, count, generator=generator) if count else None

    codes = [torch.randint(0, count, (B, T), generator=generator) for count in spec.categories]
    return Batch(
        y=torch.randn(B, L, 1, generator=generator),
        future=draw(spec.future, B, T),
        historical=draw(spec.historical, B, L),
        static=draw(spec.static, B),
        categorical=torch.stack(codes, dim=-1) if codes else None,
        target=torch.randn(B, spec.horizon, 1, generator=generator),
    )


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_shapes_gradients_and_precision(name: str, columns: bool) -> None:
    for B, L, H, Q in SIZES:
        model = CASES[name].replace(h=H, input_size=L)
        spec = spec_for(model, L, H, Q, columns=columns)
        torch.manual_seed(0)
        network, batch = model.build(spec), batch_for(spec, B)
        train = getattr(network, "train_forward", network)
        for output in (network(batch), train(batch)):
            assert output.shape == (B, H, 1, Q)
            network.zero_grad()
            output.square().sum().backward()
            for parameter_name, parameter in network.named_parameters():
                assert parameter.grad is not None, parameter_name
                assert parameter.grad.isfinite().all(), parameter_name
        expected = network.eval()(batch)
        precise = network.double()(batch.to(torch.device("cpu"), torch.float64))
        torch.testing.assert_close(precise.float(), expected, atol=1e-4, rtol=1e-4)


# Counted once with neuralforecast 3.x at h=24, input_size=96 and its defaults (DeepAR with its Student's t, 3 outputs).
def count(module: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def test_the_size_is_the_peers() -> None:
    spec = InputSpec(horizon=24, lookback=96)
    assert count(DilatedRNN(h=24, input_size=96).build(spec)) == 482_329
    assert count(DeepAR(h=24, input_size=96, hidden_size=128, layers=2).build(replace(spec, outputs=3))) == 199_555


@pytest.mark.parametrize(
    ("model", "peer", "peer_decoder"),
    [
        (RNN(h=24, input_size=96, hidden_size=128, layers=2), 66_433, 128 * 128 + 128 + 129),
        (LSTM(h=24, input_size=96, hidden_size=128, layers=2), 215_809, 128 * 128 + 128 + 129),
        (GRU(h=24, input_size=96, hidden_size=200, layers=2), 388_857, 200 * 128 + 128 + 129),
    ],
)
def test_the_encoder_is_as_large_as_the_peers(model: Model, peer: int, peer_decoder: int) -> None:
    # The decoders differ: the peer decodes the states of the last h steps, so its first forecasts miss newer values.
    network = model.build(InputSpec(horizon=24, lookback=96))
    assert count(network.encoder) == peer - peer_decoder  # type: ignore[arg-type]


def test_the_direct_decoder_knows_the_newest_value_at_every_step() -> None:
    network = LSTM(h=4, input_size=6).build(InputSpec(horizon=4, lookback=6)).eval()
    y = torch.randn(1, 6, 1, requires_grad=True)
    for step in range(4):
        (gradient,) = torch.autograd.grad(network(Batch(y))[0, step, 0, 0], y)
        assert gradient[0, -1].abs() > 0


def test_negative_columns_ahead_are_told_to_the_decoder() -> None:
    network = GRU(h=2, input_size=3).build(InputSpec(horizon=2, lookback=3, future=1)).eval()
    y, future = torch.randn(1, 3, 1), torch.full((1, 5, 1), -1.0)
    other = future.clone()
    other[:, 3:] = -2.0
    assert not torch.allclose(network(Batch(y, future=future)), network(Batch(y, future=other)))


@pytest.mark.parametrize("cls", [RNN, LSTM, GRU])
def test_recursive_decides_which_network(cls: type[Model]) -> None:
    spec = InputSpec(horizon=2, lookback=3)
    assert isinstance(cls(h=2, input_size=3).build(spec), DirectRecurrent)
    assert not hasattr(cls(h=2, input_size=3).build(spec), "train_forward")
    assert isinstance(cls(h=2, input_size=3, recursive=True).build(spec), RecursiveRecurrent)


@pytest.mark.parametrize(
    "make",
    [lambda: DeepAR(h=2, input_size=3, anchor="last"), lambda: GRU(h=2, input_size=3, recursive=True, anchor=(7,))],
)
def test_recursion_and_an_anchor_do_not_go_together(make) -> None:
    with pytest.raises(ConfigError, match="feeds forecasts back as values"):
        make()


def recursive(spec: InputSpec, **fields: object) -> tuple[RecursiveRecurrent, Batch]:
    torch.manual_seed(3)
    model = LSTM(h=spec.horizon, input_size=spec.lookback, hidden_size=8, recursive=True, **fields)
    network = model.build(spec)
    assert isinstance(network, RecursiveRecurrent)
    return network.eval(), batch_for(spec, 3)


FULL = InputSpec(horizon=4, lookback=5, future=2, historical=1, static=1, categories=(3,), outputs=2)


def test_told_its_own_forecasts_training_equals_forecasting() -> None:
    network, batch = recursive(FULL)
    forecast = network(batch)
    batch = batch._replace(target=forecast[..., 0].detach())
    torch.testing.assert_close(network.train_forward(batch), forecast)


def test_without_teacher_forcing_the_target_does_not_matter() -> None:
    network, batch = recursive(FULL)
    network.teacher_forcing = 0.0
    torch.testing.assert_close(network.train_forward(batch), network(batch))


def test_full_teacher_forcing_is_the_same_in_one_call_and_step_by_step() -> None:
    network, batch = recursive(FULL)
    target = batch.target
    assert target is not None
    together = network.train_forward(batch)
    by_step = network._unroll(batch, lambda _, step: target[:, step : step + 1])
    torch.testing.assert_close(by_step, together)


def test_partial_teacher_forcing_mixes_truth_and_forecast() -> None:
    network, batch = recursive(InputSpec(horizon=6, lookback=5))
    truth, own = network.train_forward(batch), network(batch)
    network.teacher_forcing = 0.5
    torch.manual_seed(0)
    mixed = network.train_forward(batch)
    torch.testing.assert_close(mixed[:, 0], truth[:, 0])
    assert not torch.allclose(mixed, truth)
    assert not torch.allclose(mixed, own)


def test_training_never_sees_the_value_that_it_forecasts() -> None:
    network, batch = recursive(FULL)
    target = batch.target
    assert target is not None
    for step in range(4):
        changed = target.clone()
        changed[:, step:] += 5.0
        other = network.train_forward(batch._replace(target=changed))
        torch.testing.assert_close(other[:, : step + 1], network.train_forward(batch)[:, : step + 1])


@pytest.mark.parametrize("training", [False, True])
def test_each_step_is_told_the_columns_of_its_own_time(training: bool) -> None:
    network, batch = recursive(InputSpec(horizon=4, lookback=5, future=2))
    run = network.train_forward if training else network.forward
    assert batch.future is not None
    for step in range(4):
        changed = batch.future.clone()
        changed[:, 5 + step] += 3.0
        before, after = run(batch), run(batch._replace(future=changed))
        torch.testing.assert_close(after[:, :step], before[:, :step])
        assert not torch.allclose(after[:, step], before[:, step], atol=1e-4)


def test_the_forecast_that_is_fed_back_can_be_the_losss_point() -> None:
    network, batch = recursive(InputSpec(horizon=3, lookback=5, outputs=3))
    first = network(batch)
    network.feedback = MQLoss(quantiles=(0.1, 0.5, 0.9)).point
    median = network(batch)
    torch.testing.assert_close(median[:, 0], first[:, 0])
    middle = median[..., 0, :].sort(dim=-1).values[..., 1:2]
    torch.testing.assert_close(network.train_forward(batch._replace(target=middle.detach())), median)


def deepar(horizon: int = 4, outputs: int = 2) -> tuple[torch.nn.Module, Batch]:
    torch.manual_seed(5)
    spec = InputSpec(horizon=horizon, lookback=6, future=2, static=1, outputs=outputs)
    network = DeepAR(h=horizon, input_size=6, hidden_size=8).build(spec).eval()
    return network, batch_for(spec, 3)


def test_trajectories_are_reproducible_and_differ() -> None:
    network, batch = deepar()
    loss = DistributionLoss(distribution="Normal")
    one, two = (network.sample_paths(batch, loss, 20, torch.Generator().manual_seed(s)) for s in (1, 1))
    other = network.sample_paths(batch, loss, 20, torch.Generator().manual_seed(2))
    assert one.shape == (20, 3, 4, 1)
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_the_first_step_is_drawn_from_the_forecast_distribution() -> None:
    network, batch = deepar(horizon=1)
    loss = DistributionLoss(distribution="Normal")
    raw = network(batch)
    paths = network.sample_paths(batch, loss, 20_000, torch.Generator().manual_seed(0))
    torch.testing.assert_close(paths.mean(dim=0), loss.point(raw), atol=0.05, rtol=0)
    level = torch.tensor([0.9])
    torch.testing.assert_close(paths.quantile(0.9, dim=0), loss.quantiles(raw, level)[..., 0], atol=0.1, rtol=0)


def test_trajectories_feed_back_what_was_drawn() -> None:
    network, batch = deepar()
    loss = DistributionLoss(distribution="Normal")
    paths = network.sample_paths(batch, loss, 1, torch.Generator().manual_seed(0))[0]
    raw = loss.natural(network.train_forward(batch._replace(target=paths)), None)
    generator = torch.Generator().manual_seed(0)
    again = torch.cat([loss.sample(raw[:, step, 0], 1, generator)[0].unsqueeze(-1) for step in range(4)], dim=1)
    torch.testing.assert_close(again.unsqueeze(-1), paths)


def test_trajectories_in_original_units_are_the_scaled_ones_mapped_back() -> None:
    network, batch = deepar()
    loss = DistributionLoss(distribution="Normal")
    location, scale = torch.tensor([10.0, 0.0, -5.0]).view(3, 1, 1), torch.tensor([2.0, 1.0, 7.0]).view(3, 1, 1)
    scaled = network.sample_paths(batch, loss, 5, torch.Generator().manual_seed(4))
    original = network.sample_paths(batch, loss, 5, torch.Generator().manual_seed(4), location=location, scale=scale)
    torch.testing.assert_close(original, scaled * scale + location, atol=1e-3, rtol=1e-4)


def test_counts_are_drawn_as_whole_numbers() -> None:
    network, batch = deepar(outputs=DistributionLoss(distribution="Poisson").outputs)
    loss = DistributionLoss(distribution="Poisson")
    where = torch.full((3, 1, 1), 6.0)
    paths = network.sample_paths(batch, loss, 10, torch.Generator().manual_seed(4), location=where, scale=where / 2)
    assert torch.equal(paths, paths.round())
    assert paths.min() >= 0


def test_a_point_loss_cannot_be_sampled() -> None:
    network, batch = deepar(outputs=1)
    with pytest.raises(ConfigError, match="cannot be sampled"):
        network.sample_paths(batch, MAE(), 2)


def test_a_dilated_layer_is_a_plain_layer_on_every_third_step() -> None:
    torch.manual_seed(0)
    layer = DilatedLayer(2, 5, 3, "gru")
    x = torch.randn(4, 11, 2)
    whole = layer(x)
    for offset in range(3):
        alone, _ = layer.cell(x[:, offset::3])
        torch.testing.assert_close(whole[:, offset::3], alone)


def test_dilation_one_is_a_plain_layer() -> None:
    layer = DilatedLayer(2, 5, 1, "lstm")
    x = torch.randn(4, 6, 2)
    torch.testing.assert_close(layer(x), layer.cell(x)[0])


def test_the_matrix_memory_in_parallel_equals_the_papers_recurrence() -> None:
    # Beck et al., equations 19-27, step by step in float64: C = fC + i v kᵀ, n = fn + i k, h = Cq / max(|n·q|, 1).
    torch.manual_seed(0)
    B, N, T, D = 2, 3, 9, 4
    q, k, v = (torch.randn(B, N, T, D, dtype=torch.float64) for _ in range(3))
    write, keep = (torch.randn(B, N, T, dtype=torch.float64) for _ in range(2))
    memory, norm = torch.zeros(B, N, D, D, dtype=torch.float64), torch.zeros(B, N, D, dtype=torch.float64)
    answers = []
    for t in range(T):
        f, i = torch.sigmoid(keep[..., t])[..., None], torch.exp(write[..., t])[..., None]
        key = k[:, :, t] / D**0.5
        memory = f[..., None] * memory + i[..., None] * v[:, :, t, :, None] * key[:, :, None, :]
        norm = f * norm + i * key
        down = (norm * q[:, :, t]).sum(dim=-1, keepdim=True).abs().clamp(min=1.0)
        answers.append((memory @ q[:, :, t, :, None]).squeeze(-1) / down)
    torch.testing.assert_close(matrix_memory(q, k, v, write, keep), torch.stack(answers, dim=2))


def test_the_matrix_memory_does_not_overflow() -> None:
    q = k = v = torch.ones(1, 1, 5, 2)
    gates = torch.tensor([300.0, -300.0, 0.0, 300.0, -300.0]).view(1, 1, 5)
    assert matrix_memory(q, k, v, gates, gates).isfinite().all()


def test_a_matrix_memory_block_does_not_look_ahead() -> None:
    block = MatrixMemoryBlock(8, 4, 0.0).eval()
    x = torch.randn(2, 7, 8)
    later = x.clone()
    later[:, 4:] += 1.0
    torch.testing.assert_close(block(later)[:, :4], block(x)[:, :4])


def test_xlstm_heads_must_divide_the_width() -> None:
    with pytest.raises(ConfigError, match="heads must divide"):
        xLSTM(h=1, input_size=1, hidden_size=5, heads=4)


@pytest.mark.parametrize("name", CASES)
def test_descriptions_survive_json(name: str) -> None:
    model = CASES[name]
    assert type(model).from_json(model.to_json()) == model


@pytest.mark.parametrize("module", ["rnn", "gru", "lstm", "dilated_rnn", "xlstm", "deepar"])
def test_every_recurrent_model_uses_the_recurrent_recipe(module: str) -> None:
    names = {
        "rnn": "RNN",
        "gru": "GRU",
        "lstm": "LSTM",
        "dilated_rnn": "DilatedRNN",
        "xlstm": "xLSTM",
        "deepar": "DeepAR",
    }
    cls = getattr(importlib.import_module(f"neuro_divergent.models.{module}"), names[module])
    assert cls.group == "recurrent"
    assert cls.paper
