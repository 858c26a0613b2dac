"""Several optimizers by parameter pattern, and Muon."""

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.optim.formulas import has_formula

X = np.random.default_rng(0).normal(size=(24, 3)).astype("float32")
Y = X @ np.array([[1.0], [-2.0], [0.5]], dtype="float32")
TWO = nd.Optimizers({"0.*": nd.SGD(learning_rate=0.1, momentum=0.5)}, default=nd.AdamW(learning_rate=0.01))


def network() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def config(**fields) -> nd.TrainingConfig:
    plain = {"max_epochs": 4, "batch_size": 8, "validation_split": None, "progress": False, "schedule": None}
    return nd.TrainingConfig(**plain | fields)


def test_each_part_steps_as_torch_would_step_it_alone():
    """The expected weights come from torch's own SGD and AdamW, each on its part, in a loop written here."""
    ours, theirs = network(), network()
    settings = config(optimizer=TWO, gradient_clipping=None, shuffle=False, loss="mse")
    nd.Trainer(settings).fit(ours, (X, Y))
    first = torch.optim.SGD(theirs[0].parameters(), lr=0.1, momentum=0.5)
    weights = [theirs[2].weight]
    rest = torch.optim.AdamW([{"params": weights}, {"params": [theirs[2].bias], "weight_decay": 0.0}], lr=0.01)
    for _ in range(4):
        for start in range(0, 24, 8):
            first.zero_grad()
            rest.zero_grad()
            x, y = torch.from_numpy(X[start : start + 8]), torch.from_numpy(Y[start : start + 8])
            (theirs(x) - y).square().mean().backward()
            first.step()
            rest.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_clipping_is_over_all_parts_together():
    history = nd.Trainer(config(optimizer=TWO, max_epochs=1, gradient_clipping=nd.ClipByNorm(1e-3))).fit(
        network(), (X, Y)
    )
    alone = nd.Trainer(config(optimizer=nd.AdamW(), max_epochs=1)).fit(network(), (X, Y))
    assert history.gradient_norm[0] == pytest.approx(alone.gradient_norm[0], rel=1e-6)


@pytest.mark.parametrize("optimizer", [TWO, nd.Optimizers({"*": nd.Muon(learning_rate=0.01)})])
def test_a_resumed_run_gives_the_same_bits(tmp_path, optimizer):
    straight, stopped = network(), network()
    nd.Trainer(config(optimizer=optimizer)).fit(straight, (X, Y))
    kept = config(optimizer=optimizer, max_epochs=2, checkpoints=nd.Checkpoints(tmp_path / "run", every_n_epochs=1))
    nd.Trainer(kept).fit(stopped, (X, Y))
    again = network()
    nd.Trainer(kept).fit(again, (X, Y), resume="auto", resume_with={"max_epochs": 4})
    for one, other in zip(straight.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_other_patterns_start_without_memory(tmp_path, caplog):
    kept = config(optimizer=TWO, max_epochs=1, checkpoints=nd.Checkpoints(tmp_path / "run", every_n_epochs=1))
    nd.Trainer(kept).fit(network(), (X, Y))
    moved = nd.Optimizers({"2.*": nd.SGD(learning_rate=0.1, momentum=0.5)}, default=nd.AdamW(learning_rate=0.01))
    changes = {"optimizer": moved, "max_epochs": 2}
    assert len(nd.Trainer(kept).fit(network(), (X, Y), resume="auto", resume_with=changes)) == 2
    assert "starts with a new state" in caplog.text


class Rates(nd.Callback):
    looks_at = frozenset()

    def __init__(self) -> None:
        self.seen: list[list[float]] = []

    def on_batch_end(self, state) -> None:
        self.seen.append([group["lr"] for group in state.optimizer.param_groups])


def test_a_schedule_of_one_part_and_of_the_training():
    """24 rows in batches of 8 are 12 steps; LinearDecay gives 1 - t / 12 and the other part keeps its rate."""
    rates = Rates()
    own = nd.Optimizers({"0.*": nd.SGD(learning_rate=0.1)}, default=nd.AdamW(), schedules={"0.*": nd.LinearDecay()})
    nd.Trainer(config(optimizer=own, schedule=nd.Constant(), callbacks=[rates])).fit(network(), (X, Y))
    first = [group[0] for group in rates.seen]
    assert first == pytest.approx([0.1 * (1 - step / 12) for step in range(12)])
    assert {rate for group in rates.seen for rate in group[1:]} == {1e-3}


def test_muon_takes_matrices_and_leaves_the_rest():
    module = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 2))
    live = nd.Optimizers({"*": nd.Muon()}, default=nd.AdamW()).build(module)
    assert live.param_groups[0]["names"] == ["1.weight", "3.weight"]
    with pytest.raises(ConfigError, match=r"Muon is for matrices, but got .*bias.*Optimizers"):
        nd.Muon().build(nn.Linear(2, 2))


def test_a_muon_step_has_singular_values_near_one():
    """Momentum 0 and no decay: the step is rate · 0.2 · √max(rows, columns) times a nearly orthogonal matrix."""
    module = nn.Linear(6, 4, bias=False)
    before = module.weight.detach().clone()
    live = nd.Muon(learning_rate=0.1, momentum=0.0, weight_decay=0.0).build(module)
    module.weight.grad = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    live.step()
    step = (before - module.weight.detach()) / (0.1 * 0.2 * 6**0.5)
    values = torch.linalg.svdvals(step)
    assert values.min() > 0.6
    assert values.max() < 1.3


def test_a_description_round_trips_and_scales_with_its_rate():
    again = nd.Optimizer.from_json(TWO.to_json())
    assert again == TWO
    faster = TWO.at_rate(0.02)
    assert (faster.learning_rate, faster.by["0.*"].learning_rate) == (0.02, 0.2)
    assert not has_formula(TWO)


def test_a_model_trains_with_it_and_many_refuse_to_stack():
    frame = nd.samples.air_passengers()
    settings = nd.TrainingConfig(max_steps=3, optimizer=nd.Optimizers({"*": nd.Muon()}))
    fitted = nd.MLP(h=3, input_size=6, hidden_size=8).fit(frame, settings)
    several = nd.fit_many([nd.MLP(h=3, input_size=6, hidden_size=8)] * 2, frame, [settings, settings.replace(seed=2)])
    assert several[0].predict().equals(fitted.predict())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nd.Optimizers({"head.*": nd.SGD()}).build(network()), r"at least one parameter name.*'head\.\*'"),
        (lambda: nd.Optimizers({"0.*": nd.SGD(), "*.weight": nd.Adam()}).build(network()), "'0.weight' fits both"),
        (lambda: nd.Optimizers({"*.bias": nd.Muon()}).build(network()), r"Muon can train none of .*0\.bias"),
        (lambda: nd.Optimizers({"*": nd.ScheduleFreeAdamW()}), "cannot be one of several optimizers"),
        (lambda: nd.Optimizers({"0.*": nd.SGD()}, schedules={"1.*": nd.Constant()}), "schedules are for"),
        (lambda: nd.Optimizers({"0.*": nd.SGD()}, schedules={"0.*": nd.ReduceOnPlateau()}), "follows a metric"),
        (lambda: nd.Optimizers({"0.*": nd.SGD()}, learning_rate=5.0), "learning_rate belongs to the members"),
    ],
)
def test_mistakes_end_in_a_sentence(make, words):
    with pytest.raises(ConfigError, match=words):
        make()
