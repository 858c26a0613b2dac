"""The gradient analyzer changes no bit, and its figures are those of the gradients."""

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from nonfinite_cases import MODELS, table
from torch import nn

import neuro_divergent as nd

ALL = nd.GradientAnalyzer(every_n_steps=1)


def config(**fields: Any) -> nd.TrainingConfig:
    given = {"max_steps": 12, "batch_size": 16, "refit": None, "early_stopping": None, "compile": False}
    return nd.TrainingConfig(**given | fields)


def same_bits(one: nd.Forecaster, other: nd.Forecaster) -> bool:
    pairs = zip(one.module.state_dict().values(), other.module.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs) and one.history.step_loss == other.history.step_loss


@pytest.mark.parametrize("name", ["NHITS", "LSTM", "TCN", "TFT"])
def test_the_weights_are_the_same_with_and_without(name):
    assert same_bits(MODELS[name].fit(table(), config()), MODELS[name].fit(table(), config(callbacks=[ALL])))


@pytest.mark.parametrize(
    "fields",
    [{"accumulate_gradients": 2}, {"gradient_clipping": nd.ClipByNorm(0.1)}, {"precision": "bf16"}],
    ids=["accumulated", "clipped", "bf16"],
)
def test_the_weights_are_the_same_in_other_ways_to_train(fields):
    model = nd.NHITS(h=4, input_size=12, hidden_sizes=(16, 16), dropout=0.2)
    assert same_bits(model.fit(table(), config(**fields)), model.fit(table(), config(callbacks=[ALL], **fields)))


def test_batch_norm_statistics_are_the_same():
    def trained(callbacks: list[Any]) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))
        draw = np.random.default_rng(0)
        x = draw.normal(size=(64, 3)).astype(np.float32)
        nd.Trainer(config(callbacks=callbacks, loss=nd.MSE(), validation_split=None)).fit(module, (x, x[:, :1]))
        return module.state_dict()

    without, observed = trained([]), trained([ALL])
    assert all(torch.equal(without[name], observed[name]) for name in without)


def test_a_compiled_step_stays_compiled_and_gives_the_same_bits(caplog):
    """Compared with the compiled steps of a run that nobody observes."""
    model = nd.MLP(h=4, input_size=12, hidden_size=8)
    without = model.fit(table(), config(compile=True))
    with caplog.at_level("INFO", logger="neuro_divergent"):
        observed = model.fit(table(), config(compile=True, callbacks=[nd.GradientAnalyzer(every_n_steps=3)]))
    assert "the step was compiled" in caplog.text
    assert same_bits(without, observed)
    assert observed.gradient_report().steps == (1, 4, 7, 10)


class Watch(nd.Callback):
    """Keeps gradients and weights as the training has them."""

    looks_at: ClassVar[frozenset[str]] = frozenset({"gradients"})

    def __init__(self) -> None:
        self.gradients: list[Any] = []
        self.ratios: list[Any] = []

    def on_gradients(self, state: Any) -> None:
        self.gradients.append([p.grad.clone() for p in state.module.parameters()])
        self.before = [p.detach().clone() for p in state.module.parameters()]

    def on_batch_end(self, state: Any) -> None:
        now = [p.detach().double() for p in state.module.parameters()]
        change = sum(float((new - old).square().sum()) for new, old in zip(now, self.before, strict=True))
        size = sum(float(p.square().sum()) for p in now)
        self.ratios.append((change / size) ** 0.5)


def test_the_figures_are_those_of_the_gradients():
    """Compared with norms computed tensor by tensor in float64."""
    watch, analyzer = Watch(), nd.GradientAnalyzer(every_n_steps=1, layers=False)
    fitted = nd.MLP(h=4, input_size=12, hidden_size=8).fit(table(), config(callbacks=[watch, analyzer]))
    seen = [event["gradients"] for event in fitted.history.events if "gradients" in event]
    wanted = [sum(float(g.double().square().sum()) for g in step) ** 0.5 for step in watch.gradients]
    assert [item["norm"][0] for item in seen] == pytest.approx(wanted, rel=1e-4)
    assert [item["update_ratio"][0] for item in seen] == pytest.approx(watch.ratios, rel=1e-2)
    zeros = [sum(int((g == 0).sum()) for g in step) / sum(g.numel() for g in step) for step in watch.gradients]
    assert [item["zeros"][0] for item in seen] == pytest.approx(zeros, abs=1e-5)
    report = fitted.gradient_report()
    assert report.layers["rms"][0] == pytest.approx(
        float(np.median(wanted)) / sum(g.numel() for g in watch.gradients[0]) ** 0.5, rel=1e-4
    )


def test_the_noise_scale_is_that_of_known_noise():
    """y = 0·x + noise of variance s², weight w = (1,), x = 1: the gradient of (w - y)² is 2(w - y), with mean 2 and
    variance 4·s². So the noise scale is s², here 9. Each of 400 steps gives tr(Σ) with one degree of freedom: the
    standard error is sqrt(2/400), 7 %."""
    draw = np.random.default_rng(0)
    x = np.ones((25600, 1), dtype=np.float32)
    y = (3.0 * draw.normal(size=(25600, 1))).astype(np.float32)
    module = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        module.weight.fill_(1.0)
    still = nd.SGD(learning_rate=1e-12)
    history = nd.Trainer(
        config(max_steps=400, batch_size=64, loss=nd.MSE(), optimizer=still, callbacks=[ALL], validation_split=None)
    ).fit(module, (x, y))
    assert nd.gradient_report(history).noise_scale == pytest.approx(9.0, rel=0.2)


def deep(activation: type[nn.Module], gain: float) -> nn.Module:
    torch.manual_seed(0)
    parts: list[nn.Module] = [nn.Linear(3, 16)]
    for _ in range(10):
        parts += [activation(), nn.Linear(16, 16)]
    module = nn.Sequential(*parts, activation(), nn.Linear(16, 1))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(gain)
    return module


def report_on(module: nn.Module, **fields: Any) -> nd.GradientReport:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(256, 3)).astype(np.float32)
    settings = config(max_steps=24, loss=nd.MSE(), callbacks=[nd.GradientAnalyzer(every_n_steps=4)],
                      validation_split=None, **fields)  # fmt: skip
    return nd.gradient_report(nd.Trainer(settings).fit(module, (x, x.sum(axis=1, keepdims=True))))


def test_eleven_sigmoids_vanish_and_two_rectified_layers_do_not():
    vanishing = report_on(deep(nn.Sigmoid, 1.0))
    assert vanishing.has_vanishing_gradients()
    assert vanishing.by_layer[0].vanishing
    assert not vanishing.by_layer[-1].vanishing
    assert "vanish" in vanishing.verdict
    healthy = report_on(nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1)))
    assert not healthy.has_vanishing_gradients()
    assert not healthy.has_exploding_gradients()
    assert "healthy" in healthy.verdict


def test_a_diverging_training_explodes():
    sgd = nd.SGD(learning_rate=0.8)
    report = report_on(nn.Linear(3, 1), optimizer=sgd, schedule=None, gradient_clipping=None)
    assert report.has_exploding_gradients()


def test_no_healthy_model_is_accused():
    for name, model in MODELS.items():
        report = model.fit(table(), config(callbacks=[nd.GradientAnalyzer(every_n_steps=4)])).gradient_report()
        assert not report.has_exploding_gradients(), name
        assert not report.has_vanishing_gradients(), (name, report.layers)


def test_the_report_survives_a_run_directory_a_saved_model_and_json(tmp_path):
    fields = {"callbacks": [ALL], "checkpoints": nd.Checkpoints(tmp_path / "run")}
    fitted = MODELS["MLP"].fit(table(), config(**fields))
    report = fitted.gradient_report()
    fitted.save(tmp_path / "model")
    assert nd.load(tmp_path / "model").gradient_report() == report
    assert nd.gradient_report(tmp_path / "run").layers.equals(report.layers)
    assert nd.GradientReport.from_json(report.to_json()) == report
    assert report.to_polars().height == len(report.by_layer)


def test_without_flow_only_the_first_and_the_last_observation_stay():
    fitted = MODELS["MLP"].fit(table(), config(callbacks=[nd.GradientAnalyzer(every_n_steps=2, flow=False)]))
    assert fitted.gradient_report().steps == (1, 11)


def test_a_training_that_was_not_observed_says_what_to_do():
    with pytest.raises(nd.ConfigError, match="GradientAnalyzer"):
        MODELS["MLP"].fit(table(), config(max_steps=2)).gradient_report()


def test_the_flow_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    MODELS["NHITS"].fit(table(), config(callbacks=[ALL])).gradient_report().plot_flow(tmp_path / "flow.png")
    assert (tmp_path / "flow.png").stat().st_size > 5000
